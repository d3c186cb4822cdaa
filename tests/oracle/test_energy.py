"""Energy of GPUs in use against brute force: with every lever, on boxes of several GPUs, in mixes."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np

from tests.oracle.bounds import check_bounds, check_optimum
from tests.oracle.brute_force import Truth, brute_force
from tests.oracle.cases import lever_case
from tests.support.fleets import Case
from tests.support.rows import for_each

SEEDS = range(60)


@cache
def energy_case(seed: int) -> Case:
    """A case with levers, where GPUs of some offers pay for energy, dearly, and one is a server that is bought."""
    rng, case = np.random.default_rng([seed, 53]), lever_case(seed).case
    usd = {g: float(rng.choice([0.0, 0.1, 0.5, 1.0]) * rng.uniform(0.5, 1.5)) for g in case.offers}
    offers = {g: replace(offer, usd_per_gpu_h=usd[g]) for g, offer in case.offers.items()}
    g = str(rng.choice(sorted(offers)))
    bought = {"bought-48mo": float(rng.uniform(0.5, 1.2) * offers[g].box)}
    offers[g] = replace(offers[g], on_demand_usd_per_h=None, spot_usd_per_h=None, reserved_usd_per_h=bought)
    return replace(case, offers=offers)


@cache
def truth_of(seed: int) -> Truth:
    return brute_force(energy_case(seed))


@for_each("seed", SEEDS)
def test_the_optimum_is_that_of_brute_force(seed: int) -> None:
    truth = truth_of(seed)
    check_optimum(energy_case(seed), truth.objective, "cbc" if seed % 3 else "highs")


@for_each("seed", SEEDS[::3])
def test_no_bound_of_column_generation_exceeds_the_optimum(seed: int) -> None:
    check_bounds(energy_case(seed).fleet, truth_of(seed).objective)


def test_energy_decides() -> None:
    """Otherwise agreement would say little: so many optima are others where it is free, and so many buy servers."""
    found: Counter[str] = Counter()
    for seed in SEEDS:
        case, truth = energy_case(seed), truth_of(seed)
        offers = {g: replace(offer, usd_per_gpu_h=0.0) for g, offer in case.offers.items()}
        free = brute_force(replace(case, offers=offers))
        found["infeasible"] += truth.objective == math.inf
        found["others"] += truth.objective < math.inf and truth.choices != free.choices
        bought = {g for g, offer in case.offers.items() if "bought-48mo" in offer.reserved_usd_per_h}
        found["bought"] += any(g in bought for g, _ in truth.held)
    assert found == {"bought": 27, "infeasible": 10, "others": 10}
