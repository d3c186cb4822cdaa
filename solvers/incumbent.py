"""Incumbents: complete plans, how they are made in closed form, and how they turn into values of columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from problems.fleet import HOURS_PER_MONTH, Fleet, Variables
from problems.purchase import Purchase, cheapest_alone, cheapest_purchase
from problems.recipes import Recipe
from solvers.column_generation import Generated


@dataclass(frozen=True, eq=False)
class Incumbent:
    """A complete plan: one path per workload and the instances bought."""

    paths: tuple[Recipe, ...]
    purchases: dict[str, Purchase]
    cost_usd_per_month: float


def complete(fleet: Fleet, paths: tuple[Recipe, ...]) -> Incumbent | None:
    """Buy what these paths need, in closed form; None where that breaks a limit."""
    purchases: dict[str, Purchase] = {}
    slots = len(fleet.slot_hours)
    for g in sorted({p.offer for p in paths if p.offer is not None}):
        gpus, firm = np.zeros(slots), np.zeros(slots)
        for path in paths:
            if path.offer == g:
                np.add.at(gpus, path.slot, path.gpus)
                np.add.at(firm, path.slot, path.firm_gpus)
        bought = cheapest_purchase(fleet.offers[g], gpus, firm, fleet.weight)
        if bought is None:
            return None
        purchases[g] = bought
    plan = Incumbent(paths, purchases, cost_of(fleet, paths, purchases))
    return plan if limits_are_kept(fleet, plan) else None


def cost_of(fleet: Fleet, paths: tuple[Recipe, ...], purchases: dict[str, Purchase]) -> float:
    """USD per month, averaged over the months."""
    return float(np.mean(cost_by_month(fleet, paths, purchases)))


def cost_by_month(fleet: Fleet, paths: tuple[Recipe, ...], purchases: dict[str, Purchase]) -> np.ndarray:
    by_slot = np.zeros(len(fleet.slot_hours))
    fixed = fleet.team_usd_per_month if any(p.self_hosted for p in paths) else 0.0
    for path in paths:
        np.add.at(by_slot, path.slot, path.api_usd_per_h)
    for g, bought in purchases.items():
        offer = fleet.offers[g]
        by_slot += bought.on_demand * (offer.on_demand_usd_per_h or 0.0)
        by_slot += bought.spot * (offer.spot_usd_per_h or 0.0)
        fixed += sum(n * offer.reserved_usd_per_h[k] * HOURS_PER_MONTH for k, n in bought.reserved.items())
    return np.bincount(fleet.slot_month, by_slot * fleet.slot_hours, fleet.months) + fixed


def limits_are_kept(fleet: Fleet, plan: Incumbent) -> bool:
    total: dict[str, np.ndarray] = {}
    for g, bought in plan.purchases.items():
        offer = fleet.offers[g]
        instances = sum(bought.reserved.values()) + bought.on_demand + bought.spot
        if offer.max_instances is not None and instances.max() > offer.max_instances:
            return False
        total[offer.gpu] = total.get(offer.gpu, np.zeros(len(fleet.slot_hours))) + offer.box * instances
    if any(gpus.max() > fleet.max_gpus.get(gpu, np.inf) for gpu, gpus in total.items()):
        return False
    budget = fleet.budget_usd_per_month
    return budget is None or cost_by_month(fleet, plan.paths, plan.purchases).max() <= budget * (1 + 1e-9)


def alone(fleet: Fleet, recipe: Recipe) -> Incumbent | None:
    """The cheapest plan for one recipe that has its offer to itself; None where a limit forbids it."""
    path: Recipe | None = recipe
    if recipe.offer is not None:
        path = cheapest_alone(fleet.offers[recipe.offer], recipe, fleet.weight)
    return complete(fleet, (path,)) if path is not None else None


def each_by_itself(fleet: Fleet) -> Incumbent | None:
    """Each workload with the recipe that is cheapest for it alone; where a limit forbids that, as many as fit."""
    best: list[Incumbent] = []
    for w in fleet.workloads:
        plans = [plan for r in fleet.recipes_of[w] if (plan := alone(fleet, fleet.recipes[r]))]
        if not plans:
            return None
        best.append(min(plans, key=lambda plan: plan.cost_usd_per_month))
    together = complete(fleet, tuple(path for plan in best for path in plan.paths))
    return together or _as_many_as_fit(fleet, [plan.paths[0] for plan in best])


def _as_many_as_fit(fleet: Fleet, wanted: list[Recipe]) -> Incumbent | None:
    """Everything from an API where there is one, then one workload after the other as wanted while limits hold."""
    bought = {r.workloads[0]: r for r in fleet.recipes if not r.self_hosted}
    chosen = [bought.get(path.workloads[0], path) for path in wanted]
    plan = complete(fleet, tuple(chosen))
    for k, path in enumerate(wanted) if plan else ():
        tried = complete(fleet, (*chosen[:k], path, *chosen[k + 1 :]))
        if tried is not None and plan is not None and tried.cost_usd_per_month < plan.cost_usd_per_month:
            chosen[k], plan = path, tried
    return plan


def heaviest_paths(fleet: Fleet, generated: Generated) -> Incumbent | None:
    """The path of each workload that the LP leans on most."""
    chosen = []
    for w in fleet.workloads:
        of = [k for k, p in enumerate(generated.paths) if w in p.workloads]
        chosen.append(generated.paths[max(of, key=lambda k: (generated.weights[k], -k))])
    return complete(fleet, tuple(chosen))


def as_start(fleet: Fleet, v: Variables, plan: Incumbent | None, n_columns: int) -> np.ndarray | None:
    """An incumbent as values of the columns, where the narrowed recipes still hold it."""
    if plan is None:
        return None
    x = np.zeros(n_columns)
    by_key = {recipe.key: r for r, recipe in enumerate(fleet.recipes)}
    for path in plan.paths:
        r = by_key.get(path.key)
        if r is None:
            return None
        x[v.pick[r]] = 1
        recipe = fleet.recipes[r]
        for t, replicas, firm in zip(path.slot, path.replicas, path.firm_replicas, strict=True):
            same = np.flatnonzero((recipe.slot == t) & (recipe.replicas == replicas) & (recipe.firm_replicas == firm))
            if not len(same):
                return None
            if (r, int(same[0])) in v.serve:
                x[v.serve[r, int(same[0])]] = 1
    for g, bought in plan.purchases.items():
        for term, n in bought.reserved.items():
            x[v.reserved[g, term]] = n
        for by_slot, columns in ((bought.on_demand, v.on_demand), (bought.spot, v.spot)):
            for t in np.flatnonzero(by_slot).tolist():
                x[columns[g, t]] = by_slot[t]
    if v.team is not None and any(p.self_hosted for p in plan.paths):
        x[v.team] = 1
    return x


def from_solution(fleet: Fleet, v: Variables, x: np.ndarray) -> Incumbent | None:
    """A plan from the values of a verified solution, with its purchases improved in closed form if possible."""
    paths = []
    for r, recipe in enumerate(fleet.recipes):
        if x[v.pick[r]] > 0.5:
            chosen = np.array([x[v.serving(r, i)] for i in range(len(recipe.slot))])
            paths.append(recipe.only(recipe.first_of_each_slot(-chosen)))
    order = {w: k for k, w in enumerate(fleet.workloads)}
    paths.sort(key=lambda p: order[p.workloads[0]])
    improved = complete(fleet, tuple(paths))
    return improved or _with_purchases(fleet, v, x, tuple(paths))


def _with_purchases(fleet: Fleet, v: Variables, x: np.ndarray, paths: tuple[Recipe, ...]) -> Incumbent:
    slots = range(len(fleet.slot_hours))

    def by_slot(columns: dict[tuple[str, int], int], g: str) -> np.ndarray:
        return np.array([int(np.ceil(x[columns[g, t]] - 1e-6)) if (g, t) in columns else 0 for t in slots])

    purchases = {}
    for g in sorted({p.offer for p in paths if p.offer is not None}):
        terms = {k: round(x[v.reserved[g, k]]) for k in fleet.offers[g].reserved_usd_per_h}
        held = {k: n for k, n in terms.items() if n}
        purchases[g] = Purchase(held, by_slot(v.on_demand, g), by_slot(v.spot, g))
    return Incumbent(paths, purchases, cost_of(fleet, paths, purchases))
