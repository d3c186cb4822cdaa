"""Tiny fleets whose vendors may be paid so much a month, and their optimum by trying everything.

Two months of one slot, one length of requests, instances of one GPU, no mixes; one offer has a commitment too.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from problems.recipes.pools import Pool
from problems.recipes.vendors import Vendor, Vendors
from problems.staffing import Staffing
from tests.oracle.rules import max_utilization, replicas_for
from tests.oracle.vendor_shares import random_parts
from tests.support.fleets import Case

RULE = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=16.0, min_replicas=1)
HOURS, SLOTS = 730.0, 2


TIGHT_USD = (0.0, 1.0, 20.0, 150.0)
"""caps that allow nothing, hardly a request, or an instance for a part of a month"""


def tight_case(seed: int) -> Case:
    """A case of which some caps are so low that they shut their vendors out, or nearly so."""
    rng, case = np.random.default_rng([seed, 8]), cap_case(seed)
    caps = {x: float(rng.choice([*TIGHT_USD, most])) for x, most in case.vendors.most_usd.items()}
    return replace(case, vendors=replace(case.vendors, most_usd=caps))


def without_vendor(case: Case, vendor: Vendor) -> Case:
    """The case where nobody sells what a vendor sells."""
    sold = {key for of in (case.vendors.of_offer, case.vendors.of_api) for key, who in of.items() if vendor in who}
    pools = [
        replace(
            pool,
            apis=tuple(api for api in pool.apis if api.key not in sold),
            deployments=tuple(d for d in pool.deployments if d.offer not in sold),
        )
        for pool in case.pools
    ]
    return replace(case, pools=tuple(pools))


def cap_case(seed: int) -> Case:
    rng = np.random.default_rng([seed, 7])
    offers, apis, pools = random_parts(rng, SLOTS, most_rps=1.8)
    offers["g0"] = replace(offers["g0"], reserved_usd_per_h={"1y": 0.6 * (offers["g0"].on_demand_usd_per_h or 0.0)})
    of_offer: dict[str, tuple[Vendor, ...]] = {g: (("provider", "pqq"[k]),) for k, g in enumerate(offers)}
    of_api: dict[str, tuple[Vendor, ...]] = {api.key: (("api", api.key),) for api in apis}
    every = (("provider", "p"), ("provider", "q"), ("api", "a0"), ("api", "a1"))
    rules = Vendors(
        of_offer=of_offer,
        of_api=of_api,
        usd_per_month={("provider", "q"): float(rng.choice([0.0, 100.0]))},
        most_usd={x: float(rng.choice([200.0, 400.0, 700.0, 1100.0])) for x in every if rng.random() < 0.85},
    )
    hours = np.full(SLOTS, HOURS)
    return Case(tuple(pools), offers, hours, np.arange(SLOTS), vendors=rules)


@dataclass(frozen=True)
class Way:
    """One workload: instances of an offer, and the bill of an API, in each month."""

    offer: str
    counts: tuple[int, ...]
    api: str | None
    bills: tuple[float, ...]


def least_usd(case: Case) -> float:
    """What the cheapest plan costs a month; infinite where there is none."""
    best = math.inf
    for several in itertools.product(*(ways(case, pool) for pool in case.pools)):
        running = {
            g: tuple(sum(way.counts[t] for way in several if way.offer == g) for t in range(SLOTS)) for g in case.offers
        }
        for held in range(max(running["g0"]) + 1):
            usd = _usd(case, several, running, held)
            best = min(best, usd)
    return best


def _usd(case: Case, several: tuple[Way, ...], running: dict[str, tuple[int, ...]], held: int) -> float:
    """What these ways cost with so many commitments; infinite where a vendor is paid too much."""
    rules, total = case.vendors, 0.0
    for t in range(SLOTS):
        paid: dict[Vendor, float] = {}
        for g, counts in running.items():
            offer, vendor = case.offers[g], rules.of_offer[g][0]
            owned = held if g == "g0" else 0
            usd = HOURS * max(0, counts[t] - owned) * (offer.on_demand_usd_per_h or 0.0)
            usd += HOURS * owned * offer.reserved_usd_per_h.get("1y", 0.0)
            paid[vendor] = paid.get(vendor, 0.0) + usd
        for way in several:
            if way.api is not None:
                vendor = rules.of_api[way.api][0]
                paid[vendor] = paid.get(vendor, 0.0) + way.bills[t]
        for vendor, fixed in rules.usd_per_month.items():
            if any(any(counts) for g, counts in running.items() if vendor in rules.of_offer[g]):
                paid[vendor] = paid.get(vendor, 0.0) + fixed
        if any(paid.get(vendor, 0.0) > most * (1 + 1e-9) for vendor, most in rules.most_usd.items()):
            return math.inf
        total += sum(paid.values())
    return total / SLOTS


def ways(case: Case, pool: Pool) -> list[Way]:
    found = []
    for api in (*pool.apis, None):
        price = None if api is None else float(api.usd_per_request[0])
        if price is not None and api is not None:
            bills = tuple(3600 * HOURS * float(rate) * price for rate in pool.rate_rps[:, 0])
            found.append(Way("", (0,) * SLOTS, api.key, bills))
        for d in pool.deployments:
            seconds = float(d.seconds_per_request[0])
            most = [replicas_for(RULE, float(rate) * seconds) for rate in pool.rate_rps[:, 0]]
            for counts in itertools.product(*(range(n + 1) for n in most)):
                rest = []
                for t, n in enumerate(counts):
                    rate = float(pool.rate_rps[t, 0])
                    left = rate - min(rate, max_utilization(RULE, n) / seconds)
                    rest.append(left if left > 1e-9 * rate else 0.0)
                if any(counts) and (price is not None or not any(rest)):
                    bills = tuple(3600 * HOURS * left * (price or 0.0) for left in rest)
                    found.append(Way(d.offer, counts, api.key if api and any(rest) else None, bills))
    return found
