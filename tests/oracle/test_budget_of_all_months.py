"""A budget for all months together: in a fleet of one month it is one for that month, whose optimum is enumerated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from problems.fleet_problem import FleetProblem
from solvers.search.fleet_solution import Options
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.brute_force import brute_force
from tests.oracle.cases import lever_case
from tests.support.rows import for_each

SEEDS = [8, 25, 29, 36, 37, 42, 52, 59]


def on_average(fleet: FleetProblem) -> FleetProblem:
    return replace(fleet, budget_usd_per_month=None, budget_usd_on_average=fleet.budget_usd_per_month)


@pytest.mark.smoke
@for_each("seed", SEEDS)
def test_the_optimum_is_that_of_brute_force(seed: int) -> None:
    case = lever_case(seed).case
    assert case.budget_usd_per_month is not None and case.fleet.months == 1
    free = brute_force(replace(case, budget_usd_per_month=None)).objective
    truth = brute_force(case).objective
    assert truth > free * (1 + 1e-6), "the budget decides nothing"
    solution = solve_fleet(on_average(case.fleet), Options(gap_frac=0.0))
    assert solution.objective == pytest.approx(truth, rel=1e-6)
    assert solution.bound_usd_per_month <= truth * (1 + 1e-7)
