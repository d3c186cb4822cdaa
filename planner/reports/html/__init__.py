"""The report as a page, one self-contained HTML file, and as a notebook shows it; style and script lie beside this."""

from __future__ import annotations

from planner.explanations.records import Explanation
from planner.plan.plan import Plan
from planner.reports.page import as_fragment, as_page
from planner.reports.plan import notebook_parts, plan_document


def html_report(plan: Plan, explanation: Explanation | None = None) -> str:
    """The whole report, with the command lines that would serve the deployments."""
    return as_page(plan_document(plan, explanation))


def fragment(plan: Plan) -> str:
    """For notebooks: the headline, the fleet and the workloads, in the notebook's own style."""
    return as_fragment(notebook_parts(plan))
