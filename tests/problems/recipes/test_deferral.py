"""Work that may wait, against every count of replicas in every slot."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from problems.recipes import deferral as deferring
from problems.recipes.deferral import cheapest_counts
from problems.recipes.pools import Api, Deployment, Pool
from problems.recipes.recipe import Deferral, Recipe
from problems.recipes.singles import recipes_of
from problems.staffing import Staffing
from solvers.pricing.routing import work_moved
from tests.support.rows import for_each

EXACT = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)


def random_recipe(seed: int) -> tuple[Recipe, np.ndarray, np.ndarray]:
    """A deployment for work of three slots, with or without an API; hours, and what each serving costs."""
    rng = np.random.default_rng(seed)
    hours = rng.uniform(50, 400, 3)
    window = np.eye(3, dtype=bool) | (rng.random((3, 3)) < 0.5)
    rates = rng.uniform(0.0, 2.5, (3, 1)) * (rng.random((3, 1)) < 0.85)
    apis = (Api("api", rng.uniform(1.0, 6.0, 1) / 3600),) if seed % 2 else ()
    pool = Pool(
        "w", ("w",), rates + 0.01, 1.0, False, (Deployment("d", "g", 1, np.ones(1), EXACT),), apis,
        fixed_usd_per_h=rng.uniform(0.0, 0.3, 3), window=window,
    )  # fmt: skip
    recipe = next(r for r in recipes_of(pool, hours) if r.self_hosted)
    each = rng.uniform(0.5, 4.0, 3)
    usd = (recipe.uses[0].replicas * each[recipe.slot] + recipe.usd_per_h) * hours[recipe.slot]
    return recipe, hours, usd


def left_over(recipe: Recipe, hours: np.ndarray, room: np.ndarray, sent: np.ndarray | None = None) -> float:
    """Work that finds no room: the most by which some arrivals exceed all the room that they may go to (Hall)."""
    deferral = recipe.deferral
    assert deferral is not None
    work = deferral.load * hours - (0.0 if sent is None else sent)
    most = 0.0
    for size in range(1, 4):
        for some in itertools.combinations(range(3), size):
            reach = deferral.window[list(some)].any(axis=0)
            most = max(most, float(work[list(some)].sum() - room[reach].sum()))
    return most


def least_cost(recipe: Recipe, hours: np.ndarray, usd: np.ndarray, api_factor: float) -> float:
    """Over every count in every slot; what is left over is done by the API, or rules the counts out."""
    deferral = recipe.deferral
    assert deferral is not None
    best = np.inf
    for chosen in itertools.product(*(np.flatnonzero(recipe.slot == t) for t in range(3))):
        at = np.array(chosen)
        left = left_over(recipe, hours, recipe.uses[0].load[at] * hours)
        if deferral.api_usd_per_load_h is not None:
            best = min(best, float(usd[at].sum()) + left * deferral.api_usd_per_load_h * api_factor)
        elif left <= 1e-9:
            best = min(best, float(usd[at].sum()))
    return best


@for_each("seed", range(30))
def test_the_work_is_done_and_no_cheaper_than_it_can_be(seed: int) -> None:
    recipe, hours, usd = random_recipe(seed)
    factor = 1.0 if seed % 4 < 2 else 1.3
    cost, path = cheapest_counts(recipe, usd, hours, np.full(3, factor))
    exact = least_cost(recipe, hours, usd, factor)
    assert exact * (1 - 1e-9) <= cost <= exact * 1.5
    assert path.slot.tolist() == [0, 1, 2]
    assert path.deferral is None
    before = recipe.usd_per_h[recipe.first_of_each_slot(recipe.usd_per_h)]
    bill = (path.usd_per_h - before) * hours
    price = recipe.deferral.api_usd_per_load_h if recipe.deferral else None
    sent = bill / price if price else np.zeros(3)
    assert (sent >= -1e-9).all()
    assert left_over(recipe, hours, path.uses[0].load * hours, sent) <= 1e-6 * float(hours.sum())
    # what it says it costs is what the servings and the API cost
    servings = [np.flatnonzero((recipe.slot == t) & (recipe.uses[0].replicas == n)) for t, n in
                enumerate(path.uses[0].replicas.tolist())]  # fmt: skip
    assert cost == pytest.approx(sum(float(usd[i[0]]) for i in servings) + factor * float(bill.sum()))


def test_most_are_found_exactly() -> None:
    exact = 0
    for seed in range(30):
        recipe, hours, usd = random_recipe(seed)
        cost, _ = cheapest_counts(recipe, usd, hours, np.ones(3))
        exact += cost <= least_cost(recipe, hours, usd, 1.0) * (1 + 1e-9)
    assert exact >= 15


def one_slot_a_day(window: np.ndarray, apis: tuple[Api, ...] = ()) -> Recipe:
    pool = Pool(
        "w", ("w",), np.array([[0.5], [0.5]]), 1.0, False, (Deployment("d", "g", 1, np.ones(1), EXACT),), apis,
        window=window,
    )  # fmt: skip
    return next(r for r in recipes_of(pool, np.ones(2)) if r.self_hosted)


def test_two_halves_are_done_by_one_replica_where_it_is_cheaper() -> None:
    recipe = one_slot_a_day(np.ones((2, 2), dtype=bool))
    usd = recipe.uses[0].replicas * np.array([3.0, 2.0])[recipe.slot]
    cost, path = cheapest_counts(recipe, usd, np.ones(2), np.ones(2))
    assert cost == 2.0
    assert path.uses[0].replicas.tolist() == [0, 1]


def test_work_that_must_not_move_is_done_where_it_arrives() -> None:
    recipe = one_slot_a_day(np.eye(2, dtype=bool))
    usd = recipe.uses[0].replicas * np.array([3.0, 2.0])[recipe.slot]
    cost, path = cheapest_counts(recipe, usd, np.ones(2), np.ones(2))
    assert cost == 5.0
    assert path.uses[0].replicas.tolist() == [1, 1]


def test_a_cheap_api_does_all_of_it() -> None:
    recipe = one_slot_a_day(np.ones((2, 2), dtype=bool), (Api("api", np.array([1.0 / 3600])),))
    usd = recipe.uses[0].replicas * 3.0
    cost, path = cheapest_counts(recipe, usd, np.ones(2), np.ones(2))
    assert cost == pytest.approx(1.0)
    assert not path.uses[0].replicas.any()
    assert path.usd_per_h.tolist() == pytest.approx([0.5, 0.5])


def test_what_nobody_can_do_is_left_out_beforehand() -> None:
    recipe = one_slot_a_day(np.ones((2, 2), dtype=bool))
    idle = recipe.only(recipe.uses[0].replicas == 0)
    assert recipe.deferral is not None
    assert work_moved(recipe.deferral, idle.uses[0].load) is None
    most = recipe.only(recipe.first_of_each_slot(-recipe.uses[0].load))
    assert work_moved(recipe.deferral, most.uses[0].load) is not None


@for_each("seed", range(60))
def test_what_comes_first_is_done_first_and_that_leaves_the_least(seed: int) -> None:
    """Against the linear program that moves as much work as fits: two days, work that may take some hours of one."""
    rng = np.random.default_rng(seed)
    hours_of_day, long = int(rng.integers(3, 9)), int(rng.integers(1, 6))
    day = np.arange(2 * hours_of_day) // hours_of_day
    later = (np.arange(2 * hours_of_day)[None, :] - np.arange(2 * hours_of_day)[:, None]) % hours_of_day
    window = (day[:, None] == day) & (later < long)
    work = rng.uniform(0, 2, 2 * hours_of_day) * (rng.random(2 * hours_of_day) < 0.7)
    room = np.round(rng.uniform(0, 3, 2 * hours_of_day) * rng.choice([0.5, 1.0, 1.5]))
    deferral = Deferral(work, window, np.ones(len(work)), 1.0)
    assert deferral.days is not None
    moved = work_moved(deferral, room)
    assert moved is not None
    least = float(work.sum() - (moved * work[:, None]).sum())
    left = deferring.left_over(work, room, deferral)
    assert (left <= work + 1e-9).all()
    assert left.sum() >= least - 1e-6
    if left.sum() > least + 1e-6:  # days that had not settled when the looking stopped
        assert left.sum() - least <= 0.2 * work.sum()
        assert least > 0 or room.sum() < 1.3 * work.sum()


@for_each("seed", range(40))
def test_no_replica_less_would_pay(seed: int) -> None:
    """After trimming, of work whose windows are hours that follow on its arrival: each replica costs less than what it
    would leave over, though a replica that had to stay once was not looked at again.
    """
    rng = np.random.default_rng(seed)
    slots, long = int(rng.integers(4, 10)), int(rng.integers(2, 5))
    later = (np.arange(slots)[None, :] - np.arange(slots)[:, None]) % slots
    pool = Pool(
        "w", ("w",), rng.uniform(0.1, 3.0, (slots, 1)), 1.0, False, (Deployment("d", "g", 1, np.ones(1), EXACT),),
        (Api("api", rng.uniform(0.5, 6.0, 1) / 3600),) if seed % 2 else (), window=later < long,
    )  # fmt: skip
    hours = np.ones(slots)
    recipe = next(r for r in recipes_of(pool, hours) if r.self_hosted)
    deferral, room_of = recipe.deferral, recipe.uses[0].load
    assert deferral is not None
    assert deferral.days is not None
    usd = recipe.uses[0].replicas * rng.uniform(0.5, 4.0, slots)[recipe.slot]
    api = np.inf if deferral.api_usd_per_load_h is None else deferral.api_usd_per_load_h
    most = recipe.first_of_each_slot(-room_of)
    chosen, left = deferring._trimmed(recipe, most, np.zeros(slots), usd, hours, api)
    assert usd[chosen].sum() < usd[most].sum()
    for t in np.flatnonzero(recipe.uses[0].replicas[chosen]).tolist():
        fewer = chosen.copy()
        fewer[t] -= 1
        more_left = deferring.left_over(deferral.load, room_of[fewer], deferral).sum() - left.sum()
        assert more_left > 1e-9
        assert more_left * min(api, 1e6) >= (usd[chosen[t]] - usd[fewer[t]]) * (1 - 1e-9)
