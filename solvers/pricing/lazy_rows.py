"""Lazy rows of the master LP: constraints that few solutions violate join once one does.

Most instances are never started in most hours, and most quotas are out of reach. Without the rows that say so the LP is
a third smaller, and an interior point method, which begins from nowhere each time, takes half as long. What is left out
has no price, and prices alone make a bound, so it holds all the same. A quota that is broken joins at once; instances
that start do so from the next LP on, for they cost little.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from problems.fleet_problem import ON_HAND, FleetProblem
from problems.model import Booleans, Model
from solvers.backends.highs import solve_lp_centrally
from solvers.backends.result import LpSolution, Status
from solvers.devices import uses

QUOTAS = ("gpu-quota", "instance-quota")
PURCHASES = ("reserved", "on-demand", "spot", "started")
LAZY = ("started", "in-time", "lots", *QUOTAS)
BROKEN = 1e-6
FEW_ROWS = 2_000
"""rows up to which an LP is solved as a whole"""

Key = tuple[Hashable, ...]


class LazyRows:
    """The lazy rows that have joined."""

    def __init__(self) -> None:
        self.joined: set[Key] = set()

    def solve(self, model: Model, fleet: FleetProblem) -> LpSolution:
        """The LP without rows that nothing has broken yet, as a solution of the whole one."""
        model = _without_idle_bounds(model, fleet)
        if model.n_rows <= FEW_ROWS or not uses("lazy rows"):
            return solve_lp_centrally(model)
        while True:
            left_out = np.array([key[0] in LAZY and key not in self.joined for key in model.row_keys])
            lp, broken = _solved_without(model, left_out)
            self.joined.update(broken)
            if not any(key[0] in QUOTAS for key in broken):
                return lp


def _solved_without(model: Model, left_out: Booleans) -> tuple[LpSolution, list[Key]]:
    """The solution without some rows, and those of them that it breaks."""
    never = {model.row_keys[n] for n in np.flatnonzero(left_out).tolist()}
    idle = np.array([key in never for key in model.column_keys])
    """instances started, where nothing says how many"""
    smaller = model.only_rows(np.flatnonzero(~left_out)).without_columns(idle, np.zeros(model.n_columns))
    lp = solve_lp_centrally(smaller)
    if lp.status is not Status.OPTIMAL or lp.x is None or lp.row_duals is None:
        return lp, []
    x, duals = np.zeros(model.n_columns), np.zeros(model.n_rows)
    x[~idle], duals[~left_out] = lp.x, lp.row_duals
    activity = model.activity(x)
    over = np.maximum(activity - model.row_upper, model.row_lower - activity)
    broken = [model.row_keys[n] for n in np.flatnonzero(left_out & (over > BROKEN)).tolist()]
    row_of = {key: n for n, key in enumerate(model.row_keys)}
    for column in np.flatnonzero(idle).tolist():
        x[column] = max(0.0, over[row_of[model.column_keys[column]]])
    whole = replace(lp, x=x, row_duals=duals, reduced_costs=model.cost - model.priced(duals))
    return whole, broken


def _without_idle_bounds(model: Model, fleet: FleetProblem) -> Model:
    """The model without the bounds on purchases that no LP reaches, which slow an interior point method down."""
    decided = {("reserved", *key) for key, (_, most) in fleet.held.items() if most is not None}
    decided |= {("reserved", g, ON_HAND) for g in fleet.offers}
    idle = [key[0] in PURCHASES and key not in decided for key in model.column_keys]
    return replace(model, upper=np.where(idle, np.inf, model.upper))
