"""What an executor computes for a setting: a checked plan and its bound, without a budget and within many.

Of a plan it keeps what its cost is made of.
"""

from __future__ import annotations

from typing import Any

from planner.case.case import case_from_json
from planner.case.quarters import held_usd_per_month
from planner.io.formatting import span
from planner.pipeline import attempt
from planner.plan.account.account import account_of
from planner.plan.plan import Plan
from planner.studies.executing.jobs import Result
from planner.studies.frontier import Frontier, served_frac, share
from planner.studies.waterfall import fleet_at_its_busiest
from solvers.backends.clock import Stopped
from solvers.search.fleet_solution import Options, Outcome

FIGURES = ("cost", "penalty", "bound", "months", "served", "api", "tokens", "baseline", "fleet", "runs")


def plan_settings(payload: dict[str, Any]) -> Result:
    """{case, budgets, options} to points: without a budget first, then plans for all budgets between these shares."""
    case, options = case_from_json(payload["case"]), Options(**payload["options"])
    if not payload["budgets"]:
        tried = attempt(case, options)
        return {"points": [_point(tried.outcome, tried.plan, None)]}
    frontier = Frontier(case, options)
    free = frontier.unlimited()
    curve = frontier.curve(payload["budgets"], payload["step_frac"])
    held = held_usd_per_month(case)
    bounds = [None if (usd := each.bound_usd_per_month) is None else usd + held for each in (free, *curve.plans)]
    points = [_point(each.outcome, each.plan, usd) for each, usd in zip((free, *curve.plans), bounds, strict=True)]
    budgets = [None, *(each.budget_usd_per_month for each in curve.plans)]
    if curve.too_small_usd_per_month is not None:
        points.append(dict.fromkeys(FIGURES) | {"bound": None, "status": Outcome.INFEASIBLE.value})
        budgets.append(curve.too_small_usd_per_month)
    lines = [[-line.usd_per_usd, line.within(0.0)] for line in curve.lines]
    return {"points": points, "budgets": budgets, "lines": lines}


def _point(outcome: Outcome, plan: Plan | None, bound_usd_per_month: float | None) -> Result:
    if outcome is Outcome.INTERRUPTED:
        raise Stopped  # half a search is no result to keep
    if plan is None:
        return dict.fromkeys(FIGURES) | {"bound": bound_usd_per_month, "status": outcome.value}
    return figures_of(plan)


def figures_of(plan: Plan) -> Result:
    """Money is USD a month: by month, what instances, APIs and all else come to, what is held among the latter."""
    account, held = account_of(plan), plan.held_usd_per_month
    by_month = (account.money.parts_of_month(month) for month in range(account.months))
    return {
        "status": plan.status,
        "cost": plan.total_usd_per_month,
        "penalty": plan.penalty_usd_per_month,
        "bound": plan.bound_usd_per_month + held,
        "months": [[gpus, apis, rest + held] for gpus, apis, rest in by_month],
        "served": served_frac(plan),
        "api": share(plan, "api_share_frac"),
        "tokens": plan.tokens_per_month,
        "baseline": plan.baseline.cost_usd_per_month,
        "fleet": list(fleet_at_its_busiest(plan)),
        "runs": [f"{span(d.replicas_by_slot)} x {d.name}" for pool in plan.pools for d in pool.deployments],
    }
