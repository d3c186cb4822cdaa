"""Buying instances for given usage: the cheapest whole boxes, in closed form.

Without limits the offers are independent. With r instances reserved, what an hour still needs is decided by
itself: firm GPUs on demand, the rest where it is cheaper. So every r is tried, all slots at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from problems.fleet import HOURS_PER_MONTH, Offer


@dataclass(frozen=True, eq=False)
class Purchase:
    """Instances of one offer: by term for the whole horizon, and by slot."""

    reserved: dict[str, int]
    on_demand: np.ndarray
    spot: np.ndarray


def cheapest_purchase(offer: Offer, gpus: np.ndarray, firm_gpus: np.ndarray, weight: np.ndarray) -> Purchase | None:
    """The cheapest purchase that holds these GPUs [slot], or None where the offer cannot sell them."""
    slots = len(weight)
    term = min(offer.reserved_usd_per_h, key=lambda k: (offer.reserved_usd_per_h[k], k), default=None)
    on_demand_price, spot_price = offer.on_demand_usd_per_h, offer.spot_usd_per_h
    most = -(-int(gpus.max(initial=0)) // offer.box)
    owned = np.arange(most + 1 if term is not None else 1)[:, None]
    missing_firm = np.ceil(np.maximum(firm_gpus - owned * offer.box, 0) / offer.box)
    missing = np.ceil(np.maximum(gpus - (owned + missing_firm) * offer.box, 0) / offer.box)
    extra_on_spot = spot_price is not None and (on_demand_price is None or spot_price < on_demand_price)
    on_demand = missing_firm if extra_on_spot else missing_firm + missing
    spot = missing if extra_on_spot else np.zeros((len(owned), slots))
    cost = (on_demand * (on_demand_price or 0.0) + spot * (spot_price or 0.0)) @ weight
    if term is not None:
        cost = cost + owned[:, 0] * offer.reserved_usd_per_h[term] * HOURS_PER_MONTH
    if on_demand_price is None:
        cost = np.where(on_demand.any(axis=1), np.inf, cost)
    best = int(np.argmin(cost))
    if not np.isfinite(cost[best]):
        return None
    reserved = {term: best} if term is not None and best else {}
    return Purchase(reserved, on_demand[best].astype(int), spot[best].astype(int))
