"""Linear programs that the enumerations are held against; nothing of ours solves them."""

from __future__ import annotations

import math

import highspy
import numpy as np


def linear_program(cost: np.ndarray, rows: list[tuple[np.ndarray, float, float]], upper: np.ndarray) -> float:
    """min cost x with low <= row x <= high and 0 <= x <= upper; infinite where nothing fits."""
    h = highspy.Highs()
    h.silent()
    x = [h.addVariable(0.0, float(u)) for u in upper]
    for row, low, high in rows:
        h.addConstr(low <= sum(float(a) * v for a, v in zip(row, x, strict=True)) <= high)
    h.minimize(sum(float(c) * v for c, v in zip(cost, x, strict=True)))
    if h.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return math.inf
    return float(h.getInfo().objective_function_value)
