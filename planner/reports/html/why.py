"""Why this plan and no other: limits, levers, the options with their prices, and what was not possible."""

from __future__ import annotations

from planner.explanations.records import Explanation
from planner.plan.plan import Plan
from planner.reports.explanation import idle_limits, levers_table, limits_table, no_levers, not_tried
from planner.reports.markup import Html, and_more, details, el, join, name, notes, panel
from planner.reports.phrases import alike
from planner.reports.tables.html import table_html, table_panel
from planner.reports.tables.options import options, options_alike, rejections_alike
from planner.reports.tables.plan import binding
from planner.reports.tables.table import Column, Table

OPTIONS_IN_ALL, REASONS_IN_ALL, WORKLOADS_TOLD = 500, 350, 100
"""rows of a page; each workload that is shown, the most expensive of many, has its part of them, at least:"""
OPTIONS_AT_LEAST, REASONS_AT_LEAST = 3, 3
OPTIONS_FIRST, NAMES_SHOWN = 8, 3


def panels(plan: Plan, explanation: Explanation | None) -> list[Html]:
    limits = table_panel("binding", binding(plan), title="Limits that are reached")
    return [_explanation(explanation), limits, _options(plan), _rejected(plan)]


def _explanation(explanation: Explanation | None) -> Html:
    if explanation is None:
        return Html("")
    levers, limits = levers_table(explanation), limits_table(explanation)
    parts = [
        table_html(levers) if levers.rows else el("p", no_levers(explanation.workload)),
        table_html(limits) if limits.rows else Html(""),
    ]
    idle = [f"would save nothing: {step}" for step in idle_limits(explanation)]
    title = "What each lever saves, and what one step more of each limit would"
    return panel("explanation", title, *parts, notes([*idle, *not_tried(explanation)]))


def _most_expensive(plan: Plan) -> set[str]:
    """The workloads that are shown, of very many."""
    ranked = sorted(plan.workloads, key=lambda w: -w.cost_usd_per_month)
    return {w.name for w in ranked[:WORKLOADS_TOLD]}


def _options(plan: Plan) -> Html:
    """Each workload's ways to be served alone, cheapest first, with what keeps each from being chosen."""
    shown_workloads = _most_expensive(plan)
    groups = [(names, mine) for names, mine in options_alike(plan) if shown_workloads.intersection(names)]
    room = max(OPTIONS_AT_LEAST, OPTIONS_IN_ALL // len(groups))
    parts = []
    for names, mine in groups:
        shown = [o for k, o in enumerate(mine) if k < room or o.chosen or o.option.startswith("api ")]
        first = [o for k, o in enumerate(shown) if k < OPTIONS_FIRST or o.chosen]
        rest = [o for o in shown if o not in first]
        body = [table_html(options(plan, first, several=len(names) > 1))]
        if rest:
            body.append(details(f"{len(rest)} more", table_html(options(plan, rest, several=len(names) > 1))))
        more = notes(and_more(len(mine), len(shown), " expensive ones"))
        parts.append(_by_workload(names, f"{len(mine)} option{'s' * (len(mine) != 1)}", len(groups), *body, more))
    text = "Costs are of one workload served by itself, without engineers and limits; "
    note = el("p", text, "what is shared or mixed has its cost in the plan.")
    return panel("options", "Options considered", note, *parts, _others(plan))


def _by_workload(names: list[str], text: str, groups: int, *body: Html) -> Html:
    """What holds for several workloads is shown once."""
    owners = [name(n) if k == 0 else join([", ", name(n)]) for k, n in enumerate(names[:NAMES_SHOWN])]
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return details(join([*owners, more, f": {text}"]), *body, open_=groups <= 3)


def _others(plan: Plan) -> Html:
    return notes(and_more(len(plan.workloads), WORKLOADS_TOLD, " workloads that cost less"))


def _rejected(plan: Plan) -> Html:
    shown_workloads = _most_expensive(plan)
    groups = [(names, reasons) for names, reasons in rejections_alike(plan) if shown_workloads.intersection(names)]
    if not groups:
        return Html("")
    room = max(REASONS_AT_LEAST, REASONS_IN_ALL // len(groups))
    columns = (Column("reason", "reason and limit"), Column("count", "how many", "count"), Column("names", "such as"))
    parts = []
    for names, reasons in groups:
        rows = tuple((reason, len(of), alike(of)) for reason, of in list(reasons.items())[:room])
        table = table_html(Table("rejected", "Not possible, and why", columns, rows))
        more = notes(and_more(len(reasons), room, " reasons"))
        count = sum(len(of) for of in reasons.values())
        parts.append(_by_workload(names, f"{count} not possible", len(groups), table, more))
    return panel("rejected", "Not possible, and why", *parts, _others(plan))
