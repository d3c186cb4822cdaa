"""The best plan of one fleet at each of several budgets, each proved within the gap: one search for all of them.

1. The LP's frontier. Prices at one budget bound the plans within every other (solvers/pricing/budget_bounds.py), and
   scaled to what a dollar is worth there they do it nearly as well as an LP of its own
   (solvers/search/dual_scaling.py). So one LP, in the middle, is enough to see the shape.
2. A plan in closed form at every budget (solvers/heuristics/budget_heuristic.py). A plan within one budget is one
   within all larger ones.
3. Where the gap is widest an LP of its own follows, as long as that is of use; its prices serve the others too.
4. What is left is searched as a budget by itself is, beginning with all that is known.

`curve` leaves out the last step, and makes plans for all that lies between the budgets instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from problems.fleet_problem import FleetProblem
from solvers.backends.clock import Stopped
from solvers.backends.trouble import MachineTrouble
from solvers.heuristics.budget_curve import Curve, best_by_budget, budget_curve, thinned
from solvers.heuristics.budget_heuristic import BudgetHeuristic
from solvers.heuristics.incumbent import Incumbent, usd_by_month
from solvers.pricing.budget_bounds import BudgetBound, highest, proved_within
from solvers.pricing.column_generation import ColumnGeneration
from solvers.search.dual_scaling import DualScaling
from solvers.search.fleet_solution import FleetSolution, Options, Outcome, Progress, WarmStart, outcome_of
from solvers.search.fleet_solver import solve_fleet
from solvers.search.warm_start import warm_start_from

SHAPE_FRAC = 0.02
"""how near to the LP the first look at the frontier comes"""
PROVE_FRAC = 1e-3
"""how near to it prices come at most before a search follows"""
OF_USE_FRAC, MOST_OF_NO_USE = 0.1, 2
"""share of a gap that an LP of its own closes where it is of use, and LPs of no use in a row before searches follow"""
PRICING_FRAC = 0.3
"""share of a search's time that prices at one budget may take"""


class BudgetSearch:
    """Budgets of one fleet, whose best plan without a budget is known."""

    def __init__(
        self,
        fleet: FleetProblem,
        free: FleetSolution,
        budgets: Iterable[float],
        options: Options,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self.fleet, self.free, self.options, self.on_progress = fleet, free, options, on_progress
        self.budgets = sorted(set(budgets))
        self.gap_frac, self.near_frac = options.gap_frac, max(options.gap_frac / 4, PROVE_FRAC)
        self.known, self.thrift = free.known, BudgetHeuristic(fleet)
        self.in_closed_form = all(pool.window is None for pool in fleet.pools.values())
        """whether plans can be: work that may wait needs a search"""
        self.generations: dict[float, ColumnGeneration] = {}
        self.too_small = np.inf if free.outcome is Outcome.INFEASIBLE else -np.inf
        """the largest budget that is proved to be too small for any plan"""
        self.solution_at: dict[float, FleetSolution] = {}
        self.plans: list[tuple[float, Incumbent]] = []
        """with the least budget that each keeps"""
        self._keep(free.best)

    def shape(self) -> dict[float, float | None]:
        """A lower bound on cost + penalty at each budget, out of one LP; None if no plan can keep the budget."""
        if not self.generations:
            if self.in_closed_form:
                self._keep(self.thrift.leanest())
            while left := self._perhaps_too_small():
                self._price(left[len(left) // 2], SHAPE_FRAC)
        return {b: None if b <= self.too_small else self._proved(b) for b in self.budgets}

    def solutions(self) -> dict[float, FleetSolution]:
        """The best plan at each budget and what is proved of it, as far as the limits of the search allow."""
        self.shape()
        self._look_for_plans()
        self._prove()
        for budget in self.budgets:
            solution = self._solution(budget)
            if solution.outcome is not Outcome.INFEASIBLE and solution.gap_frac > self.gap_frac:
                self._search(budget)
        return {budget: self._solution(budget) for budget in self.budgets}

    def curve(self, step_frac: float) -> tuple[Curve, list[BudgetBound]]:
        """Plans for all budgets up to the largest, as near to each other as there are, and lines that bound them all.

        A plan is one for every budget from its dearest month on, and a line is a bound for every budget. Work that may
        wait has plans at the budgets that were asked for, by a search.
        """
        if self.in_closed_form:
            for _, plan in budget_curve(self.thrift, step_frac):
                self._keep(plan)
            self.shape()
            self._prove()
        else:
            self.solutions()
        curve = best_by_budget(self.fleet, [plan for _, plan in self.plans])
        least, most = min(self.budgets), max(self.budgets) * (1 + 1e-9)
        too_lean = sum(usd <= least for usd, _ in curve) - 1
        curve = [(usd, plan) for usd, plan in curve[max(too_lean, 0) :] if usd <= most]
        return thinned(curve, step_frac), highest(self.known.tangents, most)

    def _at(self, budget: float) -> FleetProblem:
        return replace(self.fleet, budget_usd_per_month=budget)

    def _proved(self, budget: float) -> float:
        """By prices at any budget, by a search at this one or a larger one, and by the one without a budget."""
        searched = [s.bound_usd_per_month for b, s in self.solution_at.items() if b >= budget]
        return max(self.free.bound_usd_per_month, proved_within(self.known.tangents, budget), *searched, 0.0)

    def _perhaps_too_small(self) -> list[float]:
        """Budgets that the best plan of all does not keep and the LP may find too small; all of those at first."""
        binding = [b for b in self.budgets if b > self.too_small and self.free.best not in self._kept_by(b)]
        enough = [b for b in self.generations if b > self.too_small]
        return [b for b in binding if not enough or (b < min(enough) and not self._kept_by(b))]

    def _price(self, budget: float, near_frac: float, enough_usd: float = np.inf) -> None:
        """Prices at a budget so near to the LP, or until they prove enough; what they teach is kept for all."""
        if budget not in self.generations:
            best = self._solution(budget).best
            paths = (*(best.paths if best else ()), *self.known.paths)
            generation = ColumnGeneration(self.known.given_to(self._at(budget)), lambda n, bound: None, known=paths)
            generation.sharpening = bool(self.generations)  # mixes that pay are known from the budgets before
            self.generations[budget] = generation
        generation, limit_s = self.generations[budget], self.options.time_limit_s
        until = np.inf if limit_s is None else time.monotonic() + PRICING_FRAC * limit_s
        generated = generation.run(
            near_frac,
            enough=lambda state: state.bound_of_written >= enough_usd,
            late=lambda _: time.monotonic() >= until,
        )
        self._learn(warm_start_from(generation))
        if generated.feasible is False:
            self.too_small = max(self.too_small, budget)
        elif generation.model is not None:
            others = [b for b in self.budgets if b > self.too_small and b != budget]
            unproved = [b for b in others if self._solution(b).gap_frac > self.gap_frac]
            lines = DualScaling(generation).climb(unproved, self.near_frac, until, self._proved)
            self._learn(WarmStart(tangents=tuple(lines)))

    def _look_for_plans(self) -> None:
        """Wherever no plan of a smaller budget is within the gap."""
        for budget in self.budgets if self.in_closed_form else ():
            good_enough = self._proved(budget) / max(1 - self.gap_frac, 1e-9)
            if budget > self.too_small and self._solution(budget).objective > good_enough:
                self._keep(self.thrift.within(budget, good_enough=good_enough))

    def _prove(self) -> None:
        """Prices nearer to the LP where the gap is widest, as long as that is of use."""
        left = [b for b in self.budgets if b > self.too_small and self._kept_by(b)]
        of_no_use = 0
        while left and of_no_use < MOST_OF_NO_USE:
            gaps = {b: self._solution(b).gap_frac for b in left}
            widest = max(left, key=lambda b: gaps[b])
            if gaps[widest] <= self.gap_frac:
                break
            left.remove(widest)
            self._price(widest, self.near_frac, self._solution(widest).objective * (1 - self.gap_frac))
            closed = self._solution(widest).gap_frac <= (1 - OF_USE_FRAC) * gaps[widest]
            of_no_use = 0 if closed else of_no_use + 1

    def _search(self, budget: float) -> None:
        start = self._solution(budget).best
        known = replace(self.known, start=start, free=self.free)
        which = f"budget {self.budgets.index(budget) + 1} of {len(self.budgets)}, "

        def tell(progress: Progress) -> None:
            self.on_progress(replace(progress, phase=which + progress.phase))

        solution = solve_fleet(
            self._at(budget), self.options, tell if len(self.budgets) > 1 else self.on_progress, known
        )
        if solution.outcome is Outcome.INTERRUPTED:
            raise Stopped  # what is not proved is no point of a frontier
        if solution.cut_short:
            raise MachineTrouble(solution.cut_short)
        if solution.outcome is Outcome.INFEASIBLE:
            self.too_small = max(self.too_small, budget)
        self.solution_at[budget] = solution
        self._keep(solution.best, budget)
        self._learn(solution.known)

    def _learn(self, more: WarmStart) -> None:
        """Every path and row and bound that any budget led to."""
        paths = {path.footprint: path for path in (*self.known.paths, *more.paths)}
        self.known = WarmStart(
            tuple(paths.values()),
            self.known.own_boxes | more.own_boxes,
            self.known.rounded | more.rounded,
            tangents=tuple(dict.fromkeys((*self.known.tangents, *more.tangents))),
        )

    def _keep(self, plan: Incumbent | None, budget: float = np.inf) -> None:
        """A plan, and a budget that it was found to keep, as far as a solver's tolerance goes."""
        if plan is not None:
            usd = float(usd_by_month(self.fleet, plan).max())
            self.plans.append((min(usd, budget), plan))

    def _kept_by(self, budget: float) -> list[Incumbent]:
        """Every plan so far that keeps a budget."""
        return [plan for usd, plan in self.plans if usd <= budget * (1 + 1e-9)]

    def _solution(self, budget: float) -> FleetSolution:
        """All that is known of a budget."""
        best = min(self._kept_by(budget), key=lambda plan: plan.objective, default=None)
        solution = replace(self.solution_at.get(budget, FleetSolution()), best=best)
        solution.raise_bound(self._proved(budget))
        if best is None and budget <= self.too_small:
            solution.outcome = Outcome.INFEASIBLE
        if best is not None:
            solution.outcome = outcome_of(solution, self.options)
            solution.withdraw_bound_refuted_by(best.objective)
            solution.bound_usd_per_month = min(solution.bound_usd_per_month, best.objective)
        return solution
