"""A sweep as one HTML file: the frontier, what moves the cost, and every run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planner.io.formatting import counted, percent, usd
from planner.reports.html.page import figures, page
from planner.reports.markup import Html, bar, bar_table, figure, panel, words
from planner.reports.markup import table_html
from planner.reports.what_if import frontier_svg, runs
from planner.studies.sweep import UNCHANGED, Sweep, swings

MOST_BARS = 40


def what_if_page(sweep: Sweep) -> str:
    table = runs(sweep)
    sections = (
        ("pictures", "At a glance", [figures(_spread(sweep) if sweep.horizon else _frontier(sweep), _tornado(sweep))]),
        ("runs", "Every run", [panel("table", "Plans", table_html(table))]),
        ("all", "All figures", [panel("figures", "As in the CSV", table_html(replace(table, notes=()), view="csv"))]),
    )
    title = f"What if: {sweep.name}"
    return page(title, title, _subtitle(sweep), sections)


def _subtitle(sweep: Sweep) -> str:
    plans = counted(sum(row["cost_usd_per_month"] is not None for row in sweep.rows), "plan")
    asked = f"{100 * sweep.gap_frac:g}%"
    return f"{plans} of {len(sweep.rows)} asked for, each to be proved within {asked} of cost + penalty"


def _frontier(sweep: Sweep) -> Html:
    known = [p for p in sweep.frontier if p["served_frac"] is not None]
    if not known:
        return Html("")
    best = max(known, key=lambda p: p["served_frac"])
    title = f"{usd(best['cost_usd_per_month'])} a month serves {percent(best['served_frac'])} of the requests"
    svg = Html(frontier_svg(known, "Share served against cost"))
    return figure("frontier", title, svg, caption="The best plan at each budget.", wide=True)


def _spread(sweep: Sweep) -> Html:
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


def _tornado(sweep: Sweep) -> Html:
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
            f"{s.usd_per_month:,.0f}" if s.told else f"{s.usd_per_month:,.0f} (within the proof gap)",
        )
        for s in moved[:MOST_BARS]
    ]
    title = f"{moved[0].input} moves the cost most: by {usd(moved[0].usd_per_month)} a month"
    head = ("input", "", "cheapest $/month", "most expensive $/month", "moves it by")
    caption = "The cost between its cheapest and its most expensive value."
    return figure("tornado", title, bar_table(head, rows), caption=caption, wide=True)


def _at(value: str) -> str:
    return value if value == UNCHANGED else f"at {value}"
