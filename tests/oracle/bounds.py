"""What is planned and proved, against the whole truth: of column generation after every round, wherever it stops."""

from __future__ import annotations

import math

import pytest

from problems.fleet_problem import FleetProblem
from solvers.backends.solve import SolverName
from solvers.heuristics.incumbent import limits_are_kept
from solvers.pricing.column_generation import ColumnGeneration, Generated
from solvers.search.fleet_solution import Options, Outcome
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.plans import check_plan
from tests.support.fleets import Case


class Rounds:
    """Column generation stopped after each round: the bound so far, and what it is made of."""

    def __init__(self, fleet: FleetProblem) -> None:
        self.bounds: list[float] = []
        self.generation = ColumnGeneration(fleet, lambda n, bound: self.bounds.append(bound))

    def run(self, tolerance_frac: float, stop: bool) -> Generated:
        return self.generation.run(tolerance_frac, enough=lambda generation: stop)


def check_bounds(fleet: FleetProblem, truth: float) -> None:
    """No bound exceeds the optimum; and it is infeasible only where brute force says so."""
    rounds, most = Rounds(fleet), truth * (1 + 1e-9)
    for tolerance_frac, stop in ((0.5, True), (0.05, True), (0.01, False), (1e-6, False)):
        generated = rounds.run(tolerance_frac, stop)
        if generated.feasible is False:
            assert truth == math.inf
            return
        assert generated.bound <= most
        assert generated.bound_at_prices <= most
    assert all(bound <= most for bound in rounds.bounds)


def check_optimum(case: Case, truth: float, solver: SolverName) -> None:
    """The plan keeps every rule, costs what the best one does and is proved; without one brute force finds none."""
    solution = solve_fleet(case.fleet, Options(solver=solver, gap_frac=0.0))
    if truth == math.inf:
        assert solution.outcome is Outcome.INFEASIBLE
        assert solution.best is None
        return
    assert solution.outcome is Outcome.OPTIMAL
    assert solution.objective == pytest.approx(truth, rel=1e-6)
    assert solution.bound_usd_per_month <= truth * (1 + 1e-9) + 1e-9
    assert solution.best is not None
    check_plan(case, solution.best)
    assert limits_are_kept(case.fleet, solution.best)


def check_cut_short(case: Case, truth: float) -> None:
    """Few nodes, a wide gap, or no mixes written down in time: never a bound above the optimum, never a false proof."""
    for options in (
        Options(gap_frac=0.0, node_limit=0),
        Options(gap_frac=0.1),
        Options(gap_frac=0.0, time_limit_s=0.01),
    ):
        solution = solve_fleet(case.fleet, options)
        assert solution.bound_usd_per_month <= truth * (1 + 1e-9)
        assert solution.objective >= truth * (1 - 1e-6)
        if solution.outcome is Outcome.INFEASIBLE:
            assert truth == math.inf
        if solution.outcome is Outcome.OPTIMAL:
            assert solution.objective == pytest.approx(truth, rel=1e-5)
        if solution.outcome is Outcome.WITHIN_GAP:
            assert solution.objective <= truth / (1 - options.gap_frac) * (1 + 1e-9)
        if solution.best is not None:
            check_plan(case, solution.best)
