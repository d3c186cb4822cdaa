"""Rules about vendors against the whole truth of tiny cases: CBC, HiGHS, bounds, and plans that keep them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from problems.fleet_problem import FleetProblem
from problems.recipes.vendors import NO_VENDORS, Vendor, Vendors
from problems.vendors.presolve import without_vendors_shut_out
from solvers.backends.solve import SolverName
from solvers.heuristics.incumbent import limits_are_kept
from solvers.pricing.column_generation import ColumnGeneration
from solvers.pricing.reduced_cost_fixing import without_what_limits_forbid
from solvers.search.fleet_solution import Options, Outcome
from solvers.search.fleet_solver import solve_fleet
from tests.oracle import vendor_caps
from tests.oracle.bounds import check_bounds, check_optimum
from tests.oracle.brute_force import Truth, brute_force
from tests.oracle.cases import lever_case
from tests.oracle.plans import check_plan
from tests.oracle.vendor_caps import cap_case, tight_case, without_vendor
from tests.oracle.vendor_shares import least_usd, share_case
from tests.oracle.vendors import vendor_case
from tests.support.fleets import Case
from tests.support.rows import for_each

SEEDS = range(40)
SHARES = range(16)
CAPS = range(24)


@cache
def truth_of(seed: int) -> Truth:
    return brute_force(vendor_case(seed))


@for_each(("seed", "solver"), [*((seed, "cbc" if seed % 3 else "highs") for seed in SEEDS), (107, "highs")])
def test_the_optimum_is_that_of_brute_force(seed: int, solver: SolverName) -> None:
    case, truth = vendor_case(seed), truth_of(seed)
    check_optimum(case, truth.objective, solver)


def test_a_vendor_of_instances_and_an_api_counts_once() -> None:
    """In mixes with the API too: there the bound on those that are not written down would be too high."""
    case, rng = lever_case(520).case, np.random.default_rng([520, 12])
    sold = [*sorted(case.offers), *sorted({api.key for pool in case.pools for api in pool.apis})]
    of: dict[str, tuple[Vendor, ...]] = {key: (("provider", str(rng.choice(["p", "q"]))),) for key in sold}
    of_offer, of_api = ({key: of[key] for key in sold if (key in case.offers) == offers} for offers in (True, False))
    usd = {vendor: 1500.0 for vendors in of_offer.values() for vendor in vendors}
    case = replace(case, vendors=Vendors(of_offer, of_api, usd))
    solution = solve_fleet(case.fleet, Options(gap_frac=0.0))
    assert solution.objective == pytest.approx(brute_force(case).objective, rel=1e-6)


def test_the_rules_decide() -> None:
    """Otherwise agreement would say little: so many optima change, and so many cases become infeasible."""
    outcomes: Counter[str] = Counter()
    for seed in SEEDS:
        free, ruled = brute_force(replace(vendor_case(seed), vendors=NO_VENDORS)).objective, truth_of(seed).objective
        outcomes["infeasible"] += ruled == math.inf > free
        outcomes["costs more"] += math.inf > ruled > free * (1 + 1e-6)
    assert outcomes == {"costs more": 17, "infeasible": 7}


@for_each("seed", SEEDS[::4])
def test_no_bound_of_column_generation_exceeds_the_optimum(seed: int) -> None:
    check_bounds(vendor_case(seed).fleet, truth_of(seed).objective)


@for_each("seed", SEEDS[1::4])
def test_a_search_cut_short_says_so(seed: int) -> None:
    case, truth = vendor_case(seed), truth_of(seed)
    for options in (Options(gap_frac=0.0, node_limit=0), Options(gap_frac=0.1), Options(time_limit_s=0.01)):
        solution = solve_fleet(case.fleet, options)
        assert solution.bound_usd_per_month <= truth.objective * (1 + 1e-9)
        assert solution.objective >= truth.objective * (1 - 1e-6)
        if solution.outcome is Outcome.INFEASIBLE:
            assert truth.objective == math.inf
        if solution.best is not None:
            check_plan(case, solution.best)


@for_each(("seed", "solver"), [(seed, "cbc" if seed % 3 else "highs") for seed in SHARES])
def test_least_shares_give_the_optimum_of_brute_force(seed: int, solver: SolverName) -> None:
    case, truth = share_case(seed), least_usd(share_case(seed))
    solution = solve_fleet(case.fleet, Options(solver=solver, gap_frac=0.0))
    assert solution.outcome is Outcome.OPTIMAL
    assert solution.objective == pytest.approx(truth, rel=1e-6)
    assert solution.bound_usd_per_month <= truth * (1 + 1e-9)
    assert solution.best is not None
    assert limits_are_kept(case.fleet, solution.best)


def test_least_shares_decide() -> None:
    """So many optima of the cases above cost more than without."""
    free = [least_usd(replace(case, vendors=replace(case.vendors, least_share={}))) for case in map(share_case, SHARES)]
    assert sum(least_usd(share_case(seed)) > usd * (1 + 1e-6) for seed, usd in zip(SHARES, free, strict=True)) == 8


@cache
def capped_usd(seed: int) -> float:
    return vendor_caps.least_usd(cap_case(seed))


@for_each("solver", ["cbc", "highs"])
@for_each("seed", CAPS)
def test_caps_on_what_vendors_are_paid_give_the_optimum_of_brute_force(seed: int, solver: SolverName) -> None:
    case, truth = cap_case(seed), capped_usd(seed)
    check_optimum(case, truth, solver)


@for_each("seed", range(20))
def test_caps_that_shut_vendors_out_give_the_optimum_of_brute_force(seed: int) -> None:
    case = tight_case(seed)
    truth = vendor_caps.least_usd(case)
    solution = solve_fleet(case.fleet, Options(solver="cbc" if seed % 2 else "highs", gap_frac=0.0))
    assert solution.outcome is (Outcome.INFEASIBLE if truth == math.inf else Outcome.OPTIMAL)
    if solution.best is not None:
        assert solution.objective == pytest.approx(truth, rel=1e-6)
        assert solution.bound_usd_per_month <= truth * (1 + 1e-9)
        assert limits_are_kept(case.fleet, solution.best)


@for_each("make", [cap_case, tight_case])
@for_each("seed", range(20, 28))
def test_no_bound_under_caps_exceeds_the_optimum(seed: int, make: Callable[[int], Case]) -> None:
    bounds: list[float] = []
    truth = vendor_caps.least_usd(make(seed))
    if ColumnGeneration(make(seed).fleet, lambda n, bound: bounds.append(bound)).run(1e-6).feasible is False:
        assert truth == math.inf
    assert all(bound <= truth * (1 + 1e-9) for bound in bounds)


@pytest.mark.parametrize("vendor", [("provider", "p"), ("provider", "q"), ("api", "a0")])
def test_a_cap_of_nothing_proves_as_much_as_a_menu_without_the_vendor(vendor: Vendor) -> None:
    """The LP by itself: nothing is left to the mixed-integer program."""
    case = cap_case(16)
    shut_out = replace(case, vendors=replace(case.vendors, most_usd={vendor: 0.0})).fleet
    without = replace(without_vendor(case, vendor), vendors=replace(case.vendors, most_usd={})).fleet
    free = replace(case, vendors=NO_VENDORS).fleet
    proved = [root_usd(fleet) for fleet in (without_vendors_shut_out(shut_out), without, free)]
    assert proved[0] == pytest.approx(proved[1], rel=1e-6)
    assert proved[0] > proved[2] * 1.001


def root_usd(fleet: FleetProblem) -> float:
    presolved = replace(fleet, recipes=tuple(without_what_limits_forbid(fleet)))
    return ColumnGeneration(presolved, lambda n, bound: None).run(1e-6).bound


def test_caps_decide() -> None:
    """Of the cases above, so many optima cost more than without, and so many cases become infeasible."""
    outcomes: Counter[str] = Counter()
    for seed in CAPS:
        case = cap_case(seed)
        free = vendor_caps.least_usd(replace(case, vendors=replace(case.vendors, most_usd={})))
        outcomes["infeasible"] += capped_usd(seed) == math.inf > free
        outcomes["costs more"] += math.inf > capped_usd(seed) > free * (1 + 1e-6)
    assert outcomes == {"costs more": 6, "infeasible": 11}
