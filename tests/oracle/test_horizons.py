"""Commitments over quarters and scenarios: the optimum is that of trying everything, and no bound exceeds it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from problems.horizon import BlockPlan, HorizonProblem, even_prices, horizon_master
from solvers.backends.solve import SolverName
from solvers.search.fleet_solution import Options, Outcome
from solvers.search.horizon import HorizonSearch, HorizonSolution
from tests.oracle.horizons import least_usd, tiny_horizon

SEEDS = [5, 7, 11, 14, 16, 17, 26, 28]
AMENDED_SEEDS = [14, 15, 19]
GAP = 1e-3


def solved(problem: HorizonProblem, solver: SolverName = "cbc") -> HorizonSolution:
    return HorizonSearch(problem, Options(solver=solver, gap_frac=GAP)).run()


@pytest.mark.parametrize(("seed", "solver"), [*((s, "cbc") for s in SEEDS), *((s, "highs") for s in SEEDS[1::3])])
def test_the_optimum_is_that_of_trying_everything(seed: int, solver: SolverName) -> None:
    horizon = tiny_horizon(seed)
    truth, solution = least_usd(horizon), solved(horizon.problem, solver)
    assert truth < math.inf
    assert truth * (1 - 1e-7) - 1e-4 <= solution.usd <= truth * (1 + GAP) + 1e-4
    assert solution.bound_usd <= truth * (1 + 1e-7) + 1e-4
    assert solution.gap_frac <= GAP
    assert solution.outcome in (Outcome.OPTIMAL, Outcome.WITHIN_GAP)


@pytest.mark.parametrize("seed", AMENDED_SEEDS)
def test_scenarios_with_prices_and_quotas_of_their_own(seed: int) -> None:
    horizon = tiny_horizon(seed, amended=True)
    truth, solution = least_usd(horizon), solved(horizon.problem)
    assert truth < math.inf
    assert truth * (1 - 1e-7) - 1e-4 <= solution.usd <= truth * (1 + GAP) + 1e-4
    assert solution.bound_usd <= truth * (1 + 1e-7) + 1e-4
    assert solution.gap_frac <= GAP


def test_a_horizon_without_a_plan_names_the_block() -> None:
    horizon = tiny_horizon(4)
    assert least_usd(horizon) == math.inf
    solution = solved(horizon.problem)
    assert solution.outcome is Outcome.INFEASIBLE
    assert solution.without_a_plan.startswith("block ")


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_a_scenario_in_two_equal_halves_changes_nothing(seed: int) -> None:
    """The second block, cut into two of half its probability, each with its own commitments."""
    problem = tiny_horizon(seed).problem
    first, second, third = problem.blocks
    half = replace(second, months=second.months / 2)
    commitments = []
    for c in problem.commitments:
        if c.blocks == (1,):
            commitments += [replace(c, usd=c.usd / 2), replace(c, usd=c.usd / 2, blocks=(3,), scenario="low again")]
        else:
            commitments.append(replace(c, blocks=(0, 1, 2, 3) if c.blocks == (0, 1, 2) else c.blocks))
    split = HorizonProblem((first, half, third, replace(half)), tuple(commitments), problem.max_owed_usd)
    whole, halves = solved(problem), solved(split)
    assert halves.bound_usd <= whole.usd * (1 + 1e-9)
    assert whole.bound_usd <= halves.usd * (1 + 1e-9)


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_knowing_the_scenario_costs_no_more(seed: int) -> None:
    """Wait and see: the mean of plans that know what comes is no more than the plan that does not."""
    problem = tiny_horizon(seed).problem
    here = solved(problem)
    likely = problem.blocks[1].months / problem.blocks[0].months
    known = 0.0
    for b, share in ((1, likely), (2, 1 - likely)):
        of = {0: 0, b: 1}
        commitments = tuple(
            replace(c, blocks=tuple(of[k] for k in c.blocks if k in of), usd=c.usd / (share if c.scenario else 1.0))
            for c in problem.commitments
            if set(c.blocks) & {0, b}
        )
        blocks = (problem.blocks[0], replace(problem.blocks[b], months=problem.blocks[0].months))
        known += share * solved(HorizonProblem(blocks, commitments, problem.max_owed_usd)).bound_usd
    assert known <= here.usd * (1 + 1e-9)


def test_a_bound_holds_at_any_prices() -> None:
    """Prices that are drawn, not found: the bound is still one."""
    horizon = tiny_horizon(7)
    problem, truth = horizon.problem, least_usd(horizon)
    search = HorizonSearch(problem, Options(gap_frac=GAP))
    for times in (0.0, 0.4, 1.0, 3.0):
        prices = {key: times * usd for key, usd in even_prices(problem).items()}
        least = search._price(prices, 0)
        assert least is not None
        for owed in ({}, {"low": 0.1}, {"low": 0.1, "high": 0.3}) if problem.max_owed_usd is not None else ({},):
            assert problem.bound_at(prices, least, owed) <= truth * (1 + 1e-7) + 1e-4


def test_rows_of_the_master_by_hand() -> None:
    """Golden rows: two blocks, a commitment for both and one for the second, two plans each."""
    problem = tiny_horizon(17).problem
    g = problem.commitments[0].offer
    long, _, low, _ = problem.commitments
    two = HorizonProblem(
        problem.blocks[:2], (replace(long, blocks=(0, 1), usd=100.0, owed_usd=7.0), replace(low, usd=30.0)), 21.0
    )
    plans = [[BlockPlan(50.0, {}), BlockPlan(20.0, {g: 1})], [BlockPlan(80.0, {g: 1}), BlockPlan(5.0, {g: 2})]]
    model = horizon_master(two, plans, relaxed=True)
    columns = {key: k for k, key in enumerate(model.column_keys)}
    assert model.cost[columns["sign", 0]] == 100.0
    assert model.cost[columns["plan", 1, 1]] == pytest.approx(5.0 * two.blocks[1].months)
    rows = {
        key: {model.column_keys[model.indices[k]]: model.values[k] for k in range(model.starts[r], model.starts[r + 1])}
        for r, key in enumerate(model.row_keys)
    }
    assert rows["one-plan", 0] == {("plan", 0, 0): 1.0, ("plan", 0, 1): 1.0}
    assert rows["committed", 1, g] == {
        ("sign", 0): 1.0, ("sign", 1): 1.0, ("plan", 1, 0): -1.0, ("plan", 1, 1): -2.0, ("lacking", 1, g): 1.0,
    }  # fmt: skip
    assert rows["owed", "low"] == {("sign", 0): 7.0, ("sign", 1): 2000.0}
    assert model.row_upper[model.row_keys.index(("owed", "low"))] == 21.0
