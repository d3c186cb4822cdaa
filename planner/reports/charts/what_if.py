"""Pictures of a sweep: the frontier, the spread of horizons, and what moves the cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.io.formatting import percent, tokens, usd
from planner.reports.charts.svg import Axis, Line, line_chart
from planner.reports.markup import Html, bar, bar_table, figure, words
from planner.studies.sweep import UNCHANGED, Sweep, swings

MOST_BARS = 40


def frontier_svg(points: Sequence[dict[str, Any]], title: str) -> str:
    """Share served against cost, a file of its own."""
    known = [p for p in points if p["served_frac"] is not None]
    lines = [_line("served", known, "served_frac")]
    if any(p["api_frac"] for p in known):
        lines.append(_line("of it by the API", known, "api_frac"))
    held = " with what is held" if any(p["held_usd_per_month"] for p in known) else ""
    money = Axis(f"cost{held}, $ / month", written=lambda v: f"${tokens(v)}")
    return line_chart(title, lines, money, Axis("share of requests", written=lambda v: f"{100 * v:.0f}%"))


def _line(name: str, points: Sequence[dict[str, Any]], key: str) -> Line:
    labels = [
        f"{name} {percent(p[key])} at {usd(p['total_usd_per_month'])}, budget {usd(p['budget_usd_per_month'])}"
        for p in points
    ]
    return Line(name, [p["total_usd_per_month"] for p in points], [p[key] for p in points], labels)


def frontier(sweep: Sweep) -> Html:
    known = [p for p in sweep.frontier if p["served_frac"] is not None]
    if not known:
        return Html("")
    best = max(known, key=lambda p: p["served_frac"])
    title = f"{usd(best['total_usd_per_month'])} a month serves {percent(best['served_frac'])} of the requests"
    svg = Html(frontier_svg(known, "Share served against cost"))
    return figure("frontier", title, svg, caption="The best plan at each budget.", wide=True)


def spread(sweep: Sweep) -> Html:
    """Expected cost and the worst scenario of each run of a horizon."""
    known = [row for row in sweep.rows if row["cost_usd_per_month"] is not None]
    if not known:
        return Html("")
    top = max(row["worst_usd"] for row in known) or 1.0
    rows = [
        (
            words(_run_and_budget(row)),
            bar([("b1", 0.0, row["expected_cost_usd"] / top),
                 ("b4", row["expected_cost_usd"] / top, (row["worst_usd"] - row["expected_cost_usd"]) / top)]),
            f"{row['expected_cost_usd']:,.0f}",
            f"{row['worst_usd']:,.0f} ({row['worst_scenario']})",
            words(row["sign_now"]),
            f"{row['owed_after_usd']:,.0f}",
        )
        for row in known[:MOST_BARS]
    ]  # fmt: skip
    best = min(known, key=lambda row: row["cost_usd_per_month"])
    title = f"{usd(best['cost_usd_per_month'])} a month is expected with {_run_and_budget(best)}"
    head = ("run", "", "expected $", "worst $", "sign now", "owed after $")
    caption = (
        "From the expected cost to that of the worst scenario, over the horizon; what is signed now, and owed after."
    )
    return figure("spread", title, bar_table(head, rows), caption=caption, wide=True)


def _run_and_budget(row: dict[str, Any]) -> str:
    budget = row["budget_usd_per_month"]
    return str(row["run"]) if budget is None else f"{row['run']} within {usd(budget)} a month"


def tornado(sweep: Sweep) -> Html:
    moved = swings(sweep)
    if not moved:
        return Html("")
    top = max(s.high_usd_per_month for s in moved) or 1.0
    rows = [
        (
            words(s.input),
            bar([("b1", 0.0, s.low_usd_per_month / top), ("b4", s.low_usd_per_month / top, s.usd_per_month / top)]),
            f"{s.low_usd_per_month:,.0f} {_at(s.low_value)}",
            f"{s.high_usd_per_month:,.0f} {_at(s.high_value)}",
            f"{s.usd_per_month:,.0f}" if s.proved else f"{s.usd_per_month:,.0f} (within the proof gap)",
        )
        for s in moved[:MOST_BARS]
    ]
    title = f"{moved[0].input} changes the cost most: by {usd(moved[0].usd_per_month)} a month"
    head = ("input", "", "cheapest $/month", "most expensive $/month", "moves it by")
    caption = "The cost at the cheapest and at the most expensive value of each input."
    return figure("tornado", title, bar_table(head, rows), caption=caption, wide=True)


def _at(value: str) -> str:
    return value if value == UNCHANGED else f"at {value}"
