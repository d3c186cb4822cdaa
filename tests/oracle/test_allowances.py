"""Savings plans and provisioned units against the whole truth of tiny cases, hour by hour in the provider's order."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from problems.allowance import Allowance, Allowances
from solvers.backends.solve import SolverName
from solvers.search.fleet_solution import Options, Outcome
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.allowances import dollar_case, lapsing_case, least_usd, monthly_case, units_case
from tests.oracle.bounds import check_bounds, check_optimum
from tests.oracle.plans import check_plan
from tests.support.fleets import Case
from tests.support.rows import for_each

DOLLARS, UNITS, SEVERAL, MONTHLY = range(100), range(60), range(20), range(24)


@cache
def truth_of(kind: str, seed: int) -> float:
    return least_usd(dollar_case(seed) if kind == "dollars" else units_case(seed))


@for_each("seed", DOLLARS)
def test_a_savings_plan_is_that_of_brute_force(seed: int) -> None:
    agrees(dollar_case(seed), truth_of("dollars", seed), "cbc" if seed % 3 else "highs")


@for_each("seed", UNITS)
def test_provisioned_units_are_those_of_brute_force(seed: int) -> None:
    agrees(units_case(seed), truth_of("units", seed), "cbc" if seed % 3 else "highs")


def agrees(case: Case, truth: float, solver: SolverName) -> None:
    check_optimum(case, truth, solver)


@for_each("seed", range(0, 60, 4))
@for_each("kind", ["dollars", "units"])
def test_no_bound_of_column_generation_exceeds_the_optimum(kind: str, seed: int) -> None:
    check_bounds((dollar_case(seed) if kind == "dollars" else units_case(seed)).fleet, truth_of(kind, seed))


def test_allowances_decide() -> None:
    """Otherwise agreement would say little: of so many cases an allowance makes the best plan cheaper."""
    found: Counter[str] = Counter()
    for kind, seeds, case_of in (("dollars", DOLLARS[:40], dollar_case), ("units", UNITS[:40], units_case)):
        for seed in seeds:
            nothing = Allowance("nothing", 1.0, {}, most=0.0)
            without = least_usd(replace(case_of(seed), allowances=(nothing,)))
            found[kind] += bool(without > truth_of(kind, seed) * (1 + 1e-6))
    assert found == {"dollars": 28, "units": 23}


@for_each("seed", SEVERAL)
def test_a_plan_of_one_family_before_one_of_all_keeps_its_bound(seed: int) -> None:
    """Their order costs a plan more than the program knows, never less."""
    case = dollar_case(seed)
    (wide,) = case.allowances
    rng = np.random.default_rng([seed, 23])
    narrow = Allowance("narrow", 1.0, {g: n * rng.uniform(0.85, 0.95) for g, n in list(wide.takes.items())[:1]})
    case = replace(case, allowances=(narrow, replace(wide, held=0.0, usd_per_h=1.0)))
    solution = solve_fleet(case.fleet, Options(gap_frac=0.0))
    if solution.best is None:
        assert solution.outcome is Outcome.INFEASIBLE
        return
    check_plan(case, solution.best)
    assert solution.bound_usd_per_month <= solution.objective * (1 + 1e-9) + 1e-9
    alone = solve_fleet(replace(case, allowances=case.allowances[1:]).fleet, Options(gap_frac=0.0))
    assert solution.bound_usd_per_month <= alone.objective * (1 + 1e-9) + 1e-9


@for_each("seed", range(0, 60, 3))
def test_a_budget_counts_what_is_signed_and_covered(seed: int) -> None:
    """One month: what the best plan costs is enough, a hundredth less is not."""
    truth = truth_of("dollars", seed)
    if truth in (0.0, math.inf):
        return
    enough = solve_fleet(replace(dollar_case(seed), budget_usd_per_month=truth * 1.0001).fleet, Options(gap_frac=0.0))
    assert enough.objective == pytest.approx(truth, rel=1e-6)
    less = solve_fleet(replace(dollar_case(seed), budget_usd_per_month=truth * 0.99).fleet, Options(gap_frac=0.0))
    assert less.outcome is Outcome.INFEASIBLE


@for_each("seed", MONTHLY)
@for_each("kind", ["dollars", "units"])
def test_a_budget_for_each_of_several_months_is_that_of_brute_force(kind: str, seed: int) -> None:
    """What is signed is paid in every month, and demand differs by month: what is best on average may break a month."""
    case = monthly_case(kind, seed)
    agrees(case, least_usd(case), "cbc" if seed % 3 else "highs")


@pytest.mark.parametrize("seed", MONTHLY)
@pytest.mark.parametrize("kind", ["dollars", "units"])
def test_what_is_held_for_some_of_the_hours_covers_in_these_alone(kind: str, seed: int) -> None:
    case = lapsing_case(kind, seed)
    truth = least_usd(case)
    agrees(case, truth, "cbc" if seed % 3 else "highs")
    check_bounds(case.fleet, truth)


def test_hours_in_which_it_is_held_decide() -> None:
    """Otherwise agreement would say little: of so many cases it saves in its hours, and would save in the others."""
    found: Counter[str] = Counter()
    for seed in MONTHLY:
        case = lapsing_case("dollars", seed)
        usd = least_usd(case)
        (plan,) = case.allowances
        never = least_usd(replace(case, allowances=(replace(plan, there=np.zeros(len(case.slot_hours), dtype=bool)),)))
        always = least_usd(replace(case, allowances=(replace(plan, there=None),)))
        found["saves"] += bool(usd < never - 1e-6)
        found["would save more"] += bool(always < usd - 1e-6)
    assert min(found.values()) >= 18


def test_budgets_by_month_decide() -> None:
    """Otherwise agreement would say little: of so many cases a budget makes the best plan dearer, or impossible."""
    found: Counter[tuple[str, str]] = Counter()
    for kind in ("dollars", "units"):
        for seed in MONTHLY:
            case = monthly_case(kind, seed)
            usd, free = least_usd(case), least_usd(replace(case, budget_usd_per_month=None))
            found[kind, "none" if usd == math.inf else "dearer" if usd > free * (1 + 1e-6) else "as cheap"] += 1
    assert found == {
        ("dollars", "as cheap"): 17, ("dollars", "dearer"): 6, ("dollars", "none"): 1,
        ("units", "as cheap"): 16, ("units", "dearer"): 6, ("units", "none"): 2,
    }  # fmt: skip


def test_of_the_same_discount_what_takes_less_comes_first() -> None:
    """Quotients of one discount differ by rounding, which must not choose what is covered: the checker has its own."""
    rng = np.random.default_rng(5)
    for _ in range(300):
        prices = {name: round(float(rng.uniform(0.3, 90)), 2) for name in "ab"}
        takes = {name: price * (1 - 0.27) for name, price in prices.items()}
        order = Allowances(usd_of=prices).in_order(Allowance("plan", 1.0, takes))
        assert order == sorted(takes, key=lambda name: (takes[name], name))
