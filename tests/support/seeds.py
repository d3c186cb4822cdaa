"""Random cases in turn: a run takes a part of them, another part every day, so that none is left out for long."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date

ALL = "all"
TURN = os.environ.setdefault("FLEETPLAN_SEEDS", str(date.today().toordinal()))
"""a number, which other processes of the same run inherit, or `all`"""


def in_turn(seeds: Sequence[int], parts: int = 3) -> list[int]:
    """One of so many parts of the seeds, each spread over all of them."""
    return list(seeds) if TURN == ALL else list(seeds[int(TURN) % parts :: parts])
