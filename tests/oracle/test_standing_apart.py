"""Bounds that know that replicas stand apart are no higher than the optimum, and plans no cheaper."""

from __future__ import annotations

import math

import pytest

import solvers.cuts.separation
from problems.standing_apart import Apart
from solvers.cuts.standing_apart import standing_apart
from solvers.heuristics.incumbent import Incumbent
from solvers.search.fleet_solution import Options
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.apart_cases import apart_case
from tests.oracle.brute_force import brute_force
from tests.oracle.plans import check_plan
from tests.support.fleets import Case

SEEDS = range(30)


def is_kept(cut: Apart, case: Case, plan: Incumbent) -> bool:
    """Whether a plan, which hides a bound that is too high where it is the best, has the boxes that a cut asks for."""
    slots = Apart.by_slot([cut], len(case.slot_hours))
    needed = cut.rhs + sum(float(slots.use(path)[path.slot == cut.slot].sum()) for path in plan.paths)
    bought = plan.purchases.get(cut.offer)
    has = case.offers[cut.offer].on_hand
    if bought is not None:
        has += sum(bought.reserved.values()) + int(bought.on_demand[cut.slot])
        has += int(bought.spot[cut.slot]) if cut.of == "in-use" else 0
    return needed <= has + 1e-6


@pytest.mark.smoke
def test_bounds_hold_where_cuts_about_replicas_that_stand_apart_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brute force tells deployments of one size not apart, which is no more than standing apart takes."""
    found: list[Apart] = []

    def kept(*args: object) -> dict[int, Apart]:
        cuts = standing_apart(*args)  # type: ignore[arg-type]
        found.extend(cuts.values())
        return cuts

    monkeypatch.setattr(solvers.cuts.separation, "standing_apart", kept)
    with_cuts = at_the_optimum = 0
    for seed in SEEDS:
        case = apart_case(seed)
        found.clear()
        least = brute_force(case, stand_apart=True).objective
        solution = solve_fleet(case.fleet, Options(gap_frac=0.0))
        with_cuts += bool(found)
        if solution.best is None:
            assert least == math.inf
            continue
        assert solution.bound_usd_per_month <= least * (1 + 1e-9) + 1e-6, seed
        assert solution.objective >= least * (1 - 1e-9) - 1e-6, seed
        at_the_optimum += solution.objective <= least * (1 + 1e-9)
        check_plan(case, solution.best)
        assert all(is_kept(cut, case, solution.best) for cut in found), seed
    assert with_cuts >= 12
    assert at_the_optimum >= 24
