"""Recipes against sums done by hand, and all their servings against the brute force's own menus."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from problems.recipes.pairs import member_of, pair_recipe
from problems.recipes.pools import Api, Deployment, Pool, firm_replicas, load_by_slot
from problems.recipes.recipe import Recipe
from problems.recipes.singles import kept_share, recipes_of
from problems.staffing import Staffing
from tests.oracle.cases import lever_case
from tests.oracle.menus import Choice, Menu, served_ways
from tests.oracle.rules import SIZES
from tests.support.fleets import Case, random_case, random_staffing
from tests.support.rows import for_each

EXACT = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)
HOURS = np.full(3, 243.0)


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


def recipes(pool: Pool) -> list[Recipe]:
    return recipes_of(pool, HOURS[: pool.slots])


def pairs(pool: Pool) -> list[Recipe]:
    """Every mix of two deployments of one variant."""
    members = [m for m in (member_of(pool, d) for d in pool.deployments) if m is not None]
    apis: tuple[Api | None, ...] = pool.apis or (None,)
    two = [(a, b) for a, b in itertools.combinations(members, 2) if a.deployment.variant == b.deployment.variant]
    found = (pair_recipe(pool, a, b, api) for a, b in two for api in apis)
    return [recipe for recipe in found if recipe is not None]


def test_an_api_alone_bills_every_request() -> None:
    pool = pool_with([[2.0, 1.0], [0.0, 3.0]], [0.1, 0.2], usd=[[0.001, 0.004]])
    alone = recipes(pool)[0]
    assert alone.key == ("chat", (), "api0")
    assert not alone.self_hosted
    assert alone.slot.tolist() == [0, 1]
    # 3600 x (2 x 0.001 + 1 x 0.004) and 3600 x 3 x 0.004
    assert alone.usd_per_h.tolist() == pytest.approx([21.6, 43.2])
    assert not alone.penalty_usd_per_h.any()


def test_a_deployment_alone_carries_everything() -> None:
    pool = pool_with([[10.0, 5.0], [0.0, 0.0], [1.0, 0.0]], [0.2, 0.5], gpus=4)
    (alone,) = recipes(pool)
    assert alone.key == ("chat", ("d",), None)
    assert alone.self_hosted
    # 10 x 0.2 + 5 x 0.5 = 4.5 replicas kept busy; none; 0.2
    assert load_by_slot(pool, pool.deployments[0]).tolist() == pytest.approx([4.5, 0.0, 0.2])
    assert alone.uses[0].replicas.tolist() == [5, 0, 1]
    assert alone.gpus_on("g").tolist() == alone.firm_gpus_on("g").tolist() == [20, 0, 4]
    assert alone.gpus_on("elsewhere").tolist() == [0, 0, 0]
    assert not alone.usd_per_h.any()


def test_overflow_by_hand() -> None:
    """Two buckets of 1 and 2 replicas of load; the second is dearer at the API per unit of load."""
    pool = pool_with([[10.0, 4.0]], [0.1, 0.5], usd=[[0.001, 0.01]])
    mixed = recipes(pool)[1]
    assert mixed.key == ("chat", ("d",), "api0")
    assert sorted(zip(mixed.uses[0].replicas.tolist(), mixed.usd_per_h.round(9).tolist(), strict=True)) == [
        (0, 180.0), (1, 108.0), (2, 36.0), (3, 0.0),
    ]  # fmt: skip
    share = kept_share(
        pool.rate_rps[[0, 0, 0]], np.array([0.1, 0.5]), np.array([0.001, 0.01]), np.array([0.0, 1.0, 2.5])
    )
    # None; half of bucket 1; all of bucket 1 and half of bucket 0.
    assert share == pytest.approx(np.array([[0.0, 0.0], [0.0, 0.5], [0.5, 1.0]]))


def test_what_is_left_over_may_be_shed() -> None:
    """At a penalty, which is no cost; with an API beside it either takes the rest, in each slot."""
    pool = replace(pool_with([[2.0]], [1.0]), shed_usd_per_request=np.array([0.01]), fixed_usd_per_h=np.array([5.0]))
    nobody, hosted = recipes(pool)
    assert (nobody.usd_per_h.tolist(), nobody.penalty_usd_per_h.tolist()) == ([5.0], [72.0])
    found = zip(hosted.uses[0].replicas, hosted.usd_per_h, hosted.penalty_usd_per_h, hosted.shed_frac, strict=True)
    assert sorted(found) == [(0, 5.0, 72.0, 1.0), (1, 5.0, 36.0, 1.0), (2, 5.0, 0.0, 0.0)]
    with_api = replace(pool, apis=(Api("api", np.array([0.005])),))
    elsewhere, hosted = recipes(with_api)
    assert elsewhere.usd_per_h.tolist() == [41.0, 5.0]
    assert elsewhere.penalty_usd_per_h.tolist() == [0.0, 72.0]
    found = zip(hosted.uses[0].replicas, hosted.usd_per_h, hosted.penalty_usd_per_h, strict=True)
    assert sorted(found) == [(0, 5.0, 72.0), (0, 41.0, 0.0), (1, 5.0, 36.0), (1, 23.0, 0.0), (2, 5.0, 0.0)]


def test_counts_below_the_minimum_are_not_offered() -> None:
    staffing = replace(EXACT, min_replicas=2)
    mixed = recipes(pool_with([[4.5], [0.5], [0.0]], [1.0], staffing, usd=[[0.01]]))[1]
    offered = [sorted(mixed.uses[0].replicas[mixed.slot == t].tolist()) for t in range(3)]
    assert offered == [[0, 2, 3, 4, 5], [0, 2], [0]]


def test_menu_of_recipes() -> None:
    pool = pool_with([[1.0]], [1.0], usd=[[0.01], [0.02]])
    one_length = replace(pool.deployments[0], key="f", seconds_per_request=np.array([np.inf]))
    pool = replace(pool, deployments=(*pool.deployments, replace(pool.deployments[0], key="e"), one_length))
    assert sorted(str(r.key[1:]) for r in recipes(pool)) == sorted(
        str(key)
        for key in [((), "api0"), ((), "api1"), (("d",), "api0"), (("d",), "api1"), (("e",), "api0"), (("e",), "api1")]
    )
    assert [r.key[1:] for r in recipes(replace(pool, apis=()))] == [(("d",), None), (("e",), None)]
    assert recipes(replace(pool, apis=(), deployments=())) == []


def test_a_mix_by_hand() -> None:
    """Each is fast at one length; without an API, one replica of each, or three of either and none of the other."""
    first = Deployment("a", "g", 1, np.array([1.0, 2.0]), EXACT, staffing_in_a_mix=EXACT)
    second = Deployment("b", "h", 2, np.array([2.0, 1.0]), EXACT, staffing_in_a_mix=EXACT)
    pool = replace(pool_with([[1.0, 1.0]], [1.0, 1.0]), deployments=(first, second), max_deployments=2)
    (mix,) = pairs(pool)
    assert mix.key == ("chat", ("a", "b"), None)
    assert mix.offers == ("g", "h")
    counts = zip(mix.uses[0].replicas.tolist(), mix.uses[1].replicas.tolist(), strict=True)
    assert sorted(counts) == [(0, 3), (1, 1), (3, 0)]
    assert pairs(replace(pool, deployments=(first, replace(second, staffing_in_a_mix=None)))) == []
    short = replace(second, seconds_per_request=np.array([2.0, np.inf]))
    assert pairs(replace(pool, deployments=(replace(first, seconds_per_request=np.array([1.0, np.inf])), short))) == []


def menus_of(case: Case, recipe: Recipe) -> list[Menu]:
    """The servings of a recipe, slot by slot, as the brute force writes them."""
    gpus, firm = (np.zeros((recipe.servings, len(case.offers), len(SIZES)), dtype=int) for _ in range(2))
    for use in recipe.uses:
        at = list(case.offers).index(use.offer), SIZES.index(use.gpus_per_replica)
        gpus[:, *at] += use.gpus
        firm[:, *at] += use.firm_gpus
    room = recipe.uses[0].load[:, None] if recipe.deferral is not None else np.zeros((recipe.servings, 0))
    every = Menu(gpus, firm, recipe.usd_per_h, recipe.penalty_usd_per_h, room)
    return [every.only(recipe.slot == t) for t in range(len(case.slot_hours))]


def front(menu: Menu) -> np.ndarray:
    """Its ways that no other beats, in order; rounded, so that noise makes none."""
    rounded = replace(
        menu, money=menu.money.round(7), penalty=menu.penalty.round(7), room=menu.room.round(7)
    ).without_worse()
    rows = np.concatenate(
        [*(by_size.reshape(len(by_size), -1) for by_size in (rounded.gpus, rounded.firm)),
         rounded.money[:, None], rounded.penalty[:, None], rounded.room], axis=1
    )  # fmt: skip
    return np.array(sorted((rows + 0.0).tolist()))


@for_each("seed", range(60))
def test_servings_are_those_of_the_brute_force(seed: int) -> None:
    """Every recipe of every pool, in every slot, has all ways worth having, and none that the rules do not allow."""
    case = lever_case(seed).case if seed >= 15 else random_case(seed)
    for pool in case.pools:
        truth = {served.choice: served for served in served_ways(case, pool)}
        written = recipes_of(pool, case.slot_hours) + (pairs(pool) if pool.max_deployments == 2 else [])
        assert {Choice(r.pool, r.deployments, r.api) for r in written} == set(truth)
        for recipe in written:
            served = truth[Choice(recipe.pool, recipe.deployments, recipe.api)]
            assert recipe.workloads == pool.workloads
            assert (np.diff(recipe.slot) >= 0).all()
            if served.either:
                fixed = pool.fixed_by_slot[recipe.slot]
                api, shed = recipe.usd_per_h - fixed, recipe.penalty_usd_per_h
                expected = [usd for both in served.either for usd in both]
                assert (api + shed).tolist() == pytest.approx(expected, rel=1e-9)
                assert api[recipe.shed_frac == 1].tolist() == shed[recipe.shed_frac == 0].tolist() == [0.0] * pool.slots
                continue
            for own, other in zip(menus_of(case, recipe), served.menus, strict=True):
                assert front(own) == pytest.approx(front(other), rel=1e-6, abs=1e-6)
            if recipe.deferral is not None:
                assert served.work is not None
                assert recipe.deferral.load * case.slot_hours == pytest.approx(served.work.load_hours)
                assert recipe.deferral.api_usd_per_load_h == pytest.approx(served.work.usd)


@for_each("seed", range(20))
def test_greedy_routing_is_the_best_of_every_order(seed: int) -> None:
    """The optimum of a continuous knapsack fills it in some order, so the best order is the optimum."""
    rng = np.random.default_rng(seed)
    rates, seconds, usd = rng.uniform(0.0, 8.0, 4), rng.uniform(0.05, 0.4, 4), rng.uniform(1e-4, 2e-3, 4)
    rates[int(rng.integers(4))] = 0.0
    load = float(rng.uniform(0.0, rates @ seconds))
    share = kept_share(rates[None, :], seconds, usd, np.array([load]))[0]
    assert float(rates * share @ seconds) == pytest.approx(load)
    bill = float(rates * (1 - share) @ usd)
    best = min(_bill(rates * seconds, rates, usd, load, order) for order in itertools.permutations(range(4)))
    assert bill == pytest.approx(best, rel=1e-9)


def _bill(loads: np.ndarray, rates: np.ndarray, usd: np.ndarray, room: float, order: tuple[int, ...]) -> float:
    bill = 0.0
    for b in order:
        share = min(1.0, room / loads[b]) if loads[b] else 1.0
        room -= share * loads[b]
        bill += usd[b] * rates[b] * (1 - share)
    return bill


def test_firm_replicas_are_those_the_critical_share_needs() -> None:
    staffing = Staffing(z=1.0, arrival_scv=1.0, rate_cv=0.0, batch=1.0, min_replicas=2)
    pool = pool_with([[16.0]], [1.0], staffing, critical=0.25, spot=True)
    (alone,) = recipes(pool)
    # 16 + 4 = 20 replicas; the critical quarter by itself is 4 + 2 = 6.
    assert (alone.uses[0].replicas.tolist(), alone.uses[0].firm_replicas.tolist()) == ([20], [6])
    (firm,) = recipes(replace(pool, spot_allowed=False))
    assert firm.uses[0].firm_replicas.tolist() == [20]
    (loose,) = recipes(replace(pool, critical_share=0.0))
    assert loose.uses[0].firm_replicas.tolist() == [0]
    (strict,) = recipes(replace(pool, critical_share=1.0))
    assert strict.uses[0].firm_replicas.tolist() == [20]
    load, few = np.array([0.1, 16.0]), np.array([2, 3])
    # A critical load of 0.025 still needs the minimum; never more firm replicas than replicas.
    d = pool.deployments[0]
    assert firm_replicas(pool, d, staffing, load, few).tolist() == [2, 3]
    zones = replace(d, spot_zones=2)
    # 20 replicas of which 6 are needed: 14 may be lost at once, so 28 could be spot in two zones.
    assert firm_replicas(pool, zones, staffing, np.array([16.0, 16.0]), np.array([20, 9])).tolist() == [0, 3]
    slow = replace(d, spot_allowed=False)
    assert firm_replicas(pool, slow, staffing, load, few).tolist() == [2, 3]
    assert firm_replicas(replace(pool, critical_share=0.0), slow, staffing, load, few).tolist() == [0, 0]


def test_work_that_may_wait_by_hand() -> None:
    """Any count up to all the work that may come together in a slot, and the load that it takes."""
    window = np.array([[True, True, False], [False, True, False], [False, False, True]])
    pool = replace(pool_with([[1.0], [0.5], [2.0]], [0.8], usd=[[0.001]]), window=window)
    _, waiting = recipes(pool)
    assert waiting.deferral is not None
    assert waiting.deferral.load.tolist() == pytest.approx([0.8, 0.4, 1.6])
    assert waiting.deferral.api_usd_per_load_h == pytest.approx(3600 * 0.001 / 0.8)
    counts = [waiting.uses[0].replicas[waiting.slot == t].tolist() for t in range(3)]
    assert counts == [[0, 1], [0, 1, 2], [0, 1, 2]]
    assert waiting.uses[0].load.tolist() == pytest.approx(waiting.uses[0].replicas.tolist())


def test_a_pool_of_several_has_its_own_swings_in_each_slot() -> None:
    rate_cv = np.array([0.0, 0.5])
    pool = pool_with([[2.0, 1.0], [2.0, 1.0]], [1.0, 1.0], replace(EXACT, z=1.0, batch=1e12, rate_cv=rate_cv))
    pool = replace(pool, workloads=("v", "w"))
    (both,) = recipes(pool)
    assert both.workloads == ("v", "w")
    assert both.uses[0].replicas.tolist() == [4, 6]  # 3 and a little, 3 exp(sigma + sigma^2 / 2) = 5.4


def test_first_of_each_slot_takes_the_lowest_and_the_first_of_equals() -> None:
    recipe = recipes(pool_with([[2.5], [1.5]], [1.0], usd=[[0.01]]))[1]
    assert recipe.slot.tolist() == [0, 0, 0, 0, 1, 1, 1]
    order = np.array([5.0, 1.0, 1.0, 2.0, 3.0, 3.0, 0.0])
    chosen = recipe.first_of_each_slot(order)
    assert chosen.tolist() == [1, 6]
    narrowed = recipe.only(chosen)
    assert narrowed.slot.tolist() == [0, 1]
    assert narrowed.uses[0].replicas.tolist() == [recipe.uses[0].replicas[1], recipe.uses[0].replicas[6]]
    assert narrowed.key == recipe.key


def test_no_serving_costs_less_than_nothing() -> None:
    """Rounding in the routing of mixes may not make a bill negative, or a free one of it."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rates = rng.uniform(0.0, 8.0, (2, 3))
        deployments = tuple(
            Deployment(f"d{k}", "g", 1, rng.uniform(0.05, 0.4, 3), staffing, staffing_in_a_mix=staffing)
            for k, staffing in enumerate((random_staffing(rng), random_staffing(rng)))
        )
        api = Api("api", rng.uniform(1e-4, 2e-3, 3))
        pool = Pool("chat", ("chat",), rates, 0.4, True, deployments, (api,), max_deployments=2)
        (mix,) = pairs(pool)
        assert (mix.usd_per_h >= 0).all()
        idle = (mix.uses[0].replicas == 0) & (mix.uses[1].replicas == 0)
        bills = 3600 * rates @ api.usd_per_request
        assert mix.usd_per_h[idle].tolist() == pytest.approx(bills[mix.slot[idle]].tolist())
        carried = sum(use.load for use in mix.uses)
        free = mix.usd_per_h == 0
        fastest = np.min([d.seconds_per_request for d in deployments], axis=0)
        assert (carried[free] >= (rates @ fastest)[mix.slot[free]] * (1 - 1e-9)).all()
        assert math.isfinite(float(mix.usd_per_h.max()))
