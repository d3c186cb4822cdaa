"""The cheapest instances for given needs, by trying every number of them in every slot."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np

from problems.fleet_problem import Offer


@cache
def hourly_usd(offer: Offer, most: int) -> np.ndarray:
    """USD/h of instances where so many must be firm and so many are needed in all, as [firm, in all]."""
    usd = np.full((most + 1, most + 1), math.inf)
    for on_demand in range(most + 1 if offer.on_demand_usd_per_h is not None else 1):
        for spot in range(most + 1 - on_demand if offer.spot_usd_per_h is not None else 1):
            usd[on_demand, on_demand + spot] = on_demand * (offer.on_demand_usd_per_h or 0.0) + spot * (
                offer.spot_usd_per_h or 0.0
            )
    return at_least(usd)


def at_least(usd: np.ndarray) -> np.ndarray:
    """[n, ...] becomes the least over all m >= n, on every axis."""
    for axis in range(usd.ndim):
        usd = np.flip(np.minimum.accumulate(np.flip(usd, axis), axis), axis)
    return usd


@cache
def usd_with_starts(
    offer: Offer, hours: tuple[float, ...], before: tuple[int, ...], caps: tuple[int, ...]
) -> np.ndarray:
    """USD of some slots together, each with a cap on instances, as [firm 0, in all 0, firm 1, in all 1, ...].

    Every number of on-demand and spot instances in every slot is tried. What was not there in the slot before
    (`before`, an index into these slots) is paid for while it starts.
    """
    slots = range(len(hours))
    each = list(itertools.product(*([(od, n) for n in range(cap + 1) for od in range(n + 1)] for cap in caps)))
    bought = np.array(each).reshape(len(each), len(hours), 2)
    on_demand, spot = bought[:, :, 0], bought[:, :, 1] - bought[:, :, 0]
    usd = np.zeros(len(each))
    for count, price in ((on_demand, offer.on_demand_usd_per_h), (spot, offer.spot_usd_per_h)):
        if price is None:
            usd[count.any(axis=1)] = math.inf
            continue
        for t in slots:
            started = np.maximum(0, count[:, t] - count[:, before[t]])
            usd += hours[t] * price * (count[:, t] + offer.start_h * started)
    table = np.full([n for cap in caps for n in (cap + 1, cap + 1)], math.inf)
    table[tuple(bought.reshape(len(each), -1).T)] = usd
    return at_least(table)


def commitments(offer: Offer, most: int) -> dict[int, float]:
    """Instances held -> the least they cost per hour, over every mix of terms."""
    terms = list(offer.reserved_usd_per_h.values())
    cheapest: dict[int, float] = {}
    for counts in itertools.product(range(most + 1), repeat=len(terms)):
        usd = sum(n * price for n, price in zip(counts, terms, strict=True))
        if sum(counts) <= most:
            cheapest[sum(counts)] = min(usd, cheapest.get(sum(counts), math.inf))
    return cheapest
