"""Reduced-cost fixing: leave out servings that limits forbid or that no plan cheaper than the incumbent uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.pricing import Priced
from problems.recipes.recipe import Recipe
from problems.recipes.singles import with_the_most
from solvers.pricing.routing import work_moved

MOST_SERVINGS = 12_000
"""servings that the mixed-integer program is given at most"""


class PricedRecipes(Protocol):
    """Recipes at some prices, and the bound that these prices prove."""

    @property
    def priced(self) -> Sequence[Priced]: ...
    @property
    def paid(self) -> dict[str, float]: ...
    @property
    def bound_at_prices(self) -> float: ...


def without_what_limits_forbid(fleet: FleetProblem) -> Iterator[Recipe]:
    """Recipes without servings that alone would break a quota, or need firm GPUs that nobody sells.

    Where not every count of replicas is tried, as many are as quotas allow.
    """
    slots = len(fleet.slot_hours)
    for thinned in fleet.recipes:
        if not all(fleet.offers[g].to_be_had for g in thinned.offers):
            continue
        recipe = _up_to_the_quota(fleet, thinned)
        allowed = np.ones(recipe.servings, dtype=bool)
        for g in recipe.offers:
            offer = fleet.offers[g]
            most = fleet.max_gpus.get(offer.gpu, np.inf) / offer.box
            if offer.max_instances is not None:
                most = min(most, offer.max_instances)
            if most < np.inf:
                allowed &= offer.boxes(recipe.gpus_on(g)) <= most
            if offer.on_demand_usd_per_h is None and not offer.reserved_usd_per_h:
                at_best = recipe.at_best if recipe.deferral is not None else recipe
                allowed &= offer.boxes(at_best.firm_gpus_on(g), "firm") <= offer.on_hand
                if offer.spot_usd_per_h is None:
                    allowed &= offer.boxes(at_best.gpus_on(g)) <= offer.on_hand
        if not np.bincount(recipe.slot[allowed], minlength=slots).all():
            continue
        left, deferral = recipe, recipe.deferral
        if not allowed.all():
            left = recipe.only(allowed)
            left = left if deferral is not None else replace(left, between=recipe.between)
        if (
            deferral is None
            or deferral.api_usd_per_load_h is not None
            or left is thinned
            or work_moved(deferral, _largest_load(left.at_best)) is not None
        ):
            yield left


def _up_to_the_quota(fleet: FleetProblem, recipe: Recipe) -> Recipe:
    """The recipe with as many replicas as a quota allows, where it leaves out counts and that could be one of them."""
    if recipe.between is None:
        return recipe
    use = recipe.uses[0]
    most = fleet.most_replicas(use.offer, use.gpus_per_replica)
    if most is None or most >= int(use.replicas.max(initial=0)):
        return recipe
    return with_the_most(fleet.pools[recipe.pool], recipe, fleet.slot_hours, most)


def _largest_load(recipe: Recipe) -> np.ndarray:
    """The most load that the servings of a slot can take [slot]."""
    load = recipe.uses[0].load
    largest: np.ndarray = load[recipe.first_of_each_slot(-load)]
    return largest


def serving_bounds(priced: Sequence[Priced], paid: dict[str, float], bound: float) -> list[np.ndarray]:
    """For each serving of each recipe, a lower bound on any plan that uses it."""
    return [bound + p.with_serving - sum(paid[w] for w in p.recipe.workloads) for p in priced]


def count_possible(state: PricedRecipes, usd: float, up_to: int) -> int:
    """Count the servings that a plan of at most so much may use, up to some number beyond `up_to`."""
    count = 0
    known = np.isfinite(state.bound_at_prices)
    for p in state.priced:
        over = state.bound_at_prices - sum(state.paid[w] for w in p.recipe.workloads)
        if not known:
            count += p.recipe.servings
        elif p.value + over <= usd:
            count += int((p.with_serving + over <= usd).sum())
        if count > up_to:
            break
    return count


def possible_within(state: PricedRecipes, usd: float) -> list[Recipe]:
    """Recipes, with the servings, that a plan of less than so much may use."""
    possible: list[Recipe] = []
    for p in state.priced:
        over = state.bound_at_prices - sum(state.paid[w] for w in p.recipe.workloads)
        if p.value + over >= usd:
            continue
        cost = p.with_serving
        servings = cost + over < usd
        servings[p.recipe.first_of_each_slot(cost)] = True  # counts that are not tried may be the cheapest of a slot
        left = p.recipe if servings.all() else p.recipe.only(servings)
        possible.append(left if left.deferral is not None else replace(left, between=p.recipe.between))
    return possible


def with_counts_skipped_within(state: PricedRecipes, usd: float) -> list[Recipe]:
    """Recipes that leave out counts of replicas which a plan of at most so much may use."""
    recipes: list[Recipe] = []
    for p in state.priced:
        over = state.bound_at_prices - sum(state.paid[w] for w in p.recipe.workloads)
        large = p.recipe.between is not None
        if large and p.value + over <= usd and p.with_skipped.min(initial=np.inf) + over <= usd:
            recipes.append(p.recipe)
    return recipes


def still_possible(
    generated: PricedRecipes, slots: int, least_left: float, best_cost: float
) -> tuple[tuple[Recipe, ...], int, float]:
    """Recipes narrowed to the servings a better plan may use; how many were cut for size, and their bound."""
    bounds = serving_bounds(generated.priced, generated.paid, generated.bound_at_prices)
    threshold = best_cost + 1e-9 * abs(best_cost)
    every = np.sort(np.concatenate([np.zeros(0), *bounds]))
    possible = every[every <= threshold]
    smallest_left_out, left_out = np.inf, 0
    if least_left < np.inf and least_left <= threshold:
        smallest_left_out, left_out = least_left, 1
    for p in generated.priced:
        skipped = generated.bound_at_prices + p.with_skipped - sum(generated.paid[w] for w in p.recipe.workloads)
        if len(skipped) and skipped.min() <= threshold:
            smallest_left_out, left_out = min(smallest_left_out, float(skipped.min())), left_out + 1
    if len(possible) > MOST_SERVINGS:
        smallest_left_out = min(smallest_left_out, float(possible[MOST_SERVINGS]))
        threshold = np.nextafter(float(possible[MOST_SERVINGS]), -np.inf)
    cheapest: dict[tuple[str, ...], float] = {}
    for p in generated.priced:
        cheapest[p.recipe.workloads] = min(cheapest.get(p.recipe.workloads, np.inf), p.value)
    kept = []
    for p, bound in zip(generated.priced, bounds, strict=True):
        mask = bound <= threshold
        if p.value <= cheapest[p.recipe.workloads]:
            # There is always one way to serve a workload, however many were cut.
            mask |= p.recipe.deferral is not None
            mask[p.recipe.first_of_each_slot(bound)] = True
        if len(np.unique(p.recipe.slot[mask])) == slots:
            kept.append(p.recipe.only(mask))
    return tuple(kept), left_out + int((possible > threshold).sum()), smallest_left_out
