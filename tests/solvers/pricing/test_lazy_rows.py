"""Rows that join the master LP once a solution breaks them: the same LP in the end, and bounds that hold on the way."""

from __future__ import annotations

import numpy as np
import pytest

from problems.fleet import master
from problems.fleet_problem import FleetProblem
from solvers.backends.highs import solve_lp
from solvers.backends.result import Status
from solvers.pricing.lazy_rows import LAZY, LazyRows
from solvers.search.fleet_solution import Options
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.cases import lever_case, truth_of
from tests.support.rows import for_each

SEEDS = range(40)


@pytest.fixture(autouse=True)
def however_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solvers.pricing.lazy_rows.FEW_ROWS", 0)


def fleet_of(seed: int) -> FleetProblem | None:
    """None where a workload has no recipe of one deployment, and so no LP to begin with."""
    fleet = lever_case(seed).case.fleet
    return fleet if all(fleet.recipes_of.values()) else None


@for_each("seed", SEEDS)
def test_when_nothing_more_joins_it_is_the_whole_lp(seed: int) -> None:
    fleet = fleet_of(seed)
    if fleet is None:
        pytest.skip("a workload that mixes alone can serve")
    model, _ = master(fleet)
    whole, lazy = solve_lp(model), LazyRows()
    found, before = lazy.solve(model, fleet), -1
    if whole.status is not Status.OPTIMAL:
        return
    assert whole.objective is not None and found.objective is not None
    assert found.objective <= whole.objective * (1 + 1e-6) + 1e-6
    while len(lazy.joined) > before:
        before = len(lazy.joined)
        found = lazy.solve(model, fleet)
    assert found.objective == pytest.approx(whole.objective, rel=1e-5, abs=1e-5)
    assert found.x is not None and found.row_duals is not None
    activity = model.activity(found.x)
    assert (activity <= model.row_upper + 1e-4).all() and (activity >= model.row_lower - 1e-4).all()


def test_what_is_left_out_has_no_price_and_joins_where_it_is_broken() -> None:
    joined = left_out = 0
    for seed in SEEDS:
        fleet = fleet_of(seed)
        if fleet is None:
            continue
        model, _ = master(fleet)
        lazy = LazyRows()
        found = lazy.solve(model, fleet)
        if found.row_duals is None:
            continue
        may = np.array([key[0] in LAZY for key in model.row_keys], dtype=bool)
        out = np.array([key not in lazy.joined for key in model.row_keys], dtype=bool) & may
        assert (found.row_duals[out] == 0).all()
        joined, left_out = joined + len(lazy.joined), left_out + int(out.sum())
    assert joined and left_out


@for_each("seed", range(25))
def test_plans_and_bounds_are_those_of_the_brute_force(seed: int) -> None:
    truth = truth_of(seed)
    found = solve_fleet(lever_case(seed).case.fleet, Options(gap_frac=0.0))
    assert found.bound_usd_per_month <= truth.objective * (1 + 2e-6)
    assert found.objective == pytest.approx(truth.objective, rel=2e-6)
