"""What a plan costs if demand differs from its forecast after everything is signed.

Commitments and held instances stay, and so do deployments, fixed costs and the shares in which requests are routed;
replicas follow the staffing rule, what they need beyond is bought by the hour, and API bills follow the requests; what
is signed of allowances covers both. Where an API already takes what a deployment does not, it takes the difference
instead if that costs less for the deployments of an offer together. This is arithmetic without a search, so it is
always there; a new plan may cost less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from planner.case.api_limits import limits_by_api
from planner.case.apis import cache_usd_per_h, request_usd
from planner.case.menu import held_instances
from planner.case.prices import price_of
from planner.plan.account.account import Account, account_of
from planner.plan.account.covered import Usage
from planner.plan.account.flows import Together, finite
from planner.plan.account.limits import shares_of_minutes
from planner.plan.account.replicas import boxes_filled, critical_share, may_be_reclaimed, staffing
from planner.plan.plan import Plan
from planner.plan.study_records import DemandPoint
from problems.staffing import Staffing

MULTIPLES = (0.8, 1.2)
"""of the forecast"""
NOTHING, ROUNDING = 1e-9, 1e-6
"""replicas kept busy that are none, and the share of a load that rounding may be"""


def other_demand(
    plan: Plan, multiples: tuple[float, ...] = MULTIPLES, account: Account | None = None
) -> tuple[DemandPoint, ...]:
    """The cost at each multiple of the forecast, by rising demand."""
    account = account or account_of(plan)
    costs = account.money.costs
    signed = costs.reserved_usd_per_month + costs.engineers_usd_per_month + (costs.vendors_usd_per_month or 0.0)
    signed += costs.bought_usd_per_month or 0.0
    points = []
    for multiple in sorted(multiples):
        bill = _bill(account, multiple)
        cost = signed + bill.usd_per_month + account.money.cover.of(bill.usage).net_usd_per_month
        tokens = multiple * account.money.tokens
        points.append(
            DemandPoint(
                multiple=multiple,
                cost_usd_per_month=cost,
                usd_per_1m_tokens=1e6 * cost / tokens if tokens else 0.0,
                beyond=(*_beyond(account, bill), *_beyond_minutes(account, multiple)),
            )
        )
    return tuple(points)


@dataclass
class _Bill:
    """What is paid beyond commitments and engineers, and the instances that it takes."""

    usd_per_month: float = 0.0
    instances: dict[str, np.ndarray] = field(default_factory=dict)
    """of an offer, commitments included [slot]"""
    usage: Usage = field(default_factory=dict)
    """that allowances may cover"""


def _bill(account: Account, multiple: float) -> _Bill:
    bill, money = _Bill(), account.money
    for s in account.served:
        stores = s.w.model_copy(update={"weekday_rps": (0.0,) * 24, "weekend_rps": (0.0,) * 24})
        fixed = account.a_month(cache_usd_per_h(account.case, stores, s.decided.caching, account.slots))
        follows = account.a_month(money.api_bill_usd_per_h(s) + money.caching_usd_per_h(s)) - fixed
        bill.usage[s.w.name] = multiple * money.api_bill_usd_per_h(s)
        bill.usd_per_month += fixed + multiple * follows
    ways = [_replicas(account, multiple, overflows) for overflows in (False, True)]
    for offer in sorted(ways[0]):
        least = min((_buy(account, offer, way[offer]) for way in ways), key=lambda found: found.usd_per_month)
        bill.usd_per_month += least.usd_per_month
        bill.instances |= least.instances
        bill.usage |= least.usage
    return bill


@dataclass
class _Used:
    """What runs on an offer, and what its API bills are above those that follow the requests."""

    replicas: dict[int, np.ndarray] = field(default_factory=dict)
    """by the GPUs of one: all of them, and those that must not be spot [2, slot]"""
    api_usd_per_month: float = 0.0


def _replicas(account: Account, multiple: float, overflows: bool) -> dict[str, _Used]:
    """By offer; `overflows`: an API takes what differs, where it takes something already."""
    found: dict[str, _Used] = {}
    for pool, k, d in account.hosted:
        demand = np.concatenate([s.demand for s in account.members(pool)], axis=1)
        everything = demand @ finite(account.seconds(pool, k))
        rule, used = staffing(account, pool, k), found.setdefault(d.offer, _Used())
        loads = multiple * account.load(pool, k)
        if overflows and _may_overflow(account, pool):
            loads, more_usd = _overflowing(account, pool, rule, multiple)
            used.api_usd_per_month += more_usd
        replicas = _fewest(rule, loads)
        both = np.stack([replicas, _firm(account, pool, k, rule, replicas, loads, multiple * everything)])
        used.replicas[d.gpus_per_replica] = used.replicas.get(d.gpus_per_replica, 0) + both
    return found


def _fewest(rule: Staffing, loads: np.ndarray) -> np.ndarray:
    """Replicas for these loads; what fills replicas but for rounding needs no more of them."""
    return rule.replicas(np.where(loads > NOTHING, loads * (1 - ROUNDING), 0.0))


def _may_overflow(account: Account, pool: Together) -> bool:
    """Whether one deployment serves every length of one workload, and an API what it does not carry.

    Not where the API takes so much in a minute only: what it had then to spare is not known.
    """
    decided, members = account.pool(pool), account.members(pool)
    if len(members) > 1 or len(decided.deployments) > 1 or not all(decided.deployments[0].serves):
        return False
    w = members[0].decided
    if any(api == w.api for api, _, _ in limits_by_api(account.case)):
        return False
    return w.api is not None and bool(w.api_flows) and not w.moves


def _overflowing(account: Account, pool: Together, rule: Staffing, multiple: float) -> tuple[np.ndarray, float]:
    """Loads where the running replicas are filled first and an API takes the rest, and what it bills more for that."""
    (s,), (d,) = account.members(pool), account.pool(pool).deployments
    assert s.decided.api is not None
    seconds, prices = finite(account.seconds(pool, 0)), request_usd(account.case, s.w, s.decided.api)
    load, sent = account.load(pool, 0), account.flow(s.w, s.decided.api_flows)
    at_api = sent @ seconds
    rates = np.where((at_api > 0)[:, None], sent, s.demand)
    each = rates @ seconds
    usd_per_h = np.divide(3600 * rates @ prices, each, out=np.zeros_like(each), where=each > 0)
    full = np.where(at_api > 0, load, np.maximum(load, rule.carried_load(np.array(d.replicas_by_slot))))
    loads = np.minimum(multiple * (load + at_api), full)
    return loads, account.a_month(usd_per_h * (multiple * load - loads))


def _firm(
    account: Account, pool: Together, k: int, rule: Staffing, replicas: np.ndarray, load: np.ndarray,
    everything: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Replicas that a reclaim must not take; where routing may change, all that they may carry counts."""
    if not may_be_reclaimed(account, pool, k):
        return replicas
    in_a_mix, offer = account.in_a_mix(pool, k), account.case.offers[account.pool(pool).deployments[k].offer]
    if in_a_mix or account.may_wait(pool):
        load = rule.carried_load(replicas)
    if in_a_mix:
        load = np.minimum(load, everything)
    whole = offer.gpus == account.pool(pool).deployments[k].gpus_per_replica and not in_a_mix
    spared = replicas - np.minimum(replicas, _fewest(rule, load * critical_share(account, pool)))
    return np.asarray(np.maximum(0, replicas - (offer.spot_zones if whole else 1) * spared))


def _buy(account: Account, offer: str, on_it: _Used) -> _Bill:
    """Buy beyond what is signed or held, what may be reclaimed on spot where that is cheaper; starts are paid for."""
    case, money = account.case, account.money
    bill = _Bill(on_it.api_usd_per_month + _energy_usd_per_month(account, offer, on_it))
    signed = sum(c.instances for c in money.commitments if c.offer == offer) + held_instances(case, offer)
    prices = {way: price_of(case, offer, way) for way in ("on-demand", "spot") if way in case.purchase}
    hourly: dict[str, float] = {way: price.usd_per_h for way, price in prices.items() if price is not None}
    every, firm = (np.maximum(signed, counts) for counts in _boxes(case.offers[offer].gpus, on_it))
    bought: dict[str, np.ndarray] = {way: np.zeros(len(account.slots), dtype=int) for way in hourly}
    if "on-demand" in bought:
        bought["on-demand"] += firm - signed
    if hourly:
        bought[min(hourly, key=lambda way: hourly[way])] += every - firm
    bill.instances[offer] = every
    for way, counts in bought.items():
        hours = counts + money.starts(way, counts) * case.start.instance_s / 3600
        bill.usd_per_month += hourly[way] * account.a_month(hours)
        if way == "on-demand":
            bill.usage[offer] = counts
    return bill


def _energy_usd_per_month(account: Account, offer: str, on_it: _Used) -> float:
    """Of GPUs in use in servers that are bought."""
    price = account.case.offers[offer].prices.bought
    if price is None:
        return 0.0
    return price.usd_per_gpu_h * sum(size * account.a_month(counts[0]) for size, counts in on_it.replicas.items())


def _boxes(box: int, on_it: _Used) -> tuple[np.ndarray, np.ndarray]:
    """Instances that all replicas take, and those that the firm ones do [slot]."""
    sizes = list(on_it.replicas)
    counts = np.stack([on_it.replicas[size] for size in sizes])
    every, firm = ([boxes_filled(box, Counter(dict(zip(sizes, there, strict=True)))) for there in some.T.tolist()]
                   for some in (counts[:, 0], counts[:, 1]))  # fmt: skip
    return np.array(every), np.array(firm)


def _beyond_minutes(account: Account, multiple: float) -> Iterator[str]:
    """What APIs would be asked for beyond what they take in a minute, if they are asked in proportion."""
    for limit, share in shares_of_minutes(account):
        asked = multiple * float(share.max(initial=0.0)) * limit.most
        if asked > limit.most * (1 + ROUNDING):
            yield f"{asked:,.0f} {limit.kind.replace('_', ' ')} a minute at {limit.api}, {limit.most:,.0f} taken"


def _beyond(account: Account, bill: _Bill) -> Sequence[str]:
    """Quotas that the fleet would exceed."""
    limits, offers = account.case.limits, account.case.offers
    found = []
    for offer, counts in bill.instances.items():
        most = limits.max_instances.get(offer)
        if most is not None and counts.max() > most:
            found.append(f"{counts.max()} x {offer}, {most} allowed")
    for gpu, most in limits.max_gpus.items():
        mine = [counts * offers[o].gpus for o, counts in bill.instances.items() if offers[o].gpu == gpu]
        needed = int(sum(mine, np.zeros(len(account.slots), dtype=int)).max())
        if needed > most:
            found.append(f"{needed} x {gpu}, {most} allowed")
    return found
