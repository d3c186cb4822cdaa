"""What must hold between two fleets, both solved to proved optimality.

Dearer, scarcer or more in demand never costs less; more to choose from never costs more; the order in which
things are listed changes nothing; and the two solvers agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from fleets import Case, random_case, random_offer, random_staffing

from problems.fleet import Fleet
from problems.recipes import Api, Deployment, Pool
from solvers.fleet_solver import Options, Outcome, solve_fleet
from solvers.solve import SolverName

SEEDS = range(100, 108)
ROUNDING = 2e-6
"""both optima are proved to a millionth"""


def optimum(fleet: Fleet, solver: SolverName = "highs") -> float:
    solution = solve_fleet(fleet, Options(solver=solver, gap_frac=0.0))
    if solution.outcome is Outcome.INFEASIBLE:
        return np.inf
    assert solution.outcome is Outcome.OPTIMAL
    return solution.cost_usd_per_month


@cache
def original(seed: int) -> tuple[Case, float]:
    """A case somewhat larger than those of the oracle, with quotas on every second seed."""
    case = random_case(seed, limits=bool(seed % 2), most_load=8.0)
    return case, optimum(case.fleet)


def check_never_cheaper(changed: list[Case], before: float) -> None:
    for other in changed:
        assert optimum(other.fleet) >= before * (1 - ROUNDING)


def check_never_dearer(changed: list[Case], before: float) -> None:
    for other in changed:
        assert optimum(other.fleet) <= before * (1 + ROUNDING)


def with_pools(case: Case, change: Callable[[Pool], Pool]) -> Case:
    return replace(case, pools=tuple(change(pool) for pool in case.pools))


def dearer(case: Case) -> Iterator[Case]:
    """Each price of each offer, every API and the team, up by a third, one at a time."""
    for g, offer in case.offers.items():
        if offer.on_demand_usd_per_h is not None:
            yield case.with_offer(g, replace(offer, on_demand_usd_per_h=offer.on_demand_usd_per_h * 4 / 3))
        if offer.spot_usd_per_h is not None:
            yield case.with_offer(g, replace(offer, spot_usd_per_h=offer.spot_usd_per_h * 4 / 3))
        for term, usd in offer.reserved_usd_per_h.items():
            raised = {**offer.reserved_usd_per_h, term: usd * 4 / 3}
            yield case.with_offer(g, replace(offer, reserved_usd_per_h=raised))

    def raise_apis(pool: Pool) -> Pool:
        return replace(pool, apis=tuple(replace(a, usd_per_request=a.usd_per_request * 4 / 3) for a in pool.apis))

    yield with_pools(case, raise_apis)
    yield replace(case, team_usd_per_month=case.team_usd_per_month * 4 / 3 + 100)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_higher_price_never_costs_less(seed: int) -> None:
    case, before = original(seed)
    check_never_cheaper(list(dearer(case)), before)


@pytest.mark.parametrize("seed", SEEDS)
def test_more_demand_never_costs_less(seed: int) -> None:
    """In every slot, in one slot, and in one bucket of one slot."""
    case, before = original(seed)
    rng = np.random.default_rng(seed)

    def in_one_slot(pool: Pool) -> Pool:
        rates = pool.rate_rps.copy()
        rates[int(rng.integers(len(rates)))] *= 1.5
        return replace(pool, rate_rps=rates)

    def in_one_bucket(pool: Pool) -> Pool:
        rates = pool.rate_rps.copy()
        rates[int(rng.integers(len(rates))), int(rng.integers(rates.shape[1]))] += 1.0
        return replace(pool, rate_rps=rates)

    grown = [with_pools(case, lambda pool: replace(pool, rate_rps=pool.rate_rps * 1.2))]
    check_never_cheaper([*grown, with_pools(case, in_one_slot), with_pools(case, in_one_bucket)], before)


@pytest.mark.parametrize("seed", SEEDS)
def test_more_critical_load_never_costs_less(seed: int) -> None:
    case, before = original(seed)
    stricter = with_pools(case, lambda p: replace(p, critical_share=min(1.0, p.critical_share + 0.3)))
    no_spot = with_pools(case, lambda p: replace(p, spot_allowed=False))
    check_never_cheaper([stricter, no_spot], before)


def wider(case: Case, rng: np.random.Generator) -> Iterator[Case]:
    """An offer with a deployment on it, a deployment on an offer already there, an API, a way to buy."""
    new_offer = random_offer(rng, "new", limits=False)
    buckets = [pool.rate_rps.shape[1] for pool in case.pools]
    usual = [pool.deployments[0].seconds_per_request for pool in case.pools]

    def on(offer: str, k: int) -> Deployment:
        seconds = usual[k] * rng.uniform(0.6, 1.2, buckets[k])
        return Deployment(f"extra on {offer}", offer, 1, seconds, random_staffing(rng))

    for offers, key in (({**case.offers, "new": new_offer}, "new"), (case.offers, sorted(case.offers)[0])):
        pools = tuple(
            replace(pool, deployments=(*pool.deployments, on(key, k))) for k, pool in enumerate(case.pools)
        )
        yield replace(case, offers=offers, pools=pools)
    pools = tuple(
        replace(pool, apis=(*pool.apis, Api("extra", usual[k] * rng.uniform(1.0, 5.0, buckets[k]) / 3600)))
        for k, pool in enumerate(case.pools)
    )
    yield replace(case, pools=pools)
    for g, offer in case.offers.items():
        price = (offer.on_demand_usd_per_h or 2.0 * offer.box) * rng.uniform(0.4, 1.0)
        if offer.on_demand_usd_per_h is None:
            yield case.with_offer(g, replace(offer, on_demand_usd_per_h=price))
        if offer.spot_usd_per_h is None:
            yield case.with_offer(g, replace(offer, spot_usd_per_h=price))
        yield case.with_offer(g, replace(offer, reserved_usd_per_h={**offer.reserved_usd_per_h, "5y": price}))


@pytest.mark.parametrize("seed", SEEDS)
def test_more_to_choose_from_never_costs_more(seed: int) -> None:
    case, before = original(seed)
    check_never_dearer(list(wider(case, np.random.default_rng([seed, 2]))), before)


@pytest.mark.parametrize("seed", SEEDS)
def test_higher_quotas_never_cost_more(seed: int) -> None:
    """Quotas from very tight to none: the optimum only falls."""
    case, _ = original(seed)
    costs = []
    for quota in (1, 2, 4, None):
        offers = {k: replace(offer, max_instances=quota) for k, offer in case.offers.items()}
        limit = {} if quota is None else {"h": 3 * quota, "a": 2 * quota}
        costs.append(optimum(replace(case, offers=offers, max_gpus=limit).fleet))
    assert all(after <= before * (1 + ROUNDING) for before, after in pairwise(costs))


@pytest.mark.parametrize("seed", SEEDS)
def test_higher_budgets_never_cost_more(seed: int) -> None:
    """From too little to plenty: infeasible first, then never dearer, and never below the free optimum."""
    case, free = original(seed)
    if np.isinf(free):
        free = optimum(case.without_limits().fleet)
        case = case.without_limits()
    if np.isinf(free):
        return
    factors = (0.9, 1.02, 1.1, 1.3, 3.0)
    costs = [optimum(replace(case, budget_usd_per_month=free * f).fleet) for f in factors]
    assert np.isinf(costs[0])
    assert costs[-1] == pytest.approx(free, rel=ROUNDING)
    assert all(after <= before * (1 + ROUNDING) for before, after in pairwise(costs))
    assert all(np.isinf(cost) or cost <= free * f * (1 + ROUNDING) for cost, f in zip(costs, factors, strict=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_order_changes_nothing(seed: int) -> None:
    case, before = original(seed)
    offers = dict(reversed(case.offers.items()))
    pools = tuple(
        replace(pool, deployments=pool.deployments[::-1], apis=pool.apis[::-1]) for pool in reversed(case.pools)
    )
    assert optimum(replace(case, offers=offers).fleet) == pytest.approx(before, rel=ROUNDING)
    assert optimum(replace(case, pools=pools).fleet) == pytest.approx(before, rel=ROUNDING)
    fleet = case.fleet
    shuffled = np.random.default_rng(seed).permutation(len(fleet.recipes)).tolist()
    recipes = tuple(fleet.recipes[r] for r in shuffled)
    assert optimum(replace(fleet, recipes=recipes)) == pytest.approx(before, rel=ROUNDING)


@pytest.mark.parametrize("seed", range(100, 116))
def test_both_solvers_agree(seed: int) -> None:
    case, before = original(seed)
    assert optimum(case.fleet, "cbc") == pytest.approx(before, rel=ROUNDING)


def test_enough_of_these_fleets_have_a_plan() -> None:
    costs = [original(seed)[1] for seed in SEEDS]
    assert np.isfinite(costs).sum() >= 5
