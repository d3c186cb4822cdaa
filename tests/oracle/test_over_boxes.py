"""Replicas that take several whole boxes, beside others that share one: plans and bounds against brute force."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from problems.recipes.pools import Deployment
from solvers.search.fleet_solution import Options
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.apart_cases import apart_case
from tests.oracle.brute_force import brute_force
from tests.oracle.plans import check_plan
from tests.oracle.rules import boxes_for
from tests.oracle.shared_offers import shared_case
from tests.solvers.search.test_shared_offers import proved
from tests.support.fleets import Case

MOST_GPUS = 8
"""of a replica, over all of its boxes"""


def over_boxes(case: Case, seed: int) -> Case:
    """The same, with half of the deployments over two or four boxes: as fast as so many GPUs, or nearly."""
    rng = np.random.default_rng([seed, 7])

    def spanning(d: Deployment) -> Deployment:
        box = case.offers[d.offer].box
        boxes = int(rng.choice([2, 4]))
        if rng.random() < 0.5 or boxes * box > MOST_GPUS:
            return d
        faster = boxes * box / d.gpus_per_replica * float(rng.uniform(0.7, 1.3))
        return replace(
            d, gpus_per_replica=boxes * box, seconds_per_request=d.seconds_per_request / faster, spot_zones=1
        )

    pools = tuple(replace(pool, deployments=tuple(map(spanning, pool.deployments))) for pool in case.pools)
    return replace(case, pools=pools)


def spans_boxes(case: Case) -> bool:
    return any(d.gpus_per_replica > case.offers[d.offer].box for pool in case.pools for d in pool.deployments)


@pytest.mark.parametrize("seeds", [range(k, 60, 3) for k in range(3)])
def test_the_optimum_is_that_of_brute_force(seeds: range) -> None:
    cases = [over_boxes(shared_case(seed, boxes=(1, 2, 4)), seed) for seed in seeds]
    assert sum(map(spans_boxes, cases)) >= 12
    for case in cases:
        proved(case)


def test_others_stand_apart_beside_them() -> None:
    """Those of a deployment that share boxes do not all stand in one, whatever fills boxes beside them."""
    spanning = at_the_optimum = 0
    for seed in range(30):
        case = over_boxes(apart_case(seed), seed)
        if not spans_boxes(case):
            continue
        spanning += 1
        least = brute_force(case, stand_apart=True).objective
        solution = solve_fleet(case.fleet, Options(gap_frac=0.0))
        if solution.best is None:
            assert least == math.inf
            continue
        assert solution.bound_usd_per_month <= least * (1 + 1e-9) + 1e-6, seed
        assert solution.objective >= least * (1 - 1e-9) - 1e-6, seed
        at_the_optimum += solution.objective <= least * (1 + 1e-9)
        check_plan(case, solution.best)
    assert spanning >= 12
    assert at_the_optimum >= 0.8 * spanning


def test_brute_force_counts_whole_boxes() -> None:
    """By hand: of boxes of two GPUs, one replica of 8 takes four, and three of 1 two more."""
    assert boxes_for(np.array([[3, 0, 0, 8], [2, 2, 4, 0], [0, 0, 0, 0]]), 2).tolist() == [6, 4, 0]
