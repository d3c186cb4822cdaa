"""Which limits a plan reaches: where a little more room might make it cheaper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from planner.case.api_limits import limits_of_apis
from planner.case.menu import held_instances
from planner.plan.account.account import Account
from planner.plan.account.power import one_more_kw, rated_kw_of
from planner.plan.account.replicas import staffing
from planner.plan.plan import Binding
from problems.api_limits import ApiLimit
from problems.constants import HOURS_PER_MONTH

NEAR_BUDGET_FRAC, NEAR_MINUTE_FRAC = 1e-3, 0.1


def limits_reached(account: Account) -> tuple[Binding, ...]:
    return (
        *_budget(account),
        *_power(account),
        *_api_minutes(account),
        *_gpu_quotas(account),
        *_instance_quotas(account),
        *_gpu_types(account),
        *_vendors(account),
        *_min_replicas(account),
    )


def instances(account: Account, offer: str) -> np.ndarray:
    """Instances of an offer that are there [slot]"""
    counts = [np.array(p.instances_by_slot) for p in account.decided.purchases if p.offer == offer]
    return sum(counts, np.zeros(len(account.slots), dtype=int))


def gpus_of_kind(account: Account, gpu: str) -> np.ndarray:
    """GPUs of a kind that are there, those of held instances on which nothing runs included [slot]"""
    offers = {key: o for key, o in account.case.offers.items() if o.gpu == gpu}
    used = {p.offer for p in account.decided.purchases}
    bought = sum((instances(account, key) * o.gpus for key, o in offers.items() if key in used),
                 np.zeros(len(account.slots), dtype=int))  # fmt: skip
    idle = sum(held_instances(account.case, key) * o.gpus for key, o in offers.items() if key not in used)
    return np.asarray(bought + idle)


def _budget(account: Account) -> Iterator[Binding]:
    budget = account.case.limits.budget_usd_per_month
    if budget is not None:
        near = sum(account.money.month_usd(m) >= budget * (1 - NEAR_BUDGET_FRAC) for m in range(account.months))
        if near:
            hours = near / account.months * HOURS_PER_MONTH
            yield Binding(limit="budget_usd_per_month", value=budget, hours_per_month=hours)
    limits = account.case.limits
    if limits.budget_usd is not None and limits.budget_months is not None:
        share = limits.budget_usd / limits.budget_months
        if account.money.cost_usd + account.money.held_usd >= share * (1 - NEAR_BUDGET_FRAC):
            yield Binding(limit="budget", value=limits.budget_usd, hours_per_month=HOURS_PER_MONTH)


def _power(account: Account) -> Iterator[Binding]:
    """Where not one GPU more of those in use would fit, as the limit counts it."""
    most_kw, power = account.case.limits.power_kw, account.case.power
    if power is not None and most_kw is not None:
        used = {d.offer for _, _, d in account.hosted} or set(account.case.offers)
        more = min(one_more_kw(account.case, power, key) for key in used)
        kw = sum((rated_kw_of(account, power, key) for key in used), np.zeros(len(account.slots)))
        where = kw + more > most_kw
        if where.any():
            yield Binding(limit="power_kw", value=most_kw, hours_per_month=account.a_month(where))


def _api_minutes(account: Account) -> Iterator[Binding]:
    """Where the busiest minute of an hour is near what an API takes: replicas are whole, so none is quite there."""
    for limit, share in shares_of_minutes(account):
        name = f"{limit.api} {limit.kind}"
        yield from _reached(account, "api_per_minute", name, limit.most, share >= 1 - NEAR_MINUTE_FRAC)


def _gpu_quotas(account: Account) -> Iterator[Binding]:
    """Where not one more of the instances in use would fit; of a GPU that is not in use, not a single instance."""
    offers = account.case.offers
    used = {p.offer for p in account.decided.purchases}
    for gpu, most in sorted(account.case.limits.max_gpus.items()):
        every = [key for key, o in offers.items() if o.gpu == gpu]
        boxes = [offers[key].gpus for key in every if key in used] or [offers[key].gpus for key in every]
        if boxes:
            yield from _reached(account, "max_gpus", gpu, most, gpus_of_kind(account, gpu) + min(boxes) > most)


def _instance_quotas(account: Account) -> Iterator[Binding]:
    for offer, most in sorted(account.case.limits.max_instances.items()):
        yield from _reached(account, "max_instances", offer, most, instances(account, offer) >= most)


def _gpu_types(account: Account) -> Iterator[Binding]:
    most = account.case.limits.max_gpu_types
    if most is not None and len({account.case.offers[p.offer].gpu for p in account.decided.purchases}) >= most:
        yield Binding(limit="max_gpu_types", value=most, hours_per_month=HOURS_PER_MONTH)


def _vendors(account: Account) -> Iterator[Binding]:
    kinds = [kind for kind, _ in account.money.vendors]
    for kind, most in sorted((account.case.limits.max_vendors or {}).items()):
        if kinds.count(kind) >= most:
            yield Binding(limit="max_vendors", name=kind, value=most, hours_per_month=HOURS_PER_MONTH)


def _min_replicas(account: Account) -> Iterator[Binding]:
    """Where the load of a deployment by itself would need fewer."""
    least = account.case.limits.min_replicas
    for pool in account.decided.pools:
        reached = np.zeros(len(account.slots), dtype=bool)
        for k, d in enumerate(pool.deployments):
            replicas = np.array(d.replicas_by_slot)
            without = replace(staffing(account, pool, k), min_replicas=0).replicas(account.load(pool, k))
            reached |= (replicas > 0) & (replicas <= least) & (without < least)
        yield from _reached(account, "min_replicas", pool.key, least, reached)


def _reached(account: Account, limit: str, name: str, value: float, where: np.ndarray) -> Iterator[Binding]:
    if where.any():
        yield Binding(limit=limit, name=name, value=value, hours_per_month=account.a_month(where))


def shares_of_minutes(account: Account) -> Iterator[tuple[ApiLimit, np.ndarray]]:
    """Each limit, and the share of it that the busiest minute of an hour takes [slot]."""
    for limit in limits_of_apis(account.case, account.slots, lambda w: [w.name]):
        share = np.zeros(len(account.slots))
        for s in account.served:
            if s.decided.api == limit.api and s.w.name in limit.per_usd:
                share += account.money.api_bill_usd_per_h(s) * limit.per_usd[s.w.name]
        yield limit, share
