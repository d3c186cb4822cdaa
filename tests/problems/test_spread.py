"""Replicas of a deployment do not all stand on one instance: the boxes that this takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.checker.packing import stand_apart
from problems.fleet_problem import Offer
from problems.packing import boxes_apart
from problems.pricing import price_recipe, prices_from_duals
from problems.purchase import Purchase
from problems.recipes.pools import Deployment, Pool
from solvers.heuristics.incumbent import incumbent_of, limits_are_kept
from solvers.search.fleet_solution import Options, Outcome
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.brute_force import brute_force
from tests.oracle.plans import check_plan
from tests.oracle.shared_offers import EXACT, shared_case
from tests.solvers.search.test_shared_offers import proved
from tests.support.fleets import Case

TWO = replace(EXACT, min_replicas=2)
Deployments = Sequence[tuple[int, int]]
"""GPUs of a replica, and replicas"""


def some_placement_is_apart(free: tuple[int, ...], deployments: Deployments) -> bool:
    """Whether any way to place replicas leaves none of two or more in one box, by trying all of them."""
    if not deployments:
        return True
    (size, replicas), *others = deployments

    def placed(k: int, left: int, room: tuple[int, ...]) -> bool:
        if k == len(free):
            return not left and some_placement_is_apart(room, others)
        most = min(left, free[k] // size, replicas - 1 if replicas > 1 else 1)
        return any(placed(k + 1, left - n, (*room, free[k] - n * size)) for n in range(most, -1, -1))

    return placed(0, replicas, ())


@given(st.sampled_from([4, 6, 7, 8]), st.lists(st.tuples(st.sampled_from([1, 2, 4]), st.integers(1, 4)), max_size=3))
def test_boxes_are_the_fewest_of_all_placements(box: int, deployments: list[tuple[int, int]]) -> None:
    fewest = 0
    while not some_placement_is_apart((box,) * fewest, deployments):
        assert not stand_apart(box, fewest, deployments)
        fewest += 1
    assert stand_apart(box, fewest, deployments)
    sizes = {size: [n for of, n in deployments if of == size] for size, _ in deployments}
    assert boxes_apart(box, tuple((s, sum(ns), sum(n > 1 for n in ns)) for s, ns in sizes.items())) == fewest


def spread_case(seed: int, one_size: bool) -> Case:
    """Two replicas at least, on two boxes at least; those on one offer are of one size, or not."""
    case = shared_case(seed, boxes=(1, 2, 4))

    def spread(d: Deployment) -> Deployment:
        mixes = None if d.staffing_in_a_mix is None else replace(d.staffing_in_a_mix, min_replicas=2)
        d = replace(d, staffing=replace(d.staffing, min_replicas=2), staffing_in_a_mix=mixes)
        seconds = d.seconds_per_request * d.gpus_per_replica
        return replace(d, gpus_per_replica=1, seconds_per_request=seconds) if one_size else d

    fewest = {g: 2 if offer.box > 1 else 1 for g, offer in case.offers.items()}
    return replace(
        case,
        pools=tuple(replace(p, deployments=tuple(spread(d) for d in p.deployments)) for p in case.pools),
        offers={g: replace(o, fewest=fewest[g], fewest_firm=fewest[g]) for g, o in case.offers.items()},
    )


@pytest.mark.parametrize("seeds", [range(k, 60, 3) for k in range(3)])
def test_the_optimum_is_that_of_brute_force(seeds: range) -> None:
    for seed in seeds:
        proved(spread_case(seed, one_size=True))


@pytest.mark.parametrize("seeds", [range(k, 60, 3) for k in range(3)])
def test_replicas_of_several_sizes_stand_apart_and_the_bound_holds(seeds: range) -> None:
    """Brute force leaves those of no size in one box, which is no more than standing apart takes."""
    for seed in seeds:
        case = spread_case(seed, one_size=False)
        least = brute_force(case, stand_apart=True).objective
        solution = solve_fleet(case.fleet, Options(gap_frac=0.0))
        if solution.best is None:
            assert solution.outcome in (Outcome.INFEASIBLE, Outcome.NOT_FOUND)
            continue
        assert solution.bound_usd_per_month <= least * (1 + 1e-9)
        assert solution.objective >= least * (1 - 1e-9)
        check_plan(case, solution.best)


def test_a_box_more_where_large_replicas_leave_room_in_one_alone() -> None:
    """Three replicas of four and two of two fill two boxes of eight, and then those of two stand in one."""
    offer = Offer("g", "x", 8, 8.0, fewest=2, fewest_firm=2)
    large = Pool("v", ("v",), np.array([[3.0]]), 1.0, False, (Deployment("l", "g", 4, np.ones(1), TWO),), ())
    small = Pool("w", ("w",), np.array([[2.0]]), 1.0, False, (Deployment("s", "g", 2, np.ones(1), TWO),), ())
    case = Case((large, small), {"g": offer}, np.array([730.0]), np.zeros(1, dtype=int))
    solution = solve_fleet(case.fleet, Options(gap_frac=0.0))
    assert solution.best is not None
    assert solution.best.purchases["g"].on_demand.tolist() == [3]
    assert solution.bound_usd_per_month == pytest.approx(3 * 8.0 * 730)
    check_plan(case, solution.best)


def test_a_size_that_needs_no_more_gpus_is_not_left_out_where_replicas_stand_apart() -> None:
    """Two of four fill two boxes of four; four of two leave room for three of one in three boxes instead of four."""
    offer = Offer("g", "x", 4, 4.0, fewest=2, fewest_firm=2)
    one = Pool("v", ("v",), np.array([[3.0]]), 1.0, False, (Deployment("one", "g", 1, np.ones(1), TWO),), ())
    of_two = Deployment("two", "g", 2, np.ones(1), TWO)
    of_four = Deployment("four", "g", 4, np.ones(1) / 2, TWO)
    other = Pool("w", ("w",), np.array([[4.0]]), 1.0, False, (of_four, of_two), ())
    case = Case((one, other), {"g": offer}, np.array([730.0]), np.zeros(1, dtype=int))
    solution = solve_fleet(case.fleet, Options(gap_frac=0.0))
    assert solution.objective == pytest.approx(3 * 4.0 * 730)
    assert solution.objective == pytest.approx(brute_force(case, stand_apart=True).objective)


def test_a_lone_spot_instance_is_not_replaced_by_one_that_nobody_sells() -> None:
    """One instance at most, for spot alone: two replicas would stand on it, so there is no plan."""
    offer = Offer("g", "x", 8, spot_usd_per_h=3.0, max_instances=1, fewest=2)
    pool = Pool("w", ("w",), np.array([[2.0]]), 0.0, True, (Deployment("d", "g", 1, np.ones(1), TWO),), ())
    fleet = Case((pool,), {"g": offer}, np.array([730.0]), np.zeros(1, dtype=int)).fleet
    path = price_recipe(fleet, fleet.recipes[0], prices_from_duals(fleet, {})).cheapest
    plan = incumbent_of(fleet, (path,), {"g": Purchase({}, np.array([0]), np.array([1]))})
    assert plan.purchases["g"].on_demand.tolist() == [0]
    assert not limits_are_kept(fleet, plan)
