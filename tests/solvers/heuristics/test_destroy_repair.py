"""Workloads taken out and put back: never worse, every rule kept, and found what no single change pays for."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pytest

from problems.fleet_problem import Offer
from problems.recipes.pools import Deployment, Pool
from problems.staffing import Staffing
from solvers.heuristics.destroy_repair import MOST_IN_VAIN, near_the_plan, repaired, scattered
from solvers.heuristics.incumbent import each_by_itself, limits_are_kept
from solvers.heuristics.local_search import improved, put_back
from solvers.pricing.column_generation import CONVERGED_FRAC, ColumnGeneration
from tests.oracle.cases import case_of
from tests.oracle.plans import check_plan
from tests.support.fleets import Case
from tests.support.rows import for_each

EXACT = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)
SEEDS = [*range(300, 308), *range(1000, 1020)]


def soon() -> float:
    return math.inf  # what ends here ends by itself


@for_each("seed", SEEDS)
def test_plans_never_get_worse_and_keep_every_rule(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solvers.heuristics.destroy_repair.MOST_IN_VAIN", 40)
    case = case_of(seed)
    first = each_by_itself(case.fleet)
    if first is None:
        return
    better = repaired(case.fleet, first, soon())
    assert better.objective <= first.objective
    assert limits_are_kept(case.fleet, better)
    check_plan(case, better)


@for_each("seed", SEEDS)
def test_scattered_plans_keep_every_rule(seed: int) -> None:
    case = case_of(seed)
    first = each_by_itself(case.fleet)
    if first is None:
        return
    for n in range(3):
        other = scattered(case.fleet, first, soon(), n)
        assert limits_are_kept(case.fleet, other)
        check_plan(case, other)


def test_scattered_plans_are_others() -> None:
    fleet = two_boxes().fleet
    first = each_by_itself(fleet)
    assert first is not None
    costs = {round(scattered(fleet, first, soon(), n).objective) for n in range(20)}
    assert len(costs) > 1


def two_boxes() -> Case:
    """Two workloads of four GPUs each, on single GPUs, on a box of eight of one kind, or on one of another.

    A box costs less than the single GPUs of both, and more than those of one.
    """

    def pool(w: str) -> Pool:
        on = tuple(Deployment(f"{w} on {g}", g, 1, np.ones(1), EXACT) for g in ("one", "eight", "better"))
        return Pool(w, (w,), np.full((2, 1), 4.0), 1.0, False, on, ())

    offers = {
        "one": Offer("one", "a100", 1, 1.0),
        "eight": Offer("eight", "h100", 8, 100.0, reserved_usd_per_h={"reserved-1y": 7.0}),
        "better": Offer("better", "h200", 8, 100.0, reserved_usd_per_h={"reserved-1y": 6.0}),
    }
    return Case((pool("a"), pool("b")), offers, np.array([365.0, 365.0]), np.zeros(2, dtype=int))


def test_workloads_move_to_a_commitment_together() -> None:
    """Neither pays by itself to leave its single GPUs; nor does another box for one of the two."""
    fleet = two_boxes().fleet
    alone = each_by_itself(fleet)
    assert alone is not None
    assert improved(fleet, alone).objective == pytest.approx(8 * 730)
    assert repaired(fleet, alone, soon()).objective == pytest.approx(6 * 730)


def test_one_box_is_given_up_for_another() -> None:
    fleet = two_boxes().fleet
    without = replace(fleet, recipes=tuple(r for r in fleet.recipes if "better" not in r.offers))
    alone = each_by_itself(without)
    assert alone is not None
    on_eight = repaired(without, alone, soon())
    assert on_eight.objective == pytest.approx(7 * 730)
    assert improved(fleet, on_eight).objective == pytest.approx(7 * 730)
    assert repaired(fleet, on_eight, soon()).objective == pytest.approx(6 * 730)


def test_it_ends_when_nothing_is_gained(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = two_boxes().fleet
    tried = []
    monkeypatch.setattr("solvers.heuristics.destroy_repair.put_back", lambda *given: tried.append(given))
    alone = each_by_itself(fleet)
    assert alone is not None
    assert repaired(fleet, alone, soon()) is alone
    assert len(tried) == MOST_IN_VAIN
    assert repaired(fleet, alone, time.monotonic() - 1) is alone


def test_who_comes_back_takes_the_cheapest_way_beside_the_others() -> None:
    fleet = two_boxes().fleet
    alone = each_by_itself(fleet)
    assert alone is not None
    back = put_back(fleet, alone, [alone.paths[0]], {}, np.ones)
    assert back is not None
    assert back.objective == pytest.approx(alone.objective)
    held = put_back(fleet, alone, list(alone.paths), {"better": 1}, np.ones)
    assert held is not None
    assert {g for path in held.paths for g in path.offers} == {"better"}


@for_each("seed", SEEDS[:12])
def test_what_is_worth_shaking_holds_the_plan_and_the_cheapest_ways(seed: int) -> None:
    fleet = case_of(seed).fleet
    plan = each_by_itself(fleet)
    found = ColumnGeneration(fleet, lambda n, bound: None).run(CONVERGED_FRAC)
    if plan is None or not found.feasible:
        return
    near = near_the_plan(found.fleet, found.priced, plan)
    keys = {recipe.key for recipe in near.recipes}
    assert {path.key for path in plan.paths} <= keys
    for recipe in near.recipes:
        assert len(np.unique(recipe.slot)) == len(fleet.slot_hours)
    for p in found.priced:
        if p.value <= min(q.value for q in found.priced if q.recipe.workloads == p.recipe.workloads):
            assert p.recipe.key in keys
