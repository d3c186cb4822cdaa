"""Why a plan is what it is: what one step more of each limit would save, and what it would cost without each lever.

Both plans of a comparison are proved within a gap only, so their difference is proved to lie in a range. Relaxing
a limit never raises the optimum; removing a lever never lowers it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from planner.io.errors import input_error
from planner.io.input_files import read_json_text
from planner.io.result import Result
from planner.io.validation import Strict, saved
from planner.plan.plan import Plan
from planner.plan.why_not import WhyNot
from solvers.search.fleet_solution import FleetSolution, Outcome

EXPLANATION_FORMAT = "fleetplan-explanation/1"
NEGLIGIBLE_FRAC = 1e-5
"""a difference below this share of the cost is none"""
Verdict = Literal["proved", "nothing", "within the gap"]
"""proved: there is a difference; nothing: there is none worth naming; else the proofs are too wide to tell"""


class MarginalValue(Strict):
    """What one more step of a limit would save; penalties of shed requests count like costs."""

    limit: str
    workload: str | None
    step: str
    saves_usd_per_month: float
    """between the plans that were found"""
    proved_usd_per_month: tuple[float, float]
    """at least and at most, between the best plans there are"""
    verdict: Verdict


class LeverValue(Strict):
    """The best plan without a lever that the plan uses; penalties of shed requests count like costs."""

    lever: str
    workload: str | None
    feasible: bool | None
    """None: no plan was found in the time, nor proved impossible"""
    cost_usd_per_month: float | None = None
    dearer_by_usd_per_month: float | None = None
    """between the plans that were found"""
    dearer_by_frac: float | None = None
    """of the plan's cost"""
    proved_usd_per_month: tuple[float, float] | None = None
    """at least and at most, between the best plans there are"""
    verdict: Verdict | None = None


class RunnerUp(Strict):
    """The best plan in which nothing that serves a workload now may serve it; penalties count like costs."""

    served_by: str | None
    """then; None where no plan was found"""
    feasible: bool | None
    """None: no plan was found in the time, nor proved impossible"""
    cost_usd_per_month: float | None = None
    """of the whole plan"""
    dearer_by_usd_per_month: float | None = None
    proved_usd_per_month: tuple[float, float] | None = None
    """at least and at most, between the best plans there are"""
    verdict: Verdict | None = None


class Choice(Strict):
    """Why a workload is served as it is. Workloads of which all of it is true alike stand together."""

    workloads: tuple[str, ...]
    served_by: str
    cost_usd_per_month: float
    """of each"""
    usd_per_1m_tokens: float
    ways: int
    """to serve it that keep its objectives, each by itself; this is one of them or a mix"""
    binds: tuple[str, ...]
    """what stops a replica from doing more, and limits that are reached where it runs"""
    runner_up: RunnerUp | None = None
    """None: not tried"""
    menu: tuple[WhyNot, ...]
    """every GPU and quantization of the menu, and why those that are not used are not"""


class Explanation(Result, Strict):
    format: str = EXPLANATION_FORMAT
    name: str
    case_hash: str
    cost_usd_per_month: float
    held_usd_per_month: float = 0.0
    """of what was signed before, paid in any case; not part of the cost"""
    gap_frac: float
    workload: str | None
    """where only what is its own was looked at"""
    limits: tuple[MarginalValue, ...]
    """the dearest first"""
    levers: tuple[LeverValue, ...]
    """the most useful first"""
    choices: tuple[Choice, ...] = ()
    """in the order of the workloads"""
    not_tried: tuple[str, ...]
    """what was left when the work ended early"""
    why_not_tried: str | None = None
    """interrupted, or the time was up"""

    def as_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


def read_explanation(path: Path | str, plan: Plan) -> Explanation:
    """A saved explanation of this plan; raises InputError where it is none, or of another."""
    remedy = "Write it again: fleetplan explain PLAN.json --format json"
    explanation = saved(Explanation, read_json_text(path), path, "an explanation", remedy)
    if explanation.case_hash != plan.case_hash:
        raise input_error(path, "explains a different plan", remedy)
    return explanation


def marginal_value(plan: Plan, limit: str, workload: str | None, step: str, looser: FleetSolution) -> MarginalValue:
    saves = saving(plan, looser)
    return MarginalValue(
        limit=limit,
        workload=workload,
        step=step,
        saves_usd_per_month=saves.found,
        proved_usd_per_month=(saves.at_least, saves.at_most),
        verdict=saves.verdict,
    )


def lever_value(plan: Plan, lever: str, workload: str | None, without: FleetSolution) -> LeverValue:
    if without.best is None:
        feasible = False if without.outcome is Outcome.INFEASIBLE else None
        return LeverValue(lever=lever, workload=workload, feasible=feasible)
    extra = extra_cost(plan, without)
    return LeverValue(
        lever=lever,
        workload=workload,
        feasible=True,
        cost_usd_per_month=without.best.cost_usd_per_month,
        dearer_by_usd_per_month=extra.found,
        dearer_by_frac=extra.found / _usd(plan) if _usd(plan) else 0.0,
        proved_usd_per_month=(extra.at_least, extra.at_most),
        verdict=extra.verdict,
    )


@dataclass(frozen=True)
class Difference:
    """Between the best plans of two cases, USD per month."""

    found: float
    at_least: float
    at_most: float
    verdict: Verdict


def saving(plan: Plan, looser: FleetSolution) -> Difference:
    """What a looser limit saves: the plan at hand still holds under it, so that is never less than nothing."""
    cost = _usd(plan)
    found = min(cost, _found_usd(looser))
    bound = cost if looser.outcome is Outcome.INFEASIBLE else min(cost, looser.bound_usd_per_month)
    return _difference(cost - found, plan.bound_usd_per_month - found, cost - bound, cost)


def extra_cost(plan: Plan, without: FleetSolution) -> Difference:
    """What the lack of a lever costs: every plan without it is a plan with it, so that is never less than nothing."""
    cost, other = _usd(plan), _found_usd(without)
    bound = max(plan.bound_usd_per_month, without.bound_usd_per_month)
    return _difference(other - cost, bound - cost, other - plan.bound_usd_per_month, cost)


def _difference(found: float, at_least: float, at_most: float, cost: float) -> Difference:
    found, at_least = max(0.0, found), max(0.0, at_least)
    at_most = max(at_most, found, at_least)
    none = NEGLIGIBLE_FRAC * cost
    verdict: Verdict = "proved" if at_least > none else "nothing" if at_most <= none else "within the gap"
    return Difference(found, at_least, at_most, verdict)


def _usd(plan: Plan) -> float:
    return plan.objective_usd_per_month


def _found_usd(solution: FleetSolution) -> float:
    return math.inf if solution.best is None else solution.best.objective
