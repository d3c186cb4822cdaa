"""Independent verification in numpy: is this point feasible, and what do these prices prove?"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np

from problems.model import Booleans, Floats, Key, Model

FEASIBILITY_TOLERANCE = 1e-6
# Relative to the size of a row's terms: room for rounding noise only, far below one unit of anything.
ROUNDING_FRAC = 1e-9


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken requirement and by how much."""

    kind: Literal["shape", "not finite", "lower bound", "upper bound", "integrality", "row"]
    key: Key
    amount: float

    def __str__(self) -> str:
        return f"{self.kind} of {self.key!r} by {self.amount:.3g}"


def verify(model: Model, x: Floats, tolerance: float = FEASIBILITY_TOLERANCE) -> list[Violation]:
    """Every bound, integrality and row requirement that `x` breaks; empty when it is feasible."""
    if x.shape != (model.n_columns,):
        return [Violation("shape", (), abs(float(x.size - model.n_columns)))]
    finite = np.isfinite(x)
    if not finite.all():
        return _violations("not finite", model.column_keys, np.where(finite, 0.0, inf), ~finite)

    room = tolerance + ROUNDING_FRAC * np.abs(x)
    below, above = model.lower - x, x - model.upper
    off_whole = np.where(model.integer, np.abs(x - np.round(x)), 0.0)
    activity = model.activity(x)
    row_size = np.bincount(model.entry_rows, weights=np.abs(model.values * x[model.indices]), minlength=model.n_rows)
    broken = np.maximum(model.row_lower - activity, activity - model.row_upper)
    return [
        *_violations("lower bound", model.column_keys, below, below > room),
        *_violations("upper bound", model.column_keys, above, above > room),
        *_violations("integrality", model.column_keys, off_whole, off_whole > tolerance),
        *_violations("row", model.row_keys, broken, ~(broken <= tolerance + ROUNDING_FRAC * row_size)),
    ]


def rounded(model: Model, x: Floats) -> Floats:
    """`x` with each integer column at the nearest whole number and each other one inside its bounds."""
    inside = np.clip(x, model.lower, model.upper)
    near = np.abs(inside - x) <= FEASIBILITY_TOLERANCE + ROUNDING_FRAC * np.abs(x)
    return np.where(model.integer, np.round(x), np.where(near, inside, x))


def dual_bound(model: Model, row_duals: Floats) -> float:
    """A lower bound on the model (and on its linear relaxation) that holds for any prices at all.

        sum_i y_i b_i + sum_j min { (c_j - sum_i a_ij y_i) x_j : lower_j <= x_j <= upper_j }

    y is clipped to the signs the rows allow. -inf when a column can run away against a reduced cost.
    """
    y = np.where(np.isneginf(model.row_lower), np.minimum(row_duals, 0.0), row_duals)
    y = np.where(np.isposinf(model.row_upper), np.maximum(y, 0.0), y)
    if not np.isfinite(y).all():
        return -inf
    earned = _product(np.abs(y), np.where(y > 0.0, model.row_lower, -model.row_upper))
    reduced = model.cost - model.priced(y)
    scale = np.maximum(1.0, np.abs(model.cost) + _absolute_prices(model, y))
    towards = np.where(reduced > 0.0, model.lower, model.upper)
    runs_away = np.isinf(towards)
    if (runs_away & (np.abs(reduced) > 1e-9 * scale)).any():
        return -inf
    return float(earned.sum() + _product(reduced, np.where(runs_away, 0.0, towards)).sum())


def _absolute_prices(model: Model, y: Floats) -> Floats:
    weights = np.abs(model.values * y[model.entry_rows])
    return np.asarray(np.bincount(model.indices, weights=weights, minlength=model.n_columns), dtype=float)


def _product(factor: Floats, other: Floats) -> Floats:
    """factor * other with 0 * inf = 0."""
    return factor * np.where(factor == 0.0, 0.0, other)


def _violations(
    kind: Literal["not finite", "lower bound", "upper bound", "integrality", "row"],
    keys: tuple[Key, ...],
    amounts: Floats,
    broken: Booleans,
) -> list[Violation]:
    return [Violation(kind, keys[i], float(amounts[i])) for i in np.flatnonzero(broken)]
