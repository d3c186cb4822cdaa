"""A better plan with the same recipes and commitments: how many replicas in which slot, chosen anew for all at once.

Answers of one workload at a time never buy a box that two of them would fill. With the recipes given, the LP with rows
about whole boxes comes within half a percent of the best plan, so the counts near it, and those of the plan, are few
enough to be put together slot by slot (solvers/slots_together.py).
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from problems.fleet import Fleet, master
from problems.recipes import Recipe
from solvers.incumbent import Incumbent
from solvers.slots_together import counts_by_slot
from solvers.solve import SolverName, WarmLp
from solvers.whole_boxes import picked_of

NEAR = 3.0
"""replicas by which a count may differ from what the LP has in a slot"""
AROUND = 6.0
"""replicas by which a count of work that may wait may differ from the plan's"""


def polished(fleet: Fleet, plan: Incumbent, solver: SolverName, until: float) -> Incumbent:
    """The best plan of these recipes and commitments to large boxes near what the LP says of them, or the plan."""
    recipe_of = {recipe.key: recipe for recipe in fleet.recipes}
    own = tuple(_around(recipe_of[path.key], path) if path.key in recipe_of else path for path in plan.paths)
    held: dict[tuple[str, str], tuple[int, int | None]] = {
        (g, term): (plan.purchases[g].reserved.get(term, 0),) * 2
        for g in plan.purchases
        if fleet.offers[g].box > 1
        for term in fleet.offers[g].reserved_usd_per_h
    }
    given = replace(fleet, recipes=own, held=held)
    model, v = master(given)
    x = WarmLp(model).solve() if time.monotonic() < until else None
    if x is None:
        return plan
    means = [picked_of(v, x, r, recipe).means for r, recipe in enumerate(own)]
    near = tuple(near_counts(r, m, NEAR, p) for r, m, p in zip(own, means, plan.paths, strict=True))
    found = counts_by_slot(replace(given, recipes=near), solver, until, plan.objective)
    return plan if found is None else min(plan, found.plan, key=lambda incumbent: incumbent.objective)


def _around(recipe: Recipe, path: Recipe) -> Recipe:
    """A recipe with all counts; of work that may wait with those around the path's, else the LP would take long."""
    if recipe.deferral is None:
        return recipe
    return near_counts(recipe, [use.replicas for use in path.uses], AROUND, path)


def near_counts(recipe: Recipe, means: list[np.ndarray], replicas: float, path: Recipe | None = None) -> Recipe:
    """A recipe with the counts near some means [slot], and those of a path; with all where a slot has neither."""
    keep = np.ones(recipe.servings, dtype=bool)
    for k, (use, mean) in enumerate(zip(recipe.uses, means, strict=True)):
        near = np.abs(use.replicas - mean[recipe.slot]) <= replicas * len(recipe.uses)
        keep &= near if path is None else near | (use.replicas == path.uses[k].replicas[recipe.slot])
    left = np.bincount(recipe.slot[keep], minlength=int(recipe.slot.max()) + 1)
    return recipe.only(keep | (left[recipe.slot] == 0))
