"""The tables of what studies of a plan found: steps of the waterfall, volumes, crossings, bills of providers."""

from __future__ import annotations

from collections.abc import Iterator

from planner.plan.study_records import BreakEven, ProviderBill, Studies, Waterfall
from planner.reports.table import Column as C
from planner.reports.table import Table

MONEY = C("cost_usd_per_month", "$/month", "money")


def study_tables(studies: Studies) -> Iterator[Table]:
    if studies.waterfall is not None:
        yield waterfall(studies.waterfall)
    if studies.break_even is not None:
        yield volumes(studies.break_even)
        yield crossings(studies.break_even)
    if studies.providers:
        yield providers(studies.providers)


def waterfall(w: Waterfall) -> Table:
    rows = tuple(
        (s.key, s.title, s.status, s.cost_usd_per_month, s.bound_usd_per_month, s.usd_per_1m_tokens,
         s.saves_usd_per_month, s.saves_frac, "; ".join(s.fleet) or None)
        for s in w.steps
    )  # fmt: skip
    columns = (
        C("step", "step"), C("title", "with"), C("status", "status"), MONEY,
        C("bound_usd_per_month", "proved above $/month", "money"), C("usd_per_1m_tokens", "$/1M tokens", "small price"),
        C("saves_usd_per_month", "saves $/month", "money"), C("saves_frac", "saves", "percent"), C("fleet", "fleet"),
    )  # fmt: skip
    return Table("waterfall", "Savings, lever by lever", columns, rows)


def volumes(b: BreakEven) -> Table:
    rows = tuple(
        (p.multiple, p.tokens_per_month, p.api_usd_per_month, p.self_hosted_usd_per_month,
         p.self_hosted_bound_usd_per_month, p.mixed_usd_per_month, p.mixed_bound_usd_per_month)
        for p in b.points
    )  # fmt: skip
    columns = (
        C("demand_multiple", "x demand", "number"), C("tokens_per_month", "tokens/month", "tokens"),
        C("api_usd_per_month", "api $/month", "money"), C("self_hosted_usd_per_month", "self-hosted $/month", "money"),
        C("self_hosted_bound_usd_per_month", "proved above", "money"),
        C("mixed_usd_per_month", "with APIs as well $/month", "money"),
        C("mixed_bound_usd_per_month", "proved above", "money"),
    )  # fmt: skip
    return Table("volumes", f"Cost by volume, against {b.provider} {b.model}", columns, rows)


def crossings(b: BreakEven) -> Table:
    ways = (("self-hosted", b.crossings), ("with APIs as well", b.mixed_crossings))
    rows = tuple(
        (way, c.multiple, c.tokens_per_month, c.usd_per_month, *c.between_multiples, c.cheaper_from_here)
        for way, found in ways
        for c in found
    )
    columns = (
        C("way", "way"), C("demand_multiple", "x demand", "number"), C("tokens_per_month", "tokens/month", "tokens"),
        MONEY, C("between_multiple_low", "proved from x", "number"), C("between_multiple_high", "to x", "number"),
        C("cheaper_from_here", "cheaper from here"),
    )  # fmt: skip
    return Table("crossings", "Break-even volumes", columns, rows)


def providers(bills: tuple[ProviderBill, ...]) -> Table:
    rows = tuple(
        (b.provider, b.model, b.role, ", ".join(b.workloads), b.cost_usd_per_month, b.without_discounts_usd_per_month,
         b.usd_per_1m_tokens, b.source, b.date)
        for b in bills
    )  # fmt: skip
    columns = (
        C("provider", "provider"), C("model", "model"), C("role", "role"), C("workloads", "workloads"), MONEY,
        C("without_discounts_usd_per_month", "without discounts $/month", "money"),
        C("usd_per_1m_tokens", "$/1M tokens", "small price"), C("source", "price from"), C("date", "price of"),
    )  # fmt: skip
    return Table("providers", "The same requests at API providers", columns, rows)
