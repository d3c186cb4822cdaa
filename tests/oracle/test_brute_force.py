"""The brute force itself: against sums done by hand, linear programs, and itself without its shortcuts."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from problems.fleet_problem import Offer
from problems.recipes.pools import Api, Deployment, Pool
from problems.staffing import Staffing
from tests.oracle.brute_force import brute_force
from tests.oracle.buying import commitments, hourly_usd, usd_with_starts
from tests.oracle.cases import lever_case, truth_of
from tests.oracle.linear_program import linear_program
from tests.oracle.menus import Choice, WayFilter, served_ways
from tests.oracle.rules import least_outlet_cost, work_done
from tests.support.fleets import Case
from tests.support.rows import for_each

EXACT = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)
MONTH = 730.0


@for_each("members", [1, 2])
@for_each("outlet", [True, False])
def test_routing_is_that_of_a_linear_program(members: int, outlet: bool) -> None:
    """Three lengths, some of which a deployment cannot serve, and some that nobody asks for."""
    rng = np.random.default_rng([members, outlet])
    possible = 0
    for _ in range(60):
        rates = rng.uniform(0.5, 5.0, 3) * (rng.random(3) < 0.85)
        seconds = np.where(rng.random((members, 3)) < 0.8, rng.uniform(0.1, 1.0, (members, 3)), math.inf)
        prices = rng.uniform(0.1, 2.0, 3)
        rooms = rng.uniform(0.0, 4.0, (1, members))
        can = np.isfinite(seconds)
        upper = np.r_[np.where(can, 100.0, 0.0).ravel(), np.full(3, 100.0 if outlet else 0.0)]
        rows = []
        for d in range(members):
            row = np.zeros((members + 1, 3))
            row[d] = np.where(can[d], seconds[d], 0.0)
            rows.append((row.ravel(), -math.inf, float(rooms[0, d])))
        for b in range(3):
            row = np.zeros((members + 1, 3))
            row[:, b] = 1.0
            rows.append((row.ravel(), float(rates[b]), float(rates[b])))
        expected = linear_program(np.r_[np.zeros(members * 3), prices], rows, upper)
        (found,) = least_outlet_cost(rates.tolist(), seconds.tolist(), rooms, prices.tolist() if outlet else None)
        assert found == pytest.approx(expected, rel=1e-7, abs=1e-7)
        possible += found < math.inf
    assert possible >= 5
    assert outlet or possible <= 55


def test_work_that_waits_is_a_linear_program() -> None:
    rng = np.random.default_rng(3)
    left = 0
    for _ in range(60):
        slots = int(rng.integers(1, 5))
        work, room = rng.uniform(0, 4, slots), rng.uniform(0, 4, slots)
        window = (rng.random((slots, slots)) < 0.4) | np.eye(slots, dtype=bool)
        rows = []
        for s in range(slots):
            into, out = np.zeros((slots, slots)), np.zeros((slots, slots))
            into[:, s], out[s] = 1.0, 1.0
            rows += [(into.ravel(), -math.inf, float(room[s])), (out.ravel(), -math.inf, float(work[s]))]
        most = -linear_program(-np.ones(slots * slots), rows, np.where(window, 100.0, 0.0).ravel())
        found = float(work_done(work, window, list(room)))
        assert found == pytest.approx(most, rel=1e-9, abs=1e-9)
        left += found < work.sum() - 1e-9
    assert 10 <= left <= 59


def test_instances_by_the_hour() -> None:
    usd = hourly_usd(Offer("g", "h", 1, on_demand_usd_per_h=3.0, spot_usd_per_h=1.0), 3)
    assert (usd[2, 3], usd[0, 2], usd[3, 3]) == (7.0, 2.0, 9.0)
    dear_spot = hourly_usd(Offer("g", "h", 1, on_demand_usd_per_h=3.0, spot_usd_per_h=4.0), 3)
    assert dear_spot[0, 3] == 9.0
    only_spot = hourly_usd(Offer("g", "h", 1, spot_usd_per_h=1.0), 2)
    assert (only_spot[0, 2], only_spot[1, 2]) == (2.0, math.inf)


def test_starting_costs_by_hand() -> None:
    """Two, none, two, round and round: started twice over, or kept over a short lull."""
    offer = Offer("g", "h", 1, on_demand_usd_per_h=2.0, start_h=0.5)
    even = usd_with_starts(offer, (10.0, 10.0, 10.0), (2, 0, 1), (2, 2, 2))
    # 2 in slots 2 and 0, which follow one another: started once, for slot 2, in each of its 10 hours
    assert even[2, 2, 0, 0, 2, 2] == 2.0 * (20 + 20 + 0.5 * 20)
    short = usd_with_starts(offer, (10.0, 1.0, 10.0), (2, 0, 1), (2, 2, 2))
    assert short[2, 2, 0, 0, 2, 2] == 2.0 * (20 + 2 + 20), "kept through a lull of one hour"
    steady = usd_with_starts(offer, (10.0, 10.0), (1, 0), (2, 2))
    assert steady[1, 1, 1, 1] == 40.0, "never started anew"


def test_spot_and_on_demand_start_each_by_themselves() -> None:
    """One firm in slot 0 and none in slot 1, one in use in both: on demand throughout, or switched every time."""
    offer = Offer("g", "h", 1, on_demand_usd_per_h=2.0, spot_usd_per_h=1.9, start_h=0.5)
    usd = usd_with_starts(offer, (10.0, 10.0), (1, 0), (1, 1))
    assert usd[1, 1, 0, 1] == 40.0
    cheap = usd_with_starts(replace(offer, spot_usd_per_h=0.2), (10.0, 10.0), (1, 0), (1, 1))
    assert cheap[1, 1, 0, 1] == pytest.approx(20 + 10 + 2 + 1), "each switch starts one of each"


def test_commitments_of_several_terms() -> None:
    offer = Offer("g", "h", 1, reserved_usd_per_h={"1y": 2.0, "3y": 1.0})
    assert commitments(offer, 2) == {0: 0.0, 1: 1.0, 2: 2.0}
    assert commitments(Offer("g", "h", 1), 5) == {0: 0.0}


def case_of(*pools: Pool, offers: dict[str, Offer] | None = None, hours: tuple[float, ...] = (MONTH,)) -> Case:
    offers = offers or {"g": Offer("g", "h", 1, on_demand_usd_per_h=1.0)}
    return Case(pools, offers, np.array(hours), np.zeros(len(hours), dtype=int))


def pool_of(rates: list[list[float]], *deployments: Deployment, key: str = "w") -> Pool:
    return Pool(key, (key,), np.array(rates), 1.0, False, deployments, ())


def on(offer: str, *seconds: float) -> Deployment:
    return Deployment(f"on {offer}", offer, 1, np.array(seconds), EXACT, staffing_in_a_mix=EXACT)


TWO = {"a": Offer("a", "x", 1, on_demand_usd_per_h=1.0), "b": Offer("b", "y", 1, on_demand_usd_per_h=1.0)}


def test_a_mix_by_hand() -> None:
    """Each is good at one length: one replica of each carries it all, where either alone needs five."""
    pool = pool_of([[1.0, 1.0]], on("a", 1.0, 4.0), on("b", 4.0, 1.0))
    assert brute_force(case_of(pool, offers=TWO)).objective == 5 * MONTH
    mixed = case_of(replace(pool, max_deployments=2), offers=TWO)
    assert brute_force(mixed).objective == 2 * MONTH
    assert brute_force(replace(mixed, max_gpu_types=1)).objective == 5 * MONTH


def test_a_deployment_for_one_length_only_serves_in_a_mix() -> None:
    pool = pool_of([[1.0, 1.0]], on("a", 1.0, math.inf), on("b", math.inf, 1.0))
    assert brute_force(case_of(pool, offers=TWO)).objective == math.inf
    assert brute_force(case_of(replace(pool, max_deployments=2), offers=TWO)).objective == 2 * MONTH


def test_sharing_by_hand() -> None:
    """Not half a replica each; together one. Swings that differ from slot to slot decide whether one is enough."""
    singles = [pool_of([[0.45], [0.45]], on("g", 1.0), key=k) for k in ("v", "w")]
    swinging = replace(EXACT, z=1.0, batch=1e12, rate_cv=np.array([0.0, 0.2]))
    together = Deployment("both", "g", 1, np.ones(2), swinging)
    shared = Pool("v+w", ("v", "w"), np.full((2, 2), 0.45), 1.0, False, (together,), ())
    hours = (500.0, 230.0)
    assert brute_force(case_of(*singles, hours=hours)).objective == 2 * MONTH
    assert brute_force(case_of(*singles, shared, hours=hours)).objective == 500 + 2 * 230


def test_caching_by_hand() -> None:
    plain = pool_of([[2.0]], on("g", 1.0))
    cached = replace(plain, key="w/prefix", rate_rps=np.array([[1.0]]), fixed_usd_per_h=np.array([0.4]))
    assert brute_force(case_of(plain, cached)).objective == pytest.approx(1.4 * MONTH)
    dear = replace(cached, fixed_usd_per_h=np.array([1.1]))
    assert brute_force(case_of(plain, dear)).objective == 2 * MONTH


def test_waiting_by_hand() -> None:
    """Half a replica of work in each slot: together one in either, or one in both if nothing may wait."""
    pool = replace(pool_of([[0.5], [0.5]], on("g", 1.0)), window=np.ones((2, 2), dtype=bool))
    case = case_of(pool, hours=(365.0, 365.0))
    assert brute_force(case).objective == 365
    assert brute_force(replace(case, pools=(replace(pool, window=np.eye(2, dtype=bool)),))).objective == MONTH
    priced = replace(pool, apis=(Api("api", np.array([0.9 / 3600])),), window=np.eye(2, dtype=bool))
    assert brute_force(replace(case, pools=(priced,))).objective == pytest.approx(0.9 * 0.5 * MONTH)


def test_work_counts_hours() -> None:
    """Work of a long slot done in a short one needs as many times the replicas."""
    pool = pool_of([[0.5], [0.0]], on("g", 1.0))
    window = np.array([[False, True], [False, True]])
    case = case_of(replace(pool, window=window), hours=(600.0, 130.0))
    assert brute_force(case).objective == math.ceil(0.5 * 600 / 130) * 130


def test_shedding_by_hand() -> None:
    """A budget of half the bill: half goes to the API, the other half is shed, and the cost is the budget."""
    api, shed = Api("api", np.array([1 / 3600])), np.array([3 / 3600])
    pool = replace(pool_of([[1.0]]), apis=(api,), shed_usd_per_request=shed)
    free = brute_force(case_of(pool))
    assert (free.cost, free.penalty) == pytest.approx((MONTH, 0.0))
    tight = brute_force(replace(case_of(pool), budget_usd_per_month=MONTH / 2))
    assert (tight.cost, tight.penalty) == pytest.approx((MONTH / 2, 3 * MONTH / 2))
    hosted = replace(pool, apis=(), deployments=(on("g", 2.0),))
    half = brute_force(replace(case_of(hosted), budget_usd_per_month=1.5 * MONTH))
    assert (half.cost, half.penalty) == pytest.approx((MONTH, 1.5 * MONTH))


def test_zones_by_hand() -> None:
    """Two of which one is critical: one zone leaves one firm; two zones none; with all critical, spares help."""
    offer = Offer("g", "h", 1, on_demand_usd_per_h=4.0, spot_usd_per_h=1.0)
    pool = replace(pool_of([[2.0]], on("g", 1.0)), spot_allowed=True, critical_share=0.5)

    def cost(share: float, zones: int, spot: bool = True) -> float:
        d = replace(pool.deployments[0], spot_zones=zones, spot_allowed=spot)
        return brute_force(
            case_of(replace(pool, critical_share=share, deployments=(d,)), offers={"g": offer})
        ).objective

    assert cost(0.5, 1) == 5 * MONTH
    assert cost(0.5, 2) == 2 * MONTH
    assert cost(1.0, 1) == 8 * MONTH
    assert cost(1.0, 3) == 3 * MONTH, "one spare, and a reclaim takes one of three"
    assert cost(0.5, 2, spot=False) == 8 * MONTH
    assert cost(0.0, 1, spot=False) == 2 * MONTH


def test_a_quota_ties_offers_that_start_late() -> None:
    """Keeping one over the lull is worth it, but only where the quota leaves room beside the other offer."""
    late = Offer("a", "x", 1, on_demand_usd_per_h=1.0, start_h=0.9)
    soon = Offer("b", "x", 1, on_demand_usd_per_h=1.0)
    pools = (pool_of([[1.0], [0.0]], on("a", 1.0), key="v"), pool_of([[0.0], [1.0]], on("b", 1.0)))
    case = case_of(*pools, offers={"a": late, "b": soon}, hours=(720.0, 10.0))
    case = replace(case, slot_before=np.array([1, 0]))
    assert brute_force(case).objective == 720 + 10 + 10
    assert brute_force(replace(case, max_gpus={"x": 1})).objective == 720 + 10 + 0.9 * 720


def only(*choices: Choice | None) -> WayFilter:
    return lambda choice, slot, way: choice in choices


def test_shortcuts_change_nothing() -> None:
    """Each combination of choices by itself, so that none is passed over for its bound."""
    compared = 0
    for seed in range(30):
        case = lever_case(seed).case
        choices = [[s.choice for s in served_ways(case, pool)] for pool in case.pools]
        if math.prod(1 + len(c) for c in choices) > 60:
            continue
        best = math.inf
        for some in itertools.product(*([None, *c] for c in choices)):
            best = min(best, brute_force(case, only(*some)).objective)
        assert best == truth_of(seed).objective
        compared += 1
    assert compared >= 5
