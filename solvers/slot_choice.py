"""One plan for each slot out of many: a program over all slots, and then over some of them while the others stay.

What ties slots together leaves the first program with a percent between plan and bound, and more time helps it little.
A dozen slots at a time, hours that follow each other or any, are chosen in half a second, and every other time that
saves something.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from problems.model import Floats, Integers, Model
from solvers.solve import SolverName, solve_mip

FIRST_S, AGAIN_S = 1.5, 0.5
"""for all slots at once, and for some of them"""
SLOTS_AGAIN = 12
NEAR_FRAC = 1e-3
"""of the cost, between the plan and the bound, up to which nothing is chosen again"""
IN_VAIN = 8
"""times that nothing was saved, after which it ends"""


def one_for_each_slot(model: Model, slots: Integers, solver: SolverName, until: float) -> Floats | None:
    """Values of all columns; None where no choice is found. The last columns are plans of these slots [plan]."""
    model = model.without_empty_rows()
    left_s = max(AGAIN_S, min(FIRST_S, until - time.monotonic()))
    first = solve_mip(model, solver=solver, gap_frac=NEAR_FRAC, time_limit_s=left_s, cuts=False)
    if first.x is None:
        return None
    x = first.x.copy()
    shares = np.arange(model.n_columns) >= model.n_columns - len(slots)
    in_vain = 0
    for some in _some_slots(int(slots.max(initial=0)) + 1):
        usd = model.objective(x)
        if usd - first.bound <= NEAR_FRAC * usd or in_vain >= IN_VAIN or time.monotonic() + AGAIN_S > until:
            break
        x[shares] = np.round(x[shares])
        stays = shares.copy()
        stays[shares] = ~np.isin(slots, some)
        part = model.without_columns(stays, x).without_empty_rows()
        found = solve_mip(part, solver=solver, warm_start=x[~stays], time_limit_s=AGAIN_S, cuts=False)
        then = x.copy()
        then[~stays] = found.x if found.x is not None else x[~stays]
        in_vain = 0 if model.objective(then) < usd * (1 - 1e-9) else in_vain + 1
        x = x if in_vain else then
    return x


def _some_slots(n: int) -> Iterator[Integers]:
    """Slots that follow each other, and any, in turn."""
    drawn = np.random.default_rng(0)
    while True:
        yield (int(drawn.integers(n)) + np.arange(min(n, SLOTS_AGAIN))) % n
        yield drawn.permutation(n)[:SLOTS_AGAIN]
