"""What an API takes in a minute, by the bills of those who ask it.

A limit counts requests or tokens of the busiest minute of an hour. A dollar an hour of a pool's bill stands for so many
of them, at the mean of its lengths, so a limit is linear in bills, and a dollar of a bill has one more price.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class ApiLimit:
    """What an API takes at most in the busiest minute of an hour."""

    api: str
    kind: str
    """what is counted"""
    most: float
    per_usd: dict[str, np.ndarray]
    """share of the limit that a dollar an hour of a bill takes, by pool [slot]; none of pools that do not count"""
