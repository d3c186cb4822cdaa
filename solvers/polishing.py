"""A better plan with the same recipes and commitments: how many replicas in which slot, chosen anew for all at once.

Answers of one workload at a time never buy a box that two of them would fill. With the recipes given, the LP with rows
about whole boxes comes within half a percent of the best plan, so the counts near it, and those of the plan, are few
enough for a mixed-integer program. Together with work that may wait it would take minutes: first that work stays where
it is, then all the others do, and one kind of it after the other is chosen anew, then two at a time.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import combinations

import numpy as np

from problems.fleet import Fleet, master
from problems.recipes import Recipe
from solvers.columns import as_start, from_solution
from solvers.incumbent import Incumbent, limits_are_kept
from solvers.sharpening import sharpened
from solvers.solve import SolverName, solve_mip

SHARPENED = 1
"""times that rows about whole boxes are added before counts near the LP are looked for"""
NEAR = 2.0
"""replicas by which a count may differ from what the LP has in a slot"""
AROUND = 4.0
"""replicas by which a count of work that may wait may differ from the plan's"""
MOST_WAITING_S = 2.0
"""for counts of one or two kinds of work that may wait"""
NEAR_FRAC = 1e-3
"""of the cost, between the plan and the bound of the program over these counts"""
MOST_NODES = 5_000


def polished(fleet: Fleet, plan: Incumbent, solver: SolverName, until: float) -> Incumbent:
    """The best plan of these recipes and commitments to large boxes near what the LP says of them, or the plan."""
    recipe_of = {recipe.key: recipe for recipe in fleet.recipes}
    others = {key: r for key, r in recipe_of.items() if r.deferral is None}
    plan = _chosen_anew(fleet, plan, others, solver, until, SHARPENED)
    planned = sorted(plan.paths, key=lambda path: -sum(int(use.gpus.sum()) for use in path.uses))
    waiting = [recipe_of[p.key] for p in planned if p.key in recipe_of and recipe_of[p.key].deferral is not None]
    for some in (*combinations(waiting, 1), *combinations(waiting, 2)):
        if time.monotonic() < until:
            limit = min(until, time.monotonic() + MOST_WAITING_S)
            plan = _chosen_anew(fleet, plan, {r.key: r for r in some}, solver, limit, 0)
    return plan


def _chosen_anew(
    fleet: Fleet, plan: Incumbent, recipe_of: dict[tuple, Recipe], solver: SolverName, until: float, times: int
) -> Incumbent:
    """The same plan with other counts of some recipes, where that saves anything; `times` rows are added before."""
    paths = {path.key: path for path in plan.paths}
    own = tuple(_around(recipe_of[key], path) if key in recipe_of else path for key, path in paths.items())
    held: dict[tuple[str, str], tuple[int, int | None]] = {
        (g, term): (plan.purchases[g].reserved.get(term, 0),) * 2
        for g in plan.purchases
        if fleet.offers[g].box > 1
        for term in fleet.offers[g].reserved_usd_per_h
    }
    given = replace(fleet, recipes=own, held=held)
    by_the_lp = sharpened(given, *master(given), times, until=until)
    if by_the_lp.picked is None:
        return plan
    counts = tuple(near_counts(p.path, p.means, NEAR, paths[p.path.key]) for p in by_the_lp.picked)
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
