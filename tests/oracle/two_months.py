"""Tiny fleets of two months, each of one slot, to try limits on.

One length of requests, instances of one GPU, no mixes; one offer has a commitment too.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from problems.fleet_problem import Offer
from problems.recipes.pools import Api, Deployment, Pool
from problems.staffing import Staffing
from tests.oracle.rules import max_utilization, replicas_for
from tests.support.fleets import Case

RULE = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=16.0, min_replicas=1)
HOURS, SLOTS = 730.0, 2


def random_parts(
    rng: np.random.Generator, slots: int, most_rps: float
) -> tuple[dict[str, Offer], list[Api], list[Pool]]:
    """Three offers, two APIs, and one or two workloads on some of them."""
    offers = {g: Offer(g, "h", 1, on_demand_usd_per_h=float(rng.uniform(0.8, 1.2))) for g in ("g0", "g1", "g2")}
    apis = [Api(key, np.array([rng.uniform(0.6, 2.5) / 3600])) for key in ("a0", "a1")]
    pools = []
    for w in ("w0", "w1")[: int(rng.integers(1, 3))]:
        some = [g for g in offers if rng.random() < 0.8] or ["g0"]
        deployments = tuple(
            Deployment(f"{w} {g}", g, 1, np.array([rng.uniform(0.8, 1.3)]), RULE, staffing_in_a_mix=None) for g in some
        )
        sold = tuple(api for api in apis if rng.random() < 0.7)
        pools.append(Pool(w, (w,), rng.uniform(0.2, most_rps, (slots, 1)), 1.0, False, deployments, sold))
    return offers, apis, pools


def two_month_case(seed: int) -> Case:
    offers, _, pools = random_parts(np.random.default_rng([seed, 7]), SLOTS, most_rps=1.8)
    offers["g0"] = replace(offers["g0"], reserved_usd_per_h={"1y": 0.6 * (offers["g0"].on_demand_usd_per_h or 0.0)})
    return Case(tuple(pools), offers, np.full(SLOTS, HOURS), np.arange(SLOTS))


@dataclass(frozen=True)
class Way:
    """One workload: instances of an offer, and the bill of an API, in each month."""

    offer: str
    counts: tuple[int, ...]
    api: str | None
    bills: tuple[float, ...]


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
