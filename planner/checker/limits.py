"""Limits of the policy that are kept: quotas, kinds of GPU, vendors, power and the budget."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from planner.case.menu import held_instances
from planner.checker.api_minutes import apis_take_it
from planner.checker.checked import Checked
from planner.checker.figures import REL
from planner.checker.purchases import gpus_bought, idle_gpus

PLURAL = {"provider": "providers", "region": "regions", "api": "APIs"}


def limits_hold(checked: Checked) -> Iterator[str]:
    yield from _quotas_hold(checked)
    yield from _few_vendors_are_used(checked)
    yield from _budget_is_kept(checked)
    yield from _share_of_the_budget_is_kept(checked)
    yield from _power_is_kept(checked)
    yield from apis_take_it(checked)


def _quotas_hold(checked: Checked) -> Iterator[str]:
    limits, offers = checked.case.limits, checked.case.offers
    for t in checked.slots:
        by_gpu: Counter[str] = Counter(idle_gpus(checked))
        for offer in sorted({line.offer for line in checked.plan.fleet}):
            gpus = gpus_bought(checked, offer, t)
            by_gpu[offers[offer].gpu] += gpus
            if gpus > limits.max_instances.get(offer, math.inf) * offers[offer].gpus:
                yield f"slot {t}: more than {limits.max_instances[offer]} x {offer}"
        for gpu, gpus in by_gpu.items():
            if gpus > limits.max_gpus.get(gpu, math.inf):
                yield f"slot {t}: {gpus} GPUs of type {gpu}, {limits.max_gpus[gpu]} allowed"
    kinds = sorted({offers[line.offer].gpu for line in checked.plan.fleet})
    if limits.max_gpu_types is not None and len(kinds) > limits.max_gpu_types:
        yield f"{len(kinds)} kinds of GPU are used ({', '.join(kinds)}), {limits.max_gpu_types} allowed"


def _few_vendors_are_used(checked: Checked) -> Iterator[str]:
    for kind, most in (checked.case.limits.max_vendors or {}).items():
        names = [name for of, name in checked.account.money.vendors if of == kind]
        if len(names) > most:
            yield f"{len(names)} {PLURAL[kind]} are in use ({', '.join(names)}), {most} allowed"


def _budget_is_kept(checked: Checked) -> Iterator[str]:
    """In every month: a mean over the quarter would hide a last month that costs too much."""
    budget = checked.case.limits.budget_usd_per_month
    if budget is None:
        return
    for month in range(checked.account.months):
        usd = checked.account.money.month_usd(month)
        if usd > budget * (1 + REL):
            yield f"month {month + 1} costs ${usd:,.2f}, the budget is ${budget:,.2f}"


def _share_of_the_budget_is_kept(checked: Checked) -> Iterator[str]:
    """What a plan of one quarter may spend of a budget for a quarter or a year, on average over its months."""
    limits = checked.case.limits
    if limits.budget_usd is None or limits.budget_months is None:
        return
    months = checked.account.months
    weights = [m.weight for m in checked.case.months] if checked.case.months else [1.0] * months
    spent = sum(weight * checked.account.money.month_usd(m) for m, weight in enumerate(weights)) / sum(weights)
    share = limits.budget_usd / limits.budget_months
    if spent > share * (1 + REL):
        said = f"${limits.budget_usd:,.2f} in {limits.budget_months} months"
        yield f"a month costs ${spent:,.2f} on average, the budget of {said} leaves ${share:,.2f}"


def _power_is_kept(checked: Checked) -> Iterator[str]:
    """Every GPU that a replica uses at the most that it draws, the others idle, each with its part of the box."""
    most_kw, power = checked.case.limits.power_kw, checked.case.power
    if power is None or most_kw is None:
        return
    for t in range(len(checked.plan.slots)):
        kw = 0.0
        for key, offer in checked.case.offers.items():
            lines = [line for line in checked.plan.fleet if line.offer == key]
            boxes = sum(line.instances_by_slot[t] for line in lines) if lines else held_instances(checked.case, key)
            if not boxes:
                continue
            if offer.gpu not in power.gpus:
                yield f"{key} is used, and what a {offer.gpu} draws is not known"
                return
            gpu, site = power.gpus[offer.gpu], power.sites.get(f"{offer.provider} {offer.region}", power.elsewhere)
            used = sum(
                d.replicas_by_slot[t] * d.deployment.gpus_per_replica
                for pool in checked.plan.pools
                for d in pool.deployments
                if d.deployment.offer == key
            )
            idle_w = (boxes * offer.gpus - used) * gpu.idle_w
            watts = boxes * offer.gpus * gpu.host_w + idle_w + used * gpu.most_frac * gpu.tdp_w
            kw += site.pue * watts / 1000
        if kw > most_kw * (1 + REL):
            yield f"slot {t}: up to {kw:,.3f} kW are drawn, {most_kw:,.3f} allowed"
