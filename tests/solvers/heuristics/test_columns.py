"""Between plans and columns: a plan as a warm start is a point of the program that costs what the plan costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from problems.fleet import master
from solvers.backends.solve import solve_mip
from solvers.backends.verify import verify
from solvers.heuristics.columns import as_start, from_solution
from solvers.heuristics.incumbent import each_by_itself
from solvers.heuristics.local_search import improved
from tests.oracle.cases import case_of, lever_case
from tests.oracle.plans import check_plan
from tests.support.rows import for_each

SEEDS = [*range(400, 410), *range(1000, 1050), 1054, 1143]


@for_each("seed", SEEDS)
def test_a_plan_and_back(seed: int) -> None:
    case = case_of(seed)
    fleet = case.fleet
    plan = each_by_itself(fleet)
    if plan is None:
        return
    plan = improved(fleet, plan)
    model, v = master(fleet)
    x = as_start(fleet, v, plan, model.n_columns)
    assert x is not None
    assert verify(model, x) == []
    assert model.objective(x) == pytest.approx(plan.objective, rel=1e-6)
    again = from_solution(fleet, v, x)
    assert again is not None
    assert again.objective <= plan.objective * (1 + 1e-6)
    check_plan(case, again)


def test_these_plans_have_every_lever() -> None:
    """So that no kind of column is left out of the test above."""
    kinds = set()
    for seed in SEEDS:
        fleet = case_of(seed).fleet
        plan = each_by_itself(fleet)
        if plan is not None:
            plan = improved(fleet, plan)
            model, v = master(fleet)
            x = as_start(fleet, v, plan, model.n_columns)
            assert x is not None
            kinds |= {model.column_keys[c][0] for c in np.flatnonzero(x > 1e-9).tolist()}
    assert kinds == {
        "pick", "serve", "reserved", "on-demand", "spot", "started", "waits", "sent", "gpu-type", "team",
    }  # fmt: skip


def test_a_plan_that_the_program_does_not_hold_is_no_start() -> None:
    """A recipe is missing, or one of its servings."""
    case = next(c for c in map(case_of, SEEDS) if each_by_itself(c.fleet) is not None)
    fleet = case.fleet
    plan = each_by_itself(fleet)
    assert plan is not None
    path = plan.paths[0]
    without = replace(fleet, recipes=tuple(r for r in fleet.recipes if r.key != path.key))
    if any(without.recipes_of[w] for w in path.workloads):
        model, v = master(without)
        assert as_start(without, v, plan, model.n_columns) is None
    model, v = master(fleet)
    elsewhere = tuple(replace(use, replicas=use.replicas + 100) for use in path.uses)
    moved = replace(plan, paths=(replace(path, uses=elsewhere, usd_per_h=path.usd_per_h + 1), *plan.paths[1:]))
    assert as_start(fleet, v, moved, model.n_columns) is None
    assert as_start(fleet, v, None, model.n_columns) is None


@for_each("seed", (1001, 1004, 1016, 1024))
def test_a_solution_becomes_a_plan_that_keeps_every_rule(seed: int) -> None:
    """With purchases no dearer than those of the solution."""
    case = lever_case(seed).case
    fleet = case.fleet
    model, v = master(fleet)
    found = solve_mip(model, gap_frac=1e-6)
    if found.x is None:
        return
    plan = from_solution(fleet, v, found.x)
    assert plan is not None
    assert plan.objective <= model.objective(found.x) * (1 + 1e-6)
    check_plan(case, plan)
