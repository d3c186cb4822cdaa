"""Branches: every plan is on one side, no bound exceeds the optimum, and deciding both ways proves more."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from problems.fleet import master
from problems.fleet_problem import FleetProblem
from solvers.backends.highs import solve_lp
from solvers.pricing.column_generation import ColumnGeneration
from solvers.pricing.reduced_cost_fixing import without_what_limits_forbid
from solvers.search import search
from solvers.search.branching import Branches, both_sides
from solvers.search.fleet_solution import FleetSolution, Options
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.cases import lever_case, truth_of
from tests.support.rows import for_each

COMMITMENTS = [5, 8, 22, 36, 38, 43, 44, 46, 61, 83, 92, 97, 104, 110, 118, 126, 158, 168, 177, 178, 189]
MIXED = [78, 119, 121, 148, 157, 164]
"""commitments are whole in the LP, but it mixes plans that need more of them and fewer"""
POOLS = [29, 37, 140]
USES = [33, 55, 96, 113, 156, 167]
SEEDS = [*COMMITMENTS, *MIXED, *POOLS, *USES]
"""cases whose LP leaves such things undecided"""
NOTHING_TO_LEAVE_OUT = {38, 46, 148, 158}
"""cases where every serving could be in a plan as cheap as the best, as far as prices say"""


def settled(fleet: FleetProblem) -> ColumnGeneration:
    allowed = replace(fleet, recipes=tuple(without_what_limits_forbid(fleet)))
    generation = ColumnGeneration(allowed, lambda n, bound: None)
    generation.run(1e-6)
    return generation


@cache
def root(seed: int) -> ColumnGeneration:
    return settled(lever_case(seed).case.fleet)


def sides_of(seed: int) -> list[ColumnGeneration]:
    return both_sides(root(seed))


def test_commitments_are_decided_before_pools_and_pools_before_uses() -> None:
    commitments = [*COMMITMENTS, *MIXED]
    kinds = ((commitments, (True, False, False)), (POOLS, (False, True, False)), (USES, (False, False, True)))
    for seeds, decided in kinds:
        for seed in seeds:
            sides = [side.fleet for side in sides_of(seed)]
            assert len(sides) == 2
            pools = len(root(seed).fleet.pools)
            assert {(bool(f.held), len(f.pools) < pools, bool(f.uses)) for f in sides} == {decided}


def test_commitments_that_are_whole_but_mixed_are_decided_too() -> None:
    """The LP breaks neither side, but costs more on one of them, or on both."""
    on_both = 0
    for seed in MIXED:
        assert all(min(boxes % 1, 1 - boxes % 1) < 0.02 for boxes in root(seed).reserved.values())
        sides = sides_of(seed)
        [key] = {key for side in sides for key in side.fleet.held}
        (_, most), (fewest, _) = (side.fleet.held[key] for side in sides)
        assert most == round(root(seed).reserved[key]) == fewest - 1
        for side in sides:
            side.run(1e-6)
        more = [side.feasible is False or side.lp_usd > root(seed).lp_usd * (1 + 1e-6) for side in sides]
        assert any(more)
        on_both += all(more)
    assert on_both


def test_a_pool_serves_its_workloads_or_others_do() -> None:
    for seed in POOLS:
        pools = root(seed).fleet.pools
        chosen, others = (side.fleet.pools for side in sides_of(seed))
        (left_out,) = pools.keys() - others.keys()
        assert left_out in chosen
        served = set(pools[left_out].workloads)
        assert not any(served & set(pool.workloads) for key, pool in chosen.items() if key != left_out)
        assert all(key in chosen for key, pool in pools.items() if not served & set(pool.workloads))


@for_each("seed", SEEDS)
def test_the_optimum_is_on_one_of_the_sides(seed: int) -> None:
    """Each side is solved by itself, with what is decided there; the better of the two is the best of all."""
    sides = sides_of(seed)
    exact = Options(gap_frac=0.0)
    best = [solve_fleet(side.fleet, exact) for side in sides]
    assert min(s.bound_usd_per_month for s in best if s.best) <= truth_of(seed).objective * (1 + 1e-6)
    assert min(s.objective for s in best) == pytest.approx(truth_of(seed).objective, rel=1e-6)


@for_each("seed", SEEDS)
def test_what_is_left_out_of_both_sides_is_in_no_cheaper_plan(seed: int) -> None:
    """With a plan at hand that is hardly dearer than the optimum, the optimum stays on one of the sides."""
    optimum = truth_of(seed).objective
    sides = both_sides(root(seed), optimum * (1 + 1e-4))
    solved = [solve_fleet(side.fleet, Options(gap_frac=0.0)) for side in sides]
    assert min(s.objective for s in solved) == pytest.approx(optimum, rel=1e-6)
    fewer = sum(side.fleet.servings for side in sides) < sum(side.fleet.servings for side in sides_of(seed))
    assert fewer == (seed not in NOTHING_TO_LEAVE_OUT)


@for_each("seed", SEEDS)
def test_no_bound_exceeds_the_optimum(seed: int) -> None:
    """Divided to the end, or for long, by prices alone."""
    branches = Branches()
    branches.add(root(seed), root(seed).bound)
    before = branches.bound

    def bounded(branch: ColumnGeneration, until: float) -> tuple[float, bool]:
        generated = branch.run(1e-6, enough=lambda state: state.bound_at_prices >= until)
        bound = math.inf if generated.feasible is False else generated.bound
        return bound, bound < until

    for _ in range(18):
        more = branches.go_on(bounded, truth_of(seed).objective * 1.01)
        assert before <= branches.bound <= truth_of(seed).objective * (1 + 1e-7)
        before = branches.bound
        if not more:
            break


def without_programs(monkeypatch: pytest.MonkeyPatch, fleet: FleetProblem, branches: int) -> FleetSolution:
    """Searched by prices and branches alone: no mixed-integer program over servings."""
    for name, value in (("MOST_SERVINGS", -1), ("HOPELESS", -1), ("FEW_SERVINGS", -1), ("MOST_BRANCHES", branches)):
        monkeypatch.setattr(search, name, value)
    return solve_fleet(fleet, Options(gap_frac=1e-6))


def test_branches_prove_more(monkeypatch: pytest.MonkeyPatch) -> None:
    lifted = 0
    for seed in SEEDS[::2]:
        fleet, truth = lever_case(seed).case.fleet, truth_of(seed).objective
        before = without_programs(monkeypatch, fleet, 0)
        after = without_programs(monkeypatch, fleet, 12)
        assert before.bound_usd_per_month <= after.bound_usd_per_month + 1e-9 * truth
        assert after.bound_usd_per_month <= truth * (1 + 1e-7)
        lifted += after.bound_usd_per_month > before.bound_usd_per_month * (1 + 1e-5)
    assert lifted >= len(SEEDS[::2]) / 3


def test_rows_that_were_left_out_hold_for_every_plan() -> None:
    """They are told to others, so the LP with all of them must not exceed the optimum."""
    forgotten = 0
    for seed in COMMITMENTS:
        generation = root(seed)
        forgotten += len(generation.box_rows.forgotten)
        fleet = generation.box_rows.with_forgotten(generation.fleet)
        assert len(fleet.rounded) == len(generation.fleet.rounded) + len(generation.box_rows.forgotten)
        lp = solve_lp(master(fleet)[0])
        assert lp.objective is not None
        assert lp.objective <= truth_of(seed).objective * (1 + 1e-6)
    assert forgotten


@for_each("seed", SEEDS[::4])
def test_prices_that_prove_far_less_give_way_to_those_that_proved_most(seed: int) -> None:
    """As happens where prices are good for the recipes at hand, and far too low for others."""
    for branch in both_sides(settled(lever_case(seed).case.fleet)):
        branch.run(1e-6)
        proved, model = branch.proved_usd, branch.model
        if model is None or branch.feasible is not True:
            continue
        assert branch.bound == pytest.approx(proved, rel=1e-9)
        branch.anchor = dict.fromkeys(branch.anchor, 0.0)
        branch.priced = ()
        branch._all_that_pays(model, 0.0)
        assert branch.bound_at_prices == pytest.approx(proved, rel=1e-6)


def test_rows_that_left_the_lp_have_no_price() -> None:
    """Else what they take off a bound would be forgotten. Offers that left altogether are at list prices, in dollars
    that weigh as much as those of the budget.
    """
    for seed in SEEDS[::4]:
        generation = settled(lever_case(seed).case.fleet)
        model = generation.model
        assert model is not None
        same, changed = generation._of_model(generation.anchor, model)
        assert not changed
        assert all(same[k] == d for k, d in generation.anchor.items() if k in same)
        gone = next(key[1] for key in model.row_keys if key[0] == "in-use")
        rows = [n for n, key in enumerate(model.row_keys) if gone not in key]
        left, changed = generation._of_model(generation.anchor, model.only_rows(np.array(rows)))
        weight = float(generation.prices.usd_factor.min())
        listed = {k: weight * d for k, d in generation.list_duals.items() if gone in k}
        assert {k: d for k, d in left.items() if gone in k} == listed
        before = {k: d for k, d in generation.anchor.items() if gone in k}
        assert changed == any(listed.get(k, 0.0) != d for k, d in before.items())
        priced = [n for n, key in enumerate(model.row_keys) if key[0] == "rounded" and same.get(key, 0.0) > 0]
        if priced:
            others = model.only_rows(np.delete(np.arange(model.n_rows), priced[0]))
            fewer, changed = generation._of_model(generation.anchor, others)
            assert changed and model.row_keys[priced[0]] not in fewer


def test_what_cannot_be_divided_is_left_only_after_all_was_tried() -> None:
    """More prices may show something to divide; what they prove counts either way."""
    seed = COMMITMENTS[0]
    asked = []

    def at_last(branch: ColumnGeneration) -> float:
        asked.append(branch)
        return branch.bound + 1.0

    decided = both_sides(root(seed))[0]
    decided.run(1e-6)
    decided.reserved, decided.picked = {}, []  # as if nothing were undecided
    branches = Branches()
    branches.add(decided, decided.bound)
    never = pytest.fail
    assert branches.go_on(lambda branch, until: never("it is settled"), math.inf, math.inf, at_last)
    assert branches.bound == decided.bound + 1.0
    assert not branches.go_on(lambda branch, until: never("it is settled"), math.inf, math.inf, at_last)
    assert asked == [decided]
    assert branches.bound == decided.bound + 1.0
