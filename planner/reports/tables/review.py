"""The tables of a review, from which its text, Markdown and page are made."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.formatting import percent
from planner.reports.tables.bills.bill import BILL_TABLES, bill_tables
from planner.reports.table import Column as C
from planner.reports.table import Row, Table
from planner.review.records import Review

BRIDGE_PARTS = {
    "volume": "more or fewer tokens, at the average cost of a token",
    "mix": "workloads with more or less expensive tokens became a larger share",
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
    tables = [table for make in made if (table := make(review)).rows]
    of_bill = () if review.bill is None else bill_tables(review.bill)
    yield from (*tables[:1], *of_bill, *tables[1:])


def costs(review: Review) -> Table:
    sides = [("planned", review.planned), ("actual", review.actual)]
    rows: list[Row] = [
        (name, f.cost_usd_per_month, f.tokens_per_month, f.usd_per_1m_tokens, f.gap_frac) for name, f in sides
    ]
    if (best := review.hindsight) is not None:
        tokens = review.actual.tokens_per_month
        rows.append(("best in hindsight", best.cost_usd_per_month, tokens, best.usd_per_1m_tokens, best.gap_frac))
    n, f = review.next, review.next.figures
    rows.append(("next plan", n.approved_usd_per_month, f.tokens_per_month, n.approved_usd_per_1m, f.gap_frac))
    if n.held_usd_per_month:
        rows.append(("of which paid in any case", n.held_usd_per_month, None, None, None))
    if n.overlap_usd_per_month:
        rows.append(
            ("next plan, everything new from its first day", n.cost_usd_per_month, None, f.usd_per_1m_tokens, None)
        )
    columns = (
        C("what", "what"), C("cost_usd_per_month", "$/month", "money"),
        C("tokens_per_month", "tokens/month", "tokens"), C("usd_per_1m_tokens", "$/1M tokens", "small price"),
        C("gap_frac", "proved within", "percent"),
    )  # fmt: skip
    return Table("costs", "costs", columns, tuple(rows))


def workloads(review: Review) -> Table:
    rows = tuple(
        (
            w.name, w.planned_requests_per_month, w.actual_requests_per_month, signed(w.off_frac), w.hourly_error_frac,
            w.planned_tokens_per_request, w.actual_tokens_per_request, w.hours_left_out,
        )
        for w in review.workloads
    )  # fmt: skip
    columns = (
        C("workload", "workload"), C("planned_requests_per_month", "planned requests/month", "tokens"),
        C("actual_requests_per_month", "actual", "tokens"), C("off_frac", "off", "number"),
        C("hourly_error_frac", "off by the hour", "percent"),
        C("planned_tokens_per_request", "planned tokens/request", "count"),
        C("actual_tokens_per_request", "actual", "count"), C("hours_left_out", "hours left out", "count"),
    )  # fmt: skip
    return Table("workloads", "forecast against actual", columns, rows)


def capacity(review: Review) -> Table:
    rows = tuple(
        (
            ", ".join(c.workloads), c.deployment, c.peak_gpus, c.planned_frac, c.used_frac, c.worst_hour_frac,
            c.hours_over_per_month,
        )
        for c in review.capacity
    )  # fmt: skip
    columns = (
        C("workloads", "workloads"), C("deployment", "deployment"), C("peak_gpus", "GPUs at peak", "count"),
        C("planned_frac", "load planned", "percent"), C("used_frac", "load used", "percent"),
        C("worst_hour_frac", "busiest hour, of what keeps SLOs", "percent"),
        C("hours_over_per_month", "h/month above it", "count"),
    )  # fmt: skip
    return Table("capacity", "planned against used capacity", columns, rows)


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
    rows = tuple(
        (
            f.name, f.source, f.p10_requests_per_month, f.p50_requests_per_month, f.p90_requests_per_month,
            signed(f.growth_per_month_frac), f.error_frac, f.other_error_frac, f.tried_weeks or None,
        )
        for f in review.forecasts
    )  # fmt: skip
    columns = (
        C("workload", "workload"), C("source", "forecast"), C("p10", "P10 requests/month", "tokens"),
        C("p50", "P50", "tokens"), C("p90", "P90", "tokens"), C("growth", "growth/month", "number"),
        C("error_frac", "off when tried", "percent"), C("other_error_frac", "next best method", "percent"),
        C("tried_weeks", "weeks ahead", "count"),
    )  # fmt: skip
    return Table("forecasts", "forecast for the next quarter", columns, rows)


def ahead(review: Review) -> Table:
    if review.ahead is None:
        return Table("ahead", "", (), ())
    a = review.ahead
    rows: list[Row] = [(s.name, s.probability_frac, s.cost_usd, s.regret_usd) for s in a.scenarios]
    if a.expected_cost_usd is not None:
        rows.append(("expected", None, a.expected_cost_usd, None))
    columns = (
        C("scenario", "scenario"), C("probability_frac", "probability", "percent"),
        C("cost_usd", "cost in the horizon $", "money"), C("regret_usd", "regret $", "money"),
    )  # fmt: skip
    return Table("ahead", f"{_quarters(a.quarters)} from {a.first_day}, by the forecast", columns, tuple(rows))


def sign_now(review: Review) -> Table:
    if review.ahead is None:
        return Table("sign_now", "", (), ())
    rows = tuple(
        (s.instances, s.offer, s.term, str(s.last_day), s.usd_per_month, s.owed_after_usd)
        for s in review.ahead.sign_now
    )
    columns = (
        C("instances", "instances", "count"), C("offer", "instance"), C("term", "term"), C("last_day", "until"),
        C("usd_per_month", "$/month", "money"), C("owed_after_usd", "owed after the horizon $", "money"),
    )  # fmt: skip
    return Table("sign_now", "sign now, whatever comes", columns, rows)


def _quarters(count: int) -> str:
    return "one quarter" if count == 1 else f"{count} quarters"


def commitments(review: Review) -> Table:
    rows = tuple((c.act, c.instances, c.offer, c.purchase, c.lapses, c.usd_per_month, c.said)
                 for c in review.commitments)  # fmt: skip
    columns = (
        C("act", "do"), C("instances", "instances", "count"), C("offer", "instance"), C("purchase", "term"),
        C("lapses", "lapses"), C("usd_per_month", "$/month", "money"), C("said", "why"),
    )  # fmt: skip
    return Table("commitments", "commitments", columns, rows)


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
    if len(review.trend) < 2:
        return Table("trend", "", (), ())
    rows = tuple(
        (
            p.name, p.last_hour[:10], p.planned_usd_per_month, p.actual_usd_per_month, p.hindsight_usd_per_month,
            p.next_usd_per_month, p.actual_usd_per_1m_tokens, p.actual_tokens_per_month, signed(p.forecast_off_frac),
        )
        for p in review.trend
    )  # fmt: skip
    columns = (
        C("review", "review"), C("until", "until"), C("planned", "planned $/month", "money"),
        C("actual", "actual", "money"), C("hindsight", "hindsight", "money"), C("next", "next plan", "money"),
        C("usd_per_1m_tokens", "$/1M tokens", "small price"), C("tokens_per_month", "tokens/month", "tokens"),
        C("off", "requests off", "number"),
    )  # fmt: skip
    return Table("trend", "trend", columns, rows)


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
