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

from problems.fleet_problem import FleetProblem
from problems.recipes.pools import Api, Deployment, Pool
from solvers.backends.solve import SolverName
from solvers.search.fleet_solution import Options, Outcome
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.cases import LEVERS as EVERY_LEVER
from tests.oracle.cases import lever_case
from tests.support.fleets import Case, random_case, random_offer, random_staffing
from tests.support.rows import for_each

PLAIN = range(100, 104)
"""larger fleets of one deployment per workload, with quotas on every second seed"""
LEVERS = (1001, 1004, 1016, 1024, 1025, 1027)
"""tiny fleets that have every lever between them"""
WAITING = (1000, 1001, 1013, 1014, 1015, 1024)
SEEDS = [*PLAIN, *LEVERS]
ROUNDING = 4e-6
"""both optima are proved to two millionths"""


def optimum(fleet: FleetProblem, solver: SolverName = "cbc") -> float:
    """Cost and penalty of the best plan; infinite where there is none."""
    solution = solve_fleet(fleet, Options(solver=solver, gap_frac=0.0))
    if solution.outcome is Outcome.INFEASIBLE:
        return np.inf
    assert solution.outcome is Outcome.OPTIMAL
    return solution.objective


@cache
def original(seed: int) -> tuple[Case, float]:
    case = random_case(seed, limits=bool(seed % 2), max_utilization=8.0) if seed in PLAIN else lever_case(seed).case
    return case, optimum(case.fleet)


def check_never_cheaper(changed: list[Case], before: float) -> None:
    for other in changed:
        assert optimum(other.fleet) >= before * (1 - ROUNDING)


def check_never_dearer(changed: list[Case], before: float) -> None:
    for other in changed:
        assert optimum(other.fleet) <= before * (1 + ROUNDING)


def with_pools(case: Case, change: Callable[[Pool], Pool]) -> Case:
    return replace(case, pools=tuple(change(pool) for pool in case.pools))


def with_deployments(case: Case, change: Callable[[Deployment], Deployment]) -> Case:
    return with_pools(case, lambda pool: replace(pool, deployments=tuple(change(d) for d in pool.deployments)))


def dearer(case: Case) -> Iterator[Case]:
    """Each price of each offer, its time to start, every API, cache and penalty, and the team: one at a time."""
    for g, offer in case.offers.items():
        if offer.on_demand_usd_per_h is not None:
            yield case.with_offer(g, replace(offer, on_demand_usd_per_h=offer.on_demand_usd_per_h * 4 / 3))
        if offer.spot_usd_per_h is not None:
            yield case.with_offer(g, replace(offer, spot_usd_per_h=offer.spot_usd_per_h * 4 / 3))
        for term, usd in offer.reserved_usd_per_h.items():
            raised = {**offer.reserved_usd_per_h, term: usd * 4 / 3}
            yield case.with_offer(g, replace(offer, reserved_usd_per_h=raised))
    late = {g: replace(offer, start_h=offer.start_h + 0.3) for g, offer in case.offers.items()}
    yield replace(case, offers=late)

    def raise_apis(pool: Pool) -> Pool:
        return replace(pool, apis=tuple(replace(a, usd_per_request=a.usd_per_request * 4 / 3) for a in pool.apis))

    def raise_penalty(pool: Pool) -> Pool:
        usd = pool.shed_usd_per_request
        return pool if usd is None else replace(pool, shed_usd_per_request=usd * 4 / 3)

    yield with_pools(case, raise_apis)
    yield with_pools(case, raise_penalty)
    yield with_pools(case, lambda pool: replace(pool, fixed_usd_per_h=pool.fixed_usd_per_h + 0.1))
    yield replace(case, team_usd_per_month=case.team_usd_per_month * 4 / 3 + 100)


@for_each("seed", SEEDS)
def test_a_higher_price_never_costs_less(seed: int) -> None:
    case, before = original(seed)
    check_never_cheaper(list(dearer(case)), before)


@for_each("seed", PLAIN)
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


@for_each("seed", LEVERS)
def test_more_demand_with_levers_never_costs_less(seed: int) -> None:
    """A fifth more of everything, in pools of one workload and in those that several share alike."""
    case, before = original(seed)
    check_never_cheaper([with_pools(case, lambda pool: replace(pool, rate_rps=pool.rate_rps * 1.2))], before)


@for_each("seed", SEEDS)
def test_more_critical_load_never_costs_less(seed: int) -> None:
    case, before = original(seed)
    stricter = with_pools(case, lambda p: replace(p, critical_share=min(1.0, p.critical_share + 0.3)))
    no_spot = with_pools(case, lambda p: replace(p, spot_allowed=False))
    slow = with_deployments(case, lambda d: replace(d, spot_allowed=False))
    one_zone = with_deployments(case, lambda d: replace(d, spot_zones=1))
    check_never_cheaper([stricter, no_spot, slow, one_zone], before)


def wider(case: Case, rng: np.random.Generator) -> Iterator[Case]:
    """An offer with a deployment on it, a deployment on an offer already there, an API, a way to buy."""
    new_offer = random_offer(rng, "new", limits=False)
    buckets = [pool.rate_rps.shape[1] for pool in case.pools]
    usual = [np.nan_to_num(pool.deployments[0].seconds_per_request, posinf=0.3) for pool in case.pools]

    def on(offer: str, k: int) -> Deployment:
        seconds = usual[k] * rng.uniform(0.6, 1.2, buckets[k])
        return Deployment(f"extra on {offer}", offer, 1, seconds, random_staffing(rng))

    for offers, key in (({**case.offers, "new": new_offer}, "new"), (case.offers, sorted(case.offers)[0])):
        pools = tuple(replace(pool, deployments=(*pool.deployments, on(key, k))) for k, pool in enumerate(case.pools))
        yield replace(case, offers=offers, pools=pools)
    pools = tuple(
        pool
        if len(pool.workloads) > 1
        else replace(pool, apis=(*pool.apis, Api("extra", usual[k] * rng.uniform(1.0, 5.0, buckets[k]) / 3600)))
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


@for_each("seed", SEEDS)
def test_more_to_choose_from_never_costs_more(seed: int) -> None:
    case, before = original(seed)
    check_never_dearer(list(wider(case, np.random.default_rng([seed, 2]))), before)


@for_each("seed", SEEDS)
def test_a_mix_never_costs_more(seed: int) -> None:
    """One deployment for each workload, then up to two."""
    case, _ = original(seed)
    mixable = with_deployments(case, lambda d: replace(d, staffing_in_a_mix=d.staffing_in_a_mix or d.staffing))

    def up_to(k: int) -> float:
        alone = with_pools(mixable, lambda p: replace(p, max_deployments=k if len(p.workloads) == 1 else 1))
        return optimum(alone.fleet)

    assert up_to(2) <= up_to(1) * (1 + ROUNDING)


@for_each("seed", LEVERS)
def test_another_pool_never_costs_more(seed: int) -> None:
    """Pools of several workloads and caches are only ever one more choice."""
    case, before = original(seed)
    simple = tuple(pool for pool in case.pools if len(pool.workloads) == 1 and pool.caching == "none")
    assert optimum(replace(case, pools=simple).fleet) >= before * (1 - ROUNDING)
    free = replace(simple[0], key="extra", caching="prefix", rate_rps=simple[0].rate_rps * 0.8)
    check_never_dearer([replace(case, pools=(*case.pools, free))], before)


@for_each("seed", WAITING)
def test_longer_deadlines_never_cost_more(seed: int) -> None:
    case = lever_case(seed).case
    assert any(pool.window is not None for pool in case.pools)
    same_month = case.slot_month[:, None] == case.slot_month[None, :]

    def waiting(case: Case, window: np.ndarray) -> float:
        return optimum(with_pools(case, lambda p: p if p.window is None else replace(p, window=window)).fleet)

    assert waiting(case, same_month) <= waiting(case, np.eye(len(same_month), dtype=bool)) * (1 + ROUNDING)


@for_each("seed", SEEDS)
def test_higher_quotas_never_cost_more(seed: int) -> None:
    """Quotas from very tight to none: the optimum only falls."""
    case, _ = original(seed)
    costs = []
    for quota in (1, 2, 4, None):
        offers = {k: replace(offer, max_instances=quota) for k, offer in case.offers.items()}
        limit = {} if quota is None else {"h": 3 * quota, "a": 2 * quota}
        costs.append(optimum(replace(case, offers=offers, max_gpus=limit, max_gpu_types=quota).fleet))
    assert all(after <= before * (1 + ROUNDING) for before, after in pairwise(costs))


@for_each("seed", SEEDS)
def test_higher_budgets_never_cost_more(seed: int) -> None:
    """From too little to plenty: never dearer, and in the end as without a budget."""
    case, _ = original(seed)
    case = case.without_limits()
    solution = solve_fleet(case.fleet, Options(gap_frac=0.0))
    if solution.outcome is Outcome.INFEASIBLE:
        return
    free = solution.cost_usd_per_month
    factors = (0.9, 1.02, 1.1, 1.3, 3.0)
    costs = [optimum(replace(case, budget_usd_per_month=free * f).fleet) for f in factors]
    if not any(pool.shed_usd_per_request is not None for pool in case.pools):
        assert np.isinf(costs[0])
    assert costs[-1] == pytest.approx(solution.objective, rel=ROUNDING)
    assert all(after <= before * (1 + ROUNDING) for before, after in pairwise(costs))


@for_each("seed", SEEDS)
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


@for_each("seed", PLAIN)
def test_both_solvers_agree(seed: int) -> None:
    case, before = original(seed)
    assert optimum(case.fleet, "highs") == pytest.approx(before, rel=ROUNDING)


def test_enough_of_these_fleets_have_a_plan() -> None:
    assert np.isfinite([original(seed)[1] for seed in PLAIN]).sum() >= 3
    assert np.isfinite([original(seed)[1] for seed in LEVERS]).sum() >= 5
    levers = {lever for seed in LEVERS for lever in lever_case(seed).levers}
    assert levers == set(EVERY_LEVER)
