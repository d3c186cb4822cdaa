"""What an executor computes: the plans of one changed case, at its own budget or at several. JSON in, JSON out."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from planner.case.case import Case, case_from_json
from planner.case.quarters import held_usd_per_month
from planner.case.slots import requests_per_month, slots_of
from planner.optimization.replan import OnProgress
from planner.plan.plan import Plan
from planner.studies.frontier import BudgetPlan, Frontier, served_frac, share
from planner.studies.horizon_runs import HorizonRuns, Point, horizon_point
from planner.studies.waterfall import fleet_at_its_busiest
from solvers.search.fleet_solution import Options, Progress


def silent(progress: Progress) -> None:
    """Nobody is told."""


def shape_of_case(payload: dict[str, Any], on_progress: OnProgress = silent) -> dict[str, Any]:
    """The LP's lower bound at each budget, with what is held."""
    frontier = _frontier(payload, on_progress)
    held, bounds = held_usd_per_month(frontier.case), frontier.shape(payload["budgets"])
    return {"bounds": [None if bound is None else bound + held for bound in bounds]}


def plans_of_case(payload: dict[str, Any], on_progress: OnProgress = silent) -> dict[str, Any]:
    """A record for each budget; with no budgets, one for the case as it is."""
    budgets = payload["budgets"]
    case = case_from_json(payload["case"])
    if case.future is not None:
        runs = HorizonRuns(case, Options(**payload["options"]), on_progress)
        if budgets is None:
            return {"points": [horizon_point(case, case.limits.budget_usd_per_month, runs.own())]}
        return {"points": [horizon_point(case, b, r) for b, r in zip(budgets, runs.plans(budgets), strict=True)]}
    frontier = _frontier(payload, on_progress)
    if budgets is None:
        own = case.limits.budget_usd_per_month
        return {"points": [point(case, own, frontier.unlimited() if own is None else frontier.plans([own])[0])]}
    return {"points": [point(frontier.case, b, p) for b, p in zip(budgets, frontier.plans(budgets), strict=True)]}


def _frontier(payload: dict[str, Any], on_progress: OnProgress) -> Frontier:
    """Frontier of the case without its budget."""
    case = payload["case"] | {"limits": payload["case"]["limits"] | {"budget_usd_per_month": None}}
    return _prepared(json.dumps(case, sort_keys=True), tuple(sorted(payload["options"].items())), on_progress)


@lru_cache(maxsize=4)
def _prepared(case: str, options: tuple[tuple[str, Any], ...], on_progress: OnProgress) -> Frontier:
    """Formulated once for all that one process is asked about a case."""
    return Frontier(case_from_json(json.loads(case)), Options(**dict(options)), on_progress)


def point(case: Case, budget: float | None, found: BudgetPlan) -> Point:
    """One row: the budget, the plan's figures, and what is proved; what does not apply is null."""
    plan: Plan | None = found.plan
    slots = slots_of(case)
    return {
        "budget_usd_per_month": budget,
        "cost_usd_per_month": plan.cost_usd_per_month if plan else None,
        "held_usd_per_month": plan.held_usd_per_month if plan else None,
        "total_usd_per_month": plan.total_usd_per_month if plan else None,
        "bound_usd_per_month": found.bound_usd_per_month,
        "served_frac": served_frac(plan) if plan else None,
        "api_frac": share(plan, "api_share_frac") if plan else None,
        "shed_frac": share(plan, "shed_share_frac") if plan else None,
        "gap_frac": plan.gap_frac if plan else None,
        "status": found.outcome.value,
        "penalty_usd_per_month": plan.penalty_usd_per_month if plan else None,
        "usd_per_1m_tokens": plan.usd_per_1m_tokens if plan else None,
        "tokens_per_month": plan.tokens_per_month if plan else None,
        "requests_per_month": sum(requests_per_month(w, slots) for w in case.workloads),
        "baseline_usd_per_month": plan.baseline.cost_usd_per_month if plan else None,
        "least_budget_usd_per_month": found.least_budget_usd_per_month,
        "peak_gpus": max(_gpus(plan), default=0) if plan else None,
        "fleet": "; ".join(fleet_at_its_busiest(plan)) if plan else None,
        "workloads": [_workload(w) for w in plan.workloads] if plan else [],
    }


def point_of_error(budget: float | None, error: str) -> Point:
    """A row for a run that failed by itself: the others stand."""
    names = (
        *("held_usd_per_month", "total_usd_per_month"),
        *("cost_usd_per_month", "bound_usd_per_month", "served_frac", "api_frac", "shed_frac", "gap_frac"),
        *("penalty_usd_per_month", "usd_per_1m_tokens", "tokens_per_month", "requests_per_month"),
        *("baseline_usd_per_month", "least_budget_usd_per_month", "peak_gpus", "fleet"),
    )
    nothing: Point = dict.fromkeys(names)
    return {"budget_usd_per_month": budget} | nothing | {"status": f"error: {error}", "error": error, "workloads": []}


def _gpus(plan: Plan) -> list[int]:
    slots = range(len(plan.slots))
    return [sum(line.gpus_per_instance * line.instances_by_slot[t] for line in plan.fleet) for t in slots]


def _workload(w: Any) -> Point:
    return {
        "name": w.name,
        "served_frac": 1.0 - w.shed_share_frac,
        "api_frac": w.api_share_frac,
        "shed_frac": w.shed_share_frac,
        "cost_usd_per_month": w.cost_usd_per_month,
    }
