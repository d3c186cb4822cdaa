"""Every pool is served: by deployments that may, with enough replicas, enough of them safe from a spot reclaim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from planner.case.case import Workload
from planner.checker.checked import Checked
from planner.checker.deployment import (
    drafts_bring_what_was_measured,
    prefixes_are_found,
    promises_hold,
    starts_in_time,
)
from planner.checker.figures import REL
from planner.checker.flows import ALMOST_NOTHING, requests_go_where_they_may
from planner.checker.lengths import lengths_are_those_let_in
from planner.checker.per_token import times_per_token_are_kept
from planner.checker.staffing import Rule, deviations, nobody_starves_the_others, rate_cv_by_slot, sharing_is_allowed
from planner.plan.account.flows import Served
from planner.plan.plan import DeploymentRecord, PoolPlan


def pools_are_served(checked: Checked) -> Iterator[str]:
    for pool in checked.plan.pools:
        members = checked.account.members(pool)
        for s in members:
            for problem in _workload_is_served(checked, pool, s):
                yield f"{s.w.name}: {problem}"
        for problem in _pool_is_served(checked, pool, members):
            yield f"{pool.key}: {problem}"


def _workload_is_served(checked: Checked, pool: PoolPlan, s: Served) -> Iterator[str]:
    yield from caching_is_allowed(s.w, s.decided.caching)
    yield from requests_go_where_they_may(checked, pool, s)
    yield from lengths_are_those_let_in(s.w)


def caching_is_allowed(w: Workload, option: str) -> Iterator[str]:
    if option not in w.caching:
        yield f"its caching is {option}, which is not among {', '.join(w.caching)}"


def _pool_is_served(checked: Checked, pool: PoolPlan, members: list[Served]) -> Iterator[str]:
    yield from sharing_is_allowed(checked, pool, members)
    most = checked.case.limits.max_deployments
    if len(pool.deployments) > most:
        yield f"{len(pool.deployments)} deployments, {most} allowed"
    if len(pool.deployments) > 1 and (len(members) > 1 or members[0].w.deadline_h is not None):
        yield "several deployments serve what is shared or may wait"
    variants = {f"{d.deployment.model} {d.deployment.quantization}" for d in pool.deployments}
    if len(variants) > 1:
        yield f"its answers depend on who gives them: {' or '.join(sorted(variants))}"
    if not pool.deployments:
        return
    yield from nobody_starves_the_others(checked, pool, members)
    for k in range(len(pool.deployments)):
        yield from _deployment_serves(checked, pool, members, k)


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


def staffed(checked: Checked, pool: PoolPlan, k: int) -> Staffed:
    """The rule for the k-th deployment of a pool."""
    case, members, record = checked.case, checked.account.members(pool), pool.deployments[k].deployment
    may_wait = members[0].w.deadline_h is not None
    critical = max(s.w.critical_share_frac for s in members)
    shares = checked.account.traffic(pool).request_shares
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
            load_factor=_load_factor(checked, pool, record, t, in_a_mix or may_wait),
        )
        for t, cv in enumerate(rate_cv_by_slot(checked, pool, members))
    ]
    return Staffed(
        in_a_mix=in_a_mix,
        may_wait=may_wait,
        rules=rules,
        critical_share=critical,
        spot="spot" in case.purchase and critical < 1 and (starts_in_time(case, record) or critical == 0),
        zones=record.spot_zones,
    )


def _load_factor(checked: Checked, pool: PoolPlan, record: DeploymentRecord, t: int, all_hours: bool) -> float:
    """The least that holds in a slot; in mixes and for work that waits, the least of any hour."""
    kind, slot = record.variant.key_on(record.gpu), checked.plan.slots[t]
    hour, factor = slot.hour + (24 if slot.day == "weekend" else 0), 1.0
    for f in checked.case.load_factors or ():
        holds = all_hours or f.hours is None or hour in f.hours
        if holds and (f.workloads, f.replica) == (pool.workloads, kind):
            factor = min(factor, f.factor)
    return factor


def _deployment_serves(checked: Checked, pool: PoolPlan, members: list[Served], k: int) -> Iterator[str]:
    planned, replica = pool.deployments[k], checked.account.replica(pool, k)
    if not any(planned.replicas_by_slot):
        yield "it has a deployment without replicas"
        return
    yield from promises_hold(members, planned.deployment)
    yield from times_per_token_are_kept(members, planned, replica)
    yield from drafts_bring_what_was_measured(checked.case, members, planned.deployment)
    yield from prefixes_are_found(checked.case, members, planned.deployment, replica)
    yield from _no_length_is_left(checked, pool, k)
    yield from _replicas_are_enough(checked, pool, members, k, staffed(checked, pool, k), planned.load_by_slot)


def busy(rates: Sequence[float], seconds_per_request: Sequence[float | None]) -> float:
    """Replicas that these requests keep busy, without those that the deployment cannot serve."""
    return sum(rate * u for rate, u in zip(rates, seconds_per_request, strict=True) if u is not None)


def _no_length_is_left(checked: Checked, pool: PoolPlan, k: int) -> Iterator[str]:
    """A deployment is sent nothing that it cannot serve."""
    seconds = pool.deployments[k].deployment.seconds_per_request
    demand = [s.demand for s in checked.account.members(pool)]
    for t, rates in enumerate(checked.account.carried(pool, k)):
        everything = [rate for member in demand for rate in member[t]]
        left = (r for r, u, whole in zip(rates, seconds, everything, strict=True) if u is None and r > REL * whole)
        if any(r > ALMOST_NOTHING for r in left):
            yield f"slot {t}: {pool.deployments[k].deployment.key} is sent requests of a length that it cannot serve"


def _replicas_are_enough(
    checked: Checked, pool: PoolPlan, members: list[Served], k: int, how: Staffed, load: Sequence[float]
) -> Iterator[str]:
    planned = pool.deployments[k]
    seconds = planned.deployment.seconds_per_request
    for t, (replicas, firm) in enumerate(zip(planned.replicas_by_slot, planned.firm_replicas_by_slot, strict=True)):
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
                at_most = min(at_most, busy([rate for s in members for rate in s.demand[t].tolist()], seconds))
            least, most = rule.firm(replicas, at_most * how.critical_share, how.zones)
        if not least <= firm <= most:
            yield f"slot {t}: {firm} firm replicas, but the critical load needs {least}"
