"""What a plan costs if demand differs from its forecast after everything is signed.

Commitments stay, and so do deployments and the shares in which requests are routed; replicas follow the staffing rule,
what they need beyond the commitments is bought by the hour, and API bills follow the requests. This is arithmetic
without a search, so it is always there; a new plan for that demand may cost less.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache

from planner.checker.packing import boxes_needed
from planner.checker.prices import caches_usd_per_month, price_of
from planner.checker.serving import Staffed, staffed
from planner.checker.staffing import Rule
from planner.plan.plan import Plan
from planner.plan.study_records import DemandPoint
from planner.plan.view import PlanView, busy

MULTIPLES = (0.8, 1.2)
"""of the forecast"""


def other_demand(plan: Plan, multiples: tuple[float, ...] = MULTIPLES) -> tuple[DemandPoint, ...]:
    """The cost at each multiple of the forecast, by rising demand."""
    view = PlanView(plan)
    signed = plan.costs.reserved_usd_per_month + plan.costs.engineers_usd_per_month
    points = []
    for multiple in sorted(multiples):
        bill = _bill(view, multiple)
        cost = signed + bill.usd_per_month
        tokens = multiple * plan.tokens_per_month
        points.append(
            DemandPoint(
                multiple=multiple,
                cost_usd_per_month=cost,
                usd_per_1m_tokens=1e6 * cost / tokens if tokens else 0.0,
                beyond=tuple(_beyond(view, bill)),
            )
        )
    return tuple(points)


@dataclass
class _Bill:
    """What is paid beyond commitments and engineers, and the instances that it takes."""

    usd_per_month: float = 0.0
    instances: dict[str, list[int]] = field(default_factory=dict)
    """of an offer, commitments included [slot]"""


def _bill(view: PlanView, multiple: float) -> _Bill:
    bill = _Bill()
    used = _replicas(view, multiple)
    for offer in sorted({key for key, _ in used}):
        _buy(view, offer, {size: counts for (key, size), counts in used.items() if key == offer}, bill)
    for w in view.plan.workloads:
        fixed = caches_usd_per_month(view.case.cache_costs, w.caching)
        bill.usd_per_month += fixed + multiple * (w.api_cost_usd_per_month + w.caching_cost_usd_per_month - fixed)
    return bill


_Counts = tuple[list[int], list[int]]
"""replicas, and those of them that must not be spot [slot]"""


def _replicas(view: PlanView, multiple: float) -> dict[tuple[str, int], _Counts]:
    """By offer and GPUs a replica."""
    found: dict[tuple[str, int], _Counts] = {}
    for pool in view.plan.pools:
        demand = [s.demand for s in view.members(pool)]
        for k, told in enumerate(pool.deployments):
            how, record = staffed(view, pool, k), told.deployment
            key = (record.offer, record.gpus_per_replica)
            every, firm = found.setdefault(key, ([0] * len(view.slots), [0] * len(view.slots)))
            for t, load in enumerate(view.load(pool, k)):
                everything = busy([rate for member in demand for rate in member[t]], record.seconds_per_request)
                replicas = _needed(how.rules[t], multiple * load)
                every[t] += replicas
                firm[t] += _firm(how, t, replicas, multiple * load, multiple * everything)
    return found


@lru_cache(maxsize=100_000)
def _needed(rule: Rule, load: float) -> int:
    return rule.needed(load)[0]


@lru_cache(maxsize=100_000)
def _carried(rule: Rule, replicas: int) -> float:
    return rule.carried(replicas)


def _firm(how: Staffed, t: int, replicas: int, load: float, everything: float) -> int:
    """Replicas that a reclaim must not take; where routing may change, all that they may carry counts."""
    if not how.spot:
        return replicas
    rule = how.rules[t]
    if how.in_a_mix or how.may_wait:
        load = _carried(rule, replicas)
    if how.in_a_mix:
        load = min(load, everything)
    return rule.firm(replicas, load * how.critical_share, how.zones)[0]


def _buy(view: PlanView, offer: str, used: dict[int, _Counts], bill: _Bill) -> None:
    """Buy beyond the commitments, what may be reclaimed on spot where that is cheaper; starts are paid for."""
    box = view.case.offers[offer].gpus
    signed = sum(c.instances for c in view.plan.commitments if c.offer == offer)
    prices = {way: price_of(view.case, offer, way) for way in ("on-demand", "spot") if way in view.case.purchase}
    hourly: dict[str, float] = {way: price.usd_per_h for way, price in prices.items() if price is not None}
    cheapest = min(hourly, key=lambda way: hourly[way], default=None)
    bought: dict[str, list[int]] = {way: [0] * len(view.slots) for way in hourly}
    for t in view.slots:
        every = max(signed, boxes_needed(box, Counter({size: counts[0][t] for size, counts in used.items()})))
        firm = max(signed, boxes_needed(box, Counter({size: counts[1][t] for size, counts in used.items()})))
        if "on-demand" in bought:
            bought["on-demand"][t] += firm - signed
        if cheapest is not None:
            bought[cheapest][t] += every - firm
        bill.instances.setdefault(offer, []).append(every)
    start_h = view.case.start.instance_s / 3600
    for way, counts in bought.items():
        started = [max(0, n - counts[view.hour_before(t)]) for t, n in enumerate(counts)]
        hours = [n + start_h * more for n, more in zip(counts, started, strict=True)]
        bill.usd_per_month += hourly[way] * view.a_month(hours)


def _beyond(view: PlanView, bill: _Bill) -> list[str]:
    """Quotas that the fleet would exceed."""
    limits, offers = view.case.limits, view.case.offers
    found = []
    for offer, counts in bill.instances.items():
        most = limits.max_instances.get(offer)
        if most is not None and max(counts) > most:
            found.append(f"{max(counts)} x {offer}, {most} allowed")
    for gpu, most in limits.max_gpus.items():
        by_slot = [
            sum(counts[t] * offers[o].gpus for o, counts in bill.instances.items() if offers[o].gpu == gpu)
            for t in view.slots
        ]
        if max(by_slot) > most:
            found.append(f"{max(by_slot)} x {gpu}, {most} allowed")
    return found
