"""Leave out what a cap on a vendor forbids by itself: same optimum, a tighter LP."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from problems.constants import HOURS_PER_MONTH
from problems.fleet_problem import FleetProblem, Offer
from problems.recipes.pools import Api, Pool
from problems.recipes.recipe import Recipe
from problems.recipes.vendors import Vendor
from problems.vendors.spend import ROUNDING, api_usd_per_h


def without_vendors_shut_out(fleet: FleetProblem) -> FleetProblem:
    """The fleet problem without ways to buy of which a cap does not allow one instance, or one request of an API."""
    if not fleet.vendors.most_usd:
        return fleet
    offers = {g: _affordable(fleet, offer) for g, offer in fleet.offers.items()}
    pools = {
        key: replace(
            pool,
            apis=_asked(fleet, pool),
            deployments=tuple(d for d in pool.deployments if offers[d.offer].to_be_had),
        )
        for key, pool in fleet.pools.items()
    }
    kept = {key: {None, *(api.key for api in pool.apis)} for key, pool in pools.items()}
    recipes = tuple(recipe for recipe in fleet.recipes if recipe.api in kept[recipe.pool])
    return replace(fleet, offers=offers, pools=pools, recipes=recipes)


def is_shut_out(fleet: FleetProblem, path: Recipe) -> bool:
    """Whether a path of an earlier search asks a vendor that was left out since."""
    if not all(fleet.offers[g].to_be_had for g in path.offers):
        return True
    pool = fleet.pools.get(path.pool)
    return path.api is not None and pool is not None and path.api not in {api.key for api in pool.apis}


def _affordable(fleet: FleetProblem, offer: Offer) -> Offer:
    """An offer without prices at which one instance, for the shortest time that it can be bought, is too much."""
    left = _left_usd(fleet, fleet.vendors.of_offer.get(offer.key, ()))
    if left == np.inf:
        return offer
    shortest_h = float((fleet.slot_hours / fleet.weight_of_month[fleet.slot_month]).min())

    def by_the_hour(usd: float | None) -> float | None:
        return usd if usd is not None and usd * shortest_h <= left else None

    def committed(term: str, usd: float) -> bool:
        return usd * HOURS_PER_MONTH <= left or (offer.key, term) in fleet.held

    return replace(
        offer,
        on_demand_usd_per_h=by_the_hour(offer.on_demand_usd_per_h),
        spot_usd_per_h=by_the_hour(offer.spot_usd_per_h),
        reserved_usd_per_h={k: usd for k, usd in offer.reserved_usd_per_h.items() if committed(k, usd)},
    )


def _asked(fleet: FleetProblem, pool: Pool) -> tuple[Api, ...]:
    """The APIs of a pool that may be paid anything, or ask nothing."""

    def left(api: Api) -> float:
        return _left_usd(fleet, fleet.vendors.of((), api.key))

    return tuple(api for api in pool.apis if left(api) > 2 * ROUNDING or (left(api) >= 0 and _is_free(api)))


def _is_free(api: Api) -> bool:
    return bool((api.usd_per_request <= 0).any())


def _left_usd(fleet: FleetProblem, vendors: Iterable[Vendor]) -> float:
    """What the tightest cap leaves a month after the fixed cost of its vendor; below zero where that is too much."""
    rules = fleet.vendors
    left = [rules.most_usd[x] * (1 + ROUNDING) + ROUNDING - rules.usd((x,)) for x in vendors if x in rules.most_usd]
    return min(left, default=np.inf)


def servings_within_caps(fleet: FleetProblem, recipe: Recipe) -> np.ndarray:
    """Servings with which a recipe can keep every cap by itself, its other slots at what they cost at least [serving].

    An instance costs at least its cheapest hourly price, and what is on hand nothing. Without GPUs a slot may be served
    in parts of each way, so that there all servings stay or none.
    """
    within, months = np.ones(recipe.servings, dtype=bool), fleet.slot_month[recipe.slot]
    for vendor in fleet.vendors.of(recipe.offers, recipe.api):
        if vendor not in fleet.vendors.most_usd:
            continue
        usd = _paid_at_least(fleet, recipe, vendor)
        least = np.full(len(fleet.slot_hours), np.inf)
        np.minimum.at(least, recipe.slot, usd)
        if recipe.between is not None:
            np.minimum.at(least, recipe.between.slot, _paid_at_least(fleet, recipe.between, vendor))
        beyond = usd - least[recipe.slot] if recipe.self_hosted else 0.0
        in_all = np.bincount(fleet.slot_month, least, fleet.months)[months] + beyond
        most = np.full(recipe.servings, _left_usd(fleet, (vendor,))) * fleet.weight_of_month[months]
        within &= (in_all <= most) | (in_all <= ROUNDING)
    return within


def _paid_at_least(fleet: FleetProblem, recipe: Recipe, vendor: Vendor) -> np.ndarray:
    """What each serving pays a vendor at least, in the hours of its slot [serving]."""
    hourly = np.zeros(recipe.servings)
    for g in recipe.offers:
        if vendor in fleet.vendors.of_offer.get(g, ()):
            offer = fleet.offers[g]
            ways = (offer.on_demand_usd_per_h, offer.spot_usd_per_h, *offer.reserved_usd_per_h.values())
            boxes = np.maximum(offer.boxes(recipe.gpus_on(g)) - offer.on_hand, 0)
            hourly = hourly + boxes * min((usd for usd in ways if usd is not None), default=0.0)
    if vendor in fleet.vendors.of((), recipe.api):
        hourly = hourly + api_usd_per_h(fleet, recipe)
    return np.asarray(fleet.slot_hours[recipe.slot] * hourly)
