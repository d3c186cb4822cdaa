"""A plan as notebooks show it."""

from __future__ import annotations

from planner.io.formatting import usd
from planner.plan.plan import Plan
from planner.reports.html import headline
from planner.reports.html.markup import el, join, table
from planner.reports.phrases import proof
from planner.reports.terminal import fleet_rows
from planner.reports.terminal_workloads import workload_rows

FLEET_ROWS = 120


def fragment(plan: Plan) -> str:
    """For notebooks: the headline, the fleet and the workloads, in the notebook's own style."""
    b = plan.baseline
    answer = el("p", el("strong", plan.name, ": ", usd(plan.cost_usd_per_month), " / month"))
    against = f"{b.provider} {b.model}: {usd(b.cost_usd_per_month)} / month; {proof(plan)}"
    tables = (table(rows[: FLEET_ROWS + 1]) for rows in (fleet_rows(plan), workload_rows(plan)))
    return str(el("div", answer, el("p", against), join(headline.notices(plan)), *tables, class_="fleetplan"))
