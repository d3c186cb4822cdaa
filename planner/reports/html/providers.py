"""The same requests bought from API providers, side by side."""

from __future__ import annotations

from planner.plan.plan import Plan
from planner.plan.study_records import ProviderBill
from planner.reports.html.markup import Html, panel, table

NAMES_SHOWN = 4
HEAD = ("provider", "role", "workloads", "$/month", "at plain prices", "$/1M", "source", "date")


def provider_bills(plan: Plan) -> Html:
    bills = plan.studies.providers if plan.studies else ()
    if not bills:
        return Html("")
    ranked = sorted(bills, key=lambda b: (-len(b.workloads), b.cost_usd_per_month, b.provider, b.model))
    rows = [_row(b, len(plan.workloads)) for b in ranked]
    return panel("providers", "The same requests bought elsewhere", table([HEAD, *rows], "def"))


def _row(b: ProviderBill, workloads: int) -> tuple[str, ...]:
    more = f" and {len(b.workloads) - NAMES_SHOWN} more" if len(b.workloads) > NAMES_SHOWN else ""
    served = "all" if len(b.workloads) == workloads else ", ".join(b.workloads[:NAMES_SHOWN]) + more
    money = (f"{b.cost_usd_per_month:,.0f}", f"{b.without_discounts_usd_per_month:,.0f}", f"{b.usd_per_1m_tokens:.3f}")
    return (f"{b.provider} {b.model}", b.role, served, *money, b.source, b.date or "–")
