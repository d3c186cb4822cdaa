"""Budgets of one fleet: what prices prove at every budget is true, and every point of a sweep is a plan of its own."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from problems.fleet_problem import FleetProblem, Offer
from problems.recipes.recipe import Recipe, Use
from solvers.heuristics.budget_heuristic import BudgetHeuristic
from solvers.heuristics.budget_knapsack import UNITS, BudgetKnapsack
from solvers.heuristics.incumbent import complete, cost_by_month, limits_are_kept
from solvers.pricing.budget_bounds import BudgetBound, highest, proved_within
from solvers.pricing.column_generation import ColumnGeneration
from solvers.search.dual_scaling import DualScaling
from solvers.search.fleet_solution import Options, Outcome
from solvers.search.fleet_solver import solve_fleet
from solvers.search.frontier import BudgetSearch
from tests.oracle.brute_force import brute_force
from tests.oracle.cases import lever_case
from tests.support.rows import for_each

SHARES = (0.5, 0.7, 0.85, 0.95, 1.02)
"""of what the cheapest plan without a budget costs"""
SEEDS = (5, 8, 9, 11, 15, 16, 20, 22, 25, 29, 33, 35, 36, 37, 137, 403, 404)
"""those below 40 with a budget or work to shed; then plans within a budget only by a solver's tolerance"""


def fleet_of(seed: int) -> FleetProblem:
    return replace(lever_case(seed).case, budget_usd_per_month=None).fleet


def test_these_are_the_seeds_with_a_budget() -> None:
    assert SEEDS[:-3] == tuple(seed for seed in range(40) if lever_case(seed).levers & {"shedding", "budget"})


@cache
def optima(seed: int) -> dict[float, float]:
    """By budget, what the best plan costs with its penalty; inf where there is none."""
    case = replace(lever_case(seed).case, budget_usd_per_month=None)
    free = brute_force(case)
    budgets = [free.cost * share for share in SHARES] if free.objective < math.inf else [1e4, 2e4]
    return {b: brute_force(replace(case, budget_usd_per_month=b)).objective for b in budgets}


def assert_proved(lines: list[BudgetBound], seed: int) -> None:
    for line in lines:
        assert line.usd_per_usd <= 0
        for budget, usd in optima(seed).items():
            assert line.within(budget) <= usd + 1e-6 * max(1.0, abs(usd)), (line, budget)


@for_each("seed", SEEDS)
def test_prices_at_one_budget_bound_the_plans_within_every_other(seed: int) -> None:
    fleet = fleet_of(seed)
    for budget in optima(seed):
        generation = ColumnGeneration(replace(fleet, budget_usd_per_month=budget), lambda n, bound: None)
        found = generation.run(1e-3)
        assert_proved(generation.tangents, seed)
        if found.feasible:
            assert proved_within(generation.tangents, budget) == pytest.approx(found.bound)
            ladder = DualScaling(generation).climb(list(optima(seed)), 0.01)
            assert_proved(ladder, seed)


@for_each("seed", SEEDS)
def test_a_sweep_finds_the_optimum_of_every_budget_and_never_falls(seed: int) -> None:
    options = Options(gap_frac=1e-6)
    fleet, budgets = fleet_of(seed), list(optima(seed))
    search = BudgetSearch(fleet, solve_fleet(fleet, options), budgets, options)
    shape, solutions = search.shape(), search.solutions()
    for budget, usd in optima(seed).items():
        solution = solutions[budget]
        if usd == math.inf:
            assert solution.outcome is Outcome.INFEASIBLE
            continue
        assert shape[budget] is not None
        assert shape[budget] <= solution.bound_usd_per_month * (1 + 1e-9)
        assert solution.best is not None
        assert limits_are_kept(replace(fleet, budget_usd_per_month=budget * (1 + 1e-6)), solution.best)
        assert solution.objective == pytest.approx(usd, rel=1e-5)
        assert solution.bound_usd_per_month <= usd * (1 + 1e-6)
        assert solution.gap_frac <= options.gap_frac
    usd = [solutions[budget].objective for budget in budgets]
    assert all(more <= less * (1 + 1e-9) for less, more in itertools.pairwise(usd))


@for_each("seed", SEEDS)
def test_plans_in_closed_form_keep_their_budget_and_are_never_below_the_optimum(seed: int) -> None:
    fleet = fleet_of(seed)
    thrift = BudgetHeuristic(fleet)
    for budget, usd in optima(seed).items():
        plan = thrift.within(budget)
        if plan is not None:
            assert limits_are_kept(replace(fleet, budget_usd_per_month=budget), plan)
            assert plan.objective >= usd * (1 - 1e-6)


@for_each("seed", SEEDS)
def test_a_curve_has_plans_and_lines_for_all_budgets(seed: int) -> None:
    options = Options(gap_frac=0.01)
    fleet, budgets = fleet_of(seed), list(optima(seed))
    free = solve_fleet(fleet, options)
    curve, lines = BudgetSearch(fleet, free, budgets, options).curve(0.02)
    assert_proved(lines, seed)
    for dearest, plan in curve:
        assert cost_by_month(fleet, plan.paths, plan.purchases, plan.signed).max() == pytest.approx(dearest)
        assert limits_are_kept(replace(fleet, budget_usd_per_month=dearest), plan)
        assert proved_within(lines, dearest) <= plan.objective * (1 + 1e-6)
        assert all(plan.objective >= usd * (1 - 1e-6) for budget, usd in optima(seed).items() if budget >= dearest)
    usd = [plan.objective for _, plan in curve]
    assert usd == sorted(usd, reverse=True)


def test_the_highest_lines_prove_as_much_as_all_of_them() -> None:
    chance = np.random.default_rng(50)
    for _ in range(200):
        count = int(chance.integers(0, 12))
        lines = [BudgetBound(b, u, -w) for b, u, w in chance.uniform(0, [100, 1000, 20], (count, 3)).round(1)]
        kept = highest(lines, 80.0)
        assert set(kept) <= set(lines)
        for budget in np.linspace(0, 80, 17):
            assert proved_within(kept, budget) == pytest.approx(proved_within(lines, budget))


HOURS = [200.0, 300.0, 230.0, 200.0, 300.0, 230.0]


def two_days(months: int) -> tuple[FleetProblem, Recipe]:
    """Two days of three hours, in one month or in one each; up to three replicas, of which each avoids less penalty."""
    offers = {"g": Offer("g", "h", 1, on_demand_usd_per_h=2.0, start_h=0.4)}
    slot = np.repeat(np.arange(6), 4)
    replicas = np.tile(np.arange(4), 6)
    demand = np.array([3.0, 9.0, 7.0, 2.0, 8.0, 5.0])[slot]
    penalty = demand * np.array([1.0, 0.45, 0.2, 0.0])[replicas]
    use = Use("d", "g", 1, replicas, replicas, replicas.astype(float))
    recipe = Recipe("w", ("w",), (use,), None, slot, 0.0 * penalty, penalty, penalty / demand)
    fleet = FleetProblem(
        ("w",), np.array(HOURS), np.arange(6) // 3 if months == 2 else np.zeros(6, dtype=int), offers, {}, (recipe,),
        slot_before=np.array([2, 0, 1, 5, 3, 4]),
    )  # fmt: skip
    return fleet, recipe


@pytest.mark.parametrize("months", [1, 2])
def test_money_is_spent_on_the_servings_that_avoid_most(months: int) -> None:
    """Every choice by enumeration; amounts are rounded, and a day's first start is not counted."""
    fleet, recipe = two_days(months)
    spending = BudgetKnapsack(fleet, (), recipe, {"g": 0})
    every = []
    for choice in itertools.product(range(4), repeat=6):
        plan = complete(fleet, (recipe.only(np.arange(6) * 4 + np.array(choice)),))
        assert plan is not None
        every.append((cost_by_month(fleet, plan.paths, plan.purchases), plan.penalty_usd_per_month))
    dearest = max(usd.max() for usd, _ in every)
    for amount in np.linspace(0.02, 1.0, 25) * dearest:
        path, _ = spending.within(np.full(months, amount))
        plan = complete(fleet, (path,))
        assert plan is not None
        best = min(penalty for usd, penalty in every if usd.max() <= amount * (1 - 6 / UNITS))
        first_starts = 2 / months * 3 * 2.0 * 0.4 * max(HOURS)
        assert plan.penalty_usd_per_month <= best + 1e-9
        assert cost_by_month(fleet, plan.paths, plan.purchases).max() <= amount * (1 + 6 / UNITS) + first_starts
