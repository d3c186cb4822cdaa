"""The tables of what studies of a plan say: steps of the waterfall, volumes, crossings, bills of providers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from planner.io.formatting import usd_small
from planner.plan.plan import Plan
from planner.plan.study_records import BreakEven, ProviderBill, StepRecord, Studies, VolumePoint, Waterfall, change_of
from planner.reports.phrases import alike
from planner.reports.table import BEYOND_TEXT, DATA, FILES, SCREEN, TEXT, Row, Table
from planner.reports.table import Column as C
from planner.reports.tables.answers import fixed_column, fixed_usd, here_usd

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
    columns = (
        C("step", "key", formats=DATA, get=lambda s: s.key),
        C("title", "step"),
        C("status", "plan", formats=BEYOND_TEXT),
        MONEY,
        C("bound_usd_per_month", "lower bound $/month", "money", FILES),
        PER_1M,
        C("saves_usd_per_month", "saves", "money"),
        C("saves_frac", "", "percent"),
        C("said", "may also", formats=TEXT, missing="", get=_may),
        C("fleet", "fleet at its busiest", "way to buy", formats=BEYOND_TEXT, get=lambda s: "; ".join(s.fleet) or None),
    )
    return Table("waterfall", "Savings, lever by lever", columns, (*w.steps, *([w.naive] if w.naive else [])), w.notes)


def _may(s: StepRecord) -> str:
    """What a step may do beyond the one before it, and why it has no plan."""
    if s.cost_usd_per_month is not None:
        return s.said
    return f"{s.said}: {'no plan is possible' if s.status == 'infeasible' else 'no plan was found in time'}"


def volumes(b: BreakEven, points: Sequence[VolumePoint] | None = None) -> Table:
    def per_1m(key: str, title: str, cost: Callable[[VolumePoint], float | None]) -> C:
        def get(p: VolumePoint) -> float | None:
            usd = cost(p)
            return None if usd is None else 1e6 * usd / p.tokens_per_month

        return C(key, title, "small price", SCREEN, get=get)

    columns = (
        C("demand_multiple", "volume", "times", get=lambda p: p.multiple),
        C("tokens_per_month", "tokens/month", "tokens"),
        C("api_usd_per_month", "API $/month", "money"),
        C("self_hosted_usd_per_month", "without an API", "money"),
        C("self_hosted_bound_usd_per_month", "at least", "money", BEYOND_TEXT),
        C("mixed_usd_per_month", "with APIs", "money"),
        C("mixed_bound_usd_per_month", "at least", "money", BEYOND_TEXT),
        per_1m("api", "$/1M API", lambda p: p.api_usd_per_month),
        per_1m("self_hosted", "without", lambda p: p.self_hosted_usd_per_month),
        per_1m("mixed", "with", lambda p: p.mixed_usd_per_month),
    )
    title = f"Cost by volume, against {b.provider} {b.model}"
    return Table("volumes", title, columns, tuple(b.points if points is None else points), b.notes)


def crossings(b: BreakEven) -> Table:
    ways = (("self-hosted", b.crossings), ("with APIs as well", b.mixed_crossings))
    rows: tuple[Row, ...] = tuple(
        (way, c.multiple, c.tokens_per_month, c.usd_per_month, *c.between_multiples, c.cheaper_from_here)
        for way, crossed in ways
        for c in crossed
    )
    if change := change_of(b.own or ()):
        low, high = change
        usd = high.with_servers_usd_per_month
        ends = (low.multiple, high.multiple)
        rows = (*rows, ("servers of your own", high.multiple, high.tokens_per_month, usd, *ends, "servers"))
    columns = (
        C("way", "way"),
        C("demand_multiple", "x demand", "number"),
        C("tokens_per_month", "tokens/month", "tokens"),
        MONEY,
        C("between_multiple_low", "proved from x", "number"),
        C("between_multiple_high", "to x", "number"),
        C("cheaper_from_here", "cheaper from here"),
    )
    return Table("crossings", "Break-even volumes", columns, rows)


def providers(plan: Plan, bills: Sequence[ProviderBill], title: str = "The same requests at API providers") -> Table:
    """Each bill beside what its workloads cost in the plan."""
    columns = (
        C("provider", "provider"),
        C("model", "model"),
        C("role", "role", formats=FILES),
        C("workloads", "workloads", formats=FILES, get=lambda b: ", ".join(b.workloads)),
        C("served", "for", formats=SCREEN,
          get=lambda b: f"all workloads, {b.role}" if _is_whole(b) else alike(b.workloads)),
        MONEY,
        fixed_column((fixed_usd(plan, b) for b in bills), lambda b: fixed_usd(plan, b)),
        C("here_usd_per_month", "in the plan", "money",
          get=lambda b: plan.total_usd_per_month if _is_whole(b) else here_usd(plan, b.workloads)),
        C("without_discounts_usd_per_month", "without discounts", "money"),
        PER_1M,
        C("prices", "in / out per 1M", formats=SCREEN, get=_prices),
        C("source", "price from", formats=FILES),
        C("date", "price of", formats=FILES),
    )  # fmt: skip
    sources = sorted({f"{b.source}, {b.date}" if b.date else b.source for b in bills})
    notes = (f"prices: {'; '.join(sources)}",) if len(sources) == 1 else ()
    return Table("providers", title, columns, tuple(bills), notes)


def _is_whole(b: ProviderBill) -> bool:
    return b.role != "same model"


def _prices(b: ProviderBill) -> str:
    tier = min(b.prices.tiers, key=lambda t: t.above_input_tokens)
    return f"{usd_small(tier.input_usd_per_1m)} / {usd_small(tier.output_usd_per_1m)}"
