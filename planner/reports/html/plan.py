"""The page of a plan."""

from __future__ import annotations

from planner.explanations.records import Explanation
from planner.plan.plan import Plan
from planner.reports.page import as_page
from planner.reports.plan import plan_document


def html_report(plan: Plan, explanation: Explanation | None = None) -> str:
    """The whole report, with the command lines that would serve the deployments."""
    return as_page(plan_document(plan, explanation))
