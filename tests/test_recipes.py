"""Recipes against plain loops, and the greedy routing against every order of filling the GPUs."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from fleets import random_case, random_staffing

from problems.recipes import Api, Deployment, Pool, Recipe, firm_replicas, load_by_slot, recipes_of
from problems.staffing import Staffing

EXACT = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)
SEEDS = range(40)


def pool_with(
    rates: list[list[float]],
    seconds: list[float],
    staffing: Staffing = EXACT,
    usd: list[list[float]] | None = None,
    critical: float = 1.0,
    spot: bool = False,
    gpus: int = 1,
) -> Pool:
    return Pool(
        key="chat",
        workloads=("chat",),
        rate_rps=np.array(rates),
        critical_share=critical,
        spot_allowed=spot,
        deployments=(Deployment("d", "g", gpus, np.array(seconds), staffing),),
        apis=tuple(Api(f"api{k}", np.array(prices)) for k, prices in enumerate(usd or [])),
    )


def wide_pool(seed: int) -> Pool:
    """Four buckets, three slots, one of them without demand in a bucket."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.0, 8.0, (3, 4))
    rates[1, int(rng.integers(4))] = 0.0
    deployment = Deployment("d", "g", 2, rng.uniform(0.05, 0.4, 4), random_staffing(rng))
    api = Api("api", rng.uniform(1e-4, 2e-3, 4))
    return Pool("chat", ("chat",), rates, 0.4, bool(seed % 2), (deployment,), (api,))


def staffed(s: Staffing, load: float) -> int:
    if load == 0:
        return 0
    spread = s.z * math.sqrt(load * (1 + s.arrival_scv) / (2 * s.batch) + (s.rate_cv * load) ** 2)
    return max(s.min_replicas, math.ceil(load + spread - 1e-9))


def test_an_api_alone_bills_every_request() -> None:
    pool = pool_with([[2.0, 1.0], [0.0, 3.0]], [0.1, 0.2], usd=[[0.001, 0.004]])
    alone = recipes_of(pool)[0]
    assert alone.key == ("chat", None, "api0")
    assert not alone.self_hosted
    assert alone.slot.tolist() == [0, 1]
    assert alone.gpus.tolist() == alone.firm_gpus.tolist() == [0, 0]
    assert alone.api_rps.tolist() == [[2.0, 1.0], [0.0, 3.0]]
    # 3600 x (2 x 0.001 + 1 x 0.004) and 3600 x 3 x 0.004
    assert alone.api_usd_per_h.tolist() == pytest.approx([21.6, 43.2])


def test_a_deployment_alone_carries_everything() -> None:
    pool = pool_with([[10.0, 5.0], [0.0, 0.0], [1.0, 0.0]], [0.2, 0.5], gpus=4)
    (alone,) = recipes_of(pool)
    assert alone.key == ("chat", "d", None)
    assert alone.self_hosted
    # 10 x 0.2 + 5 x 0.5 = 4.5 replicas kept busy; none; 0.2
    assert load_by_slot(pool, pool.deployments[0]).tolist() == pytest.approx([4.5, 0.0, 0.2])
    assert alone.replicas.tolist() == [5, 0, 1]
    assert alone.gpus.tolist() == [20, 0, 4]
    assert alone.firm_gpus.tolist() == [20, 0, 4]
    assert not alone.api_usd_per_h.any()
    assert not alone.api_rps.any()


def test_overflow_by_hand() -> None:
    """Two buckets of 1 and 2 replicas of load; the second is dearer at the API per unit of load."""
    pool = pool_with([[10.0, 4.0]], [0.1, 0.5], usd=[[0.001, 0.01]])
    mixed = recipes_of(pool)[1]
    assert mixed.key == ("chat", "d", "api0")
    assert mixed.replicas.tolist() == [0, 1, 2, 3]
    # None carried; half of bucket 1 carried; all of bucket 1; everything.
    assert mixed.api_rps.tolist() == pytest.approx(np.array([[10, 4], [10, 2], [10, 0], [0, 0]]))
    assert mixed.api_usd_per_h.tolist() == pytest.approx([180.0, 108.0, 36.0, 0.0])


def test_counts_below_the_minimum_are_not_offered() -> None:
    staffing = replace(EXACT, min_replicas=2)
    mixed = recipes_of(pool_with([[4.5], [0.5], [0.0]], [1.0], staffing, usd=[[0.01]]))[1]
    offered = [mixed.replicas[mixed.slot == t].tolist() for t in range(3)]
    assert offered == [[0, 2, 3, 4, 5], [0, 2], [0]]


def test_menu_of_recipes() -> None:
    pool = pool_with([[1.0]], [1.0], usd=[[0.01], [0.02]])
    pool = replace(pool, deployments=(*pool.deployments, replace(pool.deployments[0], key="e")))
    assert [r.key[1:] for r in recipes_of(pool)] == [
        (None, "api0"), (None, "api1"), ("d", "api0"), ("d", "api1"), ("e", "api0"), ("e", "api1"),
    ]  # fmt: skip
    assert [r.key[1:] for r in recipes_of(replace(pool, apis=()))] == [("d", None), ("e", None)]
    assert recipes_of(replace(pool, apis=(), deployments=())) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_servings_are_sorted_complete_and_balanced(seed: int) -> None:
    """Every slot has a serving; what the API does not get fits on the replicas; bills add up."""
    case = random_case(seed)
    for pool in case.pools:
        deployments = {d.key: d for d in pool.deployments}
        apis = {a.key: a for a in pool.apis}
        for recipe in recipes_of(pool):
            assert (np.diff(recipe.slot) >= 0).all()
            assert sorted(set(recipe.slot.tolist())) == list(range(len(case.slot_hours)))
            for i, t in enumerate(recipe.slot.tolist()):
                _check_serving(pool, recipe, i, t, deployments, apis)


def _check_serving(
    pool: Pool, recipe: Recipe, i: int, t: int, deployments: dict[str, Deployment], apis: dict[str, Api]
) -> None:
    sent, asked = recipe.api_rps[i].tolist(), pool.rate_rps[t].tolist()
    assert all(-1e-12 <= s <= a + 1e-12 for s, a in zip(sent, asked, strict=True))
    bill = 0.0
    if recipe.api is not None:
        prices = apis[recipe.api].usd_per_request.tolist()
        bill = 3600 * sum(s * usd for s, usd in zip(sent, prices, strict=True))
    assert recipe.api_usd_per_h[i] == pytest.approx(bill, abs=1e-9)
    if recipe.deployment is None:
        assert sent == asked
        assert recipe.replicas[i] == recipe.firm_replicas[i] == recipe.gpus_per_replica == 0
        return
    d = deployments[recipe.deployment]
    kept = sum((a - s) * u for a, s, u in zip(asked, sent, d.seconds_per_request.tolist(), strict=True))
    n = int(recipe.replicas[i])
    assert staffed(d.staffing, max(0.0, kept - 1e-7)) <= n
    assert recipe.gpus[i] == n * d.gpus_per_replica
    firm = min(n, staffed(d.staffing, pool.critical_share * kept)) if pool.spot_allowed else n
    assert recipe.firm_gpus[i] == firm * d.gpus_per_replica


@pytest.mark.parametrize("seed", SEEDS)
def test_greedy_routing_is_the_best_of_every_order(seed: int) -> None:
    """The optimum of a continuous knapsack fills it in some order, so the best order is the optimum."""
    pool = wide_pool(seed)
    d, api = pool.deployments[0], pool.apis[0]
    mixed = recipes_of(pool)[1]
    partial = 0
    for i, t in enumerate(mixed.slot.tolist()):
        n = int(mixed.replicas[i])
        loads = (pool.rate_rps[t] * d.seconds_per_request).tolist()
        if mixed.api_usd_per_h[i] == 0.0:
            assert n == staffed(d.staffing, sum(loads))
            continue
        room = float(d.staffing.carried_load(np.array([n]))[0]) if n else 0.0
        firm = int(mixed.firm_replicas[i])
        if n and pool.spot_allowed and pool.critical_share > 0:
            room = min(room, float(d.staffing.carried_load(np.array([firm]))[0]) / pool.critical_share)
        partial += n > 0
        best = min(
            _bill(loads, pool.rate_rps[t].tolist(), api.usd_per_request.tolist(), room, order)
            for order in itertools.permutations(range(4))
        )
        assert mixed.api_usd_per_h[i] == pytest.approx(best, rel=1e-9)
    assert partial or mixed.replicas.max() <= d.staffing.min_replicas


def _bill(loads: list[float], rates: list[float], usd: list[float], room: float, order: tuple[int, ...]) -> float:
    bill = 0.0
    for b in order:
        share = min(1.0, room / loads[b]) if loads[b] else 1.0
        room -= share * loads[b]
        bill += 3600 * usd[b] * rates[b] * (1 - share)
    return bill


def test_firm_replicas_are_those_the_critical_share_needs() -> None:
    staffing = Staffing(z=1.0, arrival_scv=1.0, rate_cv=0.0, batch=1.0, min_replicas=2)
    pool = pool_with([[16.0]], [1.0], staffing, critical=0.25, spot=True)
    (alone,) = recipes_of(pool)
    # 16 + 4 = 20 replicas; the critical quarter by itself is 4 + 2 = 6.
    assert (alone.replicas.tolist(), alone.firm_replicas.tolist()) == ([20], [6])
    (firm,) = recipes_of(replace(pool, spot_allowed=False))
    assert firm.firm_replicas.tolist() == [20]
    (loose,) = recipes_of(replace(pool, critical_share=0.0))
    assert loose.firm_replicas.tolist() == [0]
    (strict,) = recipes_of(replace(pool, critical_share=1.0))
    assert strict.firm_replicas.tolist() == [20]
    load, few = np.array([0.1, 16.0]), np.array([2, 3])
    # A critical load of 0.025 still needs the minimum; never more firm replicas than replicas.
    assert firm_replicas(pool, pool.deployments[0], load, few).tolist() == [2, 3]


def test_first_of_each_slot_takes_the_lowest_and_the_first_of_equals() -> None:
    recipe = recipes_of(pool_with([[2.5], [1.5]], [1.0], usd=[[0.01]]))[1]
    assert recipe.slot.tolist() == [0, 0, 0, 0, 1, 1, 1]
    order = np.array([5.0, 1.0, 1.0, 2.0, 3.0, 3.0, 0.0])
    chosen = recipe.first_of_each_slot(order)
    assert chosen.tolist() == [1, 6]
    narrowed = recipe.only(chosen)
    assert narrowed.slot.tolist() == [0, 1]
    assert narrowed.replicas.tolist() == [recipe.replicas[1], recipe.replicas[6]]
    assert narrowed.key == recipe.key
