"""What column generation proves, against the whole truth: after every round, wherever it stops."""

from __future__ import annotations

import math

from problems.fleet_problem import FleetProblem
from solvers.pricing.column_generation import ColumnGeneration, Generated


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
