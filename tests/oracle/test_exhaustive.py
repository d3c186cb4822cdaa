"""The enumeration of many replicas itself: against sums done by hand, linear programs, and the other brute forces."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from problems.fleet_problem import Offer
from problems.recipes.pools import Deployment, Pool
from problems.staffing import Staffing
from tests.oracle.brute_force import brute_force
from tests.oracle.exhaustive import least_objective
from tests.oracle.large_cases import at_most, deadline_case, mix_case
from tests.oracle.linear_program import linear_program
from tests.oracle.routes import Routes
from tests.support.fleets import Case
from tests.support.rows import for_each

EXACT = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)
MONTH = 730.0


def on(offer: str, *seconds: float) -> Deployment:
    return Deployment(f"on {offer}", offer, 1, np.array(seconds), EXACT, staffing_in_a_mix=EXACT)


def case_of(pool: Pool, *offers: Offer) -> Case:
    slots = pool.slots
    return Case((pool,), {o.key: o for o in offers}, np.full(slots, MONTH / slots), np.zeros(slots, dtype=int))


def offer(key: str, usd: float, most: int | None = None) -> Offer:
    return Offer(key, key, 1, on_demand_usd_per_h=usd, max_instances=most)


@pytest.mark.parametrize("outlet", [True, False])
def test_routes_over_three_are_those_of_a_linear_program(outlet: bool) -> None:
    """Three lengths, some of which a deployment cannot serve."""
    rng = np.random.default_rng([3, outlet])
    possible = 0
    for _ in range(40):
        rates = rng.uniform(0.5, 5.0, 3) * (rng.random(3) < 0.85)
        seconds = np.where(rng.random((3, 3)) < 0.8, rng.uniform(0.1, 1.0, (3, 3)), math.inf)
        prices, room = rng.uniform(0.1, 2.0, 3), rng.uniform(0.0, 2.0, 3)
        can = np.isfinite(seconds)
        upper = np.r_[np.where(can, 100.0, 0.0).ravel(), np.full(3, 100.0 if outlet else 0.0)]
        rows = []
        for d in range(3):
            row = np.zeros((4, 3))
            row[d] = np.where(can[d], seconds[d], 0.0)
            rows.append((row.ravel(), -math.inf, float(room[d])))
        for b in range(3):
            row = np.zeros((4, 3))
            row[:, b] = 1.0
            rows.append((row.ravel(), float(rates[b]), float(rates[b])))
        bill = np.r_[np.zeros(9), prices]
        expected = linear_program(bill, rows, upper)
        found = Routes(seconds, prices if outlet else None).bills(rates, room[None, :])
        assert found[0] == pytest.approx(expected, rel=1e-7, abs=1e-7)
        if expected < math.inf:
            possible += 1
    assert possible >= 10


def test_three_deployments_by_hand() -> None:
    """Each is good at one length: one replica of each, where two need six together and one nine alone."""
    pool = Pool("w", ("w",), np.ones((1, 3)), 1.0, False, (on("a", 1, 4, 4), on("b", 4, 1, 4), on("c", 4, 4, 1)), ())
    offers = [offer(key, 1.0) for key in "abc"]
    usd = [least_objective(case_of(replace(pool, max_deployments=k), *offers)) for k in (1, 2, 3)]
    assert usd == [9 * MONTH, 6 * MONTH, 3 * MONTH]


@for_each("quota", [68, 71, 97, 127])
def test_work_that_fills_its_quota_by_hand(quota: int) -> None:
    """So many replicas do the work if they are never idle; with one less, the dear ones do."""
    pool = Pool(
        "w", ("w",), np.full((2, 1), quota - 0.5), 1.0, False, (on("a", 1.0), on("b", 1.0)), (),
        window=np.ones((2, 2), dtype=bool),
    )  # fmt: skip
    fits = case_of(pool, offer("a", 1.0, quota), offer("b", 3.0))
    assert least_objective(fits) == (quota - 0.5) * MONTH  # half of the month one less
    short = case_of(pool, offer("a", 1.0, quota - 1), offer("b", 3.0))
    assert least_objective(short) == 3 * (quota - 0.5) * MONTH


@for_each("seed", [1, 2, 5, 6, 9, 12, 14, 15, 17, 18, 19, 20])
def test_mixes_of_two_are_those_of_the_other_brute_force(seed: int) -> None:
    case = at_most(mix_case(seed), 2)
    assert least_objective(case) == pytest.approx(brute_force(case).objective, rel=1e-9)


@for_each("seed", range(12))
def test_less_work_that_waits_is_that_of_the_other_brute_force(seed: int) -> None:
    case = deadline_case(seed)
    offers = {
        g: replace(o, max_instances=None if o.max_instances is None else -(-o.max_instances // 20))
        for g, o in case.offers.items()
    }
    pools = tuple(replace(pool, rate_rps=pool.rate_rps / 20) for pool in case.pools)
    less = replace(case, pools=pools, offers=offers, max_gpus={})
    assert least_objective(less) == pytest.approx(brute_force(less).objective, rel=1e-9)
