"""Mixes of two at given prices: what is said of one before it is written down is what it costs afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from problems.fleet_problem import FleetProblem
from problems.pricing import Prices, price_recipe
from problems.recipes.pools import Pool
from problems.recipes.recipe import Recipe
from problems.rounding_up import RoundedSlots
from solvers.pricing import pairs as pairs_of_two
from solvers.pricing.mixing import Mixes
from solvers.pricing.pairs import Members, Pair, Pairs, lowest_first
from tests.problems.recipes.test_mixes import OUTLETS, fleet_with, random_pool, random_prices
from tests.support.rows import for_each


def prices_of_boxes(seed: int, pool: Pool, fleet: FleetProblem) -> Prices:
    """Random prices, also of boxes that are rounded up, on every offer of several GPUs."""
    rng = np.random.default_rng(seed)
    prices = random_prices(seed, pool)
    for g, offer in fleet.offers.items():
        if offer.box > 1:
            parts = rng.uniform(0.0, 1.0, (pool.slots, offer.box**2))
            parts[:, 0] = 0.0
            weights = rng.uniform(0.0, 1.0, (2, pool.slots))
            prices.rounded_usd[g] = RoundedSlots(g, offer.box, *weights, {"pool": parts} if seed % 3 else {})
    return prices


def case(seed: int, outlets: str) -> tuple[FleetProblem, Pool, Prices]:
    """Five deployments on two offers, so that many pairs share one; a box has four GPUs."""
    pool = replace(random_pool(seed, 5, margin=bool(seed % 2), outlets=outlets, offers=2), max_deployments=2)
    fleet = fleet_with(pool)
    return fleet, pool, prices_of_boxes(seed, pool, fleet)


def every_mix(fleet: FleetProblem, pool: Pool, prices: Prices) -> list[Pair]:
    return [mix for mix in Mixes(fleet)._by_bound(pool, prices, np.inf) if isinstance(mix, Pair)]


def used_together(fleet: FleetProblem, recipe: Recipe, prices: Prices, covered: tuple[bool, bool]) -> float:
    """What the cheapest path of a mix costs that uses each deployment in some slot, where the other alone is covered.

    By trying a serving for either, in one slot or in two.
    """
    priced = price_recipe(fleet, recipe, prices)
    more = priced.with_serving - priced.value
    first, second = (np.flatnonzero(use.replicas) for use in recipe.uses)
    if not all(covered):
        some = [uses for uses, by_other in ((first, covered[1]), (second, covered[0])) if by_other]
        return priced.value + min((float(more[uses].min(initial=np.inf)) for uses in some), default=0.0)
    pairs = ((i, j) for i in first for j in second if i == j or recipe.slot[i] != recipe.slot[j])
    return priced.value + min((more[i] + (more[j] if i != j else 0.0) for i, j in pairs), default=np.inf)


def members(mix: Any) -> tuple[bool, bool]:
    first, second = (member.covered_alone for member in mix.members)
    return first, second


@for_each("outlets", OUTLETS)
@for_each("seed", range(12))
def test_a_mix_costs_what_was_said_of_it_also_where_both_share_boxes(seed: int, outlets: str) -> None:
    fleet, pool, prices = case(seed, outlets)
    shared = 0
    for mix in every_mix(fleet, pool, prices):
        value, recipe = mix.value(), mix.recipe()
        assert np.isinf(value) or mix.bound <= used_together(fleet, recipe, prices, members(mix)) * (1 + 1e-9)
        assert (recipe is None) == np.isinf(value)
        if recipe is not None:
            assert price_recipe(fleet, recipe, prices).value == pytest.approx(value, rel=1e-9)
            shared += len(recipe.offers) == 1
    assert shared or seed not in (1, 5)


@for_each("outlets", ["none", "both"])
@for_each("seed", range(12))
def test_what_is_left_aside_costs_no_less_than_is_said(seed: int, outlets: str) -> None:
    fleet, pool, prices = case(seed, outlets)
    every = [(mix, mix.recipe()) for mix in every_mix(fleet, pool, prices)]
    possible = [(mix, recipe) for mix, recipe in every if recipe is not None]
    value_of = {mix.key: max(mix.bound, price_recipe(fleet, recipe, prices).value) for mix, recipe in possible}
    values = sorted(value_of.values())
    for paid in (0.0, values[0] + 1e-6, float(np.median(values)), values[-1] + 1.0) if values else ():
        mixes = Mixes(fleet)
        found = mixes.find(prices, {"pool": paid}, 0.0, most=2)
        written = sorted(value_of[key] for key in mixes.written)
        cheaper = [value for value in values if value < paid]
        assert written == pytest.approx(cheaper[:2])
        rest = values[len(written) :]
        assert found.least_left["pool",] <= min(rest, default=np.inf) * (1 + 1e-9)
        assert found.least_left["pool",] >= min([paid, *rest]) * (1 - 1e-9) or not rest


def twins(seed: int, outlets: str) -> tuple[FleetProblem, Pool, Prices]:
    """Four kinds of replicas, each on two or three of four offers."""
    rng = np.random.default_rng(seed)
    pool = random_pool(seed, 4, margin=bool(seed % 2), outlets=outlets)
    made = tuple(
        replace(d, key=f"{d.key} on o{k}", offer=f"o{k}")
        for d in pool.deployments
        for k in np.sort(rng.permutation(4)[: rng.integers(2, 4)]).tolist()
    )
    pool = replace(pool, deployments=made, max_deployments=2)
    fleet = fleet_with(pool)
    return fleet, pool, prices_of_boxes(seed, pool, fleet)


def looked_at(fleet: FleetProblem, pool: Pool, prices: Prices, below: float, by_kind: bool) -> dict[Any, float]:
    mixes = Mixes(fleet)
    found: dict[Any, float] = {}
    for members in mixes._members_of(pool):
        of = Members(fleet, pool, members)
        for api in pool.apis_beside_gpus:
            pairs = Pairs(of, prices, api, of.replicas_usd(prices), below, set())
            assert len(pairs.first) == 4 < len(members)
            every = lowest_first([pairs], below) if by_kind else pairs._of(pairs.asked)
            found |= {one.key: one.bound for one in every if isinstance(one, Pair) and one.bound < below}
    return found


@for_each("outlets", OUTLETS)
@for_each("seed", range(8))
def test_kinds_of_replicas_hide_no_pair_that_is_cheap_enough(
    seed: int, outlets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs_of_two, "PAIRS_AT_ONCE", 4)
    fleet, pool, prices = twins(seed, outlets)
    every = looked_at(fleet, pool, prices, np.inf, by_kind=False)
    assert looked_at(fleet, pool, prices, np.inf, by_kind=True) == pytest.approx(every)
    for below in np.quantile(list(every.values()), [0.05, 0.3, 0.7]).tolist() if every else ():
        one_by_one = looked_at(fleet, pool, prices, below, by_kind=False)
        assert looked_at(fleet, pool, prices, below, by_kind=True) == pytest.approx(one_by_one)


@for_each("seed", range(12))
def test_what_is_left_aside_of_twins_costs_no_less_than_is_said(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_of_two, "PAIRS_AT_ONCE", 4)
    fleet, pool, prices = twins(seed, "both")
    every = [(mix, mix.recipe()) for mix in every_mix(fleet, pool, prices)]
    value_of = {mix.key: max(mix.bound, price_recipe(fleet, r, prices).value) for mix, r in every if r is not None}
    values = sorted(value_of.values())
    for paid in (0.0, values[0] + 1e-6, float(np.median(values)), values[-1] + 1.0):
        mixes = Mixes(fleet)
        found = mixes.find(prices, {"pool": paid}, 0.0, most=2)
        assert sorted(value_of[key] for key in mixes.written) == pytest.approx([v for v in values if v < paid][:2])
        rest = [value for key, value in value_of.items() if key not in mixes.written]
        assert found.least_left["pool",] <= min(rest, default=np.inf) * (1 + 1e-9)
        assert found.least_left["pool",] >= min([paid, *rest]) * (1 - 1e-9)


def test_straight_lines_below_steps_add_up_to_no_more_than_the_steps_of_both() -> None:
    rng = np.random.default_rng(3)
    slots, box = 3, 4
    parts = {"pool": rng.uniform(-0.5, 1.0, (slots, box**2))}
    parts["pool"][:, 0] = 0.0
    rounded = RoundedSlots("g", box, rng.uniform(0, 1, slots), rng.uniform(0, 1, slots), parts)
    for _ in range(200):
        gpus, other = rng.integers(0, 12, 2)
        firm, other_firm = rng.integers(0, gpus + 1), rng.integers(0, other + 1)
        each = [
            rounded.at_least(("pool",), np.arange(slots), np.full(slots, n), np.full(slots, m))
            for n, m in ((gpus, firm), (other, other_firm))
        ]
        both = np.full(slots, gpus + other), np.full(slots, firm + other_firm)
        assert (sum(each) <= rounded.of(("pool",), np.arange(slots), *both) + 1e-9).all()
