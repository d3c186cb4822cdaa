"""Budgets of one workload cost little work: counted in mixes, lines and programs, never in seconds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.case.case import Case
from planner.studies.frontier import Frontier
from planner.studies.overrides import Override, Scenario, Source
from problems.fleet import master
from problems.pricing import price_recipe
from problems.recipes.pairs import _corners, _times, member_of
from problems.recipes.singles import recipes_of
from solvers.heuristics.columns import from_solution
from solvers.pricing import pairs
from solvers.pricing.column_generation import ColumnGeneration
from solvers.pricing.mixing import Mixes
from solvers.search import search
from solvers.search.dual_scaling import DualScaling
from solvers.search.fleet_solution import Options
from tests.problems.recipes.test_mixes import OUTLETS, fleet_with, random_pool, random_prices
from tests.solvers.pricing.test_mixing import every_mix
from tests.solvers.search.test_frontier import two_days
from tests.support.places import ROOT
from tests.support.rows import for_each

QUICKSTART = ROOT / "examples" / "quickstart.yaml"


NEWER = ("b300", "rtx-pro-6000-server")
"""GPUs that joined the catalog after these figures"""


def quickstart_that_sheds() -> Case:
    case = Source(QUICKSTART).changed(Scenario((Override("shed", "shed", "normal"),)))
    return case.model_copy(update={"offers": {k: o for k, o in case.offers.items() if o.gpu not in NEWER}})


class Calls:
    """A function that counts how often it is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, where: object, name: str) -> None:
        self.n, original = 0, getattr(where, name)

        def counted(*args: object, **kwargs: object) -> object:
            self.n += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(where, name, counted)


def test_budgets_of_one_workload_take_few_mixes_and_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    case = quickstart_that_sheds()
    values, finds = Calls(monkeypatch, pairs.Pair, "value"), Calls(monkeypatch, Mixes, "find")
    programs, branches = Calls(monkeypatch, search, "solve_mip"), Calls(monkeypatch, ColumnGeneration, "branched")
    budgets = [500.0, 1300.0]
    options = Options(gap_frac=0.001)
    points = Frontier(case, options).plans(budgets)
    assert all(point.plan is not None and point.plan.gap_frac <= options.gap_frac for point in points)
    assert programs.n <= 3 * len(budgets)  # mixes pay here, so prices alone leave more than one choice
    assert branches.n == 0
    assert finds.n <= 10 * len(budgets)
    assert values.n <= 10 * len(budgets)


def mixed(seed: int, outlets: str = "both") -> tuple:
    pool = replace(random_pool(seed, 6, margin=True, outlets=outlets, offers=3), max_deployments=2)
    return fleet_with(pool), pool, random_prices(seed, pool)


@pytest.mark.parametrize("most", [0, 2])
def test_mixes_are_priced_only_until_the_cheapest_are_known(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    priced = possible = 0
    for seed in range(12):
        fleet, pool, prices = mixed(seed)
        every = sorted(max(mix.bound, mix.value()) for mix in every_mix(fleet, pool, prices))
        calls = Calls(monkeypatch, pairs.Pair, "value")
        found = Mixes(fleet).find(prices, {"pool": every[-1] + 1.0}, 0.0, most)
        assert len(found.recipes) == most
        assert found.least_left["pool",] == pytest.approx(every[most], rel=1e-9)
        priced, possible = priced + calls.n, possible + len(every)
    assert priced <= possible * 2 // 3


@for_each("seed", range(60))
def test_the_corners_that_are_kept_give_every_bill(seed: int) -> None:
    """Against all prices at which two buckets are indifferent, whatever their third way costs."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    u1, u2 = np.sort(rng.uniform(0.1, 3.0, (2, n)), axis=1) if seed % 3 else rng.integers(1, 4, (2, n)).astype(float)
    if seed % 2:
        u1[rng.random(n) < 0.3], u2[rng.random(n) < 0.3] = np.inf, np.inf
    usd = rng.uniform(0.0, 2.0, n) if seed % 5 else np.ones(n)
    rate, carried = rng.uniform(0.0, 2.0, n), rng.uniform(0.0, 4.0, (50, 2)) * (rng.random((50, 2)) < 0.8)

    def bills(p1: np.ndarray, p2: np.ndarray) -> np.ndarray:
        each = np.minimum(usd, np.minimum(_times(p1, u1), _times(p2, u2))) @ rate
        return (each - carried[:, :1] * p1 - carried[:, 1:] * p2).max(axis=1)

    own1, own2 = (np.r_[0.0, (usd / u)[np.isfinite(u)]] for u in (u1, u2))
    both = np.isfinite(u1) & np.isfinite(u2)
    ratio = u1[both] / u2[both]
    grid = [np.meshgrid(own1, own2), np.meshgrid(own1, ratio), np.meshgrid(own2, ratio)]
    (g1, g2), (b1, r1), (b2, r2) = ([part.ravel() for part in parts] for parts in grid)
    every = np.r_[g1, b1, b2 / r2], np.r_[g2, b1 * r1, b2]
    kept = _corners(u1, u2, usd)
    assert bills(*kept) == pytest.approx(bills(*every), abs=1e-12)
    assert len(kept[0]) <= len(every[0])
    assert n < 4 or not both.all() or len(kept[0]) <= 0.7 * len(every[0])


@for_each("outlets", OUTLETS)
@for_each("seed", range(12))
def test_a_deployment_that_is_covered_alone_costs_no_less_in_a_mix_without_the_other(seed: int, outlets: str) -> None:
    fleet, pool, prices = mixed(seed, outlets)
    singles = {(r.uses[0].deployment if r.uses else None, r.api): r for r in recipes_of(pool, fleet.slot_hours)}
    for mix in every_mix(fleet, pool, prices):
        recipe = mix.recipe()
        for k, member in enumerate(mix.members) if recipe is not None else ():
            alone = recipe.only(recipe.uses[1 - k].replicas == 0)
            if member.covered_alone and len(np.unique(alone.slot)) == pool.slots:
                of_its_own = singles[member.deployment.key, recipe.api]
                least = price_recipe(fleet, of_its_own, prices).value
                assert least <= price_recipe(fleet, alone, prices).value * (1 + 1e-9)


def test_a_deployment_that_carries_more_in_a_mix_is_not_covered_alone() -> None:
    _, pool, _ = mixed(1)
    whole = [d for d in pool.deployments if d.serves_all]
    assert whole
    for d in whole:
        busy = replace(d, staffing=replace(d.staffing, max_utilization=0.1))
        assert member_of(pool, d).covered_alone
        assert not member_of(pool, busy).covered_alone


def test_scales_are_looked_for_without_mixes_and_few_are_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    case = quickstart_that_sheds()
    fleet = Frontier(case, Options()).fleet
    generation = ColumnGeneration(replace(fleet, budget_usd_per_month=1300.0), lambda n, bound: None)
    generation.run(0.02)
    finds = Calls(monkeypatch, Mixes, "find")
    ladder = DualScaling(generation)
    budgets = [500.0, 900.0, 1300.0, 1700.0, 2100.0]
    lines = ladder.climb(budgets, 1e-3)
    assert len(ladder.lines) > len(lines) >= 2
    assert finds.n == len(lines) <= 2 * len(budgets)
    known = {budget: max(line.within(budget) for line in lines) for budget in budgets}
    again = DualScaling(generation)
    assert again.climb(budgets, 1e-3, known=known.__getitem__) == []


def test_offers_that_the_lp_does_not_know_are_priced_in_dollars_of_the_budget() -> None:
    """At plain list prices, where a budget makes dollars dear, mixes on them look cheap and join every LP after."""
    case = quickstart_that_sheds()
    fleet = Frontier(case, Options()).fleet
    generation = ColumnGeneration(replace(fleet, budget_usd_per_month=1300.0), lambda n, bound: None)
    generation.run(0.02)
    weight = float(generation.prices.usd_factor.min())
    unknown = {g for g in generation.listed.gpu_usd if ("in-use", g, 0) not in generation.duals}
    assert weight > 2
    assert unknown
    for g in unknown:
        assert generation.prices.gpu_usd[g] == pytest.approx(weight * generation.listed.gpu_usd[g])
    assert not any(g in str(key) for key in generation.mixes.written for g in unknown)


def test_parts_of_servings_that_a_budget_allows_are_no_plan() -> None:
    """More than half of three replicas in every slot: two are bought, and the budget does not pay for three."""
    fleet = replace(two_days(1)[0], budget_usd_per_month=3500.0)
    model, v = master(fleet)
    x = np.zeros(model.n_columns)
    x[v.pick[0]] = 1.0
    for i, replicas in enumerate(fleet.recipes[0].uses[0].replicas.tolist()):
        x[v.serving(0, i)] = {0: 0.4, 3: 0.6}.get(replicas, 0.0)
    for column in v.on_demand.values():
        x[column] = 1.8
    assert from_solution(fleet, v, x) is None
    whole = replace(fleet, budget_usd_per_month=None)
    plan = from_solution(whole, v, x)
    assert plan is not None
    assert plan.purchases["g"].on_demand.min() == 3
