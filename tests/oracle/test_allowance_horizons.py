"""Savings plans and provisioned units for several quarters, in every scenario, against trying everything."""

from __future__ import annotations

import math

from solvers.backends.solve import SolverName
from solvers.search.fleet_solution import Options, Outcome
from solvers.search.horizon.horizon_search import HorizonSearch
from tests.oracle.allowance_horizons import AllowanceHorizon, dollar_horizon, least_usd, truth_of, units_horizon
from tests.support.rows import for_each

GAP = 5e-3
SEEDS = range(30)


def of(kind: str, seed: int) -> AllowanceHorizon:
    return dollar_horizon(seed) if kind == "dollars" else units_horizon(seed)


@for_each("seed", SEEDS)
@for_each("kind", ["dollars", "units"])
def test_the_optimum_is_that_of_trying_everything(kind: str, seed: int) -> None:
    horizon, truth = of(kind, seed), truth_of(kind, seed)
    solver: SolverName = "highs" if seed == 7 else "cbc"
    solution = HorizonSearch(horizon.problem, Options(solver=solver, gap_frac=GAP)).run()
    if truth == math.inf:
        assert solution.outcome in (Outcome.INFEASIBLE, Outcome.NOT_FOUND)
        return
    assert truth * (1 - 1e-7) - 1e-4 <= solution.usd <= truth * (1 + GAP) + 1e-4
    assert solution.bound_usd <= truth * (1 + 1e-7) + 1e-4
    assert solution.gap_frac <= GAP


def test_allowances_decide() -> None:
    """Otherwise agreement would say little: of so many horizons an allowance makes the best plan cheaper."""
    cheaper = {
        kind: sum(least_usd(of(kind, seed), without=True) > truth_of(kind, seed) * (1 + 1e-6) for seed in SEEDS)
        for kind in ("dollars", "units")
    }
    assert cheaper == {"dollars": 14, "units": 12}
