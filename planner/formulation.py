"""From a case to the optimizer's view of it: pools with their deployments, and offers with their prices."""

from __future__ import annotations

import numpy as np

from planner.candidates import Candidate, Candidates, sellable
from planner.case import Case, Workload
from planner.slots import Slot, rates_rps
from problems.fleet import Fleet, Offer
from problems.recipes import Api, Deployment, Pool, recipes_of


def formulate(case: Case, candidates: Candidates, slots: tuple[Slot, ...]) -> Fleet:
    """The fleet problem of a case: every recipe of every pool, and all that can be bought."""
    pools = [pool_of(case, w, candidates.accepted[w.name], slots) for w in case.workloads]
    return Fleet(
        workloads=tuple(w.name for w in case.workloads),
        slot_hours=np.array([s.hours_per_month for s in slots]),
        slot_month=np.array([s.month for s in slots]),
        offers={key: offer_of(case, key) for key, offer in case.offers.items() if sellable(case, offer)},
        recipes=tuple(recipe for pool in pools for recipe in recipes_of(pool)),
        max_gpus=case.limits.max_gpus,
        budget_usd_per_month=case.limits.budget_usd_per_month,
        team_usd_per_month=case.engineers_usd_per_month,
    )


def pool_of(case: Case, workload: Workload, candidates: tuple[Candidate, ...], slots: tuple[Slot, ...]) -> Pool:
    """A dedicated pool: one workload by itself."""
    shares = np.array([b.share_frac for b in workload.buckets])
    return Pool(
        key=workload.name,
        workloads=(workload.name,),
        rate_rps=rates_rps(workload, slots)[:, None] * shares,
        critical_share=workload.critical_share_frac,
        spot_allowed="spot" in case.purchase and workload.critical_share_frac < 1,
        deployments=tuple(deployment_of(c) for c in candidates),
        apis=tuple(Api(key, request_usd(case, workload, key)) for key in allowed_apis(case, workload)),
    )


def allowed_apis(case: Case, workload: Workload) -> tuple[str, ...]:
    return case.menu_apis if workload.api_allowed else ()


def request_usd(case: Case, workload: Workload, api: str) -> np.ndarray:
    """Price of one request of each bucket at an API [bucket]."""
    price = case.apis[api].request_usd
    return np.array(
        [price(b.input_tokens, workload.cached_tokens(b.input_tokens), b.output_tokens) for b in workload.buckets]
    )


def offer_of(case: Case, key: str) -> Offer:
    """An offer at the prices of the options on the menu; spot at its median."""
    entry = case.offers[key]
    on_demand = entry.prices.on_demand if "on-demand" in case.purchase else None
    spot = entry.prices.spot if "spot" in case.purchase else None
    reserved = {k: p.usd_per_h for k, p in entry.prices.reserved().items() if k in case.purchase}
    return Offer(
        key=key,
        gpu=entry.gpu,
        box=entry.gpus,
        on_demand_usd_per_h=on_demand.usd_per_h if on_demand else None,
        spot_usd_per_h=spot.p50_usd_per_h if spot else None,
        reserved_usd_per_h=reserved,
        max_instances=case.limits.max_instances.get(key),
    )


def deployment_of(c: Candidate) -> Deployment:
    return Deployment(
        key=c.key,
        offer=c.offer_key,
        gpus_per_replica=c.machine.gpus,
        seconds_per_request=c.seconds_per_request,
        staffing=c.staffing,
    )
