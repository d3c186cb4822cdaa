"""Tiny fleets whose vendors must serve a share of the requests, and their optimum by trying everything.

One length of requests, instances of one GPU on demand and no mixes: what each vendor serves follows from the counts.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from problems.fleet_problem import Offer
from problems.recipes.pools import Api, Deployment, Pool
from problems.recipes.vendors import Vendor, Vendors
from problems.staffing import Staffing
from tests.oracle.rules import max_utilization, replicas_for
from tests.support.fleets import Case

RULE = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=16.0, min_replicas=1)


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


def share_case(seed: int) -> Case:
    rng = np.random.default_rng([seed, 6])
    slots, hours = 2, np.array([300.0, 430.0])
    offers, apis, pools = random_parts(rng, slots, most_rps=2.6)
    of_offer: dict[str, tuple[Vendor, ...]] = {g: (("provider", "pqq"[k]),) for k, g in enumerate(offers)}
    requests = sum(float(3600 * hours @ pool.rate_rps.sum(axis=1)) for pool in pools)
    rules = Vendors(
        of_offer=of_offer,
        of_api={api.key: (("api", api.key),) for api in apis},
        usd_per_month={("api", "a0"): float(rng.choice([0.0, 30.0]))},
        at_most={"api": 1} if rng.random() < 0.3 else {},
        least_share={
            kind: float(rng.choice([0.05, 0.1, 0.3, 0.5])) for kind in ("provider", "api") if rng.random() < 0.8
        },
        requests_per_month=requests,
    )
    return Case(tuple(pools), offers, hours, np.zeros(slots, dtype=int), vendors=rules)


@dataclass(frozen=True)
class _Way:
    """One workload over the month: what it costs, and the requests that each vendor serves."""

    usd: float
    served: dict[Vendor, float]


def least_usd(case: Case) -> float:
    """What the cheapest plan costs; infinite where there is none."""
    rules, best = case.vendors, math.inf
    for ways in itertools.product(*(_ways(case, pool) for pool in case.pools)):
        usd = sum(way.usd for way in ways)
        served: dict[Vendor, float] = {}
        for way in ways:
            for vendor, requests in way.served.items():
                served[vendor] = served.get(vendor, 0.0) + requests
        usd += sum(each for vendor, each in rules.usd_per_month.items() if vendor in served)
        few = all(sum(kind == k for k, _ in served) <= most for kind, most in rules.at_most.items())
        enough = all(n >= rules.least_share.get(x[0], 0.0) * rules.requests_per_month - 1e-6 for x, n in served.items())
        if few and enough and usd < best:
            best = usd
    return best


def _ways(case: Case, pool: Pool) -> list[_Way]:
    found = []
    for api in (*pool.apis, None):
        if api is not None:
            each = 3600 * case.slot_hours * pool.rate_rps[:, 0]
            found.append(
                _Way(float(each.sum() * api.usd_per_request[0]), {case.vendors.of_api[api.key][0]: each.sum()})
            )
        for d in pool.deployments:
            seconds = float(d.seconds_per_request[0])
            most = [replicas_for(RULE, float(rate) * seconds) for rate in pool.rate_rps[:, 0]]
            for counts in itertools.product(*(range(n + 1) for n in most)):
                way = _way(case, pool, d, api, counts)
                found += [way] if way is not None else []
    return found


def _way(case: Case, pool: Pool, d: Deployment, api: Api | None, counts: tuple[int, ...]) -> _Way | None:
    kept_all, rest_all, usd = 0.0, 0.0, 0.0
    for t, n in enumerate(counts):
        rate, hours = float(pool.rate_rps[t, 0]), float(case.slot_hours[t])
        kept = min(rate, max_utilization(RULE, n) / float(d.seconds_per_request[0]))
        rest = rate - kept if rate - kept > 1e-9 * rate else 0.0
        if rest and api is None:
            return None
        usd += n * hours * (case.offers[d.offer].on_demand_usd_per_h or 0.0)
        usd += 3600 * hours * rest * (float(api.usd_per_request[0]) if api else 0.0)
        kept_all, rest_all = kept_all + 3600 * hours * kept, rest_all + 3600 * hours * rest
    served: dict[Vendor, float] = {}
    if any(counts):
        served[case.vendors.of_offer[d.offer][0]] = kept_all
    if rest_all and api is not None:
        served[case.vendors.of_api[api.key][0]] = rest_all
    return _Way(usd, served)
