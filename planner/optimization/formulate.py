"""From a case to the optimizer's view of it: pools with their deployments, and offers with their prices."""

from __future__ import annotations

import numpy as np

from planner.candidates.candidate import Candidate
from planner.candidates.enumerate import Candidates
from planner.candidates.pools import PoolSpec
from planner.candidates.staffing import load_factor_by_slot, rate_cv_together, staffing_alone
from planner.case.allowances import covers_of
from planner.case.api_limits import limits_of_apis
from planner.case.apis import allowed_apis, cache_usd_per_h, request_usd
from planner.case.case import Case
from planner.case.menu import held_instances, sellable
from planner.case.power import site_of
from planner.case.quarters import held_usd_per_month
from planner.case.slots import Slot, rates_rps, slots_before, window_of
from planner.case.terms import is_long
from planner.catalog.terms import is_bought
from planner.optimization.vendors import vendor_rules
from problems.fleet_problem import FleetProblem, Offer, fleet_of
from problems.power import PowerLimit
from problems.recipes.pools import Api, Deployment, Pool
from problems.staffing import Staffing
from solvers.backends.clock import check


def formulate(case: Case, candidates: Candidates, slots: tuple[Slot, ...]) -> FleetProblem:
    """The fleet problem of a case: every pool with all that may serve it, and all that can be bought."""
    pools = candidates.pools.values()
    return fleet_of(
        workloads=tuple(w.name for w in case.workloads),
        pools=[pool_of(case, g, candidates.accepted[key], slots) for key, g in candidates.pools.items()],
        offers={
            key: offer_of(case, key)
            for key, offer in case.offers.items()
            if sellable(case, offer) or held_instances(case, key)
        },
        slot_hours=np.array([s.hours_per_month for s in slots]),
        slot_month=np.array([s.month for s in slots]),
        slot_before=slots_before(slots),
        max_gpus=case.limits.max_gpus,
        max_gpu_types=case.limits.max_gpu_types,
        month_weight=np.array([m.weight for m in case.months]) if case.months else None,
        budget_usd_per_month=budget_left(case),
        budget_usd_on_average=average_left(case),
        power=power_limit(case),
        api_limits=tuple(limits_of_apis(case, slots, lambda w: [g.key for g in pools if g.workloads == (w.name,)])),
        team_usd_per_month=case.engineers_usd_per_month,
        vendors=vendor_rules(case),
        allowances=covers_of(case, lambda api, w: [(g.key, api) for g in pools if g.workloads == (w.name,)]),
    )


def power_limit(case: Case) -> PowerLimit | None:
    """What boxes draw, where the policy limits that; offers whose power is not known are on no such menu."""
    most_kw, power = case.limits.power_kw, case.power
    if power is None or most_kw is None:
        return None
    offers = {key: offer for key, offer in case.offers.items() if offer.gpu in power.gpus}
    sites = {key: site_of(power, offer) for key, offer in offers.items()}
    gpus = {key: power.gpus[offer.gpu] for key, offer in offers.items()}
    return PowerLimit(
        box_kw={k: sites[k].pue * o.gpus * (gpus[k].host_w + gpus[k].idle_w) / 1e3 for k, o in offers.items()},
        gpu_kw={k: sites[k].pue * (gpus[k].most_w - gpus[k].idle_w) / 1e3 for k in offers},
        most_kw=most_kw,
    )


def budget_left(case: Case) -> float | None:
    """What holdings leave of the budget."""
    budget = case.limits.budget_usd_per_month
    return None if budget is None else budget - held_usd_per_month(case)


def average_left(case: Case) -> float | None:
    """What holdings leave, a month, of a budget of several months: a plan of one quarter may spend its share."""
    limits = case.limits
    if limits.budget_usd is None or limits.budget_months is None:
        return None
    return limits.budget_usd / limits.budget_months - held_usd_per_month(case)


def pool_of(case: Case, group: PoolSpec, candidates: tuple[Candidate, ...], slots: tuple[Slot, ...]) -> Pool:
    """A group with those who may serve it; what is shared is carried by its replicas as a whole."""
    check()
    caches = zip(group.members, group.caching, strict=True)
    return Pool(
        key=group.key,
        workloads=group.workloads,
        rate_rps=group_rates_rps(group, slots),
        critical_share=group.critical_share,
        spot_allowed="spot" in case.purchase and group.critical_share < 1,
        deployments=tuple(deployment_of(case, c, slots) for c in candidates),
        apis=() if group.shared else apis_of(case, group),
        caching=group.caching_name,
        fixed_usd_per_h=sum((cache_usd_per_h(case, w, option, slots) for w, option in caches), np.zeros(len(slots))),
        shed_usd_per_request=None if group.shared or group.deadline_h is not None else shed_usd(group),
        max_deployments=case.limits.max_deployments if group.may_mix(case) else 1,
        window=None if group.deadline_h is None else window_of(group.deadline_h, slots),
    )


def group_rates_rps(group: PoolSpec, slots: tuple[Slot, ...]) -> np.ndarray:
    """Requests that reach GPUs or APIs, the buckets of several workloads one after the other [slot, bucket]."""
    shares = np.array([b.share_frac for b in group.traffic.buckets])
    by_member = np.stack([rates_rps(w, slots) for w in group.seen], axis=1)
    return by_member[:, group.traffic.member_of] * shares


def apis_of(case: Case, group: PoolSpec) -> tuple[Api, ...]:
    """Providers keep prefixes whatever is cached on this side."""
    (workload,) = group.members
    return tuple(Api(key, request_usd(case, workload, key)) for key in allowed_apis(case, workload))


def shed_usd(group: PoolSpec) -> np.ndarray | None:
    """Penalty of shedding a request, whatever its length [bucket]."""
    usd = group.members[0].shed_usd_per_request
    return None if usd is None else np.full(len(group.traffic.buckets), usd)


def deployment_of(case: Case, c: Candidate, slots: tuple[Slot, ...]) -> Deployment:
    """One that cannot serve all lengths is part of a mix, or leaves the others to an API."""
    in_a_mix = c.staffing_in_a_mix
    return Deployment(
        key=c.key,
        offer=c.offer_key,
        gpus_per_replica=c.machine.gpus,
        replica=c.replica_name,
        seconds_per_request=c.seconds_per_request,
        staffing=in_a_mix if in_a_mix and not c.replica.serves_all else _staffing(case, c, slots),
        variant=c.variant,
        staffing_in_a_mix=in_a_mix,
        spot_allowed=c.spot_allowed,
        alone=c.alone or not (c.replica.serves_all or c.some_lengths),
        replaced_by=c.replaced_by,
        spot_zones=c.spot_zones,
    )


def _staffing(case: Case, c: Candidate, slots: tuple[Slot, ...]) -> Staffing:
    """The rule where it serves the pool alone."""
    factor = load_factor_by_slot(c.load_factors, slots)
    return staffing_alone(case, c.replica, c.pool.deadline_h is not None, _rate_cv(case, c, slots), factor)


def _rate_cv(case: Case, c: Candidate, slots: tuple[Slot, ...]) -> float | np.ndarray:
    members = c.replica.traffic.members
    if not c.pool.shared:
        return members[0].rate_cv
    by_bucket = group_rates_rps(c.pool, slots) * c.seconds_per_request
    load = by_bucket @ (c.replica.traffic.member_of[:, None] == np.arange(len(members)))
    return rate_cv_together(case, load, [w.rate_cv for w in members])


def offer_of(case: Case, key: str) -> Offer:
    """An offer at the prices of the options on the menu; spot at its median, commitments as they come to an hour.

    Terms of more than a year outlast the quarter, and are for a horizon to decide (planner/optimization/horizon.py). Of
    servers that are bought the quarter pays its months of their life.
    """
    entry = case.offers[key]
    on_demand = entry.prices.on_demand if "on-demand" in case.purchase else None
    spot = entry.prices.spot if "spot" in case.purchase else None
    apart = bool(case.limits.spread) and case.limits.min_replicas > 1 and entry.gpus > 1
    sold = {k: p.usd_per_h for k, p in entry.prices.reserved().items() if k in case.purchase}
    reserved = {k: usd for k, usd in sold.items() if is_bought(k) or not is_long(k)}
    return Offer(
        key=key,
        gpu=entry.gpu,
        box=entry.gpus,
        on_demand_usd_per_h=on_demand.usd_per_h if on_demand else None,
        spot_usd_per_h=spot.p50_usd_per_h if spot else None,
        reserved_usd_per_h=reserved,
        usd_per_gpu_h=entry.prices.bought.usd_per_gpu_h if entry.prices.bought else 0.0,
        max_instances=case.limits.max_instances.get(key),
        start_h=case.start.instance_s / 3600,
        on_hand=held_instances(case, key),
        fewest=2 if apart else 1,
        fewest_firm=2 if apart and entry.spot_zones == 1 else 1,
    )
