"""Rounding heuristic: a mixed-integer program over the LP's paths with fractional boxes, rounded up and improved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from problems.fleet import master
from problems.fleet_problem import FleetProblem
from problems.pricing import Priced, price_recipe, settled_path
from problems.recipes.recipe import Recipe
from solvers.backends.solve import SolverName, solve_mip
from solvers.devices import uses
from solvers.heuristics.columns import from_solution
from solvers.heuristics.incumbent import WAITING_WAYS, Incumbent, limits_are_kept
from solvers.pricing.column_generation import ColumnGeneration, by_pool_and_value

FEWEST_PATHS, MOST_PATHS = 4, 12
"""paths of a pool, cheapest first"""
PATHS = 3_000
"""paths of all pools together, about: a much larger program takes more memory than all recipes"""
MOST_NODES = 2_000
WAYS_OF_A_POOL = 12
NEAR_FRAC = 0.01
"""share of the plan's cost; servings that exceed the cheapest of their slot by more are left out"""


def rounded_plan(
    fleet: FleetProblem,
    paths: tuple[Recipe, ...],
    solver: SolverName,
    time_limit_s: float | None,
    node_limit: int = MOST_NODES,
) -> Incumbent | None:
    """The program over some paths, with half a box charged for every offer in use."""
    if not uses("rounding program"):
        return None
    fleet = replace(fleet, recipes=paths, boxes_in_parts=True, own_boxes=frozenset(), rounded={})
    model, v = master(fleet)
    result = solve_mip(model, solver=solver, gap_frac=2e-3, time_limit_s=time_limit_s, node_limit=node_limit)
    if result.x is None:
        return None
    whole = replace(fleet, boxes_in_parts=False)
    plan = from_solution(whole, v, result.x)
    return plan if plan is not None and limits_are_kept(whole, plan) else None


def near_paths(generation: ColumnGeneration) -> tuple[Recipe, ...]:
    """The paths of each pool with the smallest reduced costs at the best prices, and those that the LP uses.

    Where only paths of the LP were taken, all would use the offers that it happens to split.
    """
    fleet, prices = generation.fleet, generation.prices
    paths, weights = generation.settled()
    by_pool: dict[tuple[str, ...], list[tuple[float, int]]] = {}
    for k, path in enumerate(paths):
        by_pool.setdefault(path.workloads, []).append((price_recipe(fleet, path, prices).value, k))
    chosen: set[int] = set(np.flatnonzero(weights > 1e-3).tolist())
    most = min(max(FEWEST_PATHS, PATHS // (2 * len(by_pool))), MOST_PATHS)
    for values in by_pool.values():
        chosen.update(k for _, k in sorted(values)[:most])
    near = [paths[k] for k in sorted(chosen)]
    for ranked in by_pool_and_value(generation.priced).values():
        near += [p.cheapest for p in ranked[:most] if p.recipe.deferral is None]
        waiting = [p.recipe for p in ranked if p.recipe.deferral is not None]
        settled = (settled_path(fleet, recipe, prices) for recipe in waiting[:WAITING_WAYS])
        near += [path for path in settled if path is not None]
    seen: dict[tuple[Any, ...], Recipe] = {}
    for path in near:
        seen.setdefault(path.footprint, path)
    return tuple(seen.values())


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
