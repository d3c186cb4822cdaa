"""The closed-form purchase against every count of reserved, on-demand and spot instances."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from fleets import hours_of, random_case, random_offer

from problems.fleet import HOURS_PER_MONTH, Offer
from problems.purchase import Purchase, cheapest_alone, cheapest_purchase
from problems.recipes import Recipe


def enumerated(offer: Offer, gpus: list[int], firm: list[int], weight: list[float]) -> float:
    """The least cost over every mix of commitments, and of on-demand and spot instances in each slot."""
    most = math.ceil(max(gpus) / offer.box)
    terms = list(offer.reserved_usd_per_h.values())
    best = math.inf
    for held in itertools.product(range(most + 1), repeat=len(terms)):
        cost = HOURS_PER_MONTH * sum(n * usd for n, usd in zip(held, terms, strict=True))
        for used, needed, hours in zip(gpus, firm, weight, strict=True):
            cost += hours * _slot(offer, used, needed, sum(held), most)
        best = min(best, cost)
    return best


def _slot(offer: Offer, gpus: int, firm: int, owned: int, most: int) -> float:
    on_demand_counts = range(most + 1) if offer.on_demand_usd_per_h is not None else range(1)
    spot_counts = range(most + 1) if offer.spot_usd_per_h is not None else range(1)
    return min(
        (
            od * (offer.on_demand_usd_per_h or 0.0) + spot * (offer.spot_usd_per_h or 0.0)
            for od in on_demand_counts
            for spot in spot_counts
            if offer.box * (owned + od) >= firm and offer.box * (owned + od + spot) >= gpus
        ),
        default=math.inf,
    )


def cost_of(offer: Offer, bought: Purchase, weight: np.ndarray) -> float:
    hourly = bought.on_demand * (offer.on_demand_usd_per_h or 0.0) + bought.spot * (offer.spot_usd_per_h or 0.0)
    held = sum(n * offer.reserved_usd_per_h[term] for term, n in bought.reserved.items())
    return float(hourly @ weight) + HOURS_PER_MONTH * held


def check(offer: Offer, gpus: list[int], firm: list[int], weight: np.ndarray) -> bool:
    """Compare one case; True where it can be bought at all."""
    best = enumerated(offer, gpus, firm, weight.tolist())
    bought = cheapest_purchase(offer, np.array(gpus), np.array(firm), weight)
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


@pytest.mark.parametrize("on_demand", [None, 4.0])
@pytest.mark.parametrize("spot", [None, 1.0, 4.0, 5.0])
@pytest.mark.parametrize("reserved", [{}, {"1y": 2.5}, {"1y": 2.5, "3y": 1.7}])
@pytest.mark.parametrize("box", [1, 4])
def test_every_set_of_options(
    on_demand: float | None, spot: float | None, reserved: dict[str, float], box: int
) -> None:
    offer = Offer("g", "h", box, on_demand, spot, reserved)
    weight = np.array([230.0, 100.0, 400.0])
    for firm in ([0, 0, 0], [1, 0, 5], [3, 0, 7]):
        check(offer, [3, 0, 7], firm, weight)


def test_nothing_to_hold_costs_nothing() -> None:
    bought = cheapest_purchase(Offer("g", "h", 8), np.zeros(2), np.zeros(2), np.array([365.0, 365.0]))
    assert bought is not None
    assert (bought.reserved, bought.on_demand.tolist(), bought.spot.tolist()) == ({}, [0, 0], [0, 0])


def test_a_part_filled_firm_box_holds_what_may_be_spot() -> None:
    """Five GPUs, one of them firm, boxes of four: one box on demand and one on spot."""
    offer = Offer("g", "h", 4, on_demand_usd_per_h=8.0, spot_usd_per_h=3.0)
    bought = cheapest_purchase(offer, np.array([5, 4]), np.array([1, 1]), np.array([365.0, 365.0]))
    assert bought is not None
    assert bought.on_demand.tolist() == [1, 1]
    assert bought.spot.tolist() == [1, 0]


def enumerated_alone(offer: Offer, recipe: Recipe, weight: np.ndarray) -> float:
    """The least cost over every choice of one serving per slot, each bought by enumeration."""
    by_slot = [np.flatnonzero(recipe.slot == t).tolist() for t in range(len(weight))]
    best = math.inf
    for chosen in itertools.product(*by_slot):
        picked = recipe.only(np.array(chosen))
        bought = enumerated(offer, picked.gpus.tolist(), picked.firm_gpus.tolist(), weight.tolist())
        best = min(best, bought + float(picked.api_usd_per_h @ weight))
    return best


@pytest.mark.parametrize("seed", range(30))
def test_a_recipe_that_has_its_offer_to_itself(seed: int) -> None:
    case = random_case(seed, limits=False, most_load=2.0)
    fleet = case.fleet
    for recipe in fleet.recipes:
        if recipe.offer is None:
            continue
        offer = fleet.offers[recipe.offer]
        best = enumerated_alone(offer, recipe, fleet.weight)
        path = cheapest_alone(offer, recipe, fleet.weight)
        if math.isinf(best):
            assert path is None
            continue
        assert path is not None
        assert path.slot.tolist() == list(range(len(fleet.weight)))
        bought = cheapest_purchase(offer, path.gpus, path.firm_gpus, fleet.weight)
        assert bought is not None
        cost = cost_of(offer, bought, fleet.weight) + float(path.api_usd_per_h @ fleet.weight)
        assert cost == pytest.approx(best, rel=1e-9, abs=1e-9)
