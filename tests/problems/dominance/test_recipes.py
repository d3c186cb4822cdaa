"""Leaving out dominated recipes must not change the optimum, whoever else shares the offers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from problems.dominance.recipes import no_more_expensive, without_dominated_recipes
from problems.fleet import master
from problems.fleet_problem import FleetProblem, Offer
from problems.recipes.pools import Deployment, Pool
from problems.staffing import Staffing
from solvers.backends.result import Status
from solvers.backends.solve import solve_mip
from tests.oracle.cases import lever_case
from tests.support.fleets import Case, random_case
from tests.support.rows import for_each

ONE_BY_ONE = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=16.0, min_replicas=1)


def optimum(fleet: FleetProblem) -> float:
    """By one mixed-integer program over every serving; infinite where there is no plan."""
    model, _ = master(fleet)
    solution = solve_mip(model, solver="cbc")
    if solution.status is Status.INFEASIBLE:
        return np.inf
    assert solution.status is Status.OPTIMAL
    assert solution.objective is not None
    return solution.objective


def pool_on(key: str, offers: str, loads: list[float]) -> Pool:
    """One GPU per unit of load on any of these offers (a letter each), nothing on spot, no API."""
    deployments = tuple(Deployment(f"on {g}", g, 1, np.ones(1), ONE_BY_ONE) for g in offers)
    return Pool(key, (key,), np.array(loads)[:, None], 1.0, False, deployments, ())


def case_of(pools: tuple[Pool, ...], offers: tuple[Offer, ...], slots: int) -> Case:
    hours = np.full(slots, 730.0 / slots)
    return Case(pools, {offer.key: offer for offer in offers}, hours, np.zeros(slots, dtype=int))


@pytest.mark.parametrize("limits", [False, True])
def test_same_optimum_on_random_fleets(limits: bool) -> None:
    compared = 0
    for seed in range(80):
        fleet = random_case(seed, limits=limits).fleet
        narrowed = without_dominated_recipes(fleet)
        if all(fleet.recipes_of.values()) and len(narrowed.recipes) < len(fleet.recipes):
            compared += 1
            assert optimum(narrowed) == pytest.approx(optimum(fleet), rel=1e-6), seed
    assert compared >= 10


def test_same_optimum_on_random_fleets_with_levers() -> None:
    compared = 0
    for seed in range(60):
        fleet = lever_case(seed).case.fleet
        narrowed = without_dominated_recipes(fleet)
        if all(fleet.recipes_of.values()) and len(narrowed.recipes) < len(fleet.recipes):
            compared += 1
            assert optimum(narrowed) == pytest.approx(optimum(fleet), rel=1e-6), seed
    assert compared >= 10


def test_a_box_shared_with_a_workload_that_cannot_move() -> None:
    """Half a box each: together on the dearer offer costs less than a box of each."""
    cheap = Offer("A", "a", 2, on_demand_usd_per_h=1.9)
    dear = Offer("B", "b", 2, on_demand_usd_per_h=2.0)
    fleet = case_of((pool_on("w0", "AB", [1.0]), pool_on("w1", "B", [1.0])), (cheap, dear), 1).fleet
    assert optimum(fleet) == pytest.approx(2.0 * 730)
    assert optimum(without_dominated_recipes(fleet)) == pytest.approx(2.0 * 730)


def test_a_commitment_shared_with_a_workload_that_cannot_move() -> None:
    """One works by day and one by night: one commitment serves both, if both stay on one offer."""
    cheap = Offer("A", "a", 1, reserved_usd_per_h={"1y": 0.9})
    dear = Offer("B", "b", 1, reserved_usd_per_h={"1y": 1.0})
    pools = (pool_on("day", "AB", [1.0, 0.0]), pool_on("night", "B", [0.0, 1.0]))
    fleet = case_of(pools, (cheap, dear), 2).fleet
    assert optimum(fleet) == pytest.approx(1.0 * 730)
    assert optimum(without_dominated_recipes(fleet)) == pytest.approx(1.0 * 730)


def test_a_slower_deployment_on_the_same_offer_is_left_out() -> None:
    pool = pool_on("w", "A", [2.5, 0.5])
    slower = replace(pool.deployments[0], key="slow", seconds_per_request=np.array([1.5]))
    pool = replace(pool, deployments=(slower, *pool.deployments))
    fleet = case_of((pool,), (Offer("A", "a", 1, on_demand_usd_per_h=1.0),), 2).fleet
    assert [r.deployments for r in without_dominated_recipes(fleet).recipes] == [("on A",)]


def test_of_two_equal_recipes_one_stays() -> None:
    pool = pool_on("w", "A", [2.5, 0.5])
    twin = replace(pool.deployments[0], key="twin")
    pool = replace(pool, deployments=(*pool.deployments, twin))
    fleet = case_of((pool,), (Offer("A", "a", 1, on_demand_usd_per_h=1.0),), 2).fleet
    assert len(without_dominated_recipes(fleet).recipes) == 1


def test_better_in_one_slot_only_is_not_dominated() -> None:
    """Two buckets; each deployment is faster at one of them, and each slot has one of them."""
    deployments = (
        Deployment("short", "A", 1, np.array([1.0, 3.0]), ONE_BY_ONE),
        Deployment("long", "A", 1, np.array([3.0, 1.0]), ONE_BY_ONE),
    )
    pool = Pool("w", ("w",), np.array([[2.0, 0.0], [0.0, 2.0]]), 1.0, False, deployments, ())
    fleet = case_of((pool,), (Offer("A", "a", 1, on_demand_usd_per_h=1.0),), 2).fleet
    assert len(without_dominated_recipes(fleet).recipes) == 2


FULL = Offer("b", "h", 4, on_demand_usd_per_h=8.0, spot_usd_per_h=4.0, reserved_usd_per_h={"1y": 6.0})


@for_each(
    ("other", "expected"),
    [
        (replace(FULL, key="a"), True),
        (Offer("a", "h", 2, 4.0, 2.0, {"1y": 3.0}), True),
        (Offer("a", "h", 8, 16.0, 8.0, {"1y": 12.0}), False),  # a bigger box may stay half empty
        (replace(FULL, key="a", on_demand_usd_per_h=8.1), False),
        (replace(FULL, key="a", spot_usd_per_h=4.1), False),
        (replace(FULL, key="a", reserved_usd_per_h={"1y": 6.1}), False),
        (replace(FULL, key="a", on_demand_usd_per_h=None), False),
        (replace(FULL, key="a", spot_usd_per_h=None), False),
        (replace(FULL, key="a", reserved_usd_per_h={}), False),
        (replace(FULL, key="a", reserved_usd_per_h={"3y": 1.0}), False),
        (replace(FULL, key="a", max_instances=99), False),
    ],
)
def test_no_more_expensive(other: Offer, expected: bool) -> None:
    assert no_more_expensive(fleet_of(other), "a", "b") is expected


def fleet_of(other: Offer, **limits: object) -> FleetProblem:
    case = case_of((pool_on("w", "ab", [1.0]),), (other, FULL), 1)
    return replace(case, **limits).fleet


def test_an_offer_of_a_limited_gpu_replaces_nothing() -> None:
    other = replace(FULL, key="a", gpu="x")
    assert no_more_expensive(fleet_of(other, max_gpus={"h": 8}), "a", "b")
    assert not no_more_expensive(fleet_of(other, max_gpus={"x": 8}), "a", "b")


def test_where_few_kinds_of_gpu_may_be_used_none_replaces_another() -> None:
    other = replace(FULL, key="a", gpu="x")
    assert not no_more_expensive(fleet_of(other, max_gpu_types=1), "a", "b")
    assert no_more_expensive(fleet_of(replace(FULL, key="a"), max_gpu_types=1), "a", "b")


def test_an_offer_that_starts_later_replaces_nothing() -> None:
    assert not no_more_expensive(fleet_of(replace(FULL, key="a", start_h=0.1)), "a", "b")


def test_a_kind_of_gpu_that_others_need_anyway_is_kept() -> None:
    """Two kinds are one too many: the workload that could move to the cheaper one stays with the other."""
    cheap = Offer("A", "a", 1, on_demand_usd_per_h=1.9)
    dear = Offer("B", "b", 1, on_demand_usd_per_h=2.0)
    case = case_of((pool_on("w0", "AB", [1.0]), pool_on("w1", "B", [1.0])), (cheap, dear), 1)
    fleet = replace(case, max_gpu_types=1).fleet
    assert optimum(without_dominated_recipes(fleet)) == pytest.approx(4.0 * 730)
