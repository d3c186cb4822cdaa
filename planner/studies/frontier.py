"""The frontier of a case: the best plan at each budget, from one formulation and one search for all of them.

A budget moves one number of the program. So recipes are written down once, the search without a budget is made once,
and all budgets share prices, columns, rows and plans (solvers/search/frontier.py). What is proved at a larger budget
holds at a smaller one, and a plan for a smaller budget is one for a larger: that makes the frontier monotone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from planner.candidates.enumerate import enumerate_candidates
from planner.case.case import Case
from planner.case.changes import with_limits
from planner.case.quarters import held_usd_per_month
from planner.case.slots import slots_of
from planner.optimization.assemble import assemble_plan
from planner.optimization.formulate import budget_left, formulate
from planner.optimization.replan import Replanner
from planner.pipeline import checked
from planner.plan.plan import Plan
from solvers.backends.clock import check
from solvers.backends.trouble import MachineTrouble
from solvers.heuristics.incumbent import usd_by_month
from solvers.pricing.budget_bounds import BudgetBound, proved_within
from solvers.search.fleet_solution import OPTIMAL_FRAC, FleetSolution, Options, Outcome, Progress, outcome_of
from solvers.search.frontier import BudgetSearch


@dataclass(frozen=True, eq=False)
class BudgetPlan:
    """Result of one budget."""

    budget_usd_per_month: float | None
    outcome: Outcome
    plan: Plan | None
    """checked; None where there is none, or none was found"""
    bound_usd_per_month: float | None
    """on cost + penalty of every plan within this budget; None where it is proved that there is none"""
    least_budget_usd_per_month: float | None
    """the least that is known to be enough, where this budget is not"""


@dataclass(frozen=True, eq=False)
class Curve:
    """Plans for many budgets, none of them searched, and what is proved of all budgets."""

    plans: tuple[BudgetPlan, ...]
    """each with the least budget that it keeps, in rising order"""
    lines: tuple[BudgetBound, ...]
    """of what holdings leave of a budget"""
    too_small_usd_per_month: float | None
    """the largest budget that is proved to be too small for any plan"""


class Frontier:
    """Budgets for one case, one after the other."""

    def __init__(
        self, case: Case, options: Options, on_progress: Callable[[Progress], None] = lambda progress: None
    ) -> None:
        self.case = with_limits(budget_usd_per_month=None)(case)
        self.options, self.on_progress = options, on_progress
        self.candidates = enumerate_candidates(self.case, on_step=check)
        self.fleet = formulate(self.case, self.candidates, slots_of(self.case))
        self._replanner = self._fresh_replanner()
        self._searches: dict[tuple[float, ...], BudgetSearch] = {}

    def free(self) -> FleetSolution:
        """The best plan without any budget."""
        free = self._replanner.solve(self.case, "without a budget")
        if free.cut_short:
            self._replanner = self._fresh_replanner()  # it is tried again once the machine is well
            raise MachineTrouble(free.cut_short)
        return free

    def _fresh_replanner(self) -> Replanner:
        return Replanner(self.case, self.options, self.on_progress, fleet=self.fleet)

    def shape(self, budgets: Sequence[float]) -> list[float | None]:
        """A lower bound on cost + penalty at each budget, by the LP: the shape of the frontier, at once.

        None where no plan can keep the budget. Nothing of it is lost: the plans begin with it.
        """
        bounds = self._search(budgets).shape()
        return [bounds[self._left(budget)] for budget in budgets]

    def plans(self, budgets: Sequence[float]) -> list[BudgetPlan]:
        """In the order of `budgets`; each proved within the gap as far as the search's limits allow."""
        found = self._search(budgets).solutions()
        chosen: dict[float, BudgetPlan] = {}
        last: BudgetPlan | None = None
        for budget in sorted(set(budgets)):
            last = chosen[budget] = self._kept(budget, found[self._left(budget)], last)
        return [chosen[budget] for budget in budgets]

    def curve(self, budgets: Sequence[float], step_frac: float) -> Curve:
        """Plans for all budgets from the least of these to the largest, or to what the best plan without one needs."""
        free = self.free()
        if free.best is None:
            return Curve((), (), None)
        best = free.best
        dearest = float(usd_by_month(self.fleet, best).max())
        left = [left for budget in budgets if (left := self._left(budget)) < dearest]
        if not left:
            return Curve((), (), None)
        search = BudgetSearch(self.fleet, free, [*left, dearest], self.options, self.on_progress)
        found, lines = search.curve(step_frac)
        held = held_usd_per_month(self.case)
        plans = []
        for usd, best in found:
            bound = min(max(free.bound_usd_per_month, proved_within(lines, usd)), best.objective)
            solution = FleetSolution(best=best, bound_usd_per_month=bound)
            solution.outcome = outcome_of(solution, self.options)
            plan = checked(self._assembled(rounded_up(usd + held), solution))
            plans.append(BudgetPlan(rounded_up(usd + held), solution.outcome, plan, bound, None))
        too_small = search.too_small + held if search.too_small > 0 else None
        return Curve(tuple(plans), tuple(lines), too_small)

    def _search(self, budgets: Sequence[float]) -> BudgetSearch:
        """One for all that is asked about these budgets, and no other: plans do not depend on what was asked before."""
        key = tuple(sorted({self._left(budget) for budget in budgets}))
        if key not in self._searches:
            self._searches[key] = BudgetSearch(self.fleet, self.free(), key, self.options, self.on_progress)
        return self._searches[key]

    def _left(self, budget: float) -> float:
        """What holdings leave of a budget."""
        return max(0.0, budget - held_usd_per_month(self.case))

    def _kept(self, budget: float, solution: FleetSolution, smaller: BudgetPlan | None) -> BudgetPlan:
        """The plan of a budget; that of a smaller one stays where it answers more and is as good within the gap."""
        best = solution.best
        if best is None:
            proved = solution.outcome is Outcome.INFEASIBLE
            return BudgetPlan(
                budget, solution.outcome, None, None if proved else solution.bound_usd_per_month, self._least()
            )
        plan = self._assembled(budget, solution)
        case = plan.case
        if smaller is not None and smaller.plan is not None and served_frac(smaller.plan) > served_frac(plan):
            objective = smaller.plan.objective_usd_per_month
            gap_frac = max(0.0, 1 - solution.bound_usd_per_month / objective) if objective else 0.0
            if gap_frac <= max(self.options.gap_frac, plan.gap_frac):
                bound = min(solution.bound_usd_per_month, objective)
                status = (
                    "optimal" if gap_frac <= OPTIMAL_FRAC else plan.status if plan.status != "optimal" else "within-gap"
                )
                update = {"bound_usd_per_month": bound, "gap_frac": gap_frac, "status": status}
                plan = smaller.plan.model_copy(update=update | {"case": case, "case_hash": case.hash()})
        return BudgetPlan(budget, Outcome(plan.status), checked(plan), plan.bound_usd_per_month, None)

    def unlimited(self) -> BudgetPlan:
        """The best plan without any budget."""
        free = self.free()
        if free.best is None:
            proved = free.outcome is Outcome.INFEASIBLE
            return BudgetPlan(None, free.outcome, None, None if proved else free.bound_usd_per_month, None)
        plan = checked(self._assembled(None, free))
        return BudgetPlan(None, Outcome(plan.status), plan, plan.bound_usd_per_month, None)

    def _assembled(self, budget: float | None, solution: FleetSolution) -> Plan:
        case = with_limits(budget_usd_per_month=budget)(self.case)
        fleet = replace(self.fleet, budget_usd_per_month=budget_left(case))
        return assemble_plan(case, self.candidates, fleet, solution, self.options)

    def _least(self) -> float | None:
        """What the cheapest plan costs in its dearest month."""
        best = self.free().best
        if best is None:
            return None
        return float(usd_by_month(self.fleet, best).max()) + held_usd_per_month(self.case)


def rounded_up(usd: float) -> float:
    """To the cent, and so far that rounding of the cost itself does not matter."""
    return math.ceil(usd * (1 + 1e-9) * 100) / 100


def served_frac(plan: Plan) -> float:
    """Share of all requests that are answered: by own GPUs, a cache or an API."""
    return 1.0 - share(plan, "shed_share_frac")


def share(plan: Plan, name: str) -> float:
    """Over all requests of all workloads."""
    total = sum(w.requests_per_month for w in plan.workloads)
    return sum(w.requests_per_month * getattr(w, name) for w in plan.workloads) / total if total else 0.0
