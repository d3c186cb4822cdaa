"""Why the cost changed: demand, prices, and the rest. Arithmetic on the two plans; nothing is planned anew."""

from __future__ import annotations

from collections.abc import Iterator

from planner.case.apis import cache_usd_per_h, request_usd
from planner.case.case import Case, Workload
from planner.case.prices import HELD, price_of
from planner.case.vendors import vendor_usd
from planner.catalog.terms import in_words
from planner.plan.account.account import account_of
from planner.plan.diff_records import Attribution
from planner.plan.plan import FleetLine, Plan, WorkloadPlan


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
    for planned in plan.workloads:
        yield _api(plan, planned, asked[planned.name], prices, notes)
        if planned.caching_cost_usd_per_month:
            yield _caches(plan, planned, asked[planned.name], prices)
    if plan.costs.engineers_usd_per_month:
        yield prices.engineers_usd_per_month - plan.costs.engineers_usd_per_month
    yield from (vendor_usd(prices, vendor) - vendor_usd(plan.case, vendor) for vendor in account_of(plan).money.vendors)


def _instances(line: FleetLine, prices: Case, notes: list[str]) -> float:
    """Starting is paid by the same price, so the whole line moves with it. What is held costs what was signed."""
    if line.purchase == HELD:
        return 0.0
    now = price_of(prices, line.offer, line.purchase) if line.offer in prices.offers else None
    if now is None:
        notes.append(f"{line.offer} {in_words(line.purchase)} has no price in the second plan")
        return 0.0
    return line.cost_usd_per_month * (now.usd_per_h / line.usd_per_h - 1) if now.usd_per_h != line.usd_per_h else 0.0


def _api(plan: Plan, planned: WorkloadPlan, asked: Workload, prices: Case, notes: list[str]) -> float:
    if planned.api is None:
        return 0.0
    if planned.api not in prices.apis:
        notes.append(f"{planned.api} has no price in the second plan")
        return 0.0
    extra = request_usd(prices, asked, planned.api) - request_usd(plan.case, asked, planned.api)
    account = account_of(plan)
    return 3600 * account.a_month(account.flow(asked, planned.api_flows) @ extra)


def _caches(plan: Plan, planned: WorkloadPlan, asked: Workload, prices: Case) -> float:
    account = account_of(plan)
    then, now = (cache_usd_per_h(c, asked, planned.caching, account.slots) for c in (plan.case, prices))
    return account.a_month(now - then)
