"""Bounds that know that replicas stand apart are no higher than the optimum, and plans no cheaper."""

from __future__ import annotations

import math

import pytest

import solvers.cuts.separation
from solvers.cuts.standing_apart import standing_apart
from solvers.search.fleet_solution import Options
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.apart_cases import apart_case
from tests.oracle.brute_force import brute_force
from tests.oracle.plans import check_plan

SEEDS = range(30)


def test_bounds_hold_where_cuts_about_replicas_that_stand_apart_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brute force tells deployments of one size not apart, which is no more than standing apart takes."""
    found = 0

    def counted(*args: object) -> object:
        nonlocal found
        cuts = standing_apart(*args)  # type: ignore[arg-type]
        found += bool(cuts)
        return cuts

    monkeypatch.setattr(solvers.cuts.separation, "standing_apart", counted)
    with_cuts = at_the_optimum = 0
    for seed in SEEDS:
        case, before = apart_case(seed), found
        least = brute_force(case, stand_apart=True).objective
        solution = solve_fleet(case.fleet, Options(gap_frac=0.0))
        with_cuts += found > before
        if solution.best is None:
            assert least == math.inf
            continue
        assert solution.bound_usd_per_month <= least * (1 + 1e-9) + 1e-6, seed
        assert solution.objective >= least * (1 - 1e-9) - 1e-6, seed
        at_the_optimum += solution.objective <= least * (1 + 1e-9)
        check_plan(case, solution.best)
    assert with_cuts >= 12
    assert at_the_optimum >= 24
