"""What is dropped for good must not be what a better plan shares: tiny fleets against brute force."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from problems.fleet_problem import Offer
from problems.recipes.pools import Api, Deployment, Pool
from solvers.search.fleet_solution import FleetSolution, Options, Outcome
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.brute_force import brute_force
from tests.oracle.plans import check_plan
from tests.oracle.shared_offers import EXACT, shared_case
from tests.support.fleets import Case
from tests.support.rows import for_each

SEEDS = [*range(180), 701, 851]
"""the rest: cases that have gone wrong before"""


def on(offer: str, *seconds: float) -> Deployment:
    return Deployment(f"on {offer}", offer, 1, np.array(seconds), EXACT, staffing_in_a_mix=EXACT)


def pool_of(name: str, rate: list[list[float]], *deployments: Deployment, mixes: int = 2) -> Pool:
    return Pool(name, (name,), np.array(rate), 1.0, False, deployments, (), max_deployments=mixes)


def case_of(pools: tuple[Pool, ...], *offers: Offer, slots: int, **more: object) -> Case:
    hours = np.full(slots, 730.0 / slots)
    return Case(pools, {offer.key: offer for offer in offers}, hours, np.zeros(slots, dtype=int), **more)


def proved(case: Case) -> FleetSolution:
    """The solution, which is the optimum of brute force and is proved to be."""
    truth, solution = brute_force(case), solve_fleet(case.fleet, Options(gap_frac=0.0))
    if truth.objective == math.inf:
        assert solution.outcome is Outcome.INFEASIBLE
        return solution
    assert solution.bound_usd_per_month <= truth.objective * (1 + 1e-9)
    assert solution.outcome is Outcome.OPTIMAL
    assert solution.objective == pytest.approx(truth.objective, rel=1e-6)
    assert solution.best is not None
    check_plan(case, solution.best)
    return solution


@for_each("seeds", [SEEDS[k::8] for k in range(8)])
def test_the_optimum_is_that_of_brute_force(seeds: list[int]) -> None:
    for seed in seeds:
        proved(shared_case(seed))


@pytest.mark.parametrize("slots", [1, 2])
def test_a_box_shared_with_a_mix(slots: int) -> None:
    """Alone each workload is cheaper on `a`; a mix of v leaves half a box of `b`, and w fits in."""
    v = pool_of("v", [[1.0, 1.0]] * slots, on("a", 2.4, 2.4), on("b", 1.0, 4.0), on("c", 4.0, 1.0))
    w = pool_of("w", [[1.0]] * slots, on("a", 1.0), on("b", 1.0), mixes=1)
    offers = (Offer("a", "x", 1, 0.95), Offer("b", "y", 2, 2.0), Offer("c", "z", 1, 1.0))
    assert proved(case_of((v, w), *offers, slots=slots)).objective == pytest.approx(3.0 * 730)


def test_an_instance_that_runs_through_is_started_once() -> None:
    """One works by day and one by night: on one offer an instance runs all the time, and is never started."""
    v = pool_of("v", [[1.0], [0.0]], on("b", 1.0), mixes=1)
    w = pool_of("w", [[0.0], [1.0]], on("a", 1.0), on("b", 1.0), mixes=1)
    offers = (Offer("a", "x", 1, 1.0, start_h=0.9), Offer("b", "y", 1, 1.001, start_h=0.9))
    case = case_of((v, w), *offers, slots=2, slot_before=np.array([1, 0]))
    assert proved(case).objective == pytest.approx(1.001 * 730)


def test_a_mix_may_rest_where_nothing_is_asked_of_one_of_its_members() -> None:
    """Either serves one length alone, and together they are cheaper than the one that serves both. An hour without long
    requests needs short replicas only, and one without any requests needs nothing.
    """
    rate = [[1.0, 1.0], [2.0, 0.0], [0.0, 0.0]]
    v = pool_of("v", rate, on("a", 1.0, np.inf), on("b", np.inf, 1.0), on("c", 1.0, 1.0))
    offers = (Offer("a", "x", 1, 1.0), Offer("b", "y", 1, 1.0), Offer("c", "z", 1, 1.25))
    assert proved(case_of((v,), *offers, slots=3)).objective == pytest.approx((2.0 + 2.0) * 730 / 3)


def test_mixes_that_are_not_written_down_are_not_proved_away() -> None:
    """In one slot the best mix is looked for, not all of them: none that helps is no proof that there is no plan."""
    few, fewer = Offer("a", "x", 2, 2.4, max_instances=1), Offer("b", "y", 1, 1.0, max_instances=2)
    api = Api("api", np.array([2.8, 1.8]) / 3600)
    v = replace(pool_of("v", [[1.4, 0.4]], on("a", 2.0, 1.0), mixes=1), apis=(api,))
    w = pool_of("w", [[0.9, 1.4]], on("a", 0.9, 1.1), on("b", 0.9, 1.1))
    case = case_of((v, w), few, fewer, slots=1)
    assert brute_force(case).objective < math.inf
    assert solve_fleet(case.fleet, Options(gap_frac=0.0)).outcome is not Outcome.INFEASIBLE


@pytest.mark.parametrize("seed", [287, 549])
def test_mixes_of_three_prove_no_more_than_mixes_of_two_cost(seed: int) -> None:
    """Cases that were called infeasible, or ended in an error."""
    case = shared_case(seed)
    wider = tuple(replace(p, max_deployments=3) if p.max_deployments == 2 else p for p in case.pools)
    solution = solve_fleet(replace(case, pools=wider).fleet, Options(gap_frac=0.0))
    assert solution.outcome is not Outcome.INFEASIBLE
    assert solution.bound_usd_per_month <= brute_force(case).objective * (1 + 1e-9)
