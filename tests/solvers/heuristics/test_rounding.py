"""Plans out of the LP: complete, within all limits, and no cheaper than the bound."""

from __future__ import annotations

import numpy as np
import pytest

from problems.fleet_problem import Offer
from problems.recipes.pools import Deployment, Pool
from problems.staffing import Staffing
from solvers.heuristics.incumbent import each_by_itself, limits_are_kept
from solvers.heuristics.rounding import MOST_PATHS, near_paths, near_the_plan, rounded_plan
from solvers.pricing.column_generation import CONVERGED_FRAC, ColumnGeneration
from tests.oracle.cases import case_of
from tests.oracle.plans import check_plan
from tests.support.fleets import Case, same_servings
from tests.support.rows import for_each

SEEDS = [*range(500, 506), *range(1000, 1016)]
EXACT = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)


def two_boxes(gpus: float = 4.0, better_usd_per_h: float = 6.0) -> Case:
    """Two workloads of four GPUs each, on single GPUs, on a box of eight of one kind, or on one of another.

    A box costs less than the single GPUs of both, and more than those of one: no single change leads there.
    """

    def pool(w: str) -> Pool:
        on = tuple(Deployment(f"{w} on {g}", g, 1, np.ones(1), EXACT) for g in ("one", "eight", "better"))
        return Pool(w, (w,), np.full((2, 1), gpus), 1.0, False, on, ())

    offers = {
        "one": Offer("one", "a100", 1, 1.0),
        "eight": Offer("eight", "h100", 8, 100.0, reserved_usd_per_h={"reserved-1y": 7.0}),
        "better": Offer("better", "h200", 8, 100.0, reserved_usd_per_h={"reserved-1y": better_usd_per_h}),
    }
    return Case((pool("a"), pool("b")), offers, np.array([365.0, 365.0]), np.zeros(2, dtype=int))


def generated(case: Case) -> ColumnGeneration | None:
    """None where no plan exists."""
    fleet = case.fleet
    generation = ColumnGeneration(fleet, lambda n, bound: None)
    if not all(generation.fleet.recipes_of[w] for w in fleet.workloads):
        return None
    return generation if generation.run(CONVERGED_FRAC).feasible else None


@for_each("seed", SEEDS)
def test_a_rounded_plan_keeps_every_rule(seed: int) -> None:
    case = case_of(seed)
    generation = generated(case)
    if generation is None:
        return
    plan = rounded_plan(generation.fleet, near_paths(generation), "cbc", 10.0)
    if plan is None:
        assert case.fleet.limited or case.max_gpu_types is not None
        return
    assert limits_are_kept(case.fleet, plan)
    check_plan(case, plan)
    assert plan.objective >= generation.bound * (1 - 1e-6)


def test_most_of_them_are_near_the_bound() -> None:
    near = found = 0
    for seed in SEEDS[:10]:
        generation = generated(case_of(seed))
        plan = rounded_plan(generation.fleet, near_paths(generation), "cbc", 10.0) if generation is not None else None
        if plan is not None and generation is not None:
            found += 1
            near += plan.objective <= generation.bound * 1.25
    assert found >= 4
    assert near >= found / 2


def test_the_program_is_small_and_knows_what_the_lp_leans_on() -> None:
    generation = generated(case_of(1004))
    assert generation is not None
    near = near_paths(generation)
    by_workloads: dict[tuple[str, ...], int] = {}
    for path in near:
        by_workloads[path.workloads] = by_workloads.get(path.workloads, 0) + 1
    leant_on = [path for path, w in zip(*generation.settled(), strict=True) if w > 1e-3]
    assert leant_on
    assert all(any(path.key == other.key and same_servings(path, other) for other in near) for path in leant_on)
    assert all(n <= 2 * MOST_PATHS + len(leant_on) for n in by_workloads.values())


def test_many_pools_have_fewer_paths_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program over all of them takes memory."""
    generation = generated(case_of(503))
    assert generation is not None
    before = len(near_paths(generation))
    monkeypatch.setattr("solvers.heuristics.rounding.PATHS", 1)
    monkeypatch.setattr("solvers.heuristics.rounding.FEWEST_PATHS", 1)
    leant_on = int((generation.settled()[1] > 1e-3).sum())
    pools = len({path.workloads for path in near_paths(generation)})
    assert len(near_paths(generation)) <= min(before - 1, leant_on + 2 * pools)


@pytest.mark.parametrize("seed", [*range(300, 308), *range(1000, 1004)])
def test_what_is_near_a_plan_holds_it_and_the_cheapest_ways(seed: int) -> None:
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
