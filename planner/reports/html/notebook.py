"""A plan as notebooks show it."""

from __future__ import annotations

from planner.io.formatting import usd
from planner.plan.plan import Plan
from planner.reports.html import headline
from planner.reports.markup import el, join
from planner.reports.phrases import baseline_name, proof
from planner.reports.tables.html import table_html
from planner.reports.tables.plan import fleet
from planner.reports.tables.pools import pools


def fragment(plan: Plan) -> str:
    """For notebooks: the headline, the fleet and the workloads, in the notebook's own style."""
    b = plan.baseline
    answer = el("p", el("strong", plan.name, ": ", usd(plan.cost_usd_per_month), " / month"))
    against = f"{baseline_name(plan)}: {usd(b.cost_usd_per_month)} / month; {proof(plan)}"
    tables = (table_html(table) for table in (fleet(plan), pools(plan)))
    return str(el("div", answer, el("p", against), join(headline.notices(plan)), *tables, class_="fleetplan"))
