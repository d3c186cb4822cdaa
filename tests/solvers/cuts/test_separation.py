"""Rows about whole boxes: found where an LP buys parts of boxes, and never where a plan buys them whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from problems.fleet import master
from problems.fleet_problem import FleetProblem, Offer
from problems.fleet_variables import Variables
from problems.recipes.pools import Deployment, Pool
from problems.rounding_up import BOTH, Rounded
from problems.staffing import Staffing
from solvers.backends.highs import solve_lp
from solvers.backends.solve import solve_mip
from solvers.cuts.picked import Picked
from solvers.cuts.separation import ROWS_OF_A_SLOT, parts_of_boxes
from solvers.heuristics.columns import as_start
from solvers.heuristics.incumbent import each_by_itself
from tests.oracle.cases import lever_case
from tests.support.fleets import Case, random_case
from tests.support.rows import for_each

EXACT = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)


def boxes_of_eight(*loads: float) -> FleetProblem:
    """Workloads of so many GPUs each, in one slot, on boxes of 8 that are bought on demand."""
    pools = tuple(
        Pool(f"w{k}", (f"w{k}",), np.array([[load]]), 1.0, False,
             (Deployment(f"w{k} on big", "big", 1, np.ones(1), EXACT),), ())
        for k, load in enumerate(loads)
    )  # fmt: skip
    return Case(pools, {"big": Offer("big", "h100", 8, 10.0)}, np.array([730.0]), np.zeros(1, dtype=int)).fleet


def solved(fleet: FleetProblem) -> tuple[float, Variables, np.ndarray]:
    model, v = master(fleet)
    lp = solve_lp(model)
    assert lp.x is not None
    assert lp.objective is not None
    return lp.objective / 7300, v, lp.x


def picked(fleet: FleetProblem, v: Variables, x: np.ndarray) -> list[Picked]:
    weights = [float(x[v.pick[r]]) for r in range(len(fleet.recipes))]
    return [Picked(path, w, np.full(path.servings, w)) for path, w in zip(fleet.recipes, weights, strict=True)]


def sharpened(fleet: FleetProblem) -> tuple[FleetProblem, bool]:
    """With the rows that its LP breaks, and whether there were any; all recipes here are paths."""
    _, v, x = solved(fleet)
    own, rounded = parts_of_boxes(fleet, picked(fleet, v, x), v, x)
    return replace(fleet, own_boxes=fleet.own_boxes | own, rounded=fleet.rounded | rounded), bool(own or rounded)


def test_a_workload_alone_gets_whole_boxes() -> None:
    fleet = boxes_of_eight(3)
    assert solved(fleet)[0] == pytest.approx(3 / 8)
    sharp, found = sharpened(fleet)
    assert found
    assert sharp.own_boxes == {("in-use", "w0", "big", 0), ("firm", "w0", "big", 0)}
    assert solved(sharp)[0] == pytest.approx(1.0)


def test_workloads_together_get_whole_boxes() -> None:
    """Two of five GPUs fill two boxes, though each alone needs only one."""
    fleet = boxes_of_eight(5, 5)
    assert solved(fleet)[0] == pytest.approx(10 / 8)
    sharp, _ = sharpened(fleet)
    assert [(key, *cut.parts) for key, cut in sharp.rounded.items()] == [((BOTH, "big", 0, 0), "w0", "w1")]
    assert solved(sharp)[0] == pytest.approx(2.0, rel=1e-4)
    assert not sharpened(sharp)[1]


def test_full_boxes_need_no_rows() -> None:
    fleet = boxes_of_eight(4, 4)
    assert not sharpened(fleet)[0].rounded
    assert solved(sharpened(fleet)[0])[0] == pytest.approx(1.0)


def test_boxes_of_one_gpu_need_no_rows() -> None:
    fleet = boxes_of_eight(3, 5)
    fleet = replace(fleet, offers={"big": replace(fleet.offers["big"], box=1)})
    assert not sharpened(fleet)[1]


def test_no_more_rows_than_a_slot_may_have() -> None:
    fleet = boxes_of_eight(5, 5)
    said = {(BOTH, "big", 0, n): Rounded("big", 0, 8, {"w0": np.zeros((8, 8))}) for n in range(ROWS_OF_A_SLOT)}
    sharp, _ = sharpened(replace(fleet, rounded=said))
    assert sharp.rounded.keys() == said.keys()


@for_each("seed", range(200, 230))
def test_a_whole_plan_breaks_no_row(seed: int) -> None:
    """Whatever is found when the LP is solved, a plan with whole boxes keeps, and it costs what it did."""
    case = random_case(seed, limits=False, max_utilization=6.0) if seed % 2 else lever_case(seed).case
    fleet = case.fleet
    plan = each_by_itself(fleet)
    if plan is None:
        return
    fleet = replace(fleet, recipes=plan.paths)
    model, v = master(fleet)
    x = as_start(fleet, v, plan, model.n_columns)
    assert x is not None
    assert parts_of_boxes(fleet, picked(fleet, v, x), v, x) == (set(), {})


@for_each("seed", range(240, 252))
def test_rows_leave_the_optimum_where_it_is(seed: int) -> None:
    """And the LP nowhere below where it was."""
    case = replace(random_case(seed, limits=False, max_utilization=6.0), team_usd_per_month=0.0)
    fleet = case.fleet
    recipes = tuple(r.only(r.first_of_each_slot(r.usd_per_h)) for r in fleet.recipes)
    fleet = replace(fleet, recipes=recipes)
    model = master(fleet)[0]
    before = solve_mip(model)
    if before.x is None:
        return
    sharp, found = fleet, True
    for _ in range(6):
        if found:
            sharp, found = sharpened(sharp)
    after = solve_mip(master(sharp)[0])
    assert after.objective == pytest.approx(before.objective, rel=1e-6)
    assert solved(sharp)[0] >= solved(fleet)[0] * (1 - 1e-9)
