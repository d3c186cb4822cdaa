"""Buying instances for given usage: the cheapest whole boxes beyond those on hand, in closed form.

Without limits the offers are independent. With r instances reserved, what an hour still needs is decided by
itself: firm GPUs on demand, the rest where it is cheaper. So every r is tried, all slots at once. Instances that take
time to start are paid for it; as that is less than an hour, keeping one over a lull never pays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from problems.constants import HOURS_PER_MONTH
from problems.fleet_problem import FleetProblem, Offer
from problems.recipes.recipe import Recipe

FINE_COUNTS = 24
"""reserved counts up to which every one is tried"""


@dataclass(frozen=True, eq=False)
class Purchase:
    """Instances of one offer: by term for the whole horizon, and by slot."""

    reserved: dict[str, int]
    on_demand: np.ndarray
    spot: np.ndarray


def cheapest_purchase(
    fleet: FleetProblem, g: str, gpus: np.ndarray, firm_gpus: np.ndarray, reserved: int | None = None
) -> Purchase | None:
    """The cheapest purchase that holds these GPUs [slot], or None if the offer cannot sell them.

    With so many reserved, where that is given.
    """
    offer = fleet.offers[g]
    owned = _counts_to_try(offer, gpus) if reserved is None else np.array([reserved])
    on_demand, spot, usd_per_h = _hourly(offer, owned, gpus, firm_gpus)
    usd_per_h = usd_per_h + starting_usd_per_h(fleet, offer, on_demand, spot)
    cost = usd_per_h @ fleet.weight + _commitment_usd(offer, owned)
    best = int(np.argmin(cost))
    if not np.isfinite(cost[best]):
        return None
    return Purchase(_held(offer, owned[best]), on_demand[best].astype(int), spot[best].astype(int))


def starting_usd_per_h(fleet: FleetProblem, offer: Offer, on_demand: np.ndarray, spot: np.ndarray) -> np.ndarray:
    """What instances cost while they start for a slot [..., slot]."""
    if fleet.slot_before is None or not offer.start_h:
        return np.zeros_like(on_demand, dtype=float)
    before = fleet.slot_before
    more = np.maximum(on_demand - on_demand[..., before], 0) * (offer.on_demand_usd_per_h or 0.0)
    more_spot = np.maximum(spot - spot[..., before], 0) * (offer.spot_usd_per_h or 0.0)
    usd_per_h: np.ndarray = offer.start_h * (more + more_spot)
    return usd_per_h


def cheapest_alone(fleet: FleetProblem, recipe: Recipe) -> Recipe | None:
    """The best servings of a recipe of one deployment that has its offer to itself, but for the time to start.

    For each r, the cheapest serving of each slot. Of many r, every few are tried first and then those near the best.
    """
    offer, weight = fleet.offers[recipe.uses[0].offer], fleet.weight
    starts = recipe.slot_starts
    gpus, firm_gpus = recipe.uses[0].gpus, recipe.uses[0].firm_gpus
    other = recipe.usd_per_h + recipe.penalty_usd_per_h

    def costs(owned: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        _, _, usd_per_h = _hourly(offer, owned, gpus, firm_gpus)
        cost = (usd_per_h + other) * weight[recipe.slot]
        total = np.minimum.reduceat(cost, starts, axis=1).sum(axis=1) + _commitment_usd(offer, owned)
        return cost, total

    owned = _counts_to_try(offer, gpus)
    step = max(1, len(owned) // FINE_COUNTS)
    if step > 1:
        _, total = costs(owned[::step])
        near = int(np.argmin(total)) * step
        owned = owned[max(0, near - step) : near + step + 1]
    cost, total = costs(owned)
    best = int(np.argmin(total))
    return recipe.only(recipe.first_of_each_slot(cost[best])) if np.isfinite(total[best]) else None


def hourly_usd(offer: Offer, owned: int, gpus: np.ndarray, firm_gpus: np.ndarray) -> np.ndarray:
    """What usage costs an hour on top of so many instances owned, one figure for each entry."""
    return hourly_purchase(offer, owned, gpus, firm_gpus)[2]


def hourly_purchase(
    offer: Offer, owned: int, gpus: np.ndarray, firm_gpus: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """On-demand and spot instances on top of so many owned, and their cost an hour, one figure for each entry."""
    on_demand, spot, usd_per_h = _hourly(offer, np.array([owned]), gpus, firm_gpus)
    return on_demand[0], spot[0], usd_per_h[0]


def _cheapest_term(offer: Offer) -> str | None:
    return min(offer.reserved_usd_per_h, key=lambda k: (offer.reserved_usd_per_h[k], k), default=None)


def _counts_to_try(offer: Offer, gpus: np.ndarray) -> np.ndarray:
    most = max(0, int(offer.boxes(np.asarray(gpus.max(initial=0)))) - offer.on_hand)
    return np.arange(most + 1 if offer.reserved_usd_per_h else 1)


def _commitment_usd(offer: Offer, owned: np.ndarray) -> np.ndarray:
    term = _cheapest_term(offer)
    return owned * (offer.reserved_usd_per_h[term] * HOURS_PER_MONTH if term else 0.0)


def _held(offer: Offer, instances: int) -> dict[str, int]:
    term = _cheapest_term(offer)
    return {term: int(instances)} if term and instances else {}


def _hourly(
    offer: Offer, owned: np.ndarray, gpus: np.ndarray, firm_gpus: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """On-demand and spot instances on top of commitments and what is on hand, and their cost an hour [owned, usage]."""
    on_demand_price, spot_price = offer.on_demand_usd_per_h, offer.spot_usd_per_h
    have = owned[:, None] + offer.on_hand
    firm = np.maximum(offer.boxes(firm_gpus, "firm") - have, 0)
    rest = np.maximum(offer.boxes(gpus) - have - firm, 0)
    if spot_price is not None and (on_demand_price is None or spot_price < on_demand_price):
        on_demand, spot = firm, rest
    else:
        on_demand, spot = firm + rest, np.zeros_like(rest)
    usd_per_h = on_demand * (on_demand_price or 0.0) + spot * (spot_price or 0.0)
    if offer.usd_per_gpu_h:
        usd_per_h = usd_per_h + offer.usd_per_gpu_h * gpus
    if on_demand_price is None:
        usd_per_h = np.where(on_demand > 0, np.inf, usd_per_h)
    return on_demand, spot, usd_per_h
