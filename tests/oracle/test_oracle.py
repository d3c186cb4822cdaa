"""The optimizer against brute force written from the definitions (tests/oracle): to the cent, with every lever on."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from problems.fleet import master
from problems.fleet_problem import Offer
from problems.pricing import Priced
from problems.recipes.pools import Api, Deployment, Pool
from problems.recipes.recipe import Recipe
from problems.staffing import Staffing
from solvers.pricing import reduced_cost_fixing as what_matters
from solvers.pricing.dual_bound import dual_bound_of, most_to_pay
from solvers.pricing.reduced_cost_fixing import still_possible
from solvers.search import search
from solvers.search.fleet_solution import FleetSolution, Options, Outcome, Progress
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.bounds import Rounds, check_bounds, check_cut_short
from tests.oracle.brute_force import brute_force, cheapest_with
from tests.oracle.cases import lever_case, truth_of
from tests.oracle.menus import Choice, Way
from tests.oracle.plans import check_plan
from tests.support.fleets import Case
from tests.support.rows import for_each

SEEDS = [*range(180), 378, 541, 1719]
"""the rest: cases that have gone wrong before"""
FEW = SEEDS[::9]


@cache
def solved(seed: int) -> FleetSolution:
    return solve_fleet(lever_case(seed).case.fleet, Options(gap_frac=0.0))


def check_solution(seed: int, solution: FleetSolution) -> None:
    truth = truth_of(seed)
    if truth.objective == math.inf:
        assert solution.outcome is Outcome.INFEASIBLE
        assert solution.best is None
        return
    assert solution.outcome is Outcome.OPTIMAL
    assert solution.objective == pytest.approx(truth.objective, rel=1e-6)
    assert solution.bound_usd_per_month <= truth.objective * (1 + 1e-9)
    assert solution.best is not None
    check_plan(lever_case(seed).case, solution.best)


@for_each("seed", SEEDS)
def test_the_optimum_is_that_of_brute_force(seed: int) -> None:
    check_solution(seed, solved(seed))


@for_each("seed", FEW)
def test_with_the_other_solver(seed: int) -> None:
    check_solution(seed, solve_fleet(lever_case(seed).case.fleet, Options(solver="highs", gap_frac=0.0)))


def test_the_cases_have_every_lever() -> None:
    """Otherwise agreement would say little. The numbers are pinned, so that none gets lost unseen."""
    levers = [lever_case(seed).levers for seed in SEEDS]
    assert Counter(lever for found in levers for lever in found) == {
        "overflow": 103, "quotas": 79, "mix": 76, "budget": 67, "zones": 64, "team": 56, "start": 56, "fixed": 54,
        "deferral": 54, "caching": 53, "types": 53, "sharing": 46, "shedding": 44, "slow start": 38, "partial": 36,
    }  # fmt: skip
    assert sum(len(found) >= 4 for found in levers) == 141
    assert sum(truth_of(seed).objective == math.inf for seed in SEEDS) == 27


def test_every_lever_decides_some_case() -> None:
    """So many optimal plans use it."""
    used: Counter[str] = Counter()
    for seed in SEEDS:
        truth = truth_of(seed)
        kinds = {kind for choice in truth.choices for kind in _kinds(lever_case(seed).case, choice)}
        kinds |= {"reserved"} if truth.held else set()
        kinds |= {"shed"} if truth.penalty else set()
        used.update(kinds)
    assert used == {
        "1 deployments": 89, "1 deployments and an API": 79, "2 deployments": 7, "2 deployments and an API": 7,
        "0 deployments and an API": 16, "partial": 13, "prefix": 11, "semantic": 21, "waiting": 43, "routed": 33,
        "2 workloads": 17, "3 workloads": 3, "reserved": 81, "shed": 34,
    }  # fmt: skip


def _kinds(case: Case, choice: Choice) -> set[str]:
    pool = next(pool for pool in case.pools if pool.key == choice.pool)
    kinds = {f"{len(choice.deployments)} deployments" + (" and an API" if choice.api else "")}
    members = [d for d in pool.deployments if d.key in choice.deployments]
    if not all(d.serves_all for d in members):
        kinds.add("partial")
    if any(d.staffing.routing is not None for d in members):
        kinds.add("routed")
    if pool.caching != "none":
        kinds.add(pool.caching)
    if len(pool.workloads) > 1:
        kinds.add(f"{len(pool.workloads)} workloads")
    if pool.window is not None and members:
        kinds.add("waiting")
    return kinds


LIMITS = {
    "start": lambda case: replace(case, slot_before=None),
    "types": lambda case: replace(case, max_gpu_types=None),
    "budget": lambda case: replace(case, budget_usd_per_month=None),
    "quotas": lambda case: replace(
        case, max_gpus={}, offers={g: replace(offer, max_instances=None) for g, offer in case.offers.items()}
    ),
    "team": lambda case: replace(case, team_usd_per_month=0.0),
    "zones": lambda case: _each_deployment(case, spot_zones=1),
    "slow start": lambda case: _each_deployment(case, spot_allowed=True),
}


def _each_deployment(case: Case, **change: object) -> Case:
    return replace(
        case,
        pools=tuple(
            replace(pool, deployments=tuple(replace(d, **change) for d in pool.deployments)) for pool in case.pools
        ),
    )


@for_each(
    ("lever", "times"),
    [("start", 6), ("types", 2), ("budget", 18), ("quotas", 7), ("team", 22), ("zones", 9), ("slow start", 4)],
)
def test_without_a_lever_some_optimum_changes(lever: str, times: int) -> None:
    """Of the first 25 cases that have it."""
    changed = 0
    for seed in [seed for seed in SEEDS if lever in lever_case(seed).levers][:25]:
        free = brute_force(LIMITS[lever](lever_case(seed).case)).objective
        changed += not math.isclose(free, truth_of(seed).objective, rel_tol=1e-6)
    assert changed == times


@for_each("seed", SEEDS[::6])
def test_no_bound_of_column_generation_exceeds_the_optimum(seed: int) -> None:
    check_bounds(lever_case(seed).case.fleet, truth_of(seed).objective)


@for_each("seed", SEEDS[1::6])
def test_the_bound_holds_at_any_prices(seed: int) -> None:
    """Weak duality needs no optimal prices: those of column generation, each changed at random."""
    case, truth = lever_case(seed).case, truth_of(seed)
    generation = Rounds(case.fleet).generation
    if generation.run(0.05).feasible is False:
        return
    model, _ = master(replace(generation.fleet, recipes=tuple(generation.paths.held)))
    rng = np.random.default_rng(seed)
    for spread in (0.0, 0.1, 0.5, 1.0, 1.0):
        duals = {key: usd * float(rng.uniform(1 - spread, 1 + spread)) for key, usd in generation.anchor.items()}
        priced = generation._price(duals, generation.fleet.recipes)
        paid = most_to_pay(generation.fleet, priced)
        left = generation.mixes.find(generation._prices(duals), paid, 0.0, most=0).least_left
        bound = dual_bound_of(model, duals, most_to_pay(generation.fleet, priced, left))
        assert bound <= truth.objective * (1 + 1e-9)


def choice_of(priced: Priced) -> Choice:
    return Choice(priced.recipe.pool, priced.recipe.deployments, priced.recipe.api)


def cheapest_with_serving(case: Case, priced: Priced, k: int) -> float:
    """What the cheapest plan costs that uses one serving of a recipe."""
    recipe = priced.recipe
    replicas, firm = (
        tuple(int(getattr(use, what)[k]) for use in recipe.uses) for what in ("replicas", "firm_replicas")
    )
    shed = recipe.penalty_usd_per_h[k] > 0

    def same(slot: int, way: Way) -> bool:
        if slot != recipe.slot[k]:
            return True
        return way.replicas == replicas and way.firm == firm and (way.penalty > 0) == shed

    return cheapest_with(case, choice_of(priced), same)


@for_each("seed", SEEDS[2::14])
def test_servings_are_left_out_only_when_no_cheaper_plan_uses_them(seed: int) -> None:
    """The bound of a recipe and of a serving is below the best plan that uses it, and what is dropped stays dropped."""
    case, truth = lever_case(seed).case, truth_of(seed)
    generation = Rounds(case.fleet).generation
    if generation.run(1e-3).feasible is False or truth.objective == math.inf:
        return
    best_cost = truth.objective * 1.02
    generated = generation.with_mixes_within(best_cost)
    kept, _, smallest_left_out = still_possible(
        generated, len(generated.fleet.slot_hours), generated.least_left, best_cost
    )
    kept_ways = {(r.key, *way) for r in kept for way in servings(r)}
    rng = np.random.default_rng(seed)
    for p in rng.permutation(np.array(generated.priced, dtype=object))[:8]:
        over = generated.bound_at_prices - sum(generated.paid[w] for w in p.recipe.workloads)
        assert over + p.value <= cheapest_with(case, choice_of(p)) * (1 + 1e-9)
        for k in rng.permutation(p.recipe.servings)[: 3 if p.recipe.self_hosted else 0]:
            cheapest = cheapest_with_serving(case, p, int(k))
            alike = [j for j, way in enumerate(servings(p.recipe)) if way == servings(p.recipe)[k]]
            assert over + p.with_serving[alike].min() <= cheapest * (1 + 1e-9)
            if (p.recipe.key, *servings(p.recipe)[k]) not in kept_ways:
                assert cheapest >= min(best_cost, smallest_left_out) * (1 - 1e-9)


def servings(recipe: Recipe) -> list[tuple]:
    columns = [recipe.slot, recipe.shed_frac, *(n for use in recipe.uses for n in (use.replicas, use.firm_replicas))]
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("room", [2, 5, 9])
def test_servings_cut_for_size_are_covered_by_the_bound(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for a handful of servings the plan may be dearer, but never the bound."""
    for module in (search, what_matters):
        monkeypatch.setattr(module, "MOST_SERVINGS", room)
    monkeypatch.setattr(search, "HOPELESS", 3 * room)
    monkeypatch.setattr(search, "MOST_BRANCHES", 2)
    cut = 0
    for seed in SEEDS[3::20]:
        truth = truth_of(seed)
        told: list[Progress] = []
        solution = solve_fleet(lever_case(seed).case.fleet, Options(gap_frac=0.0), told.append)
        assert all((progress.bound_usd_per_month or 0.0) <= truth.objective * (1 + 1e-9) for progress in told)
        if truth.objective == math.inf:
            assert solution.best is None
            continue
        assert solution.outcome is not Outcome.INFEASIBLE
        assert solution.objective >= truth.objective * (1 - 1e-6)
        assert solution.bound_usd_per_month <= truth.objective * (1 + 1e-9)
        if solution.outcome is Outcome.OPTIMAL:
            assert solution.objective == pytest.approx(truth.objective, rel=1e-5)
        cut += solution.servings_left_out
    assert cut > 0


@for_each("seed", SEEDS[4::12])
def test_a_search_cut_short_says_so(seed: int) -> None:
    check_cut_short(lever_case(seed).case, truth_of(seed).objective)


def test_more_workloads_than_the_program_has_room_for() -> None:
    """Each workload keeps its cheapest way in every slot, however many there are."""
    slots = 48
    api = Api("api", np.array([0.001]))
    names = [f"w{k}" for k in range(search.MOST_SERVINGS // slots + 1)]
    pools = tuple(Pool(name, (name,), np.ones((slots, 1)), 1.0, False, (), (api,)) for name in names)
    case = Case(pools, {}, np.full(slots, 730 / slots), np.zeros(slots, dtype=int))
    solution = solve_fleet(case.fleet)
    assert solution.outcome is Outcome.OPTIMAL
    assert solution.cost_usd_per_month == pytest.approx(len(names) * 3.6 * 730)


@for_each("quiet_rps", [0.2, 1.0])
@for_each("short_frac", [1e-9, 1e-8, 5e-8, 2e-7, 1e-6])
def test_a_budget_just_too_small_is_infeasible(short_frac: float, quiet_rps: float) -> None:
    """A few cents under a bill of millions, in one month or in both, must be an answer, not an error."""
    api = Api("api", np.array([1.0]))
    pool = Pool("w", ("w",), np.array([[1.0], [quiet_rps]]), 1.0, False, (), (api,))
    case = Case((pool,), {}, np.full(2, 730.0), np.arange(2), budget_usd_per_month=730 * 3600 * (1 - short_frac))
    solution = solve_fleet(case.fleet, Options(gap_frac=0.0))
    if solution.outcome is not Outcome.INFEASIBLE:
        assert short_frac < 2e-9, "beyond what counts as rounding"
        assert solution.cost_usd_per_month == pytest.approx(730 * 3600 * (1 + quiet_rps) / 2)


def test_an_offer_that_sells_nothing_is_not_used() -> None:
    """Two workloads, one of which could only run there: infeasible, or without it when the other can."""
    staffing = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)
    offers = {"none": Offer("none", "h", 1), "some": Offer("some", "h", 1, on_demand_usd_per_h=2.0)}
    deployments = tuple(Deployment(g, g, 1, np.ones(1), staffing) for g in offers)
    pool = Pool("w", ("w",), np.ones((2, 1)), 1.0, False, deployments, ())
    slow = replace(deployments[1], seconds_per_request=np.array([1.5]))
    case = Case((replace(pool, deployments=(deployments[0], slow)),), offers, np.full(2, 365.0), np.zeros(2, dtype=int))
    assert brute_force(case).objective == pytest.approx(2 * 2.0 * 730)
    assert solve_fleet(case.fleet, Options(gap_frac=0.0)).cost_usd_per_month == pytest.approx(2 * 2.0 * 730)
    stuck = replace(case, pools=(replace(pool, deployments=deployments[:1]),))
    assert solve_fleet(stuck.fleet, Options(gap_frac=0.0)).outcome is Outcome.INFEASIBLE


def test_a_workload_that_nobody_may_serve_is_infeasible() -> None:
    pool = Pool("w", ("w",), np.ones((2, 1)), 1.0, False, (), ())
    case = Case((pool,), {}, np.full(2, 365.0), np.zeros(2, dtype=int))
    assert solve_fleet(case.fleet).outcome is Outcome.INFEASIBLE
