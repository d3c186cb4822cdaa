"""The closed-form purchase against every count of reserved, on-demand and spot instances."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from problems.constants import HOURS_PER_MONTH
from problems.fleet_problem import FleetProblem, Offer
from problems.purchase import Purchase, cheapest_alone, cheapest_purchase, starting_usd_per_h
from problems.recipes.recipe import Recipe
from tests.oracle.buying import commitments, hourly_usd, usd_with_starts
from tests.support.fleets import Case, hours_of, random_case, random_offer
from tests.support.rows import for_each


def fleet_of(offer: Offer, weight: np.ndarray, before: np.ndarray | None = None) -> FleetProblem:
    """A fleet of one month in which there is nothing but an offer to buy."""
    return Case((), {offer.key: offer}, weight, np.zeros(len(weight), dtype=int), before).fleet


def enumerated(offer: Offer, gpus: list[int], firm: list[int], weight: list[float]) -> float:
    """The least cost over every mix of commitments, and of on-demand and spot instances in each slot."""
    best = math.inf
    for owned, usd_per_h in commitments(offer, math.ceil(max(gpus) / offer.box)).items():
        cost = HOURS_PER_MONTH * usd_per_h
        for n, safe, hours in zip(gpus, firm, weight, strict=True):
            more, firm_more = (max(0, math.ceil(x / offer.box) - owned) for x in (n, safe))
            cost += hours * float(hourly_usd(offer, more)[firm_more, more])
        best = min(best, cost)
    return best


def enumerated_with_starts(
    offer: Offer, gpus: list[int], firm: list[int], weight: list[float], before: tuple[int, ...]
) -> float:
    """The same where instances take time to start, every number of them in all slots at once."""
    best = math.inf
    for owned, usd_per_h in commitments(offer, math.ceil(max(gpus) / offer.box)).items():
        more = [max(0, math.ceil(n / offer.box) - owned) for n in gpus]
        safe = [max(0, math.ceil(n / offer.box) - owned) for n in firm]
        table = usd_with_starts(offer, tuple(weight), before, (max(more),) * len(weight))
        needs = tuple(n for pair in zip(safe, more, strict=True) for n in pair)
        best = min(best, HOURS_PER_MONTH * usd_per_h + float(table[needs]))
    return best


def cost_of(offer: Offer, bought: Purchase, weight: np.ndarray, before: np.ndarray | None = None) -> float:
    held = sum(n * offer.reserved_usd_per_h[term] for term, n in bought.reserved.items())
    cost = HOURS_PER_MONTH * held
    for n, price in ((bought.on_demand, offer.on_demand_usd_per_h), (bought.spot, offer.spot_usd_per_h)):
        started = np.zeros(len(n)) if before is None else np.maximum(0, n - n[before])
        cost += float((n + offer.start_h * started) @ weight) * (price or 0.0)
    return cost


def check(offer: Offer, gpus: list[int], firm: list[int], weight: np.ndarray) -> bool:
    """Compare one case; True where it can be bought at all."""
    best = enumerated(offer, gpus, firm, weight.tolist())
    bought = cheapest_purchase(fleet_of(offer, weight), offer.key, np.array(gpus), np.array(firm))
    if math.isinf(best):
        assert bought is None
        return False
    assert bought is not None
    assert cost_of(offer, bought, weight) == pytest.approx(best, rel=1e-9)
    owned = sum(bought.reserved.values())
    assert (offer.box * (owned + bought.on_demand + bought.spot) >= np.array(gpus)).all()
    assert (offer.box * (owned + bought.on_demand) >= np.array(firm)).all()
    assert offer.on_demand_usd_per_h is not None or not bought.on_demand.any()
    assert offer.spot_usd_per_h is not None or not bought.spot.any()
    return True


def test_random_purchases() -> None:
    outcomes = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        slots = int(rng.integers(1, 5))
        offer = random_offer(rng, "g")
        gpus = rng.integers(0, 9, slots)
        firm = np.minimum(gpus, rng.integers(0, 9, slots) * rng.integers(0, 2, slots))
        weight = hours_of(rng, np.zeros(slots, dtype=int))
        outcomes.append(check(offer, gpus.tolist(), firm.tolist(), weight))
    assert {True, False} == set(outcomes)


@for_each("on_demand", [None, 4.0])
@for_each("spot", [None, 1.0, 4.0, 5.0])
@for_each("reserved", [{}, {"1y": 2.5}, {"1y": 2.5, "3y": 1.7}])
@for_each("box", [1, 4])
def test_every_set_of_options(
    on_demand: float | None, spot: float | None, reserved: dict[str, float], box: int
) -> None:
    offer = Offer("g", "h", box, on_demand, spot, reserved)
    weight = np.array([230.0, 100.0, 400.0])
    for firm in ([0, 0, 0], [1, 0, 5], [3, 0, 7]):
        check(offer, [3, 0, 7], firm, weight)


def test_nothing_to_hold_costs_nothing() -> None:
    fleet = fleet_of(Offer("g", "h", 8), np.array([365.0, 365.0]))
    bought = cheapest_purchase(fleet, "g", np.zeros(2), np.zeros(2))
    assert bought is not None
    assert (bought.reserved, bought.on_demand.tolist(), bought.spot.tolist()) == ({}, [0, 0], [0, 0])


def test_a_part_filled_firm_box_holds_what_may_be_spot() -> None:
    """Five GPUs, one of them firm, boxes of four: one box on demand and one on spot."""
    offer = Offer("g", "h", 4, on_demand_usd_per_h=8.0, spot_usd_per_h=3.0)
    bought = cheapest_purchase(fleet_of(offer, np.array([365.0, 365.0])), "g", np.array([5, 4]), np.array([1, 1]))
    assert bought is not None
    assert bought.on_demand.tolist() == [1, 1]
    assert bought.spot.tolist() == [1, 0]


def enumerated_alone(offer: Offer, recipe: Recipe, weight: np.ndarray) -> float:
    """The least cost over every choice of one serving per slot, each bought by enumeration."""
    by_slot = [np.flatnonzero(recipe.slot == t).tolist() for t in range(len(weight))]
    best = math.inf
    for chosen in itertools.product(*by_slot):
        picked = recipe.only(np.array(chosen))
        use = picked.uses[0]
        bought = enumerated(offer, use.gpus.tolist(), use.firm_gpus.tolist(), weight.tolist())
        best = min(best, bought + float(picked.usd_per_h @ weight))
    return best


@for_each("seed", range(30))
def test_a_recipe_that_has_its_offer_to_itself(seed: int) -> None:
    case = random_case(seed, limits=False, max_utilization=2.0)
    fleet = case.fleet
    for recipe in fleet.recipes:
        if not recipe.uses:
            continue
        offer = fleet.offers[recipe.uses[0].offer]
        best = enumerated_alone(offer, recipe, fleet.weight)
        path = cheapest_alone(fleet, recipe)
        if math.isinf(best):
            assert path is None
            continue
        assert path is not None
        assert path.slot.tolist() == list(range(len(fleet.weight)))
        bought = cheapest_purchase(fleet, offer.key, path.uses[0].gpus, path.uses[0].firm_gpus)
        assert bought is not None
        cost = cost_of(offer, bought, fleet.weight) + float(path.usd_per_h @ fleet.weight)
        assert cost == pytest.approx(best, rel=1e-9, abs=1e-9)


def test_what_starts_is_paid_for() -> None:
    """One, three, two, round and round: two start for the second slot; and the same with spot, by itself."""
    offer = Offer("g", "h", 1, on_demand_usd_per_h=4.0, spot_usd_per_h=1.0, start_h=0.25)
    fleet = fleet_of(offer, np.array([10.0, 20.0, 30.0]), np.array([2, 0, 1]))
    usd = starting_usd_per_h(fleet, offer, np.array([1, 3, 2]), np.array([0, 0, 2]))
    assert usd.tolist() == [0.0, 2.0, 0.5]
    assert not starting_usd_per_h(replace(fleet, slot_before=None), offer, np.array([1, 3, 2]), np.zeros(3)).any()
    assert not starting_usd_per_h(fleet, replace(offer, start_h=0.0), np.array([1, 3, 2]), np.zeros(3)).any()


@for_each("seed", range(40))
def test_with_time_to_start_it_holds_and_is_near_the_best(seed: int) -> None:
    """The closed form does not keep instances over a lull, nor on demand to spare a start: the program may do better.

    It is never below the best of all purchases, and where all hours need the same it is the best.
    """
    rng = np.random.default_rng(seed)
    offer = replace(random_offer(rng, "g"), start_h=float(rng.choice([0.1, 0.5])), max_instances=None)
    weight, before = hours_of(rng, np.zeros(3, dtype=int)), np.array([2, 0, 1])
    gpus = rng.integers(0, 7, 3)
    firm = np.minimum(gpus, rng.integers(0, 5, 3))
    fleet = fleet_of(offer, weight, before)
    bought = cheapest_purchase(fleet, "g", gpus, firm)
    best = enumerated_with_starts(offer, gpus.tolist(), firm.tolist(), weight.tolist(), tuple(before.tolist()))
    if bought is None:
        assert math.isinf(best)
        return
    assert cost_of(offer, bought, weight, before) >= best * (1 - 1e-9)
    steady = cheapest_purchase(fleet, "g", gpus[[0, 0, 0]], firm[[0, 0, 0]])
    same = [gpus[[0, 0, 0]].tolist(), firm[[0, 0, 0]].tolist()]
    assert steady is not None
    assert cost_of(offer, steady, weight, before) == pytest.approx(
        enumerated_with_starts(offer, *same, weight.tolist(), tuple(before.tolist())), rel=1e-9
    )
