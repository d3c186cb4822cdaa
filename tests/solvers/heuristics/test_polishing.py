"""Counts chosen anew: the same recipes and commitments, never dearer, every rule kept; boxes are filled together."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pytest

from problems.fleet_problem import FleetProblem, Offer
from problems.recipes.pools import Api, Deployment, Pool
from problems.recipes.recipe import Recipe
from problems.staffing import Staffing
from solvers.cuts.picked import Picked
from solvers.heuristics.incumbent import Incumbent, each_by_itself, limits_are_kept
from solvers.heuristics.local_search import improved
from solvers.heuristics.polishing import near_counts, polished
from tests.oracle.cases import case_of
from tests.oracle.plans import check_plan
from tests.support.fleets import Case
from tests.support.rows import for_each

EXACT = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)
SEEDS = [*range(300, 308), *range(1000, 1020)]


def soon() -> float:
    return math.inf  # what ends here ends by itself


@for_each("seed", SEEDS)
def test_plans_never_get_worse_and_keep_every_rule(seed: int) -> None:
    first = each_by_itself(case_of(seed).fleet)
    if first is not None:
        better = no_worse(seed, first)
        assert [path.key for path in better.paths] == [path.key for path in first.paths]


@for_each("seed", SEEDS)
def test_other_recipes_take_their_place_for_less_only(seed: int) -> None:
    fleet = case_of(seed).fleet
    first = each_by_itself(fleet)
    if first is not None:
        no_worse(seed, first, heaviest_first(fleet))


def no_worse(seed: int, plan: Incumbent, paths: tuple[Recipe, ...] = ()) -> Incumbent:
    """The plan that a plan of a case becomes, with all that has to hold of it."""
    case = case_of(seed)
    better = polished(case.fleet, plan, "cbc", soon(), paths)
    assert better.objective <= plan.objective
    assert limits_are_kept(case.fleet, better)
    check_plan(case, better)
    return better


def heaviest_first(fleet: FleetProblem) -> tuple[Recipe, ...]:
    """A path of every recipe, with most replicas in every slot."""
    return tuple(r.only(r.first_of_each_slot(-r.uses[0].replicas)) for r in fleet.recipes if r.uses)


def test_a_better_recipe_is_found_among_other_paths() -> None:
    """A plan on boxes that cost twice as much: the LP is cheaper with the others, one by one."""
    case = shared_box()
    dear = replace(case.offers["eight"], key="dear", on_demand_usd_per_h=18.0)
    pools = [
        replace(p, apis=(), deployments=(*p.deployments, replace(p.deployments[0], key=f"dear {p.key}", offer="dear")))
        for p in case.pools
    ]
    fleet = replace(case, pools=tuple(pools), offers={**case.offers, "dear": dear}).fleet
    on_dear = replace(fleet, recipes=tuple(r for r in fleet.recipes if "dear" in r.offers))
    plan = each_by_itself(on_dear)
    assert plan is not None
    assert polished(fleet, plan, "cbc", soon()).objective == pytest.approx(18 * 730)
    assert polished(fleet, plan, "cbc", soon(), heaviest_first(fleet)).objective == pytest.approx(9 * 730)
    committed = replace(case.offers["eight"], reserved_usd_per_h={"1y": 5.0})
    offers = {"eight": committed, "dear": dear}
    held = replace(case, pools=tuple(pools), offers=offers)
    better = polished(held.fleet, plan, "cbc", soon(), heaviest_first(held.fleet))
    assert better.objective == pytest.approx(5 * 730)
    check_plan(held, better)


def test_plans_of_slots_say_which_of_several_ways_is_cheapest() -> None:
    """A fleet with other recipes, all decided, takes the place of the plan's."""
    fleet = shared_box().fleet
    by_api = replace(fleet, recipes=tuple(r for r in fleet.recipes if not r.self_hosted))
    hosted = replace(fleet, recipes=tuple(r for r in fleet.recipes if r.self_hosted))
    plan = each_by_itself(by_api)
    assert plan is not None
    assert polished(fleet, plan, "cbc", soon()).objective == pytest.approx(12 * 730)
    assert polished(fleet, plan, "cbc", soon(), (), (hosted,)).objective == pytest.approx(9 * 730)


def shared_box() -> Case:
    """Two workloads of four GPUs each on boxes of eight, or at an API that costs less than a box for either."""
    api = Api("api", np.array([6.0 / 4 / 3600]))

    def pool(w: str) -> Pool:
        return Pool(w, (w,), np.full((2, 1), 4.0), 1.0, False, (Deployment(w, "eight", 1, np.ones(1), EXACT),), (api,))

    offers = {"eight": Offer("eight", "h100", 8, 9.0)}
    return Case((pool("a"), pool("b")), offers, np.array([365.0, 365.0]), np.zeros(2, dtype=int))


def test_a_box_is_bought_that_pays_for_two_and_not_for_one() -> None:
    """Each answers the other with the API, as 9 USD/h is more than 6; both together save 3 of 12."""
    fleet = shared_box().fleet
    hosted = replace(fleet, recipes=tuple(r for r in fleet.recipes if r.self_hosted))
    apart = each_by_itself(hosted)
    assert apart is not None
    assert improved(hosted, apart).objective == pytest.approx(12 * 730)
    assert polished(hosted, apart, "cbc", soon()).objective == pytest.approx(9 * 730)


def test_work_that_may_wait_is_done_elsewhere_where_that_saves() -> None:
    """Its best answer beside the others is greedy; all its counts at once are not."""
    case = case_of(1024)
    first = each_by_itself(case.fleet)
    assert first is not None
    answered = improved(case.fleet, first)
    better = polished(case.fleet, answered, "cbc", soon())
    check_plan(case, better)
    others = [p for p in answered.paths if case.fleet.pools[p.pool].window is None]
    assert [p.footprint for p in better.paths if case.fleet.pools[p.pool].window is None] == [
        p.footprint for p in others
    ]
    assert better.objective < 0.9 * answered.objective


def test_without_time_the_plan_stays_as_it_is() -> None:
    fleet = shared_box().fleet
    plan = each_by_itself(fleet)
    assert plan is not None
    assert polished(fleet, plan, "cbc", time.monotonic() - 1) is plan


@for_each("seed", SEEDS[::2])
def test_no_slot_is_left_without_a_serving(seed: int) -> None:
    """Whatever the LP and the plan have, also where a recipe has neither of their counts."""
    case = case_of(seed)
    plan = each_by_itself(case.fleet)
    for path in plan.paths if plan is not None else ():
        recipe = next(r for r in case.fleet.recipes if r.key == path.key)
        far = replace(path, uses=tuple(replace(use, replicas=use.replicas + 1000) for use in path.uses))
        picked = Picked(recipe, 1.0, np.zeros(recipe.servings))
        nowhere = replace(picked, shares=np.full(recipe.servings, 1000.0))
        for p in (picked, nowhere):
            assert set(near_counts(recipe, p.means, 2.0, far).slot.tolist()) == set(recipe.slot.tolist())
