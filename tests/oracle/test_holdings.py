"""Fleets of which some instances are there anyway: their optimum is that of brute force."""

from __future__ import annotations

from dataclasses import replace

import pytest

from problems.fleet_problem import ON_HAND
from problems.horizon.horizon_problem import Block
from solvers.backends.solve import SolverName
from tests.oracle.bounds import check_optimum
from tests.oracle.brute_force import brute_force
from tests.oracle.cases import case_with_holdings, truth_of
from tests.support.rows import for_each

SEEDS = [*range(1, 180, 11), 44]
"""in 44 an offer with instances on hand is of use in mixes only, which are written down late"""


@for_each(("seed", "solver"), [*((s, "cbc") for s in SEEDS), *((s, "highs") for s in SEEDS[::6])])
def test_the_optimum_is_that_of_brute_force(seed: int, solver: SolverName) -> None:
    case = case_with_holdings(seed)
    check_optimum(case, brute_force(case).objective, solver)


def test_holdings_decide_some_of_these_cases() -> None:
    cheaper = [brute_force(case_with_holdings(seed)).objective < truth_of(seed).objective * 0.99 for seed in SEEDS]
    assert sum(cheaper) > len(SEEDS) / 2


@for_each("seed", SEEDS[:6])
def test_what_is_held_never_raises_the_cost(seed: int) -> None:
    assert brute_force(case_with_holdings(seed)).objective <= truth_of(seed).objective * (1 + 1e-9)


def test_a_block_with_instances_committed_to_has_them_on_hand() -> None:
    fleet = case_with_holdings(12).fleet
    g = min(fleet.offers)
    block = Block(replace(fleet, budget_usd_per_month=1000.0), 3.0, "a quarter")
    committed = block.with_committed({g: 2}, 300.0)
    assert committed.offers[g].on_hand == fleet.offers[g].on_hand + 2
    assert committed.budget_usd_per_month == pytest.approx(700.0)
    assert ON_HAND not in committed.offers[g].reserved_usd_per_h
