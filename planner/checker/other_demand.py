"""What a plan costs if demand differs from its forecast after everything is signed.

Commitments and held instances stay, and so do deployments, fixed costs and the shares in which requests are routed;
replicas follow the staffing rule, what they need beyond is bought by the hour, and API bills follow the requests. Where
an API already takes what a deployment does not, it takes the difference instead if that costs less for the deployments
of an offer together. This is arithmetic without a search, so it is always there; a new plan may cost less.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache

from planner.checker.packing import boxes_needed
from planner.checker.prices import caches_usd_per_month, held_boxes, price_of, request_usd
from planner.checker.serving import Staffed, staffed
from planner.checker.staffing import Rule
from planner.plan.plan import Plan, PoolPlan
from planner.plan.study_records import DemandPoint
from planner.plan.view import PlanView, busy

MULTIPLES = (0.8, 1.2)
"""of the forecast"""


def other_demand(plan: Plan, multiples: tuple[float, ...] = MULTIPLES) -> tuple[DemandPoint, ...]:
    """The cost at each multiple of the forecast, by rising demand."""
    view = PlanView(plan)
    costs = plan.costs
    signed = costs.reserved_usd_per_month + costs.engineers_usd_per_month + (costs.vendors_usd_per_month or 0.0)
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
    for w in view.plan.workloads:
        fixed = caches_usd_per_month(view.case.cache_costs, w.caching)
        bill.usd_per_month += fixed + multiple * (w.api_cost_usd_per_month + w.caching_cost_usd_per_month - fixed)
    ways = [_replicas(view, multiple, overflows) for overflows in (False, True)]
    for offer in sorted(ways[0]):
        least = min((_buy(view, offer, way[offer]) for way in ways), key=lambda found: found.usd_per_month)
        bill.usd_per_month += least.usd_per_month
        bill.instances |= least.instances
    return bill


_Counts = tuple[list[int], list[int]]
"""replicas, and those of them that must not be spot [slot]"""


@dataclass
class _Used:
    """What runs on an offer, and what its API bills are above those that follow the requests."""

    replicas: dict[int, _Counts] = field(default_factory=dict)
    """by the GPUs of one"""
    api_usd_per_month: float = 0.0


def _replicas(view: PlanView, multiple: float, overflows: bool) -> dict[str, _Used]:
    """By offer; `overflows`: an API takes what differs, where it takes something already."""
    found: dict[str, _Used] = {}
    for pool in view.plan.pools:
        demand = [s.demand for s in view.members(pool)]
        for k, told in enumerate(pool.deployments):
            how, record = staffed(view, pool, k), told.deployment
            used = found.setdefault(record.offer, _Used())
            loads = [multiple * load for load in view.load(pool, k)]
            if overflows and _may_overflow(view, pool):
                loads, more_usd = _overflowing(view, pool, how, multiple)
                used.api_usd_per_month += more_usd
            every, firm = used.replicas.setdefault(
                record.gpus_per_replica, ([0] * len(view.slots), [0] * len(view.slots))
            )
            for t, load in enumerate(loads):
                everything = busy([rate for member in demand for rate in member[t]], record.seconds_per_request)
                replicas = _needed(how.rules[t], load)
                every[t] += replicas
                firm[t] += _firm(how, t, replicas, load, multiple * everything)
    return found


def _may_overflow(view: PlanView, pool: PoolPlan) -> bool:
    """Whether one deployment serves every length of one workload, and an API what it does not carry."""
    members = view.members(pool)
    if len(members) > 1 or len(pool.deployments) > 1 or None in pool.deployments[0].deployment.seconds_per_request:
        return False
    told = members[0].told
    return told.api is not None and bool(told.api_flows) and not told.moves


def _overflowing(view: PlanView, pool: PoolPlan, how: Staffed, multiple: float) -> tuple[list[float], float]:
    """Loads where the running replicas are filled first and an API takes the rest, and what it bills more for that."""
    (s,), (told,) = view.members(pool), pool.deployments
    assert s.told.api is not None
    seconds, prices = told.deployment.seconds_per_request, request_usd(view.case, s.w, s.told.api)
    sent = view.flow(s.w, s.told.api_flows)
    loads, more_usd_per_h = [], []
    for t, load in enumerate(view.load(pool, 0)):
        at_api = busy(sent[t], seconds)
        rates = sent[t] if at_api else s.demand[t]
        each = busy(rates, seconds)
        usd_per_h = 3600 * sum(rate * usd for rate, usd in zip(rates, prices, strict=True)) / each if each else 0.0
        full = load if at_api else max(load, _carried(how.rules[t], told.replicas_by_slot[t]))
        loads.append(min(multiple * (load + at_api), full))
        more_usd_per_h.append(usd_per_h * (multiple * load - loads[-1]))
    return loads, view.a_month(more_usd_per_h)


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


def _buy(view: PlanView, offer: str, on_it: _Used) -> _Bill:
    """Buy beyond what is signed or held, what may be reclaimed on spot where that is cheaper; starts are paid for."""
    box = view.case.offers[offer].gpus
    bill, used = _Bill(on_it.api_usd_per_month), on_it.replicas
    signed = sum(c.instances for c in view.plan.commitments if c.offer == offer) + held_boxes(view.case, offer)
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
    return bill


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
