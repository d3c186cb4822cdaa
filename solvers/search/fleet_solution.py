"""Options, progress and result of a search for the cheapest fleet."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from problems.beyond_commitments import Beyond
from problems.fleet_problem import FleetProblem
from problems.recipes.recipe import Recipe
from problems.rounding_up import Rounded
from problems.standing_apart import Apart
from solvers.backends.solve import SolverName
from solvers.heuristics.incumbent import Incumbent, limits_are_kept
from solvers.pricing.budget_bounds import BudgetBound

MOST_EARLIER = 8
OPTIMAL_FRAC = 2e-6
"""gap up to which a plan is called optimal"""
ROUNDING_FRAC, CENT = 1e-5, 0.01
"""by which a plan may cost less than its bound: tolerances of solvers, and what nobody pays"""
NOTHING_USD = 1e-6
"""a cost up to which is rounding, so that no plan is cheaper"""


def contradiction(usd: float, bound_usd: float) -> str | None:
    """What to say of a plan that costs less than was proved of every plan; None: the two agree."""
    if usd >= bound_usd * (1 - ROUNDING_FRAC) - CENT:
        return None
    return (
        f"defect: this plan costs ${usd:,.2f}, though the search had proved that every plan costs at least "
        f"${bound_usd:,.2f}. That proof is void, so nothing is proved. Please report this case."
    )


class Outcome(StrEnum):
    OPTIMAL = "optimal"
    """no cheaper plan exists, within two millionths of its cost"""
    WITHIN_GAP = "within-gap"
    """proved within the gap that was asked for"""
    FEASIBLE = "feasible"
    """a plan that holds, with the gap that was reached when a limit stopped the search"""
    INTERRUPTED = "interrupted"
    INFEASIBLE = "infeasible"
    """proved: no plan meets the limits"""
    NOT_FOUND = "not-found"
    """no plan was found within the limits of the search, nor proved impossible"""


@dataclass(frozen=True)
class Options:
    solver: SolverName = "cbc"
    gap_frac: float = 0.001
    time_limit_s: float | None = None
    node_limit: int = 20_000
    round_limit: int | None = None
    """of prices, for costs to compare: no branches are divided then, and no plan is shaken"""


@dataclass(frozen=True)
class Progress:
    phase: str
    best_usd_per_month: float | None
    bound_usd_per_month: float | None
    round: Round | None = None
    """of pricing, where one has just ended"""
    solution: FleetSolution | None = None
    """of a search of one fleet: the one that it fills in"""
    master: FleetProblem | None = None
    """at the end of such a search: its restricted master, with the ways to serve and the cuts that it had"""


@dataclass(frozen=True)
class Round:
    """What a round of pricing leaves."""

    lp_usd_per_month: float
    """of the restricted master"""
    columns: int
    """ways to serve that it may pick from"""
    cuts: int
    """about whole boxes"""


@dataclass(frozen=True, eq=False)
class WarmStart:
    """Columns to begin with, rows that hold for every whole plan, a plan, and what is proved without the budget.

    None of it can make a bound wrong: paths are ways to serve that exist, and cuts about whole boxes say nothing new of
    whole plans.
    """

    paths: tuple[Recipe, ...] = ()
    own_boxes: frozenset[tuple[str, str, str, int]] = frozenset()
    rounded: dict[tuple[str, str, int, int], Rounded | Beyond | Apart] = field(default_factory=dict)
    start: Incumbent | None = None
    """a plan that keeps the limits; one that does not is passed over"""
    free: FleetSolution | None = None
    """the same fleet without a budget, searched to the same gap: it is not searched again"""
    tangents: tuple[BudgetBound, ...] = ()
    """bounds at every budget"""

    def usable_in(self, fleet: FleetProblem) -> WarmStart:
        """Without paths, and a plan of them, on offers that cannot be had in a fleet."""

        def is_usable(path: Recipe) -> bool:
            return all(fleet.offers[g].to_be_had for g in path.offers)

        start = self.start if self.start and all(map(is_usable, self.start.paths)) else None
        return replace(self, paths=tuple(filter(is_usable, self.paths)), start=start)

    def given_to(self, fleet: FleetProblem) -> FleetProblem:
        """The fleet with the rows that are known; limits and recipes are its own."""
        return fleet.with_whole_boxes(self.own_boxes, self.rounded)


COLD_START = WarmStart()


@dataclass(eq=False)
class FleetSolution:
    """The best plan found so far and what is proved about it."""

    outcome: Outcome = Outcome.FEASIBLE
    best: Incumbent | None = None
    bound_usd_per_month: float = 0.0
    rounds: int = 0
    columns: int = 0
    servings_left_out: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    not_covered: str | None = None
    """what the proof says nothing about, in words; None where it is about all plans"""
    solver: SolverName | None = None
    """the one that was used; None before a search"""
    cut_short: str = ""
    """the machine's trouble that ended the search, in a sentence"""
    known: WarmStart = COLD_START
    """what a search under another budget can begin with"""
    earlier: list[Incumbent] = field(default_factory=list)
    """the best plans before, the latest last: something to fall back on should the best one not hold"""

    @property
    def interrupted(self) -> bool:
        return self.outcome is Outcome.INTERRUPTED

    @property
    def cost_usd_per_month(self) -> float:
        return self.best.cost_usd_per_month if self.best else np.inf

    @property
    def objective(self) -> float:
        """cost, and the penalty of what is shed"""
        return self.best.objective if self.best else np.inf

    def offer(self, fleet: FleetProblem, candidate: Incumbent | None) -> None:
        """Take a plan that is better, if it keeps the limits of the fleet."""
        if candidate is not None and candidate.objective < self.objective and limits_are_kept(fleet, candidate):
            if self.best is not None:
                self.earlier = [*self.earlier[1 - MOST_EARLIER :], self.best]
            self.best = candidate

    def to_go_on_from(self) -> WarmStart:
        """What another search of the same fleet can begin with, its plan included."""
        return replace(self.known, start=self.best or self.known.start)

    def fall_back(self, options: Options) -> bool:
        """Give up the best plan for the one before; False if there is none."""
        if not self.earlier:
            return False
        self.best = self.earlier.pop()
        if self.outcome is not Outcome.INTERRUPTED:
            self.outcome = outcome_of(self, options)
        return True

    def raise_bound(self, usd_per_month: float) -> None:
        self.bound_usd_per_month = max(self.bound_usd_per_month, usd_per_month)

    def withdraw_bound_refuted_by(self, usd_per_month: float) -> None:
        """Withdraw the bound if the plan costs less, and say so: that is a defect, and nothing is proved."""
        defect = contradiction(usd_per_month, self.bound_usd_per_month)
        if defect is not None:
            self.bound_usd_per_month = 0.0
            self.notes = [defect, *self.notes]
            if self.outcome is not Outcome.INTERRUPTED:
                self.outcome = Outcome.FEASIBLE

    @property
    def gap_frac(self) -> float:
        return gap_of(self.objective, self.bound_usd_per_month) if self.best is not None else np.inf


def gap_of(usd: float, bound_usd: float) -> float:
    """How much cheaper another plan could be, as a share of the cost; all of it where plan and bound contradict."""
    if contradiction(usd, bound_usd) is not None:
        return 1.0
    return max(0.0, (usd - bound_usd) / usd) if usd > NOTHING_USD else 0.0


def outcome_of(solution: FleetSolution, options: Options) -> Outcome:
    if solution.gap_frac <= OPTIMAL_FRAC:
        return Outcome.OPTIMAL
    return Outcome.WITHIN_GAP if solution.gap_frac <= options.gap_frac else Outcome.FEASIBLE
