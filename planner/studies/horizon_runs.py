"""Plans of a horizon at several budgets, and one row of figures for each.

The plan without a budget comes first: within every budget that its most expensive month keeps to, it is the plan. A
budget below what every plan is proved to cost on average needs no search either. Of the rest, a plan within a smaller
budget is one within a larger, and what is proved at a larger one holds at a smaller: costs never rise with the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from planner.case.case import Case
from planner.case.changes import with_limits
from planner.case.quarters import future_of
from planner.optimization.replan import OnProgress, Replanner
from planner.pipeline import HorizonAttempt, attempt_horizon
from planner.plan.account.account import account_of
from planner.plan.horizon.horizon_plan import MONTHS_OF_A_QUARTER, HorizonPlan
from planner.plan.horizon.horizon_view import (
    owed_beyond_usd,
    owed_in_usd,
    owed_now_usd,
    percentile_usd,
    quarters_of,
    signed_now_usd_per_month,
    usd_per_month,
)
from solvers.search.fleet_solution import OPTIMAL_FRAC, Options, Outcome

SAME = 1e-9
Point = dict[str, Any]


@dataclass(frozen=True, eq=False)
class HorizonRun:
    """Result of one budget."""

    outcome: Outcome
    plan: HorizonPlan | None = None
    bound_usd: float | None = None
    """on what was minimized, of every plan within this budget; None where it is proved that there is none"""
    without_a_plan: str = ""
    least_budget_usd_per_month: float | None = None
    """the least that is known to be enough, where this budget is not"""


class HorizonRuns:
    """Budgets for one case with a horizon, through one replanner."""

    def __init__(self, case: Case, options: Options, on_progress: OnProgress = lambda progress: None) -> None:
        self.case, self.options = case, options
        self._replanner = Replanner(case, options, on_progress)

    def own(self) -> HorizonRun:
        """The plan within the budget of the file, if it has one."""
        made = self._attempt(self.case.limits.budget_usd_per_month)
        if made.plan is None and self.case.limits.budget_usd_per_month is not None:
            return replace(_run(made), least_budget_usd_per_month=self._least())
        return _run(made)

    def plans(self, budgets: Sequence[float]) -> list[HorizonRun]:
        """In the order of `budgets`."""
        runs = {}
        asked = sorted(set(budgets))
        for k, budget in enumerate(asked):
            with self._replanner.part(f"budget {k + 1} of {len(asked)}, " if len(asked) > 1 else ""):
                runs[budget] = self._within(budget)
        kept: HorizonRun | None = None
        for budget, run in runs.items():
            if kept is not None and kept.plan and (run.plan is None or run.plan.counted_usd > kept.plan.counted_usd):
                runs[budget] = run = replace(kept, bound_usd=run.bound_usd or 0.0)
            kept = run if run.plan is not None else kept
        bound = 0.0
        for budget, run in reversed(runs.items()):
            if run.plan is not None:
                bound = min(max(bound, run.bound_usd or 0.0), run.plan.counted_usd)
                runs[budget] = self._proved(run, bound)
        return [runs[budget] for budget in budgets]

    def _within(self, budget: float) -> HorizonRun:
        free = self._attempt(None).plan
        if free is None:
            return _run(self._attempt(None))
        least = _dearest_month_usd(free)
        if least <= budget * (1 + SAME):
            return _run(self._attempt(None))
        if self._is_less_than_any_plan_costs(budget, free):
            return HorizonRun(Outcome.INFEASIBLE, least_budget_usd_per_month=least)
        made = self._attempt(budget)
        return _run(made) if made.plan else replace(_run(made), least_budget_usd_per_month=least)

    def _is_less_than_any_plan_costs(self, budget: float, free: HorizonPlan) -> bool:
        """Whether the bound proves it: where nothing is shed and terms count in full, a plan's mean month is above."""
        worth = future_of(self.case).unused_worth_frac
        if any(w.shed_usd_per_request is not None for w in self.case.workloads) or worth not in (None, 1.0):
            return False
        return free.bound_usd + free.held_usd > budget * _months(free) * (1 + SAME)

    def _attempt(self, budget: float | None) -> HorizonAttempt:
        case = with_limits(budget_usd_per_month=budget)(self.case)
        name = "without a budget" if budget is None else f"within ${budget:,.0f}"
        return self._replanner.plan(case, name, attempt_horizon)

    def _least(self) -> float | None:
        free = self._attempt(None).plan
        return None if free is None else _dearest_month_usd(free)

    def _proved(self, run: HorizonRun, bound: float) -> HorizonRun:
        assert run.plan is not None
        gap = 1 - bound / run.plan.counted_usd if run.plan.counted_usd > 0 else 0.0
        within = Outcome.WITHIN_GAP if gap <= self.options.gap_frac else Outcome.FEASIBLE
        return replace(run, bound_usd=bound, outcome=Outcome.OPTIMAL if gap <= OPTIMAL_FRAC else within)


def _run(made: HorizonAttempt) -> HorizonRun:
    bound = made.plan.bound_usd if made.plan else None
    return HorizonRun(made.outcome, made.plan, bound, made.without_a_plan)


def _months(plan: HorizonPlan) -> int:
    return MONTHS_OF_A_QUARTER * len(quarters_of(plan))


def _dearest_month_usd(plan: HorizonPlan) -> float:
    """What a budget must allow for this plan: its most expensive month, with commitments and what is held."""
    accounts = [account_of(q.plan) for q in plan.quarters]
    return max(account.money.month_usd(month) for account in accounts for month in range(account.months))


def horizon_point(case: Case, budget: float | None, run: HorizonRun) -> Point:
    """One row: the budget, what the plan costs and signs, and what is proved; what does not apply is null."""
    plan = run.plan
    head: Point = {"budget_usd_per_month": budget, "months": MONTHS_OF_A_QUARTER * future_of(case).quarters}
    tail: Point = {
        "status": run.outcome.value,
        "least_budget_usd_per_month": run.least_budget_usd_per_month,
        "without_a_plan": run.without_a_plan or None,
    }
    if plan is None:
        return head | dict.fromkeys(("cost_usd_per_month", "served_frac", "api_frac", "gap_frac")) | tail
    counted, bound = plan.counted_usd, min(run.bound_usd or 0.0, plan.counted_usd)
    return head | _costs(plan) | _signed(plan) | _shares(plan) | {
        "counted_usd": counted,
        "bound_usd": bound,
        "gap_frac": max(0.0, 1 - bound / counted) if counted > 0 else 0.0,
    } | tail  # fmt: skip


def _costs(plan: HorizonPlan) -> Point:
    worst = max(plan.scenarios, key=lambda s: s.cost_usd)
    months = _months(plan)
    return {
        "expected_cost_usd": plan.expected_cost_usd,
        "cost_usd_per_month": plan.expected_cost_usd / months,
        "p90_usd": percentile_usd(plan.scenarios, 0.9),
        "worst_usd": worst.cost_usd,
        "worst_scenario": worst.name,
        "held_usd": plan.held_usd,
        "penalty_usd_per_month": sum(s.probability_frac * s.penalty_usd for s in plan.scenarios) / months,
        "scenarios": [
            {"name": s.name, "probability_frac": s.probability_frac, "cost_usd": s.cost_usd} for s in plan.scenarios
        ],
    }


def _signed(plan: HorizonPlan) -> Point:
    now = plan.signed_now
    each = [f"{c.instances} x {c.offer} {c.term}" for c in now]
    each += [f"{a.units:,.10g} of {a.name} {a.term}" for a in plan.allowances_now]
    return {
        "sign_now": "; ".join(each) or "nothing",
        "signed_usd_per_month": signed_now_usd_per_month(plan),
        "upfront_usd": sum(c.upfront_usd for c in now),
        "owed_after_usd": owed_now_usd(plan),
        "most_owed_after_usd": max(owed_in_usd(plan, s.name) for s in plan.scenarios),
        "commitments": [
            {"offer": c.offer, "term": c.term, "instances": c.instances, "first_day": f"{c.first_day}",
             "last_day": f"{c.last_day}", "usd_per_month": usd_per_month(c), "owed_after_usd": owed_beyond_usd(plan, c)}
            for c in now
        ],
    }  # fmt: skip


def _shares(plan: HorizonPlan) -> Point:
    """Shares of all requests that are expected over the horizon."""
    probability = {s.name: s.probability_frac for s in plan.scenarios}
    weighted = [
        (w.requests_per_month * (1.0 if q.scenario is None else probability[q.scenario]), w)
        for q in plan.quarters
        for w in q.plan.workloads
    ]
    total = sum(weight for weight, _ in weighted)
    api = sum(weight * w.api_share_frac for weight, w in weighted) / total if total else 0.0
    shed = sum(weight * w.shed_share_frac for weight, w in weighted) / total if total else 0.0
    quarters = len(quarters_of(plan))
    return {
        "served_frac": 1.0 - shed,
        "api_frac": api,
        "shed_frac": shed,
        "requests_per_month": total / quarters,
    }
