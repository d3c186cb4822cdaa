"""Parts of a search that it can do without: what each is worth is measured by leaving it out (benchmarks/ablation.py).

The variable names those to leave out, separated by commas; worker processes inherit it. Plans are as valid without a
device, and their bounds as true, but plans cost more, bounds are weaker, or both take longer.
"""

from __future__ import annotations

import os
from typing import Literal, get_args

Device = Literal[
    "polishing", "diving", "rolling windows", "hill climbing", "rounding program",
    "fewer offers", "dominated offers", "smoothing of duals", "lazy rows", "branching", "cuts: own boxes",
    "cuts: rounding up", "cuts: standing apart", "cuts: beyond commitments",
]  # fmt: skip
DEVICES: tuple[Device, ...] = get_args(Device)
WITHOUT = "FLEETPLAN_WITHOUT_DEVICES"


def uses(device: Device) -> bool:
    return device not in os.environ.get(WITHOUT, "").split(",")
