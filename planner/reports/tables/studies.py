"""The tables of what studies of a plan say: steps of the waterfall, volumes, crossings, bills of providers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.io.formatting import usd_small
from planner.plan.plan import Plan
from planner.plan.study_records import BreakEven, ProviderBill, StepRecord, Studies, VolumePoint, Waterfall
from planner.reports.phrases import alike
from planner.reports.tables.answers import fixed_column, fixed_usd, here_usd
from planner.reports.tables.table import BEYOND_TEXT, DATA, FILES, SCREEN, TEXT, Row, Table
from planner.reports.tables.table import Column as C

MONEY = C("cost_usd_per_month", "$/month", "money")
PER_1M = C("usd_per_1m_tokens", "$/1M", "small price")


def study_tables(plan: Plan) -> Iterator[Table]:
    studies = plan.studies or Studies()
    if studies.waterfall is not None:
        yield waterfall(studies.waterfall)
    if studies.break_even is not None:
        yield volumes(studies.break_even)
        yield crossings(studies.break_even)
    if studies.providers:
        yield providers(plan, studies.providers)


def waterfall(w: Waterfall) -> Table:
    rows = tuple(
        (s.key, s.title, s.status, s.cost_usd_per_month, s.bound_usd_per_month, s.usd_per_1m_tokens,
         s.saves_usd_per_month, s.saves_frac, _may(s), "; ".join(s.fleet) or None)
        for s in (*w.steps, *([w.naive] if w.naive else []))
    )  # fmt: skip
    columns = (
        C("step", "key", formats=DATA), C("title", "step"), C("status", "plan", formats=BEYOND_TEXT), MONEY,
        C("bound_usd_per_month", "proved above $/month", "money", FILES), PER_1M,
        C("saves_usd_per_month", "saves", "money"), C("saves_frac", "", "percent"),
        C("said", "may also", formats=TEXT, missing=""), C("fleet", "fleet at its busiest", formats=BEYOND_TEXT),
    )  # fmt: skip
    return Table("waterfall", "Savings, lever by lever", columns, rows, w.notes)


def _may(s: StepRecord) -> str:
    """What a step may do beyond the one before it, and why it has no plan."""
    if s.cost_usd_per_month is not None:
        return s.said
    return f"{s.said}: {'no plan is possible' if s.status == 'infeasible' else 'no plan was found in the time'}"


def volumes(b: BreakEven, points: Sequence[VolumePoint] | None = None) -> Table:
    columns = (
        C("demand_multiple", "volume", "times"), C("tokens_per_month", "tokens/month", "tokens"),
        C("api_usd_per_month", "API $/month", "money"), C("self_hosted_usd_per_month", "without an API", "money"),
        C("self_hosted_bound_usd_per_month", "at least", "money", BEYOND_TEXT),
        C("mixed_usd_per_month", "with APIs", "money"),
        C("mixed_bound_usd_per_month", "at least", "money", BEYOND_TEXT), C("api", "$/1M API", "small price", SCREEN),
        C("self_hosted", "without", "small price", SCREEN), C("mixed", "with", "small price", SCREEN),
    )  # fmt: skip
    rows = tuple(_volume_row(p) for p in (b.points if points is None else points))
    return Table("volumes", f"Cost by volume, against {b.provider} {b.model}", columns, rows, b.notes)


def _volume_row(p: VolumePoint) -> Row:
    costs = (p.api_usd_per_month, p.self_hosted_usd_per_month, p.mixed_usd_per_month)
    each = (None if cost is None else 1e6 * cost / p.tokens_per_month for cost in costs)
    return (p.multiple, p.tokens_per_month, costs[0], costs[1], p.self_hosted_bound_usd_per_month, costs[2],
            p.mixed_bound_usd_per_month, *each)  # fmt: skip


def crossings(b: BreakEven) -> Table:
    ways = (("self-hosted", b.crossings), ("with APIs as well", b.mixed_crossings))
    rows = tuple(
        (way, c.multiple, c.tokens_per_month, c.usd_per_month, *c.between_multiples, c.cheaper_from_here)
        for way, crossed in ways
        for c in crossed
    )
    columns = (
        C("way", "way"), C("demand_multiple", "x demand", "number"), C("tokens_per_month", "tokens/month", "tokens"),
        MONEY, C("between_multiple_low", "proved from x", "number"), C("between_multiple_high", "to x", "number"),
        C("cheaper_from_here", "cheaper from here"),
    )  # fmt: skip
    return Table("crossings", "Break-even volumes", columns, rows)


def providers(plan: Plan, bills: Sequence[ProviderBill], title: str = "The same requests at API providers") -> Table:
    """Each bill beside what its workloads cost in the plan."""
    columns = (
        C("provider", "provider"), C("model", "model"), C("role", "role", formats=FILES),
        C("workloads", "workloads", formats=FILES), C("served", "for", formats=SCREEN), MONEY,
        fixed_column(fixed_usd(plan, b) for b in bills),
        C("here_usd_per_month", "in the plan", "money"),
        C("without_discounts_usd_per_month", "without discounts", "money"), PER_1M,
        C("prices", "in / out per 1M", formats=SCREEN), C("source", "price from", formats=FILES),
        C("date", "price of", formats=FILES),
    )  # fmt: skip
    sources = sorted({f"{b.source}, {b.date}" if b.date else b.source for b in bills})
    notes = (f"prices: {'; '.join(sources)}",) if len(sources) == 1 else ()
    return Table("providers", title, columns, tuple(_bill_row(plan, b) for b in bills), notes)


def _bill_row(plan: Plan, b: ProviderBill) -> Row:
    tier = min(b.prices.tiers, key=lambda t: t.above_input_tokens)
    whole = b.role != "same model"
    served = f"all workloads, {b.role}" if whole else alike(b.workloads)
    here = plan.cost_usd_per_month if whole else here_usd(plan, b.workloads)
    prices = f"{usd_small(tier.input_usd_per_1m)} / {usd_small(tier.output_usd_per_1m)}"
    return (b.provider, b.model, b.role, ", ".join(b.workloads), served, b.cost_usd_per_month, fixed_usd(plan, b), here,
            b.without_discounts_usd_per_month, b.usd_per_1m_tokens, prices, b.source, b.date)  # fmt: skip
