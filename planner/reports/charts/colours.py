"""Which colour stands for what, the same in every picture. The colours themselves are in style.css."""

from __future__ import annotations

PURCHASES = {
    "reserved-3y": 5,
    "reserved-3y-upfront": 4,
    "reserved-1y": 1,
    "reserved-1y-upfront": 6,
    "on-demand": 2,
    "spot": 3,
}
"""in the order in which they are stacked: what is there all day at the bottom"""
FATES = {"GPUs": 1, "cache": 3, "API": 4, "shed": 2}
COSTS = {"reserved": 1, "on-demand": 2, "spot": 3, "API": 4, "caches": 6, "engineers": 7, "vendors": 5, "held": 1}
BASES = {"measured": 3, "interpolated": 6, "scaled": 5, "calibrated": 1, "estimated": 2}
"""best backed first"""
