"""Limits on power against the whole truth of tiny cases: CBC, HiGHS, bounds, and plans that keep them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np

from problems.power import PowerLimit
from solvers.heuristics.incumbent import limits_are_kept
from solvers.search.fleet_solution import Options
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.bounds import check_bounds, check_optimum
from tests.oracle.power_limits import least_usd, power_case
from tests.support.fleets import Case, random_case
from tests.support.rows import for_each

SEEDS = range(60)


@cache
def truth_of(seed: int) -> float:
    return least_usd(power_case(seed))


@for_each("seed", SEEDS)
def test_the_optimum_is_that_of_brute_force(seed: int) -> None:
    case, truth = power_case(seed), truth_of(seed)
    check_optimum(case, truth, "cbc" if seed % 3 else "highs")


def test_the_limits_decide() -> None:
    """Otherwise agreement would say little: so many optima change, and so many cases become infeasible."""
    outcomes: Counter[str] = Counter()
    for seed in SEEDS:
        case = power_case(seed)
        assert case.power is not None
        free = least_usd(replace(case, power=replace(case.power, most_kw=math.inf)))
        outcomes["infeasible"] += truth_of(seed) == math.inf > free
        outcomes["costs more"] += math.inf > truth_of(seed) > free * (1 + 1e-6)
    assert outcomes == {"costs more": 22, "infeasible": 4}


@for_each("seed", SEEDS[::3])
def test_no_bound_of_column_generation_exceeds_the_optimum(seed: int) -> None:
    check_bounds(power_case(seed).fleet, truth_of(seed))


def test_a_plan_that_draws_too_much_is_not_kept() -> None:
    case = power_case(0)
    found = solve_fleet(replace(case, power=None).fleet, Options(gap_frac=0.0)).best
    assert found is not None
    assert any(p.on_demand.any() or any(p.reserved.values()) for p in found.purchases.values())
    boxes, gpus = (dict.fromkeys(case.offers, each) for each in (0.3, 0.5))
    wide, narrow = (PowerLimit(boxes, gpus, most) for most in (1e6, 0.1))
    assert limits_are_kept(replace(case, power=wide).fleet, found)
    assert not limits_are_kept(replace(case, power=narrow).fleet, found)


def limited_case(seed: int, looser: float) -> Case:
    """Spot, boxes of up to four, several months and mixes, which brute force above does not try."""
    rng, case = np.random.default_rng([seed, 77]), random_case(seed)
    power = PowerLimit(
        box_kw={g: float(rng.uniform(0.1, 0.6)) * offer.box for g, offer in case.offers.items()},
        gpu_kw={g: float(rng.uniform(0.2, 0.9)) for g in case.offers},
        most_kw=looser * float(rng.uniform(0.5, 4.0)),
    )
    return replace(case, power=power)


@for_each("seed", range(0, 48, 4))
def test_no_plan_of_a_tighter_limit_is_cheaper_than_the_bound_of_a_looser_one(seed: int) -> None:
    tight, loose, free = (
        solve_fleet(case.fleet, Options(solver="cbc" if seed % 8 else "highs", gap_frac=0.0))
        for case in (*(limited_case(seed, looser) for looser in (1.0, 1.3)), replace(limited_case(seed, 1), power=None))
    )
    assert tight.objective >= loose.bound_usd_per_month * (1 - 1e-6)
    assert loose.objective >= free.bound_usd_per_month * (1 - 1e-6)
    assert loose.objective <= tight.objective * (1 + 1e-6)
    assert free.objective <= loose.objective * (1 + 1e-6)
