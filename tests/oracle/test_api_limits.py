"""Limits per minute of APIs against the whole truth of tiny cases: CBC, HiGHS, bounds, and plans that keep them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np

from problems.api_limit_rows import api_limits_are_kept
from problems.api_limits import ApiLimit
from solvers.heuristics.incumbent import limits_are_kept
from solvers.search.fleet_solution import Options
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.api_limits import least_usd, limited_case
from tests.oracle.bounds import check_bounds, check_optimum
from tests.support.fleets import Case, random_case
from tests.support.rows import for_each

SEEDS = range(60)


@cache
def truth_of(seed: int) -> float:
    return least_usd(*limited_case(seed))


@for_each("seed", SEEDS)
def test_the_optimum_is_that_of_brute_force(seed: int) -> None:
    case, truth = limited_case(seed)[0], truth_of(seed)
    check_optimum(case, truth, "cbc" if seed % 3 else "highs")


def test_the_limits_decide() -> None:
    """Otherwise agreement would say little: so many optima change, and so many cases become infeasible."""
    outcomes: Counter[str] = Counter()
    for seed in SEEDS:
        case, _ = limited_case(seed)
        free = least_usd(replace(case, api_limits=()), {})
        outcomes["infeasible"] += truth_of(seed) == math.inf > free
        outcomes["costs more"] += math.inf > truth_of(seed) > free * (1 + 1e-6)
    assert outcomes == {"costs more": 30, "infeasible": 0}


@for_each("seed", SEEDS[::3])
def test_no_bound_of_column_generation_exceeds_the_optimum(seed: int) -> None:
    check_bounds(limited_case(seed)[0].fleet, truth_of(seed))


def mixed_case(seed: int, looser: float) -> Case:
    """Several lengths, spot, boxes of up to four, shedding and mixes, which brute force above does not try."""
    rng, case = np.random.default_rng([seed, 78]), random_case(seed)
    limits = []
    for api in sorted({api.key for pool in case.pools for api in pool.apis}):
        share = rng.uniform(0.1, 0.9)
        per_usd = {
            pool.key: rng.uniform(0.8, 1.2, len(case.slot_hours))
            / (looser * share * max(3600 * float((pool.rate_rps @ a.usd_per_request).max()), 1e-9))
            for pool in case.pools
            for a in pool.apis
            if a.key == api
        }
        limits.append(ApiLimit(api, "tokens", 1.0, per_usd))
    return replace(case, api_limits=tuple(limits))


@for_each("seed", range(0, 48, 3))
def test_no_plan_of_a_tighter_limit_is_cheaper_than_the_bound_of_a_looser_one(seed: int) -> None:
    tight, loose, free = (
        solve_fleet(case.fleet, Options(solver="cbc" if seed % 2 else "highs", gap_frac=0.0))
        for case in (mixed_case(seed, 1.0), mixed_case(seed, 1.3), replace(mixed_case(seed, 1), api_limits=()))
    )
    assert tight.objective >= loose.bound_usd_per_month * (1 - 1e-6)
    assert loose.objective >= free.bound_usd_per_month * (1 - 1e-6)
    assert loose.objective <= tight.objective * (1 + 1e-6)
    assert free.objective <= loose.objective * (1 + 1e-6)


def test_a_plan_that_asks_too_much_is_not_kept() -> None:
    seed = next(s for s in SEEDS if truth_of(s) > least_usd(replace(limited_case(s)[0], api_limits=()), {}) * 1.001)
    case, _ = limited_case(seed)
    found = solve_fleet(replace(case, api_limits=()).fleet, Options(gap_frac=0.0)).best
    assert found is not None
    assert limits_are_kept(replace(case, api_limits=()).fleet, found)
    assert not api_limits_are_kept(case.fleet, found.paths)
    assert not limits_are_kept(case.fleet, found)
