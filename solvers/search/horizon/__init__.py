"""Searches for the cheapest commitments over a horizon: by the expected cost, or by the worst case."""

from __future__ import annotations

from collections.abc import Callable

from problems.horizon.horizon_problem import HorizonProblem
from solvers.search.fleet_solution import Options, Progress
from solvers.search.horizon.expected_cost import ExpectedCostSearch
from solvers.search.horizon.solution import HorizonSolution
from solvers.search.horizon.worst_case import WorstCaseSearch

__all__ = ["HorizonSearch", "HorizonSolution", "horizon_search"]

HorizonSearch = ExpectedCostSearch | WorstCaseSearch


def horizon_search(
    problem: HorizonProblem,
    options: Options,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    quick: bool = False,
) -> HorizonSearch:
    """The search for what a problem minimizes; `quick`: for a plan that is compared with others."""
    search = WorstCaseSearch if problem.risk.worst_case else ExpectedCostSearch
    return search(problem, options, on_progress, quick)
