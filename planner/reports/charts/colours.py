"""Which colour stands for what, the same in every picture. The colours themselves are in style.css."""

from __future__ import annotations

from planner.catalog.terms import is_bought

BOUGHT = "bought"
"""servers of one's own, whatever their life"""
PURCHASES = {
    BOUGHT: 7,
    "reserved-3y": 5,
    "reserved-3y-upfront": 4,
    "reserved-1y": 1,
    "reserved-1y-upfront": 6,
    "on-demand": 2,
    "spot": 3,
}
"""in the order in which they are stacked: what is there all day at the bottom"""


def way_of(purchase: str) -> str:
    """The way to buy by which pictures name it."""
    return BOUGHT if is_bought(purchase) else purchase


FATES = {"GPUs": 1, "cache": 3, "API": 4, "shed": 2}
COSTS = {
    "reserved": 1,
    "on-demand": 2,
    "spot": 3,
    "API": 4,
    "caches": 6,
    "engineers": 7,
    "vendors": 5,
    "servers": 7,
    "energy": 6,
    "held": 1,
}
BASES = {"measured": 3, "interpolated": 6, "scaled": 5, "calibrated": 1, "estimated": 2}
"""best backed first"""
