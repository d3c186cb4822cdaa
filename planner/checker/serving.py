"""Every pool is served: by deployments that may, with enough replicas, enough of them safe from a spot reclaim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from planner.checker.deployment import (
    deployment_is_allowed,
    prefix_cache_is_as_told,
    replica_is_as_told,
    starts_in_time,
    ttft_holds,
)
from planner.checker.flows import ALMOST_NOTHING, requests_go_where_they_may
from planner.checker.lengths import refusals_are_told
from planner.checker.prices import caching_is_allowed
from planner.checker.staffing import Rule, deviations, nobody_starves_the_others, rate_cv_by_slot, sharing_is_allowed
from planner.plan.plan import DeploymentRecord, PoolPlan
from planner.plan.view import REL, PlanView, Served, busy, differs, is_not, replica_of, traffic_of


def pools_are_served(facts: PlanView) -> Iterator[str]:
    for pool in facts.plan.pools:
        members = facts.members(pool)
        for s in members:
            for problem in _workload_is_served(facts, pool, s):
                yield f"{s.w.name}: {problem}"
        for problem in _pool_is_served(facts, pool, members):
            yield f"{pool.key}: {problem}"


def _workload_is_served(facts: PlanView, pool: PoolPlan, s: Served) -> Iterator[str]:
    yield from caching_is_allowed(s.w, s.told.caching)
    yield from requests_go_where_they_may(facts, pool, s)
    told, used = s.told, [d.deployment for d in pool.deployments]
    yield from is_not("its model", " + ".join(told.models), " + ".join(d.model for d in used))
    yield from is_not("its quantization", " + ".join(told.quantizations), " + ".join(d.quantization for d in used))
    requests = facts.requests_per_month(s.w)
    shed = facts.sent_per_month(s, told.shed_flows)
    found = requests - facts.requests_per_month(s.seen)
    yield from differs("requests_per_month", told.requests_per_month, requests)
    yield from refusals_are_told(facts, s)
    yield from differs("tokens_per_month", told.tokens_per_month, facts.tokens_per_month(s))
    yield from differs("cache_share_frac", told.cache_share_frac, found / requests)
    yield from differs("api_share_frac", told.api_share_frac, facts.sent_per_month(s, told.api_flows) / requests)
    yield from differs("shed_share_frac", told.shed_share_frac, shed / requests)
    yield from differs("shed_requests_per_month", told.shed_requests_per_month, shed)


def _pool_is_served(facts: PlanView, pool: PoolPlan, members: list[Served]) -> Iterator[str]:
    yield from sharing_is_allowed(facts, members)
    most = facts.case.limits.max_deployments
    if len(pool.deployments) > most:
        yield f"{len(pool.deployments)} deployments, {most} allowed"
    if len(pool.deployments) > 1 and (len(members) > 1 or members[0].w.deadline_h is not None):
        yield "several deployments serve what is shared or may wait"
    variants = {f"{d.deployment.model} {d.deployment.quantization}" for d in pool.deployments}
    if len(variants) > 1:
        yield f"its answers depend on who gives them: {' or '.join(sorted(variants))}"
    if not pool.deployments:
        return
    yield from nobody_starves_the_others(facts, pool, members)
    for k, d in enumerate(pool.deployments):
        yield from deployment_is_allowed(facts.case, members, d.deployment)
        yield from _deployment_serves(facts, pool, members, k)


@dataclass(frozen=True, eq=False)
class Staffed:
    """How a deployment of a pool is staffed."""

    in_a_mix: bool
    """it serves some of the lengths only, whichever"""
    may_wait: bool
    """no margin and no TTFT for work that waits"""
    rules: list[Rule]
    """[slot]"""
    critical_share: float
    spot: bool
    zones: int


def staffed(facts: PlanView, pool: PoolPlan, k: int) -> Staffed:
    """The rule for the k-th deployment of a pool."""
    case, members, record = facts.case, facts.members(pool), pool.deployments[k].deployment
    may_wait = members[0].w.deadline_h is not None
    critical = max(s.w.critical_share_frac for s in members)
    shares = traffic_of(facts, members).request_shares
    in_a_mix = len(pool.deployments) > 1 or None in record.seconds_per_request
    rules = [
        Rule(
            z=0.0 if may_wait else deviations(max(s.w.ttft.percentile for s in members)),
            arrival_scv=sum(share * s.w.arrival_scv for share, s in zip(shares, members, strict=True)),
            rate_cv=0.0 if may_wait else cv,
            in_flight=record.staffing_in_flight,
            max_utilization=record.most_load_frac,
            routing=record.routing,
            minimum=case.limits.min_replicas,
            load_factor=_load_factor(facts, pool, record, t, in_a_mix or may_wait),
        )
        for t, cv in enumerate(rate_cv_by_slot(facts, pool, members))
    ]
    return Staffed(
        in_a_mix=in_a_mix,
        may_wait=may_wait,
        rules=rules,
        critical_share=critical,
        spot="spot" in case.purchase and critical < 1 and (starts_in_time(case, record) or critical == 0),
        zones=record.spot_zones,
    )


def _load_factor(facts: PlanView, pool: PoolPlan, record: DeploymentRecord, t: int, all_hours: bool) -> float:
    """The least that holds in a slot; in mixes and for work that waits, the least of any hour."""
    kind, slot = record.variant.key_on(record.gpu), facts.plan.slots[t]
    hour, factor = slot.hour + (24 if slot.day == "weekend" else 0), 1.0
    for f in facts.case.load_factors or ():
        holds = all_hours or f.hours is None or hour in f.hours
        if holds and (f.workloads, f.replica) == (pool.workloads, kind):
            factor = min(factor, f.factor)
    return factor


def _deployment_serves(facts: PlanView, pool: PoolPlan, members: list[Served], k: int) -> Iterator[str]:
    told = pool.deployments[k]
    record, how = told.deployment, staffed(facts, pool, k)
    replica = replica_of(facts.case, traffic_of(facts, members), record)
    if how.in_a_mix:  # it may leave lengths that it could serve to others
        replica = replica.for_lengths(np.array([u is not None for u in record.seconds_per_request]))
    a_month = [facts.a_month(list(rates)) for rates in zip(*facts.carried(pool, k), strict=True)]
    yield from replica_is_as_told(members, record, replica, how.in_a_mix, how.may_wait, a_month)
    yield from prefix_cache_is_as_told(facts.case, members, record, replica)
    offer = facts.case.offers[record.offer]
    zones = offer.spot_zones if offer.gpus == record.gpus_per_replica and not how.in_a_mix else 1
    yield from is_not("the number of spot_zones that count", record.spot_zones, zones)
    if not any(told.replicas_by_slot):
        yield "it has a deployment without replicas"
        return
    load = facts.load(pool, k)
    yield from _no_length_is_left(facts, pool, k)
    yield from _replicas_are_enough(facts, pool, members, k, how, load)
    loads = {(x / n, n) for x, n in zip(load, told.replicas_by_slot, strict=True) if n}
    yield from ttft_holds(members, record, replica, loads, how.in_a_mix, how.may_wait)
    most = max(load)
    for t, (claimed, true) in enumerate(zip(told.load_by_slot, load, strict=True)):
        yield from differs(f"the load of slot {t}", claimed, true, of=most)
    utilization = facts.a_month(load) / facts.a_month(told.replicas_by_slot)
    yield from differs("utilization_frac", told.utilization_frac, utilization)


def _no_length_is_left(facts: PlanView, pool: PoolPlan, k: int) -> Iterator[str]:
    """A deployment is sent nothing that it cannot serve."""
    seconds = pool.deployments[k].deployment.seconds_per_request
    demand = [s.demand for s in facts.members(pool)]
    for t, rates in enumerate(facts.carried(pool, k)):
        everything = [rate for member in demand for rate in member[t]]
        left = (r for r, u, whole in zip(rates, seconds, everything, strict=True) if u is None and r > REL * whole)
        if any(r > ALMOST_NOTHING for r in left):
            yield f"slot {t}: {pool.deployments[k].deployment.key} is sent requests of a length that it cannot serve"


def _replicas_are_enough(
    facts: PlanView, pool: PoolPlan, members: list[Served], k: int, how: Staffed, load: list[float]
) -> Iterator[str]:
    told = pool.deployments[k]
    seconds = told.deployment.seconds_per_request
    for t, (replicas, firm) in enumerate(zip(told.replicas_by_slot, told.firm_replicas_by_slot, strict=True)):
        rule = how.rules[t]
        needed, _ = rule.needed(load[t])
        if replicas < needed:
            yield f"slot {t}: {replicas} replica{'s' * (replicas != 1)} where {needed} are needed"
        least = most = replicas
        if how.spot:
            at_most = load[t]
            if how.in_a_mix or how.may_wait:
                # What is sent there may change with the hour, so all that so many replicas may carry counts.
                at_most = rule.carried(replicas)
            if how.in_a_mix:
                at_most = min(at_most, busy([rate for s in members for rate in s.demand[t]], seconds))
            least, most = rule.firm(replicas, at_most * how.critical_share, how.zones)
        if not least <= firm <= most:
            yield f"slot {t}: {firm} firm replicas, but the critical load needs {least}"
