"""Better plans from plans: never worse, every rule kept, and boxes that two half fill are shared."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from problems.fleet_problem import Offer
from problems.recipes.pools import Api, Deployment, Pool
from problems.staffing import Staffing
from solvers.heuristics.incumbent import complete, each_by_itself, limits_are_kept
from solvers.heuristics.local_search import improved, with_fewer_offers
from tests.oracle.cases import case_of
from tests.oracle.plans import check_plan
from tests.support.fleets import Case
from tests.support.rows import for_each

EXACT = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)
SEEDS = [*range(300, 315), *range(1000, 1040)]


@for_each("seed", SEEDS)
def test_plans_never_get_worse_and_keep_every_rule(seed: int) -> None:
    case = case_of(seed)
    fleet = case.fleet
    first = each_by_itself(fleet)
    if first is None:
        return
    better = improved(fleet, first)
    fewer = with_fewer_offers(fleet, better)
    assert fewer.objective <= better.objective <= first.objective
    for plan in (better, fewer):
        assert limits_are_kept(fleet, plan)
        check_plan(case, plan)


def test_some_of_them_get_better() -> None:
    saved = 0
    for seed in SEEDS:
        fleet = case_of(seed).fleet
        first = each_by_itself(fleet)
        saved += first is not None and improved(fleet, first).objective < first.objective * (1 - 1e-6)
    assert saved >= 5


def two_offers(loads: tuple[float, float] = (3.0, 3.0), **limits: object) -> Case:
    """Two workloads of a few GPUs. Boxes of 8 are cheaper by the GPU; boxes of 4 by the box."""

    def pool(w: str, load: float) -> Pool:
        on = tuple(Deployment(f"{w} on {g}", g, 1, np.ones(1), EXACT) for g in ("four", "eight"))
        return Pool(w, (w,), np.array([[load], [load]]), 1.0, False, on, (Api("api", np.array([0.02])),))

    offers = {"four": Offer("four", "a100", 4, 10.0), "eight": Offer("eight", "h100", 8, 14.0)}
    return Case(
        tuple(pool(w, load) for w, load in zip("ab", loads, strict=True)), offers, np.array([365.0, 365.0]),
        np.zeros(2, dtype=int), **limits,
    )  # fmt: skip


def test_a_box_with_room_is_shared() -> None:
    """Alone each is on a box of 4, for 20 an hour; both in one box of 8 cost 14."""
    fleet = two_offers().fleet
    first = each_by_itself(fleet)
    assert first is not None
    assert first.cost_usd_per_month == pytest.approx(20 * 730)
    assert set(first.purchases) == {"four"}
    recipes = (r for r in fleet.recipes if r.deployments in (("a on four",), ("b on eight",)))
    paths = tuple(r.only(r.first_of_each_slot(r.usd_per_h)) for r in recipes)
    apart = complete(fleet, paths)
    assert apart is not None
    assert apart.cost_usd_per_month == pytest.approx(24 * 730)
    assert improved(fleet, apart).cost_usd_per_month == pytest.approx(14 * 730)


def test_an_offer_is_given_up_where_that_saves() -> None:
    """No workload gains by leaving its box alone: both must move, which answers one at a time never find."""
    fleet = two_offers().fleet
    first = each_by_itself(fleet)
    assert first is not None
    assert improved(fleet, first).cost_usd_per_month == pytest.approx(20 * 730)
    assert with_fewer_offers(fleet, first).cost_usd_per_month == pytest.approx(14 * 730)


@pytest.mark.parametrize(
    "limits", [{"max_gpus": {"h100": 0}}, {"max_gpus": {"h100": 7}}], ids=["none of a kind", "less than a box"]
)
def test_a_cheaper_plan_beyond_a_limit_is_not_taken(limits: dict) -> None:
    case = two_offers(**limits)
    first = each_by_itself(case.fleet)
    assert first is not None
    for plan in (improved(case.fleet, first), with_fewer_offers(case.fleet, first)):
        assert "eight" not in plan.purchases
        check_plan(case, plan)


def test_one_kind_of_gpu_is_kept_to() -> None:
    """For 8 GPUs and 3 two kinds are cheapest: 14 and 10 an hour; with one kind 28."""
    free = two_offers((8.0, 3.0))
    first = each_by_itself(free.fleet)
    assert first is not None
    assert len(improved(free.fleet, first).purchases) == 2
    one_kind = replace(free, max_gpu_types=1)
    first = each_by_itself(one_kind.fleet)
    assert first is not None
    for plan in (improved(one_kind.fleet, first), with_fewer_offers(one_kind.fleet, first)):
        check_plan(one_kind, plan)


def test_late_is_late() -> None:
    """Without any time left the plan comes back as it was."""
    fleet = two_offers().fleet
    first = each_by_itself(fleet)
    assert first is not None
    assert improved(fleet, first, deadline=time.monotonic() - 1) is first
    assert with_fewer_offers(fleet, first, deadline=time.monotonic() - 1) is first
