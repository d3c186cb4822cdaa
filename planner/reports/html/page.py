"""A plan as one HTML file: no network, no clock, the same plan gives the same bytes."""

from __future__ import annotations

from importlib import resources

from planner.explanations.records import Explanation
from planner.io.formatting import usd
from planner.plan.plan import Plan
from planner.plan.serve_commands import serve_commands
from planner.reports.html import basis, headline, heat, hours, money, service, why
from planner.reports.html.break_even import break_even
from planner.reports.html.markup import Html, el, long_table, notes, panel, section, table
from planner.reports.html.providers import provider_bills
from planner.reports.html.waterfall import waterfall
from planner.reports.svg import DRAWING
from planner.reports.terminal import fleet_remarks, fleet_rows
from planner.reports.terminal_workloads import workload_remarks, workload_rows

FLEET_ROWS, WORKLOAD_ROWS = 120, 250
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""the browser itself refuses whatever would leave the page"""
SECTIONS = {
    "fleet": "Fleet and demand",
    "money": "Money",
    "service": "Service",
    "why": "Why this plan",
    "basis": "What it rests on",
}


def html_report(plan: Plan, explanation: Explanation | None = None) -> str:
    """The whole report, with the command lines that would serve the deployments."""
    parts = {
        "fleet": _fleet(plan),
        "money": _money(plan),
        "service": [
            figures(service.headroom(plan)),
            workloads_panel(plan),
            service.commands_panel(serve_commands(plan)),
        ],
        "why": [
            why.explanation_panel(explanation),
            why.binding_panel(plan),
            why.options_panel(plan),
            why.rejected_panel(plan),
        ],
        "basis": [basis.assumptions_panel(plan), basis.prices_panel(plan), basis.proof_panel(plan)],
    }
    links = el("nav", *(el("a", label, href=f"#{key}") for key, label in SECTIONS.items()), aria_label="sections")
    top = el("header", headline.masthead(plan), links, class_="top")
    sections = [section(key, label, *parts[key]) for key, label in SECTIONS.items()]
    main = el("main", *headline.notices(plan), headline.hero(plan), *sections)
    said = f"fleetplan {plan.fleetplan_version}. A month is 730 hours. Every figure is of the plan "
    foot = el("footer", said, plan.case_hash[:19], ".")
    return whole_page(f"{plan.name}: {usd(plan.cost_usd_per_month)} / month", top, main, foot)


def whole_page(title: str, *body: Html) -> str:
    """A document that needs nothing but itself."""
    script = Html(f"<script>{_resource('script.js')}</script>")
    whole = el("html", _head(title), el("body", *body, script), lang="en")
    return f"<!doctype html>\n{whole}\n"


def _head(title: str) -> Html:
    return el(
        "head",
        Html('<meta charset="utf-8">'),
        Html('<meta name="viewport" content="width=device-width,initial-scale=1">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        el("title", title),
        Html(f"<style>{_resource('style.css')}{DRAWING}</style>"),
    )


def _resource(name: str) -> str:
    return resources.files("planner.reports.html").joinpath(name).read_text(encoding="utf-8")


def figures(*drawn: Html) -> Html:
    return el("div", *drawn, class_="figures") if any(drawn) else Html("")


def _fleet(plan: Plan) -> list[Html]:
    pictures = (hours.capacity(plan), hours.demand(plan), money.fleet_by_gpu(plan), heat.heat_map(plan))
    return [figures(*pictures), fleet_panel(plan), commitments_panel(plan)]


def _money(plan: Plan) -> list[Html]:
    pictures = (money.costs(plan), money.ranges(plan), money.by_workload(plan))
    studied = (waterfall(plan), break_even(plan))
    return [figures(*pictures, *studied), provider_bills(plan), basis.build_or_buy_panel(plan)]


def fleet_panel(plan: Plan) -> Html:
    shown = long_table(fleet_rows(plan), "defg", most=FLEET_ROWS)
    return panel("fleet-table", "What is paid for", shown, notes(fleet_remarks(plan)))


def commitments_panel(plan: Plan) -> Html:
    if not plan.commitments:
        return Html("")
    head = ("offer", "term", "instances", "$ at signing", "$ owed after the quarter")
    rows = [
        (c.offer, c.term, str(c.instances), f"{c.upfront_usd:,.0f}", f"{c.beyond_horizon_usd:,.0f}")
        for c in plan.commitments
    ]
    return panel("commitments", "Commitments", table([head, *rows], "cde"))


def workloads_panel(plan: Plan) -> Html:
    rows = workload_rows(plan)
    shown = long_table(rows, "cdeghijk" if "caching" in rows[0] else "cdefghij", most=WORKLOAD_ROWS)
    return panel("workloads", "Workloads", shown, notes(workload_remarks(plan)))
