"""Limits on power in horizons against the whole truth of tiny ones: what is signed draws as well."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import cache

from solvers.search.fleet_solution import Options, Outcome
from solvers.search.horizon.horizon_search import HorizonSearch
from tests.oracle.power_horizons import powered_costs, powered_horizon
from tests.support.rows import for_each

SEEDS = range(60)
GAP = 1e-3


@cache
def truth_of(seed: int) -> tuple[float, float]:
    return powered_costs(powered_horizon(seed))


@for_each("seed", SEEDS)
def test_the_optimum_is_that_of_trying_everything(seed: int) -> None:
    horizon = powered_horizon(seed)
    measures = zip(truth_of(seed), (horizon.problem, horizon.worst_case), strict=True)
    for truth, problem in list(measures)[: 1 if seed % 4 else 2]:
        solution = HorizonSearch(problem, Options(solver="cbc" if seed % 3 else "highs", gap_frac=GAP)).run()
        if truth == math.inf:
            assert solution.outcome is Outcome.INFEASIBLE
            continue
        assert truth * (1 - 1e-7) - 1e-4 <= solution.usd <= truth * (1 + GAP) + 1e-4
        assert solution.bound_usd <= truth * (1 + 1e-7) + 1e-4


def test_the_limits_decide() -> None:
    """Otherwise agreement would say little."""
    outcomes: Counter[str] = Counter()
    for seed in SEEDS[::3]:
        horizon = powered_horizon(seed)
        free = [
            replace(case, power=replace(case.power, most_kw=math.inf))
            for case in horizon.cases
            if case.power is not None
        ]
        least = powered_costs(replace(horizon, cases=tuple(free)))[0]
        outcomes["infeasible"] += truth_of(seed)[0] == math.inf > least
        outcomes["costs more"] += math.inf > truth_of(seed)[0] > least * (1 + 1e-6)
    assert outcomes == {"costs more": 5, "infeasible": 3}
