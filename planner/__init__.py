"""fleetplan: the cheapest fleet that meets demand and SLOs, proved, against an API baseline.

import planner
plan = planner.plan_fleet(planner.load_case("demand.yaml"))
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # nothing is imported before the command can say that it was interrupted
    from typing import Any

_WHERE = {
    "load_case": "planner.case.demand.load",
    "case_from_text": "planner.case.demand.load",
    "measure_logs": "planner.logs.measure",
    "MeasureOptions": "planner.logs.measure",
    "demand_text": "planner.case.demand.from_logs",
    "plan_fleet": "planner.pipeline",
    "plan_horizon": "planner.pipeline",
    "explain": "planner.explanations.explain",
    "study": "planner.studies.study",
    "diff_plans": "planner.plan.diff",
    "serve_commands": "planner.plan.serve_commands",
    "read_review": "planner.review",
    "review_fleet": "planner.review",
    "html_report": "planner.reports.html.plan",
    "check_plan": "planner.checker",
    "check_horizon": "planner.checker.horizon",
    "check_policy": "planner.checker.policy",
    "load_policy": "planner.checker.policy",
    "read_plan": "planner.plan.plan",
    "read_horizon": "planner.plan.horizon.horizon_plan",
    "Plan": "planner.plan.plan",
    "Case": "planner.case.case",
    "InputError": "planner.io.errors",
    "Infeasible": "planner.explanations.relaxations",
    "Options": "solvers.search.fleet_solution",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    """Import on first use, so that `fleetplan --help` stays fast."""
    if name in _WHERE:
        from importlib import import_module

        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'planner' has no attribute {name!r}")
