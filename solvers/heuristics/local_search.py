"""Local search by best responses: each workload in turn takes the cheapest recipe given what the others have bought.

With the others' GPUs and the commitments given, the slots of a workload are independent: a serving costs what its GPUs
add to the boxes of its offers in that slot, which is nothing if a box has room. So the best response over all recipes
is exact and cheap, and rounds of responses fill boxes that rounding left half empty.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from problems.constants import HOURS_PER_MONTH
from problems.fleet_problem import FleetProblem
from problems.purchase import Purchase, cheapest_purchase, hourly_purchase, hourly_usd, starting_usd_per_h
from problems.recipes.deferral import cheapest_counts, least_usd
from problems.recipes.recipe import Recipe
from problems.recipes.side_by_side import SideBySide
from solvers.backends.clock import check
from solvers.devices import uses
from solvers.heuristics.incumbent import (
    WAITING_WAYS,
    Incumbent,
    complete,
    each_by_itself,
    in_order,
    incumbent_of,
    of_few_vendors,
)

MOST_SWEEPS = 20
TRIED_WAYS = 8
"""ways to serve a workload that are tried before a plan is given up"""
WORTH_FRAC = 1e-7
"""a change must save this share of the cost"""


def improved(fleet: FleetProblem, plan: Incumbent, deadline: float | None = None) -> Incumbent:
    """The plan after rounds of best answers, until none saves anything; limits of the fleet are kept."""
    state = _Plan(fleet, plan)
    order = list(fleet.recipes_for)
    quiet = 0
    for _ in range(MOST_SWEEPS):
        for workloads in order:
            check()
            if deadline is not None and time.monotonic() >= deadline:
                return state.finished(plan)
            quiet = 0 if state.answer(workloads) else quiet + 1
            if quiet >= len(order):
                return state.finished(plan)
    return state.finished(plan)


def simplest_plan(fleet: FleetProblem) -> Incumbent | None:
    """Each workload in the way that is cheapest for it alone; where limits forbid that, one after the other.

    Where there are rules about vendors, those of one place and one API are tried too.
    """
    plans = [each_by_itself(fleet) or built_up(fleet), of_few_vendors(fleet)]
    return min((plan for plan in plans if plan is not None), key=lambda plan: plan.objective, default=None)


def built_up(fleet: FleetProblem) -> Incumbent | None:
    """One workload after the other, each in the cheapest way beside the others that keeps the limits; None if stuck."""
    state = _Plan(fleet, Incumbent((), {}, 0.0))
    for w in sorted(fleet.workloads, key=lambda w: len(fleet.recipes_of[w])):
        if not any(state.take(path()) for _, path in state.by_cost((w,))[:TRIED_WAYS]):
            return None
    return state.as_it_is()


def with_fewer_offers(fleet: FleetProblem, plan: Incumbent, deadline: float | None = None) -> Incumbent:
    """The plan after giving up offers of several GPUs, one at a time, wherever that saves anything."""
    given_up = plan.purchases if uses("fewer offers") else ()
    for g in sorted(given_up, key=lambda g: -fleet.offers[g].box):
        if fleet.offers[g].box == 1 or g not in plan.purchases or (deadline and time.monotonic() >= deadline):
            continue
        plan = _without(fleet, plan, lambda recipe, g=g: g in recipe.offers, deadline)  # type: ignore[misc]
    return plan


def with_fewer_vendors(fleet: FleetProblem, plan: Incumbent, deadline: float | None = None) -> Incumbent:
    """The plan after giving up vendors that there are rules about, one at a time, wherever that saves anything."""
    for vendor in sorted(fleet.vendors_used(plan.paths)):
        if deadline is None or time.monotonic() < deadline:
            plan = _without(fleet, plan, lambda recipe, x=vendor: x in fleet.vendors_of(recipe), deadline)  # type: ignore[misc]
    return plan


def _without(
    fleet: FleetProblem, plan: Incumbent, given_up: Callable[[Recipe], bool], deadline: float | None
) -> Incumbent:
    """The plan without some recipes, and then with whatever improves it; or as it is, if that is cheaper."""
    rest = replace(fleet, recipes=tuple(r for r in fleet.recipes if not given_up(r)))
    state = _Plan(rest, plan)
    leaving = [path for path in plan.paths if given_up(path)]
    if all(state.leave(path) for path in leaving):
        tried = improved(rest, state.as_it_is(), deadline)
        tried = improved(fleet, tried, deadline)
        return tried if tried.objective < plan.objective else plan
    return plan


class _Plan:
    """Paths, their use of each offer, and what is bought for it."""

    def __init__(self, fleet: FleetProblem, plan: Incumbent) -> None:
        self.fleet = fleet
        self.paths = {path.workloads: path for path in plan.paths}
        slots = len(fleet.slot_hours)
        self.gpus = {g: np.zeros(slots) for g in fleet.offers}
        self.firm = {g: np.zeros(slots) for g in fleet.offers}
        for path in plan.paths:
            self._add(path, 1)
        self.bought = dict(plan.purchases)
        self.cost = {g: self._cost(g, bought) for g, bought in self.bought.items()}

    def finished(self, before: Incumbent) -> Incumbent:
        after = complete(self.fleet, in_order(self.fleet, self.paths.values()))
        return after if after is not None and after.objective < before.objective else before

    def as_it_is(self) -> Incumbent:
        return incumbent_of(self.fleet, in_order(self.fleet, self.paths.values()), self.bought)

    def add(self, path: Recipe) -> None:
        self._add(path, 1)
        self.paths[path.workloads] = path

    def remove(self, path: Recipe) -> None:
        self._add(path, -1)
        del self.paths[path.workloads]

    def leave(self, path: Recipe) -> bool:
        """Serve the workloads of a path without its offers, whatever that costs; False if nothing can."""
        self.remove(path)
        groups = [path.workloads, *((w,) for w in path.workloads)] if len(path.workloads) > 1 else [path.workloads]
        for group in groups:
            best = self._best(group)
            if best is not None:
                self.add(best)
                if group == path.workloads:
                    break
        if {w for group in self.paths for w in group} != set(self.fleet.workloads):
            return False
        whole = complete(self.fleet, in_order(self.fleet, self.paths.values()))
        if whole is None:
            return False
        self.bought = dict(whole.purchases)
        self.cost = {g: self._cost(g, bought) for g, bought in self.bought.items()}
        return True

    def answer(self, workloads: tuple[str, ...]) -> bool:
        """Serve these workloads together in the cheapest way there is, if that saves anything."""
        replaced = [path for path in self.paths.values() if not set(workloads).isdisjoint(path.workloads)]
        others = sorted({w for path in replaced for w in path.workloads} - set(workloads))
        for path in replaced:
            self._add(path, -1)
        below = np.inf if others or len(replaced) > 1 else float(self._cost_beside(SideBySide((replaced[0],))).sum())
        chosen: list[Recipe] = []
        for group in (workloads, *((w,) for w in others)):
            best = self._best(group, below)
            if best is None:
                break
            chosen.append(best)
            self._add(best, 1)
        done = len(chosen) == 1 + len(others) and self._accept(replaced, chosen)
        if not done:
            for path in chosen:
                self._add(path, -1)
            for path in replaced:
                self._add(path, 1)
        return done

    def take(self, path: Recipe) -> bool:
        """Add a path if the limits allow it."""
        whole = complete(self.fleet, in_order(self.fleet, (*self.paths.values(), path)))
        if whole is None:
            return False
        self.add(path)
        self.bought = dict(whole.purchases)
        self.cost = {g: self._cost(g, bought) for g, bought in self.bought.items()}
        return True

    def _best(self, workloads: tuple[str, ...], below: float = np.inf) -> Recipe | None:
        """The cheapest recipe beside what the others use, with the best serving of each slot."""
        ranked = self.by_cost(workloads, below)
        return ranked[0][1]() if ranked else None

    def by_cost(self, workloads: tuple[str, ...], below: float = np.inf) -> list[tuple[float, Callable[[], Recipe]]]:
        """What recipes cost with their best servings, the cheapest first, and how to have these.

        Work that may wait takes long to place: few recipes are worked out, and none that cannot cost less than `below`.
        """
        fleet = self.fleet
        responses: list[tuple[float, Callable[[], Recipe]]] = []
        waiting: list[tuple[float, Recipe, np.ndarray]] = []
        team = 0.0 if any(p.self_hosted for p in self.paths.values()) else fleet.team_usd_per_month
        have = fleet.vendors_used(self.paths.values())

        def more_vendors_usd(recipe: Recipe) -> float:
            return fleet.vendors.usd(set(fleet.vendors_of(recipe)) - have)

        for several in fleet.side_by_side(workloads):
            cost = self._cost_beside(several)
            for k, usd in enumerate(several.least(cost).tolist()):
                total = usd + (team if several.recipes[k].self_hosted else 0.0) + more_vendors_usd(several.recipes[k])
                if np.isfinite(total):
                    responses.append((total, partial(several.cheapest, k, cost)))
        for recipe in fleet.recipes_for.get(workloads, ()):
            if recipe.deferral is not None:
                cost = self._cost_beside(SideBySide((recipe,)))
                if not np.isfinite(cost[recipe.first_of_each_slot(cost)]).all():
                    continue  # limits leave it no way
                fixed = team * recipe.self_hosted + more_vendors_usd(recipe)
                waiting.append((least_usd(recipe, cost, fleet.weight) + fixed, recipe, cost))
        least = min((usd for usd, _ in responses), default=below)
        for at_least, recipe, cost in sorted(waiting, key=lambda item: item[0])[:WAITING_WAYS]:
            if at_least < least:
                found = cheapest_counts(recipe, cost, fleet.weight, np.ones(len(fleet.weight)))
                if found is None:
                    continue
                total, path = found[0] + more_vendors_usd(recipe), found[1]
                least = min(least, total)
                responses += [(total, lambda path=path: path)] if np.isfinite(total) else []  # type: ignore[misc]
        return sorted(responses, key=lambda item: item[0])

    def _cost_beside(self, several: SideBySide) -> np.ndarray:
        """What servings cost beside what the others use [serving]."""
        usd = several.usd_per_h.copy()
        for g, (at, gpus, firm) in several.used.items():
            t, offer = several.slot[at], self.fleet.offers[g]
            held = sum(self.bought[g].reserved.values()) if g in self.bought else 0
            now = hourly_usd(offer, held, self.gpus[g], self.firm[g])
            on_demand, spot, then = hourly_purchase(offer, held, self.gpus[g][t] + gpus, self.firm[g][t] + firm)
            if offer.max_instances is not None:
                then = np.where(offer.on_hand + held + on_demand + spot > offer.max_instances, np.inf, then)
            usd[at] += then - now[t]
        weighed: np.ndarray = usd * self.fleet.weight[several.slot]
        return weighed

    def _accept(self, replaced: list[Recipe], chosen: list[Recipe]) -> bool:
        """Buy what changes again; keep it if the plan gets cheaper and its limits hold."""
        touched = {g for path in (*replaced, *chosen) for g in path.offers}
        bought: dict[str, Purchase] = {}
        cost: dict[str, float] = {}
        for g in touched:
            if self.gpus[g].any():
                purchase = cheapest_purchase(self.fleet, g, self.gpus[g], self.firm[g])
                if purchase is None:
                    return False
                bought[g], cost[g] = purchase, self._cost(g, purchase)
        saved = sum(self._other(p) for p in replaced) + sum(self.cost.get(g, 0.0) for g in touched)
        saved -= sum(self._other(p) for p in chosen) + sum(cost.values())
        kept = {w: p for w, p in self.paths.items() if not any(p is old for old in replaced)}
        paths = kept | {path.workloads: path for path in chosen}
        saved += self.fleet.team_usd_per_month * (_hosted(self.paths) - _hosted(paths))
        saved += self.fleet.vendors.usd(self.fleet.vendors_used(self.paths.values()))
        saved -= self.fleet.vendors.usd(self.fleet.vendors_used(paths.values()))
        if saved <= WORTH_FRAC * sum(self.cost.values()) + 1e-9:
            return False
        limited = self.fleet.limited or self.fleet.max_gpu_types is not None or bool(self.fleet.vendors.at_most)
        if limited and complete(self.fleet, in_order(self.fleet, paths.values())) is None:
            return False
        for g in touched:
            self.bought.pop(g, None)
            self.cost.pop(g, None)
        self.bought |= bought
        self.cost |= cost
        self.paths = paths
        return True

    def _add(self, path: Recipe, sign: int) -> None:
        for g in path.offers:
            self.gpus[g][path.slot] += sign * path.gpus_on(g)
            self.firm[g][path.slot] += sign * path.firm_gpus_on(g)

    def _other(self, path: Recipe) -> float:
        hourly = path.usd_per_h + self.fleet.energy_usd_per_h(path) + path.penalty_usd_per_h
        return float(self.fleet.weight[path.slot] @ hourly)

    def _cost(self, g: str, bought: Purchase) -> float:
        offer = self.fleet.offers[g]
        usd = bought.on_demand * (offer.on_demand_usd_per_h or 0.0) + bought.spot * (offer.spot_usd_per_h or 0.0)
        usd = usd + starting_usd_per_h(self.fleet, offer, bought.on_demand, bought.spot)
        held = sum(n * offer.reserved_usd_per_h[k] for k, n in bought.reserved.items())
        return float(usd @ self.fleet.weight) + held * HOURS_PER_MONTH


def _hosted(paths: dict[tuple[str, ...], Recipe]) -> bool:
    return any(path.self_hosted for path in paths.values())
