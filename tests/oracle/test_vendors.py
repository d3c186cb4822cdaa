"""Rules about vendors against the whole truth of tiny cases: CBC, HiGHS, bounds, and plans that keep them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from problems.recipes.vendors import NO_VENDORS, Vendor, Vendors
from solvers.backends.solve import SolverName
from solvers.search.fleet_solution import Options
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.bounds import check_bounds, check_cut_short, check_optimum
from tests.oracle.brute_force import Truth, brute_force
from tests.oracle.cases import lever_case
from tests.oracle.vendors import vendor_case
from tests.support.rows import for_each

SEEDS = range(40)


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
    check_cut_short(vendor_case(seed), truth_of(seed).objective)
