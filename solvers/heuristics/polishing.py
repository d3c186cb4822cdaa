"""Choose the replica counts of a plan again, for all workloads at once, with the same recipes and commitments.

Responses of one workload at a time never buy a box that two of them would fill. With the recipes given, the LP with
cuts about whole boxes comes within half a percent of the best plan, so the counts near it, and those of the plan, are
few enough to be put together slot by slot (solvers/heuristics/slot_lp.py). Where the LP knows of others, recipes and
commitments may change as well (solvers/heuristics/hill_climbing.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from problems.fleet import master
from problems.fleet_problem import FleetProblem, Held
from problems.fleet_variables import Variables
from problems.recipes.recipe import Recipe, RecipeKey, joined
from solvers.backends.highs import WarmLp
from solvers.backends.solve import SolverName
from solvers.cuts.picked import Picked, picked_of
from solvers.devices import uses
from solvers.heuristics.counts_by_slot import counts_by_slot
from solvers.heuristics.hill_climbing import Climb
from solvers.heuristics.incumbent import Incumbent

NEAR = 3.0
"""replicas by which a count may differ from what the LP has in a slot"""
CLIMBING_S = 1.0
"""for other recipes and commitments"""
AROUND = 6.0
"""replicas by which a count of work that may wait may differ from the plan's"""


def polished(
    fleet: FleetProblem,
    plan: Incumbent,
    solver: SolverName,
    until: float,
    paths: tuple[Recipe, ...] = (),
    others: Sequence[FleetProblem] = (),
) -> Incumbent:
    """The best plan of these recipes and commitments to large boxes near what the LP says of them, or the plan.

    Other recipes and commitments take their place where plans of slots are cheaper with them: those among some paths
    that make the LP cheaper, one by one, and those of other fleets, which are decided.
    """
    if not uses("polishing"):
        return plan
    counted = counts_by_slot(chain(others, _ways(fleet, plan, until, paths)), solver, until, plan.objective)
    return plan if counted is None else min(plan, counted.plan, key=lambda incumbent: incumbent.objective)


def _ways(fleet: FleetProblem, plan: Incumbent, until: float, paths: tuple[Recipe, ...]) -> Iterator[FleetProblem]:
    """The fleet with the recipes of a plan near what the LP says of them, and with those that are cheaper there."""
    recipe_of = {recipe.key: recipe for recipe in fleet.recipes}
    own = tuple(_around(recipe_of[path.key], path) if path.key in recipe_of else path for path in plan.paths)
    keys = [path.key for path in own]
    alternatives = tuple(path for path in paths if path.key in recipe_of and path.key not in set(keys))
    bought = {g: purchase.reserved for g, purchase in plan.purchases.items()}
    held: Held = {
        (g, term): (bought.get(g, {}).get(term, 0),) * 2
        for g, offer in fleet.offers.items()
        if offer.box > 1
        for term in offer.reserved_usd_per_h
    }
    given = replace(fleet, recipes=(*own, *alternatives), held=held)
    model, v = master(given)
    lp = WarmLp(model)
    climb = Climb(given, v, lp, keys, {key: n for key, n in held.items() if key in v.reserved})
    x = lp.solve() if time.monotonic() < until else None
    if x is None:
        return
    means = [picked_of(v, x, r, recipe).means for r, recipe in enumerate(own)]
    near = tuple(near_counts(r, m, NEAR, p) for r, m, p in zip(own, means, plan.paths, strict=True))
    yield replace(given, recipes=near)
    climbs = alternatives and uses("hill climbing")
    if climbs and climb.up(min(until, time.monotonic() + CLIMBING_S)) and (x := lp.solve()) is not None:
        picked = heaviest_of_each(v, x, given.recipes, climb.keys)
        yield replace(given, recipes=tuple(around_the_picked(fleet, picked)), held=held | climb.held)


def heaviest_of_each(v: Variables, x: np.ndarray, recipes: tuple[Recipe, ...], keys: list[RecipeKey]) -> list[Picked]:
    """The recipe of each key that a solution has most of."""
    picked = [picked_of(v, x, r, recipe) for r, recipe in enumerate(recipes) if recipe.key in set(keys)]
    return [max((p for p in picked if p.path.key == key), key=lambda p: p.weight) for key in keys]


def around_the_picked(fleet: FleetProblem, picked: list[Picked]) -> Iterator[Recipe]:
    """The recipes that are picked with all counts near those of the LP; work that may wait may also rest."""
    known = {recipe.key: recipe for recipe in fleet.recipes}
    for p in picked:
        recipe = known.get(p.path.key, p.path)
        near = near_counts(recipe, p.means, NEAR)
        if recipe.deferral is not None:
            near = joined(near, recipe.only(recipe.uses[0].replicas == 0))
        yield near


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
