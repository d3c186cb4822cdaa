"""Offers that another one dominates as a whole, and the many ways in which one does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from problems.dominance.offers import without_dominated_offers
from problems.fleet_problem import Offer
from problems.recipes.pools import Api, Deployment, Pool
from problems.staffing import Staffing
from solvers.search.fleet_solution import Options
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.brute_force import brute_force
from tests.support.fleets import Case
from tests.support.rows import for_each

EXACT = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)
CHEAP = Offer("cheap", "x", 2, on_demand_usd_per_h=2.0, spot_usd_per_h=1.0, reserved_usd_per_h={"reserved-1y": 1.5})
DEAR = Offer("dear", "x", 4, on_demand_usd_per_h=5.0, spot_usd_per_h=2.5, reserved_usd_per_h={"reserved-1y": 4.0})


def on(offer: str, gpus: int = 1, **changes: object) -> Deployment:
    made = Deployment(f"{gpus}x {offer}", offer, gpus, np.array([1.0, 2.0]), EXACT, "v", staffing_in_a_mix=EXACT)
    return replace(made, **changes)  # type: ignore[arg-type]


def case_of(*deployments: Deployment, offers: tuple[Offer, ...] = (CHEAP, DEAR), **pool: object) -> Case:
    rates = np.array([[1.0, 0.7], [2.0, 0.3]])
    asked = Pool("w", ("w",), rates, 0.5, True, deployments, (), max_deployments=2)
    asked = replace(asked, **pool)  # type: ignore[arg-type]
    return Case((asked,), {o.key: o for o in offers}, np.array([400.0, 330.0]), np.zeros(2, dtype=int))


def kept(case: Case) -> set[str]:
    fleet = without_dominated_offers(case.fleet)
    on_pools = {d.offer for pool in fleet.pools.values() for d in pool.deployments}
    assert {g for recipe in fleet.recipes for g in recipe.offers} <= on_pools
    return on_pools


def test_an_offer_that_costs_more_in_every_way_is_left_out() -> None:
    assert kept(case_of(on("dear"), on("cheap"))) == {"cheap"}


def test_of_two_equal_offers_one_stays() -> None:
    assert len(kept(case_of(on("dear"), on("cheap"), offers=(CHEAP, replace(CHEAP, key="dear"))))) == 1


@for_each(
    ("cheap", "dear"),
    [
        ({"gpu": "y"}, {}),
        ({"max_instances": 9}, {}),
        ({"box": 3}, {}),
        ({"start_h": 0.1}, {}),
        ({"on_demand_usd_per_h": None}, {}),
        ({"spot_usd_per_h": 1.3}, {}),
        ({"spot_usd_per_h": None}, {}),
        ({"reserved_usd_per_h": {}}, {}),
        ({}, {"reserved_usd_per_h": {"reserved-3y": 2.0}}),
    ],
)
def test_an_offer_stays_that_is_better_in_any_way(cheap: dict[str, object], dear: dict[str, object]) -> None:
    offers = (replace(CHEAP, **cheap), replace(DEAR, **dear))  # type: ignore[arg-type]
    assert kept(case_of(on("dear"), on("cheap"), offers=offers)) == {"cheap", "dear"}


def test_spot_prices_do_not_matter_where_nobody_uses_spot() -> None:
    offers = (replace(CHEAP, spot_usd_per_h=None), DEAR)
    assert kept(case_of(on("dear"), on("cheap"), offers=offers, spot_allowed=False)) == {"cheap"}


@for_each(
    "twin",
    [
        on("cheap", variant="another"),
        on("cheap", gpus=2),
        on("cheap", seconds_per_request=np.array([1.0, 2.1])),
        on("cheap", staffing=replace(EXACT, batch=4.0)),
        on("cheap", staffing_in_a_mix=replace(EXACT, max_utilization=0.9)),
        on("cheap", staffing_in_a_mix=None),
        on("cheap", spot_allowed=False),
        on("cheap", alone=False),
        on("cheap", replaced_by=frozenset({"another"})),
    ],
)
def test_an_offer_stays_whose_deployment_has_no_twin(twin: Deployment) -> None:
    assert "dear" in kept(case_of(on("dear"), twin))


def test_an_offer_stays_where_another_pool_cannot_leave_it() -> None:
    both = case_of(on("dear"), on("cheap"))
    other = replace(both.pools[0], key="o", workloads=("o",), deployments=(on("dear"),))
    assert kept(replace(both, pools=(*both.pools, other))) == {"cheap", "dear"}


def test_a_twin_that_cannot_serve_all_lengths_needs_another_to_be_mixed_with() -> None:
    api = (Api("api", np.array([0.1, 0.2])),)
    some = {"seconds_per_request": np.array([1.0, np.inf])}
    alone = case_of(on("dear", **some), on("cheap", **some), apis=api)
    assert kept(alone) == {"cheap", "dear"}
    beside = case_of(on("dear", **some), on("cheap", **some), on("cheap", gpus=2), apis=api)
    assert kept(beside) == {"cheap"}


def random_case(seed: int) -> Case:
    """Offers of one kind of GPU at nearly the same prices, shared by two workloads, with mixes, starts and limits."""
    rng = np.random.default_rng(seed)
    offers = {}
    for key in ("a", "b", "c"):
        box = int(rng.choice([1, 2, 2]))
        usd = box * float(rng.choice([1.0, 1.0, 1.1]))
        reserved = {"reserved-1y": usd * float(rng.choice([0.6, 0.7]))} if rng.random() < 0.5 else {}
        spot = usd * float(rng.choice([0.3, 0.4])) if rng.random() < 0.5 else None
        most = int(rng.integers(2, 5)) if rng.random() < 0.1 else None
        start = float(rng.choice([0.0, 0.3]))
        offers[key] = Offer(key, "x", box, usd, spot, reserved, most, start)
    slow = float(rng.choice([1.0, 1.0, 1.2]))
    pools = []
    for name in ("v", "w"):
        served = [g for g in offers if rng.random() < 0.85] or ["a"]
        deployments = tuple(
            on(g, 1, seconds_per_request=np.array([1.0, 2.0]) * (slow if g == "b" else 1.0)) for g in served
        )
        rates = rng.uniform(0.0, 1.2, (2, 2))
        pools.append(Pool(name, (name,), rates, 0.5, bool(rng.random() < 0.5), deployments, (), max_deployments=2))
    before = np.array([1, 0])
    return Case(tuple(pools), offers, np.array([400.0, 330.0]), np.zeros(2, dtype=int), slot_before=before)


@for_each("seed", range(120))
def test_the_optimum_stays(seed: int) -> None:
    case = random_case(seed)
    found, truth = solve_fleet(case.fleet, Options(gap_frac=0.0)), brute_force(case)
    assert found.bound_usd_per_month <= truth.objective * (1 + 2e-6)
    assert found.objective == pytest.approx(truth.objective, rel=2e-6)


def test_the_random_cases_have_offers_to_leave_out() -> None:
    fleets = [random_case(seed).fleet for seed in range(120)]
    fewer = sum(len(without_dominated_offers(fleet).recipes) < len(fleet.recipes) for fleet in fleets)
    assert fewer > 30
