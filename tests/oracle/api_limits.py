"""Tiny fleets whose APIs take so much in a minute, and their optimum by trying everything.

Two months of one slot, one length of requests, instances of one GPU, no mixes; one offer has a commitment too. What
counts of a request is drawn for each workload, so that the bill alone does not say what fits.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np

from problems.api_limits import ApiLimit
from tests.oracle.two_months import HOURS, SLOTS, Way, two_month_case, ways
from tests.support.fleets import Case

Counted = dict[tuple[str, str], dict[str, tuple[float, float, tuple[float, float]]]]
"""API and kind -> by pool: limit a minute, what a request counts as, and the busiest minute over the mean by slot"""


def limited_case(seed: int) -> tuple[Case, Counted]:
    rng, case = np.random.default_rng([seed, 31]), two_month_case(seed)
    counted: Counted = {}
    for api in ("a0", "a1"):
        for kind in ("requests", "output"):
            if rng.random() < 0.7:
                most = float(rng.choice([8.0, 25.0, 60.0, 120.0]))
                counted[api, kind] = {
                    pool.key: (most, float(rng.uniform(0.3, 2.0)), (rng.uniform(1.0, 1.6), rng.uniform(1.0, 1.6)))
                    for pool in case.pools
                }
    limits = []
    for (api, kind), of in counted.items():
        per_usd = {}
        for pool in case.pools:
            price = next((float(a.usd_per_request[0]) for a in pool.apis if a.key == api), None)
            if price is not None:
                most, each, peaks = of[pool.key]
                per_usd[pool.key] = np.array(peaks) * each / price / 60 / most
        limits.append(ApiLimit(api, kind, 1.0, per_usd))
    return replace(case, api_limits=tuple(limits)), counted


def least_usd(case: Case, counted: Counted) -> float:
    """What the cheapest plan costs a month; infinite where there is none."""
    best = math.inf
    for several in itertools.product(*(ways(case, pool) for pool in case.pools)):
        if not _fits(case, several, counted):
            continue
        running = [sum(way.counts[t] for way in several if way.offer == "g0") for t in range(SLOTS)]
        for signed in range(max(running) + 1):
            best = min(best, _usd(case, several, signed))
    return best


def _fits(case: Case, several: tuple[Way, ...], counted: Counted) -> bool:
    for (api, _), of in counted.items():
        for t in range(SLOTS):
            total, most = 0.0, math.inf
            for pool, way in zip(case.pools, several, strict=True):
                most, each, peaks = of[pool.key]
                if way.api == api:
                    price = next(float(a.usd_per_request[0]) for a in pool.apis if a.key == api)
                    requests_per_h = way.bills[t] / HOURS / price
                    total += requests_per_h / 60 * each * peaks[t]
            if total > most * (1 + 1e-9):
                return False
    return True


def _usd(case: Case, several: tuple[Way, ...], signed: int) -> float:
    total = 0.0
    for t in range(SLOTS):
        for g, offer in case.offers.items():
            running = sum(way.counts[t] for way in several if way.offer == g)
            owned = signed if g == "g0" else 0
            total += HOURS * max(0, running - owned) * (offer.on_demand_usd_per_h or 0.0)
            total += HOURS * owned * offer.reserved_usd_per_h.get("1y", 0.0)
        total += sum(way.bills[t] for way in several)
    return total / SLOTS
