"""A better plan with the same recipes and commitments: how many replicas in which slot, chosen anew for all at once.

Answers of one workload at a time never buy a box that two of them would fill. With the recipes given, the LP with rows
about whole boxes comes within half a percent of the best plan, so the counts near it, and those of the plan, are few
enough for a mixed-integer program. Work that may wait stays where it is: with it the program would take minutes.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from problems.fleet import Fleet, master
from problems.recipes import Recipe
from solvers.columns import as_start, from_solution
from solvers.incumbent import Incumbent, limits_are_kept
from solvers.solve import SolverName, solve_lp_centrally, solve_mip
from solvers.whole_boxes import Picked, Quiet, parts_of_boxes, picked_of

SHARPENED = 4
"""times that rows about whole boxes are added"""
NEAR = 2.0
"""replicas by which a count may differ from what the LP has in a slot"""
NEAR_FRAC = 1e-3
"""of the cost, between the plan and the bound of the program over these counts"""
MOST_NODES = 5_000


def polished(fleet: Fleet, plan: Incumbent, solver: SolverName, until: float) -> Incumbent:
    """The best plan of these recipes and commitments to large boxes near what the LP says of them, or the plan."""
    recipe_of = {recipe.key: recipe for recipe in fleet.recipes if recipe.deferral is None}
    own = tuple(recipe_of.get(path.key, path) for path in plan.paths)
    held: dict[tuple[str, str], tuple[int, int | None]] = {
        (g, term): (plan.purchases[g].reserved.get(term, 0),) * 2
        for g in plan.purchases
        if fleet.offers[g].box > 1
        for term in fleet.offers[g].reserved_usd_per_h
    }
    given = replace(fleet, recipes=own, held=held)
    picked = _in_the_lp(given, until)
    if picked is None:
        return plan
    paths = {path.key: path for path in plan.paths}
    counts = tuple(_near(p, paths[p.path.key]) for p in picked)
    near = replace(given, recipes=counts, own_boxes=frozenset(), rounded={})
    model, v = master(near)
    result = solve_mip(
        model,
        solver=solver,
        gap_frac=NEAR_FRAC,
        time_limit_s=max(0.5, until - time.monotonic()),
        node_limit=MOST_NODES,
        warm_start=as_start(near, v, plan, model.n_columns),
    )
    found = from_solution(near, v, result.x) if result.x is not None else None
    if found is None or not limits_are_kept(fleet, found):
        return plan
    return min(plan, found, key=lambda incumbent: incumbent.objective)


def _in_the_lp(fleet: Fleet, until: float) -> list[Picked] | None:
    """What the LP picks of each recipe, after some rounds of rows about whole boxes."""
    quiet: Quiet = {}
    picked: list[Picked] | None = None
    for _ in range(1 + SHARPENED):
        if time.monotonic() >= until:
            break
        model, v = master(fleet)
        lp = solve_lp_centrally(model)
        if lp.x is None:
            break
        picked = [picked_of(v, lp.x, r, recipe) for r, recipe in enumerate(fleet.recipes)]
        own, rounded = parts_of_boxes(fleet, picked, v, lp.x, quiet)
        if not own and not rounded:
            break
        fleet = fleet.with_whole_boxes(own, rounded)
    return picked


def _near(picked: Picked, path: Recipe) -> Recipe:
    """A recipe with the counts near those of the LP, and those of a path; with all where a slot has neither."""
    recipe = picked.path
    keep = np.ones(recipe.servings, dtype=bool)
    for use, planned in zip(recipe.uses, path.uses, strict=True):
        mean = picked.mean(use.replicas)
        near = np.abs(use.replicas - mean[recipe.slot]) <= NEAR * len(recipe.uses)
        keep &= near | (use.replicas == planned.replicas[recipe.slot])
    left = np.bincount(recipe.slot[keep], minlength=len(path.slot))
    return recipe.only(keep | (left[recipe.slot] == 0))
