"""What compares the plan of a horizon: with one that had known, with one for the middle scenario, with others."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from planner.case.allowances import LIKE
from planner.case.case import Scenario
from planner.case.terms import not_for_sale
from planner.optimization.horizon_work import HorizonWork, ScenarioCost
from planner.plan.horizon.horizon_plan import CommitmentCurve, CurvePoint, MiddlePlan, ScenarioResult
from planner.plan.horizon.horizon_view import at_probability
from problems.horizon.horizon_problem import HorizonProblem
from solvers.backends.clock import Stopped, limited_to, stop_is_asked
from solvers.search.fleet_solution import Options, Outcome, Progress
from solvers.search.horizon.block_plans import served_as
from solvers.search.horizon.horizon_search import HorizonSearch
from solvers.search.horizon.solution import HorizonSolution

OnProgress = Callable[[Progress], None]
T = TypeVar("T")
CURVE = (0.0, 0.5, 1.5, 2.0)
"""times the largest commitment that other numbers of it are tried"""


class Answers:
    """What compares a plan: with one that had known, with one for the middle scenario, with other commitments."""

    def __init__(
        self,
        work: HorizonWork,
        problem: HorizonProblem,
        search: HorizonSearch,
        options: Options,
        deadline: float,
        on_progress: OnProgress,
    ) -> None:
        self.work, self.problem, self.search, self.options, self.tell = work, problem, search, options, on_progress
        self.deadline = deadline
        self.left = len(work.future.scenarios) + len(CURVE) + 2
        """answers that are still to come: each may take its share of the time left"""
        self.if_known: dict[str, tuple[HorizonWork, HorizonProblem, HorizonSolution]] = {}
        self.stopped = self.late = False
        """by somebody, or by the clock: the plan stays, and nothing more is worked out"""

    def unless_stopped(self, ask: Callable[[], T]) -> T | None:
        """An answer; None once somebody wishes to stop, and when the time is up."""
        self.late = self.late or time.monotonic() >= self.deadline
        self.stopped = self.stopped or stop_is_asked()
        if self.stopped or self.late:
            return None
        with limited_to(None if self.deadline == np.inf else self.deadline - time.monotonic()) as limit:
            try:
                return ask()
            except Stopped as stop:
                self.late, self.stopped = limit.ended(stop), not limit.ended(stop)
                return None

    def _options(self) -> Options:
        self.left = max(1, self.left - 1)
        if self.deadline == np.inf:
            return replace(self.options, time_limit_s=None)
        return replace(self.options, time_limit_s=max(1.0, (self.deadline - time.monotonic()) / (self.left + 1)))

    def scenario(self, s: Scenario, cost: ScenarioCost) -> ScenarioResult:
        """Its cost, and the regret. This plan could have known, so nothing known costs more."""
        known, bound = self.unless_stopped(lambda: self._if_known(s, cost.counted_usd)) or (None, None)
        return self.not_compared(s, cost, known, bound)

    def not_compared(
        self, s: Scenario, cost: ScenarioCost, known: float | None = None, bound: float | None = None
    ) -> ScenarioResult:
        """Its cost alone."""
        return ScenarioResult(
            name=s.name,
            probability_frac=s.probability_frac,
            by_quarter_usd=cost.by_quarter_usd,
            cost_usd=sum(cost.by_quarter_usd) + self.work.held_usd,
            penalty_usd=cost.penalty_usd,
            counted_usd=cost.counted_usd,
            if_known_usd=known,
            if_known_bound_usd=bound,
            regret_usd=None if known is None else max(0.0, cost.counted_usd - known),
        )

    def _if_known(self, s: Scenario, counted_usd: float) -> tuple[float, float]:
        """What a plan comes to that had known of this scenario, and the bound on it."""
        solution = self._known(s) if len(self.work.future.scenarios) > 1 else self.search.solution
        return min(counted_usd, solution.usd), min(counted_usd, solution.bound_usd)

    def _known(self, s: Scenario) -> HorizonSolution:
        if s.name not in self.if_known:
            alone = HorizonWork(self.work.case, [s], self.work)
            problem = alone.problem()
            solution = self._searched(problem, f"if {s.name} were known")
            self.if_known[s.name] = alone, problem, solution
        return self.if_known[s.name][2]

    def _searched(self, problem: HorizonProblem, phase: str) -> HorizonSolution:
        """The result of a whole search; half of one compares nothing."""
        search = HorizonSearch(problem, self._options(), self._told(phase), quick=True)
        solution = search.run()
        if search.stop is not None:
            raise search.stop
        return solution

    def worst_case_at_least_usd(self) -> float:
        """The worst case of any plan is at least what the most expensive scenario comes to, had it been known.

        That is proved where the proof is about every plan.
        """
        found = [self._known(s) for s in self.work.future.scenarios]
        whole = [known for known in found if all(of.not_covered is None for of in known.blocks)]
        return max((known.bound_usd for known in whole if known.blocks), default=-np.inf)

    def _told(self, phase: str) -> OnProgress:
        return lambda progress: self.tell(replace(progress, phase=f"{phase}, {progress.phase}"))

    def middle(self, scenarios: Sequence[ScenarioResult]) -> MiddlePlan | None:
        """Sign, and serve the first quarter, as the plan for the middle scenario alone does; the rest adapts."""
        if len(scenarios) == 1:
            return None
        name = at_probability([(s.cost_usd, s.probability_frac, s) for s in scenarios], 0.5).name
        if name not in self.if_known:
            return None
        alone, problem, solution = self.if_known[name]
        if not solution.blocks:
            return None
        signed = {
            (c.offer, c.term, c.begins_with is None): n
            for c, n in zip(problem.commitments, solution.signed, strict=True)
            if c.quarter == 0
        }
        fixed = self.problem
        for k, c in enumerate(self.problem.commitments):
            if c.quarter == 0:
                n = signed.get((c.offer, c.term, c.begins_with is None), 0)
                fixed = fixed.with_bounds(k, n, n)
        best = solution.blocks[0].best
        assert best is not None
        first = fixed.blocks[0]
        if alone.quarters[0].of.quarter == 0:  # else nothing comes in the first quarter of that scenario
            first = replace(first, fleet=served_as(first.fleet, best))
        self.tell(Progress("committing for the middle scenario", None, None))
        found = self.search.compared(replace(fixed, blocks=(first, *fixed.blocks[1:])), self._options())
        if found.blocks:
            return MiddlePlan(scenario=name, counted_usd=found.usd, bound_usd=found.bound_usd)
        return MiddlePlan(scenario=name, counted_usd=None) if found.outcome is Outcome.INFEASIBLE else None

    def curve(self, solution: HorizonSolution) -> CommitmentCurve | None:
        """Other numbers of the largest commitment that is signed now, those between none and twice as many."""
        each = enumerate(self.problem.commitments)
        now = [k for k, c in each if c.quarter == 0 and solution.signed[k] and c.term not in LIKE]
        if not now:
            return None
        k = max(now, key=lambda k: self.problem.commitments[k].usd * solution.signed[k])
        n = solution.signed[k]
        most = self.problem.commitments[k].most
        counts = sorted({min(most, round(n * times)) for times in (1.0, *CURVE)})
        points = tuple(self._point(k, count, solution) for count in counts)
        c = self.problem.commitments[k]
        return CommitmentCurve(offer=c.offer, term=c.term, points=points)

    def _point(self, k: int, n: int, best: HorizonSolution) -> CurvePoint:
        problem = self.problem.with_bounds(k, n, n)
        found = best
        if n != best.signed[k]:
            self.tell(Progress(f"committing to {n} of {problem.commitments[k].offer}", None, None))
            found = self.search.compared(problem, self._options())
        if not found.blocks:
            return CurvePoint(instances=n, expected_usd=None, p90_usd=None, worst_usd=None, gap_frac=None)
        results = [
            (s.probability_frac, sum(self.work.cost_in(problem, found, s.name).by_quarter_usd) + self.work.held_usd)
            for s in self.work.future.scenarios
        ]
        return CurvePoint(
            instances=n,
            expected_usd=sum(p * usd for p, usd in results),
            p90_usd=at_probability([(usd, p, usd) for p, usd in results], 0.9),
            worst_usd=max(usd for _, usd in results),
            gap_frac=found.gap_frac,
        )

    def long_terms(self, solution: HorizonSolution) -> float | None:
        """What terms that outlast the horizon save with the same deployments, if the rest is worth its price."""
        if not not_for_sale(self.work.case):
            return None
        open_ones = self.work.problem(long_terms=True)
        blocks = tuple(
            replace(block, fleet=served_as(block.fleet, found.best)) if found.best else block
            for block, found in zip(open_ones.blocks, solution.blocks, strict=True)
        )
        found = self._searched(replace(open_ones, blocks=blocks), "with long terms")
        return max(0.0, solution.usd - found.usd) if found.blocks else 0.0
