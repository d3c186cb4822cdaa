"""Rows of the master about what APIs take in a minute, and whether paths keep it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from problems.api_limits import ApiLimit
from problems.fleet_problem import FleetProblem
from problems.fleet_variables import Variables
from problems.model import Row
from problems.recipes.recipe import Recipe

KEPT_FRAC = 5e-7
"""share of a limit by which plans may exceed it: solvers keep rows up to a millionth"""


def no_api_is_asked_for_more_than_it_takes(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """What goes to an API in the busiest minute of an hour stays within each of its limits.

    sum_{r of x, s} per_usd[k,p(r),t] api_usd[r,t,s] serve[r,t,s] <= 1        for all limits k of APIs x, slots t    [-]
    """
    for limit in fleet.api_limits:
        rows: list[dict[int, float]] = [{} for _ in fleet.slot_hours]
        for r, recipe in enumerate(fleet.recipes):
            share = _share(fleet, limit, recipe)
            for i in np.flatnonzero(share).tolist():
                row, column = rows[recipe.slot[i]], v.serving(r, i)
                row[column] = row.get(column, 0.0) + float(share[i])
        for t, row in enumerate(rows):
            if row:
                yield Row(("api-limit", limit.api, limit.kind, t), [*row.items()], "<=", 1.0)


def api_limits_are_kept(fleet: FleetProblem, paths: Iterable[Recipe]) -> bool:
    """Whether paths, of one serving a slot, keep all limits together."""
    for limit in fleet.api_limits:
        share = np.zeros(len(fleet.slot_hours))
        for path in paths:
            np.add.at(share, path.slot, _share(fleet, limit, path))
        if share.max() > 1 + KEPT_FRAC:
            return False
    return True


def _share(fleet: FleetProblem, limit: ApiLimit, recipe: Recipe) -> np.ndarray:
    """Share of a limit that a recipe takes [serving]."""
    if recipe.api != limit.api or recipe.pool not in limit.per_usd:
        return np.zeros(recipe.servings)
    return np.asarray(fleet.api_usd_per_h(recipe) * limit.per_usd[recipe.pool][recipe.slot])
