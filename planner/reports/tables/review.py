"""The tables of a review, from which its text, Markdown and page are made."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.formatting import percent
from planner.reports.table import Cells, Row, Table
from planner.reports.table import Column as C
from planner.reports.tables.bill import BILL_TABLES, bill_tables
from planner.review.records import Review

BRIDGE_PARTS = {
    "volume": "more or fewer tokens, at the average cost of a token",
    "mix": "the mix moved towards workloads with more or less expensive tokens",
    "price": "what was bought before, at the new prices, or at those signed where it is still held",
    "efficiency": "the rest: another fleet, other choices, economies of scale, commitments not used",
}
ALL_NEW = "with everything new from the first day of the quarter"
UNTIL_LAPSE = "expiring commitments are used until they lapse and only then renewed or replaced"
NAMES = (
    "costs", "workloads", "capacity", "bridge", "forecasts", "ahead", "sign_now", "commitments", "findings", "trend",
    *BILL_TABLES,
)  # fmt: skip
"""of all tables that a review may have"""
NAMES_TOGETHER = 3
"""of workloads, where they stand in one row"""


def review_tables(review: Review) -> Iterator[Table]:
    made = (costs, workloads, capacity, bridge, forecasts, ahead, sign_now, commitments, findings, trend)
    tables = [table for make in made if (table := make(review)).records]
    of_bill = () if review.bill is None else bill_tables(review.bill)
    yield from (*tables[:1], *of_bill, *tables[1:])


def costs(review: Review) -> Table:
    n, next_ = review.next, review.next.figures

    def row(what: str, gap_frac: float | None, usd: float, usd_per_1m: float, tokens: float) -> Cells:
        return Cells(
            what=what,
            cost_usd_per_month=usd,
            tokens_per_month=tokens,
            usd_per_1m_tokens=usd_per_1m,
            gap_frac=gap_frac,
        )

    p, a, best = review.planned, review.actual, review.hindsight
    rows = [
        row("planned", p.gap_frac, p.cost_usd_per_month, p.usd_per_1m_tokens, p.tokens_per_month),
        row("actual", a.gap_frac, a.cost_usd_per_month, a.usd_per_1m_tokens, a.tokens_per_month),
    ]
    if best is not None:
        figures = (best.cost_usd_per_month, best.usd_per_1m_tokens, a.tokens_per_month)
        rows.append(row("best in hindsight", best.gap_frac, *figures))
    rows.append(
        row("next plan", next_.gap_frac, n.approved_usd_per_month, n.approved_usd_per_1m, next_.tokens_per_month)
    )
    if n.held_usd_per_month:
        rows.append(Cells(what="of which paid in any case", cost_usd_per_month=n.held_usd_per_month))
    if n.overlap_usd_per_month:
        at_once = "next plan, everything new from its first day"
        usd, per_1m = n.cost_usd_per_month, next_.usd_per_1m_tokens
        rows.append(Cells(what=at_once, cost_usd_per_month=usd, usd_per_1m_tokens=per_1m))
    columns = (
        C("what", "what"),
        C("cost_usd_per_month", "$/month", "money"),
        C("tokens_per_month", "tokens/month", "tokens"),
        C("usd_per_1m_tokens", "$/1M tokens", "small price"),
        C("gap_frac", "proved within", "percent"),
    )
    return Table("costs", "costs", columns, tuple(rows))


def workloads(review: Review) -> Table:
    columns = (
        C("workload", "workload", get=lambda w: w.name),
        C("planned_requests_per_month", "planned requests/month", "tokens"),
        C("actual_requests_per_month", "actual", "tokens"),
        C("off_frac", "off", "number", get=lambda w: signed(w.off_frac)),
        C("hourly_error_frac", "off by the hour", "percent"),
        C("planned_tokens_per_request", "planned tokens/request", "count"),
        C("actual_tokens_per_request", "actual", "count"),
        C("hours_left_out", "hours left out", "count"),
    )
    return Table("workloads", "forecast against actual", columns, review.workloads)


def capacity(review: Review) -> Table:
    columns = (
        C("workloads", "workloads", get=lambda c: ", ".join(c.workloads)),
        C("deployment", "deployment"),
        C("peak_gpus", "GPUs at peak", "count"),
        C("planned_frac", "load planned", "percent"),
        C("used_frac", "load used", "percent"),
        C("worst_hour_frac", "busiest hour, share of what keeps SLOs", "percent"),
        C("hours_over_per_month", "h/month above it", "count"),
    )
    return Table("capacity", "planned against used capacity", columns, review.capacity)


def bridge(review: Review) -> Table:
    b = review.bridge
    rows: list[Row] = [
        ("last plan", f"{b.from_usd_per_month:,.2f}", ""),
        *((name, dollars(usd), BRIDGE_PARTS[name]) for name, usd in bridge_parts(review).items()),
        ("next plan", f"{b.to_usd_per_month:,.2f}", ALL_NEW if overlap_usd(review) else ""),
    ]
    if overlap := overlap_usd(review):
        rows += [
            ("overlap", dollars(-overlap), UNTIL_LAPSE),
            ("to approve", f"{b.to_usd_per_month - overlap:,.2f}", ""),
        ]
    columns = (C("part", "part"), C("usd_per_month", "$/month", "money"), C("said", ""))
    return Table("bridge", "cost bridge", columns, tuple(rows))


def overlap_usd(review: Review) -> float:
    """Between the next plan's cost and what must be approved, in whole cents."""
    return round(review.next.overlap_usd_per_month, 2)


def bridge_parts(review: Review) -> dict[str, float]:
    b = review.bridge
    usd = (b.volume_usd_per_month, b.mix_usd_per_month, b.price_usd_per_month, b.efficiency_usd_per_month)
    return dict(zip(BRIDGE_PARTS, usd, strict=True))


def forecasts(review: Review) -> Table:
    columns = (
        C("workload", "workload", get=lambda f: f.name),
        C("source", "forecast"),
        C("p10", "P10 requests/month", "tokens", get=lambda f: f.p10_requests_per_month),
        C("p50", "P50", "tokens", get=lambda f: f.p50_requests_per_month),
        C("p90", "P90", "tokens", get=lambda f: f.p90_requests_per_month),
        C("growth", "growth/month", "number", get=lambda f: signed(f.growth_per_month_frac)),
        C("error_frac", "error in trials", "percent"),
        C("other_error_frac", "next best method", "percent"),
        C("tried_weeks", "weeks ahead", "count", get=lambda f: f.tried_weeks or None),
    )
    return Table("forecasts", "forecast for the next quarter", columns, review.forecasts)


def ahead(review: Review) -> Table:
    a = review.ahead
    if a is None:
        return Table("ahead", "", (), ())
    columns = (
        C("scenario", "scenario", get=lambda s: s.name),
        C("probability_frac", "probability", "percent"),
        C("cost_usd", "cost in the horizon $", "money"),
        C("regret_usd", "regret $", "money"),
    )
    mean = [] if a.expected_cost_usd is None else [Cells(scenario="expected", cost_usd=a.expected_cost_usd)]
    title = f"{_quarters(a.quarters)} from {a.first_day}, by the forecast"
    return Table("ahead", title, columns, (*a.scenarios, *mean))


def sign_now(review: Review) -> Table:
    columns = (
        C("instances", "instances", "count"),
        C("offer", "instance"),
        C("term", "term", "way to buy"),
        C("last_day", "until", get=lambda s: str(s.last_day)),
        C("usd_per_month", "$/month", "money"),
        C("owed_after_usd", "owed after the horizon $", "money"),
    )
    signed = () if review.ahead is None else review.ahead.sign_now
    return Table("sign_now", "sign now, in every scenario", columns, signed)


def _quarters(count: int) -> str:
    return "one quarter" if count == 1 else f"{count} quarters"


def commitments(review: Review) -> Table:
    columns = (
        C("act", "do"),
        C("instances", "instances", "count"),
        C("offer", "instance"),
        C("purchase", "term", "way to buy"),
        C("lapses", "lapses"),
        C("usd_per_month", "$/month", "money"),
        C("said", "why"),
    )
    return Table("commitments", "commitments", columns, review.commitments)


def findings(review: Review) -> Table:
    """What befell several workloads alike is one row."""
    alike: dict[Row, list[str]] = {}
    for f in review.findings:
        alike.setdefault((f.kind, f.count, f.unit, f.said, f.when), []).append(f.workload)
    rows = tuple((_together(names), *what) for what, names in alike.items())
    columns = (
        C("workload", "workload"), C("kind", "what"), C("count", "count", "count"), C("unit", ""),
        C("said", "what was done"), C("when", f"when ({review.period.time_zone})"),
    )  # fmt: skip
    return Table("findings", "log anomalies", columns, rows)


def trend(review: Review) -> Table:
    columns = (
        C("review", "review", get=lambda p: p.name),
        C("until", "until", get=lambda p: p.last_hour[:10]),
        C("planned", "planned $/month", "money", get=lambda p: p.planned_usd_per_month),
        C("actual", "actual", "money", get=lambda p: p.actual_usd_per_month),
        C("hindsight", "hindsight", "money", get=lambda p: p.hindsight_usd_per_month),
        C("next", "next plan", "money", get=lambda p: p.next_usd_per_month),
        C("usd_per_1m_tokens", "$/1M tokens", "small price", get=lambda p: p.actual_usd_per_1m_tokens),
        C("tokens_per_month", "tokens/month", "tokens", get=lambda p: p.actual_tokens_per_month),
        C("off", "requests off", "number", get=lambda p: signed(p.forecast_off_frac)),
    )
    return Table("trend", "trend", columns, review.trend if len(review.trend) > 1 else ())


def _together(names: list[str]) -> str:
    if len(names) <= NAMES_TOGETHER + 1:
        return ", ".join(names)
    return f"{', '.join(names[:NAMES_TOGETHER])} and {len(names) - NAMES_TOGETHER} more"


def signed(frac: float | None) -> str | None:
    if frac is None:
        return None
    if abs(frac) < 0.0005:
        return "0%"
    return ("+" if frac > 0 else "-") + percent(abs(frac), 1)


def dollars(usd: float) -> str:
    """+12.34, -3.50 or 0.00."""
    return "0.00" if abs(usd) < 0.005 else f"{usd:+,.2f}"
