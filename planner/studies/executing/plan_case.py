"""The work of most sweeps: plan one case."""

from __future__ import annotations

from typing import Any

from planner.case.case import case_from_json
from planner.pipeline import attempt
from planner.studies.executing.jobs import Result
from solvers.backends.clock import Stopped
from solvers.search.fleet_solution import Options, Outcome

FIGURES = (
    *("status", "cost_usd_per_month", "penalty_usd_per_month", "bound_usd_per_month", "gap_frac"),
    *("usd_per_1m_tokens", "tokens_per_month"),
)


def plan_case(payload: dict[str, Any]) -> Result:
    """{case, options} to the headline of its checked plan; where there is none, a status and no figures."""
    tried = attempt(case_from_json(payload["case"]), Options(**payload.get("options", {})))
    if tried.outcome is Outcome.INTERRUPTED:
        raise Stopped  # half a search is no result to keep
    if tried.plan is None:
        return dict.fromkeys(FIGURES) | {"status": tried.outcome.value}
    return {figure: getattr(tried.plan, figure) for figure in FIGURES}
