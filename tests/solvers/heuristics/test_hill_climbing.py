"""Recipes and commitments changed one by one: the LP only gets cheaper; in the end no single change saves enough."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest

from problems.fleet import master
from problems.fleet_problem import FleetProblem, Held
from solvers.backends.highs import WarmLp, solve_lp
from solvers.backends.result import Status
from solvers.heuristics.hill_climbing import WORTH_FRAC, Climb
from solvers.heuristics.incumbent import each_by_itself
from tests.oracle.cases import case_of
from tests.support.rows import for_each

SEEDS = [*range(300, 308), *range(1000, 1016)]


def soon() -> float:
    return math.inf  # what ends here ends by itself


def cost(fleet: FleetProblem, keys: list[tuple], held: Held) -> float:
    """Of the LP with these recipes and commitments alone, from nowhere; infinite where limits forbid them."""
    alone = replace(fleet, recipes=tuple(r for r in fleet.recipes if r.key in set(keys)), held=fleet.held | held)
    lp = solve_lp(master(alone)[0])
    return lp.objective if lp.status is Status.OPTIMAL and lp.objective is not None else float("inf")


def climbed(seed: int) -> tuple[FleetProblem, list[tuple], Held, Climb, bool] | None:
    fleet = case_of(seed).fleet
    plan = each_by_itself(fleet)
    if plan is None:
        return None
    keys = [path.key for path in plan.paths]
    model, v = master(fleet)
    held: Held = {
        (g, term): (plan.purchases[g].reserved.get(term, 0) if g in plan.purchases else 0,) * 2
        for g, term in v.reserved
        if fleet.offers[g].box > 1
    }
    lp = WarmLp(model)
    climb = Climb(fleet, v, lp, keys, held)
    for key, (boxes, _) in held.items():
        lp.decide([v.reserved[key]], float(boxes), float(boxes))
    if lp.solve() is None:
        return None
    return fleet, keys, held, climb, climb.up(soon())


@for_each("seed", SEEDS)
def test_in_the_end_no_single_change_saves_enough(seed: int) -> None:
    """Prices say which changes are worth solving the LP for; here all of them are solved."""
    found = climbed(seed)
    if found is None:
        return
    fleet, keys, held, climb, changed = found
    usd = cost(fleet, climb.keys, climb.held)
    assert climb.lp.solve() is not None
    assert climb.lp.objective == pytest.approx(usd, rel=1e-6)
    before = cost(fleet, keys, held)
    assert (climb.keys != keys or climb.held != held) == changed
    assert usd < before * (1 - WORTH_FRAC * (1 - 1e-3)) if changed else usd == pytest.approx(before, rel=1e-9)
    enough = usd * (1 - WORTH_FRAC) - 1e-6 * usd
    for k, key in enumerate(climb.keys):
        for other in climb.others[climb.workloads[key]] - {key}:
            assert cost(fleet, [*climb.keys[:k], other, *climb.keys[k + 1 :]], climb.held) >= enough
    for term, (boxes, _) in climb.held.items():
        for n in {boxes + 1, max(0, boxes - 1)} - {boxes}:
            assert cost(fleet, climb.keys, climb.held | {term: (n, n)}) >= enough


def test_some_change() -> None:
    assert sum(found[-1] for seed in SEEDS if (found := climbed(seed)) is not None) >= 3


def test_without_time_nothing_changes() -> None:
    fleet = case_of(1003).fleet
    plan = each_by_itself(fleet)
    assert plan is not None
    model, v = master(fleet)
    climb = Climb(fleet, v, WarmLp(model), [path.key for path in plan.paths], {})
    assert climb.lp.solve() is not None
    assert not climb.up(time.monotonic() - 1)
