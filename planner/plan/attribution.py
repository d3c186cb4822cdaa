"""Why the cost changed: demand, prices, and the rest. Arithmetic on the two plans; nothing is planned anew."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from planner.case.case import Case, Workload
from planner.case.costs import cache_usd_per_h, request_usd
from planner.case.horizon import slots_of
from planner.case.vendors import vendor_usd
from planner.plan.diff_records import Attribution
from planner.plan.plan import HELD, FleetLine, Plan, WorkloadPlan
from planner.plan.price_changes import usd_per_h


def attribution(before: Plan, after: Plan) -> Attribution:
    notes: list[str] = []
    cents = round(100 * after.cost_usd_per_month) - round(100 * before.cost_usd_per_month)
    more_tokens = after.tokens_per_month - before.tokens_per_month
    demand = round(100 * before.usd_per_1m_tokens * more_tokens / 1e6)
    prices = round(100 * sum(_dearer(before, after.case, notes)))
    return Attribution(
        demand_usd_per_month=demand / 100,
        prices_usd_per_month=prices / 100,
        choices_usd_per_month=(cents - demand - prices) / 100,
        total_usd_per_month=cents / 100,
        notes=tuple(dict.fromkeys(notes)),
    )


def _dearer(plan: Plan, prices: Case, notes: list[str]) -> Iterator[float]:
    """What each thing that a plan pays for would cost more a month at the prices of another case."""
    for line in plan.fleet:
        yield _instances(line, prices, notes)
    asked = {w.name: w for w in plan.case.workloads}
    for told in plan.workloads:
        yield _api(plan, told, asked[told.name], prices, notes)
        if told.caching_cost_usd_per_month:
            yield _caches(plan.case, told, asked[told.name], prices)
    if plan.costs.engineers_usd_per_month:
        yield prices.engineers_usd_per_month - plan.costs.engineers_usd_per_month
    yield from (vendor_usd(prices, vendor) - vendor_usd(plan.case, vendor) for vendor in plan.vendors_in_use())


def _instances(line: FleetLine, prices: Case, notes: list[str]) -> float:
    """Starting is paid by the same price, so the whole line moves with it. What is held costs what was signed."""
    if line.purchase == HELD:
        return 0.0
    offer = prices.offers.get(line.offer)
    now = usd_per_h(offer.prices, line.purchase) if offer is not None else None
    if now is None:
        notes.append(f"{line.offer} {line.purchase} has no price in the second plan")
        return 0.0
    return line.cost_usd_per_month * (now / line.usd_per_h - 1) if now != line.usd_per_h else 0.0


def _api(plan: Plan, told: WorkloadPlan, asked: Workload, prices: Case, notes: list[str]) -> float:
    if told.api is None:
        return 0.0
    if told.api not in prices.apis:
        notes.append(f"{told.api} has no price in the second plan")
        return 0.0
    extra = request_usd(prices, asked, told.api) - request_usd(plan.case, asked, told.api)
    months = plan.slots[-1].month + 1
    requests = sum(
        (3600 * plan.slots[f.slot].hours_per_month * np.array(f.requests_per_s) for f in told.api_flows),
        np.zeros(len(asked.buckets)),
    )
    return float(requests @ extra) / months


def _caches(case: Case, told: WorkloadPlan, asked: Workload, prices: Case) -> float:
    slots = slots_of(case)
    hours = np.array([s.hours_per_month for s in slots]) / (slots[-1].month + 1)
    then, now = (cache_usd_per_h(c, asked, told.caching, slots) for c in (case, prices))
    return float(hours @ (now - then))
