"""Plans within a budget that turn the right requests away.

A budget has a price: where a dollar of cost weighs more, the best plan without any budget costs less. Scaling all costs
up is scaling all penalties down, so the plans in closed form without a budget lead to one within it: bisection finds a
lean plan that keeps the budget and a rich one that just breaks it. What the lean one leaves of the budget then buys
servings of the rich one, slot by slot, those first that avoid most penalty for their money.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from problems.fleet import Fleet
from problems.recipes import Recipe
from solvers.incumbent import Incumbent, complete, each_by_itself, incumbent_of, limits_are_kept

BISECTIONS = 14
DEAREST = 1e4
"""the most that a dollar may weigh: at more than this, no penalty is a reason to pay"""
CLOSE = 1.002


def within_budget(fleet: Fleet, deadline: float | None) -> Incumbent | None:
    """A plan that keeps the budget and uses it well; None where nothing may be turned away."""
    if fleet.budget_usd_per_month is None or not any(r.penalty_usd_per_h.any() for r in fleet.recipes):
        return None
    lean, rich = _at_weight(fleet, DEAREST), _at_weight(fleet, 1.0)
    if lean is None or not limits_are_kept(fleet, lean):
        return None
    low, high = 1.0, DEAREST
    for _ in range(BISECTIONS):
        weight = (low * high) ** 0.5
        plan = _at_weight(fleet, weight)
        if plan is None or high / low < CLOSE or (deadline is not None and time.monotonic() >= deadline):
            break
        if limits_are_kept(fleet, plan):
            lean, high = plan, weight
        else:
            rich, low = plan, weight
    return lean if rich is None else _filled(fleet, lean, rich, deadline)


def _at_weight(fleet: Fleet, weight: float) -> Incumbent | None:
    """The plan without a budget where a dollar weighs so much, at its true penalties."""
    recipes = tuple(replace(r, penalty_usd_per_h=r.penalty_usd_per_h / weight) for r in fleet.recipes)
    plan = each_by_itself(replace(fleet, recipes=recipes, budget_usd_per_month=None))
    if plan is None:
        return None
    paths = tuple(replace(p, penalty_usd_per_h=p.penalty_usd_per_h * weight) for p in plan.paths)
    return incumbent_of(fleet, paths, plan.purchases)


def _filled(fleet: Fleet, lean: Incumbent, rich: Incumbent, deadline: float | None) -> Incumbent:
    """The lean plan with as much of the rich one as the budget pays for."""
    best = lean
    by_key = {r.key: r for r in fleet.recipes if r.deferral is None}
    for wanted in sorted(rich.paths, key=lambda p: -float(fleet.weight @ p.penalty_usd_per_h)):
        at = next((k for k, p in enumerate(best.paths) if p.workloads == wanted.workloads), None)
        recipe = by_key.get(wanted.key)
        if at is None or recipe is None or not wanted.uses:
            continue
        best = _with_servings(fleet, best, at, recipe, wanted, deadline)
    return best


def _with_servings(
    fleet: Fleet, plan: Incumbent, at: int, recipe: Recipe, wanted: Recipe, deadline: float | None
) -> Incumbent:
    """One path of the plan moved towards the one wanted, slot by slot, where the limits allow."""
    replicas = np.sum([use.replicas for use in recipe.uses], axis=0)
    most = np.sum([use.replicas for use in wanted.uses], axis=0)
    before = plan.paths[at]
    chosen = _servings_of(before, recipe)
    if chosen is None:
        chosen = recipe.first_of_each_slot(replicas * 1e6 + recipe.penalty_usd_per_h)
    best, tried = plan, complete(fleet, _swapped(plan, at, recipe, chosen))
    if tried is not None and tried.objective < best.objective:
        best = tried
    gain = fleet.weight * (recipe.penalty_usd_per_h[chosen] - wanted.penalty_usd_per_h)
    more = np.maximum(most - replicas[chosen], 0) * fleet.weight
    ranked = np.argsort(-np.divide(gain, more, out=np.zeros_like(gain), where=more > 0), kind="stable").tolist()
    slots = [t for t in ranked if more[t] > 0]
    every = [*slots, *(t for t in ranked if more[t] <= 0)]
    options = {t: _larger_first(recipe, replicas, t, int(max(most[t], replicas[chosen[t]]))) for t in every}

    def filled(best: Incumbent, chosen: np.ndarray, order: list[int]) -> tuple[Incumbent, np.ndarray]:
        for t in order:
            for i in options[t]:
                if replicas[i] <= replicas[chosen[t]]:
                    break
                moved = chosen.copy()
                moved[t] = i
                tried = complete(fleet, _swapped(plan, at, recipe, moved))
                if tried is not None and tried.objective < best.objective:
                    best, chosen = tried, moved
                    break
        return best, chosen

    best, chosen = filled(best, chosen, slots)
    lower = recipe.first_of_each_slot(replicas * 1e6 + recipe.penalty_usd_per_h)
    for t in every[::-1]:
        if deadline is not None and time.monotonic() >= deadline:
            break
        fewer = chosen.copy()
        fewer[t] = _one_less(recipe, replicas, t, int(chosen[t]), int(lower[t]))
        tried = complete(fleet, _swapped(plan, at, recipe, fewer))
        if tried is not None and fewer[t] != chosen[t]:
            other, moved = filled(tried, fewer, [u for u in every if u != t])
            if other.objective < best.objective:
                best, chosen = other, moved
    return best


def _larger_first(recipe: Recipe, replicas: np.ndarray, slot: int, most: int) -> list[int]:
    """Servings of a slot with so many replicas at most, the largest first."""
    there = np.flatnonzero((recipe.slot == slot) & (replicas <= most))
    return there[np.lexsort((recipe.penalty_usd_per_h[there], -replicas[there]))].tolist()


def _one_less(recipe: Recipe, replicas: np.ndarray, slot: int, serving: int, lowest: int) -> int:
    """The next smaller serving of a slot."""
    there = np.flatnonzero((recipe.slot == slot) & (replicas < replicas[serving]))
    return int(there[np.argmax(replicas[there])]) if len(there) else lowest


def _swapped(plan: Incumbent, at: int, recipe: Recipe, chosen: np.ndarray) -> tuple[Recipe, ...]:
    mask = np.zeros(recipe.servings, dtype=bool)
    mask[chosen] = True
    return (*plan.paths[:at], recipe.only(mask), *plan.paths[at + 1 :])


def _servings_of(path: Recipe, recipe: Recipe) -> np.ndarray | None:
    """Where the servings of a path are in its recipe [slot]; None where it is a path of another one."""
    if path.key != recipe.key:
        return None
    counts = [(use.replicas, use.firm_replicas) for use in recipe.uses]
    found = np.full(len(path.slot), -1)
    for k, t in enumerate(path.slot.tolist()):
        same = recipe.slot == t
        for (replicas, firm), use in zip(counts, path.uses, strict=True):
            same = same & (replicas == use.replicas[k]) & (firm == use.firm_replicas[k])
        if not same.any():
            return None
        found[k] = int(np.flatnonzero(same)[np.argmin(recipe.penalty_usd_per_h[same])])
    return found
