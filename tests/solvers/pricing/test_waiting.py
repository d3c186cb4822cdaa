"""Work that may wait at prices: the LP's value is below every path, the quick bound below that."""

from __future__ import annotations

import math
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest

from problems.fleet_problem import FleetProblem, Offer
from problems.pricing import Prices, fixed_value, price_recipe, serving_values, settled_path
from problems.recipes.deferral import counts_with_room
from problems.recipes.pools import Deployment, Pool
from problems.recipes.recipe import Recipe
from problems.recipes.singles import COARSE_FRAC, FINE_COUNTS, _counts_up_to
from problems.staffing import Staffing
from solvers.pricing.column_generation import CONVERGED_FRAC, ColumnGeneration
from solvers.pricing.dual_bound import list_prices
from solvers.pricing.reduced_cost_fixing import possible_within
from solvers.pricing.routing import work_moved
from solvers.pricing.waiting import WaitingWork, with_waiting_work_settled
from solvers.search.fleet_solution import Options, Outcome
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.brute_force import brute_force
from tests.oracle.cases import drawn_levers, lever_case, truth_of
from tests.support.fleets import Case
from tests.support.rows import for_each

WAITING = list(islice((seed for seed in range(400) if "deferral" in drawn_levers(seed)), 30))


def changed(prices: Prices, rng: np.random.Generator) -> Prices:
    def one(usd: np.ndarray) -> np.ndarray:
        return usd * rng.uniform(0.0, 2.0, len(usd)) * (rng.random(len(usd)) < 0.8)

    gpu = {g: one(usd) for g, usd in prices.gpu_usd.items()}
    return Prices(gpu, {g: one(usd) for g, usd in prices.firm_usd.items()}, prices.usd_factor, prices.team_usd)


def waiting_recipes(fleet: FleetProblem) -> list[Recipe]:
    return [recipe for recipe in fleet.recipes if recipe.deferral is not None]


def test_there_are_cases() -> None:
    assert len(WAITING) >= 10


@for_each("seed", WAITING)
def test_the_value_is_below_every_path_and_above_both_quick_bounds(seed: int) -> None:
    fleet, rng = lever_case(seed).case.fleet, np.random.default_rng(seed)
    waiting = WaitingWork(fleet)
    for recipe in waiting_recipes(fleet)[:4]:
        deferral = recipe.deferral
        assert deferral is not None
        largest = recipe.uses[0].load[recipe.first_of_each_slot(-recipe.uses[0].load)]
        if work_moved(deferral, largest) is None:
            continue
        for _ in range(4):
            prices = changed(list_prices(fleet), rng)
            before = waiting.at_least(recipe, prices)
            exact = waiting.priced(recipe, prices)
            rounding = 1e-6 * (1 + abs(exact.value))
            assert price_recipe(fleet, recipe, prices).value <= exact.value + rounding
            assert before <= exact.value + rounding
            assert waiting.at_least(recipe, prices) == pytest.approx(exact.value, rel=1e-5, abs=1e-4)
            paths = [settled_path(fleet, recipe, prices), counts_with_room(recipe, deferral.load, fleet.weight)]
            for path in (path for path in paths if path is not None):
                cost = float(serving_values(fleet, path, prices).sum()) + fixed_value(fleet, path, prices)
                assert exact.value <= cost + rounding


def can_do_the_work(recipe: Recipe) -> bool:
    largest = recipe.uses[0].load[recipe.first_of_each_slot(-recipe.uses[0].load)]
    return recipe.deferral is not None and work_moved(recipe.deferral, largest) is not None


def value_of(fleet: FleetProblem, recipe: Recipe, prices: Prices) -> float:
    priced = WaitingWork(fleet).priced(recipe, prices)
    assert priced is not None
    return priced.value


@for_each("seed", WAITING)
def test_a_plan_with_a_serving_costs_no_less_than_its_bound(seed: int) -> None:
    """The recipe with all other servings of a slot left out is no cheaper than the bound says."""
    fleet, rng = lever_case(seed).case.fleet, np.random.default_rng(seed)
    for recipe in [r for r in waiting_recipes(fleet) if can_do_the_work(r)][:2]:
        prices = changed(list_prices(fleet), rng)
        priced = WaitingWork(fleet).priced(recipe, prices)
        assert priced is not None
        for k in rng.choice(recipe.servings, min(6, recipe.servings), replace=False):
            others = (recipe.slot != recipe.slot[k]) | (np.arange(recipe.servings) == k)
            with_it = recipe.only(others)
            if can_do_the_work(with_it):
                assert priced.with_serving[k] <= value_of(fleet, with_it, prices) + 1e-5 * (1 + abs(priced.value))


@for_each("seed", WAITING)
def test_counts_that_are_not_tried_cost_no_less_than_is_said(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few counts that are tried, and of all: the first have the lower value, and say so of plans with others."""
    every = {recipe.key: recipe for recipe in waiting_recipes(lever_case(seed).case.fleet)}
    monkeypatch.setattr("problems.recipes.singles.FINE_COUNTS", 0)
    monkeypatch.setattr("problems.recipes.singles.COARSE_FRAC", 1.5)
    fleet, rng = lever_case(seed).case.fleet, np.random.default_rng(seed)
    for coarse in waiting_recipes(fleet)[:3]:
        recipe = every[coarse.key]
        if not can_do_the_work(recipe):
            continue
        for _ in range(3):
            prices = changed(list_prices(fleet), rng)
            value = value_of(fleet, recipe, prices)
            assert value_of(fleet, coarse, prices) <= value + 1e-6 * (1 + abs(value))
            assert price_recipe(fleet, coarse, prices).value <= value + 1e-6 * (1 + abs(value))


@for_each("seed", WAITING)
def test_a_proof_over_few_counts_holds_for_all(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits and all: neither is the plan cheaper than the optimum, nor what is proved above it."""
    best = brute_force(lever_case(seed).case).objective
    monkeypatch.setattr("problems.recipes.singles.FINE_COUNTS", 0)
    monkeypatch.setattr("problems.recipes.singles.COARSE_FRAC", 1.5)
    solution = solve_fleet(lever_case(seed).case.fleet, Options(gap_frac=1e-6, time_limit_s=20.0))
    assert solution.bound_usd_per_month <= best * (1 + 1e-6)
    if solution.best is not None:
        assert solution.objective >= best * (1 - 1e-6)
    else:
        assert best == math.inf or solution.outcome is Outcome.NOT_FOUND


def test_counts_are_close_where_work_is_done_and_further_apart_beyond() -> None:
    assert _counts_up_to(5).tolist() == [0, 1, 2, 3, 4, 5]
    counts = _counts_up_to(2000)
    assert counts[: FINE_COUNTS + 1].tolist() == list(range(FINE_COUNTS + 1))
    assert counts[-1] == 2000
    assert (np.diff(counts) <= np.maximum(1, counts[:-1] * COARSE_FRAC)).all()
    assert len(counts) < 200


@for_each("seed", WAITING[:10])
def test_the_cheapest_of_a_pool_is_exact_and_nothing_falls(seed: int) -> None:
    fleet, rng = lever_case(seed).case.fleet, np.random.default_rng(seed)
    prices = changed(list_prices(fleet), rng)
    weak = [price_recipe(fleet, recipe, prices) for recipe in waiting_recipes(fleet)]
    settled = with_waiting_work_settled(weak, WaitingWork(fleet), prices)
    assert all(after.value >= before.value - 1e-6 for before, after in zip(weak, settled, strict=True))
    for pool in {p.recipe.workloads for p in settled}:
        best = min((p for p in settled if p.recipe.workloads == pool), key=lambda p: p.value)
        exact = WaitingWork(fleet).priced(best.recipe, prices).value
        assert best.value == pytest.approx(exact, rel=1e-6, abs=1e-4)


def test_a_far_dearer_way_is_found_where_quotas_leave_no_other() -> None:
    """Work that may wait has five ways on GPUs that another workload needs, and one at fifty times the price."""
    exact = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)
    near = tuple(Deployment(f"near{k}", "few", 1, np.full(1, 1 + k / 100), exact) for k in range(5))
    far = Deployment("far", "many", 1, np.ones(1), exact)
    rates = np.full((2, 1), 1.0)
    pools = (
        Pool("now", ("now",), 2 * rates, 1.0, False, (Deployment("only", "few", 1, np.ones(1), exact),), ()),
        Pool("later", ("later",), rates, 1.0, False, (*near, far), (), window=np.ones((2, 2), dtype=bool)),
    )
    offers = {"few": Offer("few", "h100", 1, 1.0), "many": Offer("many", "l4", 1, 50.0)}
    case = Case(pools, offers, np.full(2, 365.0), np.zeros(2, dtype=int), max_gpus={"h100": 2})
    generated = ColumnGeneration(case.fleet, lambda n, bound: None).run(CONVERGED_FRAC)
    assert generated.feasible
    best = solve_fleet(case.fleet).best
    assert best is not None
    assert {path.workloads: path.deployments for path in best.paths}[("later",)] == ("far",)


def few_counts(seed: int, monkeypatch: pytest.MonkeyPatch) -> FleetProblem:
    """A case whose recipes try few counts of replicas."""
    with monkeypatch.context() as few:
        few.setattr("problems.recipes.singles.FINE_COUNTS", 0)
        few.setattr("problems.recipes.singles.COARSE_FRAC", 1.5)
        few.setattr("problems.recipes.singles.MOST_STEPS", 1)
        few.setattr("problems.recipes.singles.COARSE_STEPS", 2)
        return lever_case.__wrapped__(seed).case.fleet


def test_servings_that_no_better_plan_uses_leave_with_the_counts_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of a recipe in a branch can be priced, and costs no less than all of it."""
    narrower = 0
    for seed in WAITING:
        fleet, rng = few_counts(seed, monkeypatch), np.random.default_rng(seed)
        prices, waiting = changed(list_prices(fleet), rng), WaitingWork(fleet)
        priced = with_waiting_work_settled(
            [price_recipe(fleet, recipe, prices) for recipe in waiting_recipes(fleet)], waiting, prices
        )
        paid = dict.fromkeys(fleet.workloads, 0.0)
        state = SimpleNamespace(priced=priced, bound_at_prices=0.0, paid=paid)
        by_key = {p.recipe.key: p for p in priced}
        for usd in sorted({float(np.median(p.with_serving)) for p in priced if p.recipe.between is not None}):
            for recipe in possible_within(state, usd):  # type: ignore[arg-type]
                whole = by_key[recipe.key]
                narrower += recipe.servings < whole.recipe.servings
                again = WaitingWork(fleet).priced(recipe, prices)
                assert again is None or again.value >= whole.value - 1e-6 * (1 + abs(whole.value))
                weak = price_recipe(fleet, whole.recipe, prices).value
                assert price_recipe(fleet, recipe, prices).value >= weak - 1e-6 * (1 + abs(weak))
    assert narrower > 5


@for_each("seed", WAITING[:6])
def test_counts_that_are_not_tried_are_never_ruled_out_unsaid(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However a recipe is priced, what is not tried of it has a bound of its own, no better than its value."""
    fleet, rng = few_counts(seed, monkeypatch), np.random.default_rng(seed)
    prices = changed(list_prices(fleet), rng)
    weak = [price_recipe(fleet, recipe, prices) for recipe in waiting_recipes(fleet) if recipe.between is not None]
    for p in (*weak, *with_waiting_work_settled(weak, WaitingWork(fleet), prices)):
        assert len(p.with_skipped) > 0
        assert p.with_skipped.min() >= p.value - 1e-9 * (1 + abs(p.value))


@for_each("seed", WAITING[:12])
def test_counts_that_matter_are_tried_after_all(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a recipe left counts out and turns out to matter, the bound ends where it would with every count."""
    every = ColumnGeneration(lever_case(seed).case.fleet, lambda n, bound: None).run(1e-7)
    fleet = few_counts(seed, monkeypatch)
    finer = ColumnGeneration(fleet, lambda n, bound: None)
    left_out = sum(recipe.between is not None for recipe in fleet.recipes)
    generated = finer.run(1e-7)
    assert generated.feasible == every.feasible
    if generated.feasible and left_out:
        assert generated.bound == pytest.approx(every.bound, rel=1e-5)
        assert generated.bound <= truth_of(seed).objective * (1 + 1e-7)
