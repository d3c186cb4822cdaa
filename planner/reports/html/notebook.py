"""A plan as notebooks show it."""

from __future__ import annotations

from planner.plan.plan import Plan
from planner.reports.page import as_fragment
from planner.reports.plan import notebook_parts


def fragment(plan: Plan) -> str:
    """For notebooks: the headline, the fleet and the workloads, in the notebook's own style."""
    return as_fragment(notebook_parts(plan))
