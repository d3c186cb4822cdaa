"""Plans of changed cases: what they would cost and what is proved about that. Nobody runs them, so none is assembled.

What changes nothing but quotas and the budget is solved over the recipes of the case itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from planner.candidates.enumerate import enumerate_candidates
from planner.candidates.screen import Excluded
from planner.case.case import Case, Limits
from planner.case.horizon import slots_of
from planner.optimization.formulate import formulate
from problems.fleet_problem import FleetProblem
from solvers.backends.deadline import INTERRUPTED, why_stopped
from solvers.heuristics.incumbent import Incumbent, cost_by_month
from solvers.search.fleet_solution import FleetSolution, Options, Outcome, Progress
from solvers.search.fleet_solver import solve_fleet

LONGEST_S = 30.0
"""for one changed case, where the plan itself had no shorter limit"""
TIME_FOR_ALL_UP = "the time for this was up"
ANY_PLAN_GAP_FRAC, ANY_PLAN_S = 0.5, 10.0
"""where the only question is whether there is a plan; just below the least that will do, a proof can take very long"""


class Interrupted(Exception):
    """No more cases can be solved: the time for all of them is up, or somebody interrupted. It says which."""


class Replanner:
    """Solves changed copies of a case, one after the other."""

    def __init__(
        self,
        case: Case,
        options: Options,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        *,
        total_s: float | None = None,
        fleet: FleetProblem | None = None,
    ) -> None:
        self.case, self.on_progress = case, on_progress
        self.options = replace(options, time_limit_s=min(options.time_limit_s or LONGEST_S, LONGEST_S))
        self.deadline = None if total_s is None else time.monotonic() + total_s
        self.fleet = fleet if fleet is not None else _formulated(case)
        self.stopped = ""

    def possible(self, case: Case, phase: str) -> FleetSolution:
        """Any plan, whatever it costs, or the proof that there is none."""
        return self.solve(case, phase, any_plan=True)

    def solve(self, case: Case, phase: str, any_plan: bool = False, without: Excluded = frozenset()) -> FleetSolution:
        """The cheapest plan; raises Stopped from the first time on that it cannot go on."""
        options = self.options
        if any_plan:
            shorter = min(ANY_PLAN_S, options.time_limit_s or ANY_PLAN_S)
            options = replace(options, gap_frac=ANY_PLAN_GAP_FRAC, time_limit_s=shorter)
        if self.deadline is not None:
            left = self.deadline - time.monotonic()
            self.stopped = self.stopped or (TIME_FOR_ALL_UP if left <= 0 else "")
            options = replace(options, time_limit_s=min(left, options.time_limit_s or left))
        if not self.stopped:
            try:
                solution = solve_fleet(
                    self.fleet_of(case, without), options, lambda p: self.on_progress(replace(p, phase=phase))
                )
                if solution.outcome is not Outcome.INTERRUPTED:
                    return solution
                self.stopped = INTERRUPTED
            except KeyboardInterrupt as stop:
                self.stopped = why_stopped(stop)
        raise Interrupted(self.stopped)

    def fleet_of(self, case: Case, without: Excluded = frozenset()) -> FleetProblem:
        if without:
            return _formulated(case, without)
        return _within(self.fleet, case.limits) if _differ_in_quotas_only(case, self.case) else _formulated(case)

    def dearest_month_usd(self, case: Case, best: Incumbent) -> float:
        """What a budget must allow for this plan of a changed case."""
        return float(cost_by_month(self.fleet_of(case), best.paths, best.purchases).max())


def _formulated(case: Case, without: Excluded = frozenset()) -> FleetProblem:
    return formulate(case, enumerate_candidates(case, without), slots_of(case))


def _differ_in_quotas_only(a: Case, b: Case) -> bool:
    others = (name for name in Case.model_fields if name != "limits")
    return all(getattr(a, name) is getattr(b, name) for name in others) and _recipes_by(a) == _recipes_by(b)


def _recipes_by(case: Case) -> tuple[int, ...]:
    """The limits that decide which recipes there are."""
    return (case.limits.min_replicas, case.limits.max_gpus_per_replica, case.limits.max_deployments)


def _within(fleet: FleetProblem, limits: Limits) -> FleetProblem:
    """The same recipes under other quotas and another budget."""
    return replace(
        fleet,
        offers={key: replace(o, max_instances=limits.max_instances.get(key)) for key, o in fleet.offers.items()},
        max_gpus=limits.max_gpus,
        max_gpu_types=limits.max_gpu_types,
        budget_usd_per_month=limits.budget_usd_per_month,
    )
