"""Limits of the policy that are kept: quotas, kinds of GPU, vendors, what they are paid, and the budget."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from planner.case.menu import held_instances
from planner.case.vendors import vendor_held_usd, vendors_of_offer
from planner.checker.api_minutes import apis_take_it
from planner.checker.checked import Checked
from planner.checker.figures import MONTH_HOURS, REL
from planner.checker.purchases import gpus_bought, idle_gpus
from planner.plan.account import Account
from planner.plan.horizon.horizon_plan import SignedCommitment

PLURAL = {"provider": "providers", "region": "regions", "api": "APIs"}


def limits_hold(checked: Checked) -> Iterator[str]:
    yield from _quotas_hold(checked)
    yield from _few_vendors_are_used(checked)
    yield from _vendors_serve_their_share(checked)
    yield from _budget_is_kept(checked)
    yield from _share_of_the_budget_is_kept(checked)
    yield from _power_and_carbon_are_kept(checked)
    yield from _vendors_are_paid_no_more_than_allowed(checked)
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
        names = _in_use(checked, kind)
        if len(names) > most:
            yield f"{len(names)} {PLURAL[kind]} are in use ({', '.join(names)}), {most} allowed"


def _vendors_serve_their_share(checked: Checked) -> Iterator[str]:
    """Of all requests that arrive, those that a cache answers and those that are shed too."""
    least = checked.case.limits.least_vendor_share_frac or {}
    every = sum(checked.account.requests_per_month(s.w) for s in checked.account.served)
    served = _requests(checked) if least else {}
    for kind, share in least.items():
        for name in _in_use(checked, kind):
            own = served.get((kind, name), 0.0) / every if every else 0.0
            if own < share * (1 - REL):
                yield f"the {kind} {name} serves {own:.4%} of all requests, at least {share:.4%} is asked for"


def _in_use(checked: Checked, kind: str) -> list[str]:
    return [name for of, name in checked.account.money.vendors if of == kind]


def _requests(checked: Checked) -> dict[tuple[str, str], float]:
    """Requests a month that each vendor serves."""
    served: dict[tuple[str, str], float] = {}
    for pool in checked.plan.pools:
        for k, d in enumerate(pool.deployments):
            offer = checked.case.offers[d.deployment.offer]
            carried = 3600 * checked.account.a_month(checked.account.carried(pool, k).sum(axis=1))
            for vendor in (("provider", offer.provider), ("region", f"{offer.provider} {offer.region}")):
                served[vendor] = served.get(vendor, 0.0) + carried
    for s in checked.account.served:
        if s.decided.api is not None:
            vendor = ("api", checked.case.apis[s.decided.api].provider)
            served[vendor] = served.get(vendor, 0.0) + checked.account.sent_per_month(s, s.decided.api_flows)
    return served


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


def _power_and_carbon_are_kept(checked: Checked) -> Iterator[str]:
    """Every GPU that a replica uses at the most that it draws, the others idle, each with its part of the box."""
    limits, power, months = checked.case.limits, checked.case.power, checked.account.months
    if power is None or (limits.power_kw is None and limits.co2_kg_per_month is None):
        return
    kg_by_month = [0.0] * months
    for t, slot in enumerate(checked.plan.slots):
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
            weight = checked.case.months[slot.month].weight if checked.case.months else 1.0
            hours = slot.hours_per_month / weight
            kg_by_month[slot.month] += hours * site.pue * watts / 1000 * site.grid_g_per_kwh / 1000
        if limits.power_kw is not None and kw > limits.power_kw * (1 + REL):
            yield f"slot {t}: up to {kw:,.3f} kW are drawn, {limits.power_kw:,.3f} allowed"
    for month, kg in enumerate(kg_by_month):
        if limits.co2_kg_per_month is not None and kg > limits.co2_kg_per_month * (1 + REL):
            yield f"month {month + 1}: up to {kg:,.1f} kg CO2e are emitted, {limits.co2_kg_per_month:,.1f} allowed"


def _vendors_are_paid_no_more_than_allowed(checked: Checked) -> Iterator[str]:
    """What is held counts; where that alone is more than a cap, nothing more is bought there."""
    for key, most in (checked.case.limits.vendor_cap_usd_per_month or {}).items():
        kind, _, name = key.partition(" ")
        left = max(0.0, most - vendor_held_usd(checked.case, (kind, name)))
        for month in range(checked.account.months):
            usd = checked.account.money.vendor_usd_of_month((kind, name), month)
            if usd > left * (1 + REL) + REL:
                paid = f"is paid ${usd:,.2f} in addition to what is held, ${left:,.2f} allowed"
                yield f"month {month + 1}: the {kind} {name} {paid}"


def commitments_leave_caps(account: Account, signed: Sequence[SignedCommitment]) -> Iterator[str]:
    """What is signed in a horizon stays within the caps of a quarter that it stands in as held.

    What was held before is there in any case; where that is more than a cap, nothing is signed besides.
    """
    for key, most in (account.case.limits.vendor_cap_usd_per_month or {}).items():
        kind, _, name = key.partition(" ")
        new = MONTH_HOURS * sum(
            c.instances * c.usd_per_h for c in signed if (kind, name) in vendors_of_offer(account.case.offers[c.offer])
        )
        left = max(0.0, most - (vendor_held_usd(account.case, (kind, name)) - new))
        if new > left * (1 + REL) + REL:
            yield f"commitments to the {kind} {name} cost ${new:,.2f} a month, ${left:,.2f} allowed"
