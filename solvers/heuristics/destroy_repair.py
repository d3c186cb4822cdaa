"""Destroy and repair (large-neighbourhood search): take a few workloads out of a plan and put them back.

Local search (solvers/heuristics/local_search.py) ends where no single change pays, but commitments to large boxes need
several workloads to move together. So a few workloads are removed, an offer holds one box more or fewer, the workloads
are inserted again one after the other, each in nearly the cheapest way, and local search follows. The next step starts
from the result unless it is much worse than the best plan.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.pricing import Priced
from problems.recipes.recipe import Recipe
from solvers.backends.clock import check
from solvers.devices import uses
from solvers.heuristics.incumbent import Incumbent
from solvers.heuristics.local_search import improved, put_back
from solvers.pricing.column_generation import by_pool_and_value

MOST_IN_VAIN = 200
"""steps in a row without a saving after which the search stops"""
MOST_LEAVE = 4
NOISE, MUCH_NOISE = 0.04, 0.15
"""relative noise on costs when a workload is inserted again"""
NO_WORSE_FRAC = 0.002
"""a result that is worse than the best plan by no more than this is where the next step starts"""
WAITING_WAYS = 1
"""deferrable recipes worked out for one response: many quick steps find more than a few thorough ones"""
WAYS_OF_A_POOL = 12
NEAR_FRAC = 0.01
"""share of the plan's cost; servings that exceed the cheapest of their slot by more are left out"""


def repaired(fleet: FleetProblem, plan: Incumbent, until: float, seed: int = 0) -> Incumbent:
    """The best plan found before the deadline, or before MOST_IN_VAIN steps in a row saved nothing."""
    if not uses("destroy and repair"):
        return plan
    drawn = np.random.default_rng(seed)
    large = _large(fleet)
    best = now = plan
    in_vain = 0
    while in_vain < MOST_IN_VAIN and time.monotonic() < until:
        check()
        reserved = _other_commitments(now, large, drawn)
        count = int(drawn.integers(1, min(MOST_LEAVE, len(now.paths)) + 1))
        leave = [now.paths[k] for k in drawn.permutation(len(now.paths))[:count]]
        tried = put_back(fleet, now, leave, reserved, lambda n: 1 + NOISE * drawn.standard_normal(n))
        in_vain += 1
        if tried is None:
            continue
        tried = improved(fleet, tried, until, reserved, WAITING_WAYS)
        if tried.objective < best.objective * (1 - 1e-6):
            best, in_vain = tried, 0
        now = tried if tried.objective <= best.objective * (1 + NO_WORSE_FRAC) else best
    return best


def scattered(fleet: FleetProblem, plan: Incumbent, until: float, seed: int) -> Incumbent:
    """Another starting plan, good or not: half of the workloads are removed and inserted again with much noise."""
    drawn = np.random.default_rng(seed)
    leave = [plan.paths[k] for k in drawn.permutation(len(plan.paths))[: -(-len(plan.paths) // 2)]]
    reserved = _other_commitments(plan, _large(fleet), drawn)
    back = put_back(fleet, plan, leave, reserved, lambda n: 1 + MUCH_NOISE * drawn.standard_normal(n))
    return plan if back is None or not uses("scattering") else improved(fleet, back, until, reserved, WAITING_WAYS)


def _large(fleet: FleetProblem) -> list[str]:
    return sorted(g for g in fleet.recipes_on if fleet.offers[g].box > 1 and fleet.offers[g].reserved_usd_per_h)


def _other_commitments(plan: Incumbent, large: list[str], drawn: np.random.Generator) -> dict[str, int]:
    """Boxes to hold of some offers: as now, one more or fewer, or one of another offer instead."""
    changes = [int(drawn.choice([-1, 1]))] if drawn.random() < 0.5 else [-1, 1]
    if not large or drawn.random() < 0.3:
        return {}
    reserved = {}
    for g, change in zip(drawn.permutation(large).tolist(), changes, strict=False):
        held = sum(plan.purchases[g].reserved.values()) if g in plan.purchases else 0
        reserved[g] = max(0, held + change)
    return reserved


def near_the_plan(fleet: FleetProblem, priced: tuple[Priced, ...], plan: Incumbent) -> FleetProblem:
    """The fleet with the recipes and servings that the best prices make nearly as cheap as any, and those of a plan."""
    room = NEAR_FRAC * plan.objective
    keys = {path.key for path in plan.paths}
    recipes: list[Recipe] = []
    for ranked in by_pool_and_value(priced).values():
        for n, p in enumerate(ranked):
            if n >= WAYS_OF_A_POOL and p.recipe.key not in keys:
                continue
            if p.recipe.deferral is not None:
                recipes.append(p.recipe)
                continue
            cost = p.with_serving
            near = cost <= cost.min() + room
            near[p.recipe.first_of_each_slot(cost)] = True
            recipes.append(p.recipe.only(near))
    return replace(fleet, recipes=tuple(recipes))
