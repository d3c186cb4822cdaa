"""The page of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from planner.explanations.records import Explanation
from planner.io.formatting import usd
from planner.plan.plan import Plan
from planner.plan.serve_commands import ServeCommand, serve_commands
from planner.reports.charts import heat, hours, money
from planner.reports.charts.break_even import break_even
from planner.reports.charts.headroom import headroom
from planner.reports.charts.waterfall import waterfall
from planner.reports.html import basis, headline, why
from planner.reports.html.page import figures, page
from planner.reports.markup import Html, and_more, details, el, join, name, notes, panel, pre
from planner.reports.phrases import price_date, proof, sizes
from planner.reports.tables.answers import with_other_demand
from planner.reports.tables.html import table_panel
from planner.reports.tables.plan import commitments, fleet
from planner.reports.tables.pools import pools
from planner.reports.tables.quality import quality
from planner.reports.tables.studies import providers

FLEET_ROWS, COMMANDS_SHOWN, SELLERS_SHOWN = 120, 60, 60


def html_report(plan: Plan, explanation: Explanation | None = None) -> str:
    """The whole report, with the command lines that would serve the deployments."""
    plan = with_other_demand(plan)
    sections = (
        ("fleet", "Fleet and demand", _fleet(plan)),
        ("money", "Money", _money(plan)),
        ("service", "Service", _service(plan)),
        ("why", "Why this plan", why.panels(plan, explanation)),
        ("basis", "What it rests on", basis.panels(plan, explanation is not None)),
    )
    title = f"{plan.name}: {usd(plan.cost_usd_per_month)} / month"
    foot = (
        f"fleetplan {plan.fleetplan_version}. A month is 730 hours. Every figure is of the plan {plan.case_hash[:19]}."
    )
    first = (*headline.notices(plan), headline.answer(plan))
    sub = " · ".join([*sizes(plan), *price_date(plan), proof(plan)])
    return page(title, name(plan.name), sub, sections, first, foot)


def _fleet(plan: Plan) -> list[Html]:
    pictures = (hours.capacity(plan), hours.demand(plan), money.fleet_by_gpu(plan), heat.heat_map(plan))
    bought = table_panel("fleet-table", fleet(plan), title="What is paid for", most=FLEET_ROWS)
    return [figures(*pictures), bought, table_panel("commitments", commitments(plan))]


def _money(plan: Plan) -> list[Html]:
    pictures = (money.costs(plan), money.ranges(plan), money.by_workload(plan), waterfall(plan), break_even(plan))
    bills = plan.studies.providers if plan.studies else ()
    whole = providers(plan, [b for b in bills if b.role != "same model"], "Everything bought from one API")
    some = providers(plan, [b for b in bills if b.role == "same model"], "Some workloads at sellers of their model")
    return [
        figures(*pictures),
        table_panel("providers", whole),
        table_panel("sellers", some, most=SELLERS_SHOWN),
        basis.build_or_buy(plan),
    ]


def _service(plan: Plan) -> list[Html]:
    shown = table_panel("workloads", pools(plan))
    return [figures(headroom(plan)), shown, table_panel("quality", quality(plan)), _commands(serve_commands(plan))]


def _commands(commands: Sequence[ServeCommand]) -> Html:
    parts = [
        join([el("h4", name(c.pool), " on ", c.deployment), pre(" ".join([*c.environment, c.command])), notes(c.notes)])
        for c in commands[:COMMANDS_SHOWN]
    ]
    parts.append(notes(and_more(len(commands), COMMANDS_SHOWN)))
    listed = details(f"{len(commands)} to paste", *parts, open_=len(commands) <= 3)
    return panel("commands", "Commands that would serve it", listed) if commands else Html("")
