"""fleetplan: the cheapest fleet that meets demand and SLOs, proved, against an API baseline.

import planner
plan = planner.plan_fleet(planner.load_case("demand.yaml"))
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # nothing is imported before the command can say that it was interrupted
    from typing import Any

_WHERE = {
    "load_case": "planner.loading",
    "case_from_text": "planner.loading",
    "plan_fleet": "planner.pipeline",
    "explain": "planner.why",
    "study": "planner.studies.all_studies",
    "diff_plans": "planner.comparing",
    "serve_commands": "planner.serving_commands",
    "read_review": "planner.review",
    "review_fleet": "planner.review",
    "html_report": "planner.reports.html",
    "check_plan": "planner.checker",
    "check_policy": "planner.policies",
    "load_policy": "planner.policies",
    "read_plan": "planner.plan",
    "Plan": "planner.plan",
    "Case": "planner.case",
    "InputError": "planner.complaints",
    "Infeasible": "planner.why.limits",
    "Options": "solvers.fleet_solution",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    """Import on first use, so that `fleetplan --help` stays fast."""
    if name in _WHERE:
        from importlib import import_module

        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'planner' has no attribute {name!r}")
