"""Convert between plans and values of the master's columns: warm starts one way, plans from solutions the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from problems.fleet_problem import ON_HAND, FleetProblem
from problems.fleet_variables import Variables
from problems.purchase import Purchase
from problems.recipes.deferral import left_over
from problems.recipes.recipe import Deferral, Recipe, RecipeKey
from solvers.heuristics.incumbent import (
    Incumbent,
    complete,
    in_order,
    incumbent_of,
    is_covered,
    limits_are_kept,
    usage_to_cover,
)

WHOLE = 1e-6
AS_GOOD_AS_DONE = 1e-6
"""share of the work that may be left over"""


def as_start(fleet: FleetProblem, v: Variables, plan: Incumbent | None, n_columns: int) -> np.ndarray | None:
    """An incumbent as values of the columns, where the recipes of the program still hold it."""
    if plan is None:
        return None
    x = np.zeros(n_columns)
    by_key: dict[RecipeKey, list[int]] = {}
    for r, recipe in enumerate(fleet.recipes):
        by_key.setdefault(recipe.key, []).append(r)
    paths = [fleet.without_idle_api(path) for path in plan.paths]
    for path in paths:
        if not any(_hold(fleet, v, r, path, x) for r in by_key.get(path.key, [])):
            return None
    for g in sorted(fleet.recipes_on):
        if fleet.offers[g].on_hand:
            x[v.reserved[g, ON_HAND]] = fleet.offers[g].on_hand
    for g, bought in plan.purchases.items():
        if any((g, term) not in v.reserved for term in bought.reserved):
            return None
        for term, n in bought.reserved.items():
            x[v.reserved[g, term]] = n
        for way, by_slot, columns in (("on-demand", bought.on_demand, v.on_demand), ("spot", bought.spot, v.spot)):
            for t in np.flatnonzero(by_slot).tolist():
                x[columns[g, t]] = by_slot[t]
                if (way, g, t) in v.started and fleet.slot_before is not None:
                    x[v.started[way, g, t]] = max(0, by_slot[t] - by_slot[fleet.slot_before[t]])
    if not _sign(fleet, v, plan, x):
        return None
    if v.team is not None and any(p.self_hosted for p in plan.paths):
        x[v.team] = 1
    for gpu in {gpu for path in plan.paths for gpu in fleet.gpus_of(path)} if v.gpu_type else ():
        x[v.gpu_type[gpu]] = 1
    for vendor in {vendor for path in paths for vendor in fleet.vendors_of(path)}:
        x[v.vendor[vendor]] = 1
    decided = [v.reserved[key] for key in fleet.held if key in v.reserved] + list(v.vendor.values())
    return x if all(v.columns[c].lower <= x[c] <= v.columns[c].upper for c in decided) else None


def _sign(fleet: FleetProblem, v: Variables, plan: Incumbent, x: np.ndarray) -> bool:
    """Sign what the plan signs of allowances, and cover what they cover; False where that is not to be had."""
    for a in fleet.cover.each:
        left = plan.signed.get(a.key, 0.0)
        for c, units in v.signed[a.key]:
            x[c] = min(left / units, v.columns[c].upper)
            if v.columns[c].integer:
                x[c] = np.floor(x[c] + WHOLE)
            left -= x[c] * units
        if abs(left) > WHOLE * (1 + plan.signed.get(a.key, 0.0)):
            return False
    covered = fleet.cover.covered(plan.signed, usage_to_cover(fleet, plan.paths, plan.purchases))
    for (key, item), part in covered.items():
        for t in np.flatnonzero(part).tolist():
            if (key, item, t) not in v.covered:
                return False
            x[v.covered[key, item, t]] = part[t]
    return True


def _signed_units(v: Variables, x: np.ndarray) -> dict[str, float]:
    """What a solution signs of each allowance."""

    def amount(c: int) -> float:
        return float(round(x[c])) if v.columns[c].integer else float(x[c])

    return {key: sum(amount(c) * units for c, units in signed) for key, signed in v.signed.items()}


def _hold(fleet: FleetProblem, v: Variables, r: int, path: Recipe, x: np.ndarray) -> bool:
    """Pick a recipe with the servings of a path, if it has them all; else leave the values as they are."""
    recipe = fleet.recipes[r]
    chosen = []
    for k, t in enumerate(path.slot.tolist()):
        same = recipe.slot == t
        for use, own in zip(recipe.uses, path.uses, strict=True):
            same = same & (use.replicas == own.replicas[k]) & (use.firm_replicas == own.firm_replicas[k])
        if recipe.deferral is None:
            same = same & np.isclose(recipe.usd_per_h, path.usd_per_h[k], rtol=1e-9, atol=1e-12)
            same = same & np.isclose(recipe.penalty_usd_per_h, path.penalty_usd_per_h[k], rtol=1e-9, atol=1e-12)
        servings = np.flatnonzero(same)
        if not len(servings):
            return False
        chosen.append(int(servings[0]))
    if recipe.deferral is not None and not _wait(v, r, recipe.deferral, path.uses[0].load, x):
        return False
    x[v.pick[r]] = 1
    for i in chosen:
        if (r, i) in v.serve:
            x[v.serve[r, i]] = 1
    return True


def _wait(v: Variables, r: int, deferral: Deferral, room: np.ndarray, x: np.ndarray) -> bool:
    """Values for work that waits, with so much room in each slot; False if some is left over and no API does it."""
    line, work = deferral.line, deferral.load * deferral.hours
    left = left_over(work, room * deferral.hours, deferral)
    if deferral.api_usd_per_load_h is None and left.sum() > AS_GOOD_AS_DONE * work.sum():
        return False
    sent, room = (np.bincount(line.stretch_of, each) / line.unit for each in (left, room * deferral.hours))
    waits = line.waits(room + sent)
    for n in line.stretches:
        for columns, values in ((v.waits, waits), (v.sent, sent)):
            if (r, n) in columns:
                x[columns[r, n]] = values[n]
    return True


def from_solution(fleet: FleetProblem, v: Variables, x: np.ndarray) -> Incumbent | None:
    """A plan from the values of a solution, with its purchases improved in closed form if possible.

    Where servings of a slot are mixed, the plan has the one with the largest share. What was bought for the mix may not
    hold it; then it is bought again.
    """
    picked = (r for r in range(len(fleet.recipes)) if x[v.pick[r]] > 0.5)
    paths = in_order(fleet, (_path(fleet, v, r, x) for r in picked))
    as_bought = _with_purchases(fleet, v, x, paths)
    plans = [complete(fleet, paths), as_bought if is_covered(fleet, as_bought) else None]
    kept = [plan for plan in plans if plan is not None and limits_are_kept(fleet, plan)]
    return min(kept, key=lambda plan: plan.objective, default=None)


def _path(fleet: FleetProblem, v: Variables, r: int, x: np.ndarray) -> Recipe:
    recipe = fleet.recipes[r]
    chosen = np.array([x[v.serving(r, i)] for i in range(len(recipe.slot))])
    path = recipe.only(recipe.first_of_each_slot(-chosen))
    if recipe.deferral is not None:
        return _with_api_bill(fleet, v, r, path, x)
    return path if recipe.self_hosted else _blended(recipe, path, chosen)


def _blended(recipe: Recipe, path: Recipe, share: np.ndarray) -> Recipe:
    """A part of the requests may be shed in a slot and the API serve the rest, if no GPUs are used."""
    total = np.bincount(recipe.slot, share)

    def blend(values: np.ndarray) -> np.ndarray:
        return np.bincount(recipe.slot, share * values) / total

    return replace(
        path,
        usd_per_h=blend(recipe.usd_per_h),
        penalty_usd_per_h=blend(recipe.penalty_usd_per_h),
        shed_frac=blend(recipe.shed_frac),
    )


def _with_api_bill(fleet: FleetProblem, v: Variables, r: int, path: Recipe, x: np.ndarray) -> Recipe:
    """What the API does of work that may wait, as a cost of the slots in which it leaves the line."""
    deferral = path.deferral
    assert deferral is not None
    usd_per_h = path.usd_per_h.copy()
    line = deferral.line
    for n in line.stretches:
        if (r, n) in v.sent:
            slots = line.slots(n)
            load = float(x[v.sent[r, n]]) * line.unit / float(deferral.hours[slots].sum())
            usd_per_h[slots] += load * (deferral.api_usd_per_load_h or 0.0)
    return replace(path, usd_per_h=usd_per_h, deferral=None)


def _with_purchases(fleet: FleetProblem, v: Variables, x: np.ndarray, paths: tuple[Recipe, ...]) -> Incumbent:
    slots = range(len(fleet.slot_hours))

    def by_slot(columns: dict[tuple[str, int], int], g: str) -> np.ndarray:
        return np.array([int(np.ceil(x[columns[g, t]] - 1e-6)) if (g, t) in columns else 0 for t in slots])

    purchases = {}
    for g in sorted({g for p in paths for g in p.offers}):
        terms = {k: round(x[v.reserved[g, k]]) for k in fleet.offers[g].reserved_usd_per_h}
        held = {k: n for k, n in terms.items() if n}
        purchases[g] = Purchase(held, by_slot(v.on_demand, g), by_slot(v.spot, g))
    return incumbent_of(fleet, paths, purchases, (_signed_units(v, x),))
