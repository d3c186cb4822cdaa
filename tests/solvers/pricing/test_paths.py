"""Paths of the master LP: opened where the LP leans on them, the same LP, and whole again in the end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from problems.fleet import master
from problems.fleet_problem import FleetProblem
from problems.recipes.recipe import Recipe, joined
from solvers.backends.highs import solve_lp
from solvers.cuts.picked import Picked
from solvers.pricing.column_generation import CONVERGED_FRAC, ColumnGeneration
from solvers.pricing.paths import IDLE_ROUNDS, LEVELS, Paths, single_paths
from tests.oracle.cases import lever_case
from tests.support.fleets import random_case
from tests.support.rows import for_each


def fleet_with_choices() -> FleetProblem:
    """A fleet with a recipe on GPUs that has several servings in each slot."""
    for seed in range(100):
        fleet = random_case(seed, limits=False, max_utilization=6.0).fleet
        for recipe in fleet.recipes:
            if recipe.uses and np.bincount(recipe.slot).min() >= 3:
                return fleet
    raise AssertionError


def wide(fleet: FleetProblem) -> Recipe:
    return next(r for r in fleet.recipes if r.uses and np.bincount(r.slot).min() >= 3)


def path_of(recipe: Recipe, number: int) -> Recipe:
    """The so-manyth serving of each slot."""
    return recipe.only(recipe.slot_starts + number)


def picked(path: Recipe, weight: float) -> Picked:
    return Picked(path, weight, np.full(path.servings, weight))


def test_two_paths_joined_have_each_serving_once() -> None:
    recipe = wide(fleet_with_choices())
    one, other = path_of(recipe, 0), path_of(recipe, 1)
    both = joined(one, other)
    assert both.servings == 2 * one.servings
    assert (np.diff(both.slot) >= 0).all()
    assert joined(both, one).servings == joined(both, both).servings == both.servings
    assert set(both.uses[0].replicas) == set(one.uses[0].replicas) | set(other.uses[0].replicas)


def test_what_the_lp_leans_on_in_two_ways_is_opened() -> None:
    fleet = fleet_with_choices()
    recipe = wide(fleet)
    paths = Paths(fleet)
    one, other = path_of(recipe, 0), path_of(recipe, 1)
    assert paths.join([one, other]) == [one, other]
    paths.after_lp([picked(one, 1.0), picked(other, 0.0)])
    [both] = paths.held
    assert both.servings == 2 * one.servings
    assert paths.join([one]) == []
    [more] = paths.join([path_of(recipe, 2)])
    assert more.servings == 3 * one.servings
    assert paths.held == [more]


def test_open_paths_that_are_not_used_are_left_out_and_come_back_whole() -> None:
    fleet = fleet_with_choices()
    recipe = wide(fleet)
    paths = Paths(fleet)
    paths.join([path_of(recipe, 0), path_of(recipe, 1)])
    paths.after_lp([picked(path, 0.5) for path in paths.held])
    for _ in range(IDLE_ROUNDS):
        paths.after_lp([picked(path, 0.0) for path in paths.held])
    assert not paths.held
    [back] = paths.join([path_of(recipe, 0)])
    assert back.servings == 2 * len(fleet.slot_hours)


def test_single_paths_that_are_not_used_are_left_out_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = fleet_with_choices()
    recipe = wide(fleet)
    other = next(r for r in fleet.recipes if r.key != recipe.key)
    used, idle = path_of(recipe, 0), path_of(other, 0)
    few, many = Paths(fleet, [used, idle]), Paths(fleet, [used, idle])
    for paths in (few, many):
        monkeypatch.setattr("solvers.pricing.paths.FEW_PATHS", 1 / len(fleet.workloads) if paths is many else 2)
        for n in range(IDLE_ROUNDS):
            assert paths.held == [used, idle], n
            paths.after_lp([picked(used, 1.0), picked(idle, 0.0)])
    assert few.held == [used, idle]
    assert many.held == [used]
    assert many.join([idle]) == [idle]
    many.after_lp([picked(used, 1.0), picked(idle, 0.0)])
    assert many.held == [used, idle]


def test_no_path_is_left_out_while_the_lp_costs_the_same() -> None:
    fleet = fleet_with_choices()
    recipe = wide(fleet)
    one = joined(path_of(recipe, 0), path_of(recipe, 1))
    paths = Paths(fleet)
    paths.join([one])
    for _ in range(2 * IDLE_ROUNDS):
        paths.after_lp([picked(one, 0.0)], stands=True)
        assert paths.held == [one]
    paths.after_lp([picked(one, 0.0)])
    assert paths.held == []


def test_paths_in_doubt_have_one_more_lp() -> None:
    fleet = fleet_with_choices()
    recipe = wide(fleet)
    one = joined(path_of(recipe, 0), path_of(recipe, 1))
    used, idle = Paths(fleet), Paths(fleet)
    for paths, weight in ((used, 0.5), (idle, 0.0)):
        paths.join([one])
        paths.after_lp([picked(one, 0.5)])
        assert not paths.is_idle(one)
        paths.after_lp([picked(one, 0.0)])
        assert paths.is_idle(one)
        paths.doubt([one])
        paths.after_lp([picked(one, weight)])
    assert used.held == [one]
    assert not used.is_idle(one)
    assert idle.held == []


@for_each("share", [0.0, 0.25, 0.6, 1.0])
def test_an_open_path_is_told_apart_from_few_gpus_to_many(share: float) -> None:
    """In each slot the fewer GPUs up to their share, the more beyond it."""
    recipe = wide(fleet_with_choices())
    gpus = recipe.uses[0].gpus
    few, many = (recipe.only(recipe.first_of_each_slot(order)) for order in (gpus, -gpus))
    open_path = joined(few, many)
    is_few = open_path.uses[0].gpus == few.uses[0].gpus[open_path.slot]
    ways = single_paths(Picked(open_path, 1.0, np.where(is_few, share, 1 - share)))
    expected = [few] * any(level <= share for level in LEVELS) + [many] * any(level > share for level in LEVELS)
    assert [way.uses[0].gpus.tolist() for way in ways] == [path.uses[0].gpus.tolist() for path in expected]


@for_each("seed", range(30))
def test_the_lp_over_paths_is_the_lp_over_all_servings(seed: int) -> None:
    case = random_case(seed, max_utilization=6.0) if seed % 2 else lever_case(seed).case
    fleet = replace(case.fleet, pools={k: replace(p, max_deployments=1) for k, p in case.fleet.pools.items()})
    if not all(fleet.recipes_of.values()):
        return
    found = ColumnGeneration(fleet, lambda n, bound: None).run(CONVERGED_FRAC)
    lp = solve_lp(master(replace(found.fleet, own_boxes=frozenset(), rounded={}))[0])
    if not found.feasible:
        return
    assert lp.objective is not None
    sharp = solve_lp(master(found.fleet)[0])
    assert sharp.objective is not None
    assert found.bound <= sharp.objective * (1 + 1e-9)
    assert found.bound >= lp.objective * (1 - 2e-3)
