"""Plans at the end of a dive: every rule is kept, none is cheaper than the cheapest, and shared boxes are found."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from problems.fleet_problem import FleetProblem
from solvers.heuristics.diving import Dives
from solvers.heuristics.incumbent import Incumbent, limits_are_kept
from solvers.pricing.column_generation import CONVERGED_FRAC, ColumnGeneration
from tests.oracle.cases import case_of, truth_of
from tests.oracle.plans import check_plan
from tests.solvers.heuristics.test_rounding import two_boxes
from tests.support.rows import for_each

SEEDS = [*range(300, 310), *range(1000, 1040)]


def soon() -> float:
    return math.inf  # what ends here ends by itself


def priced(fleet: FleetProblem) -> ColumnGeneration:
    generation = ColumnGeneration(fleet, lambda n, bound: None)
    generation.run(CONVERGED_FRAC)
    return generation


def best_of(plans: Iterator[Incumbent]) -> Incumbent | None:
    """What a dive ends with; a plan that comes later never costs more."""
    found = list(plans)
    assert all(later.objective <= earlier.objective for earlier, later in pairwise(found))
    return found[-1] if found else None


@cache
def dives_of(seed: int) -> list[Incumbent]:
    """Out of the LP of a case: the one that takes the largest share, and some others."""
    generation = priced(case_of(seed).fleet)
    if not generation.feasible:
        return []
    held = tuple(generation.paths.held)
    dives = Dives(generation.fleet, held)
    plans = [best_of(dives.dived("cbc", soon(), n)) for n in range(3)]
    return [plan for plan in plans if plan is not None]


@for_each("seed", SEEDS)
def test_dives_keep_every_rule_and_are_never_cheaper_than_the_cheapest(seed: int) -> None:
    case = case_of(seed)
    for plan in dives_of(seed):
        assert limits_are_kept(case.fleet, plan)
        check_plan(case, plan)
        if seed >= 1000:
            assert plan.objective >= truth_of(seed).objective * (1 - 1e-7)


def test_nearly_all_of_them_end_and_many_at_the_cheapest_plan() -> None:
    ended = [seed for seed in SEEDS if dives_of(seed)]
    possible = [seed for seed in SEEDS if priced(case_of(seed).fleet).feasible]
    assert len(ended) >= 0.8 * len(possible)
    known = [seed for seed in ended if seed >= 1000]
    best = [
        seed
        for seed in known
        if min(plan.objective for plan in dives_of(seed)) <= truth_of(seed).objective * (1 + 1e-6)
    ]
    assert len(best) >= 0.5 * len(known)


def test_a_box_is_found_that_two_workloads_fill() -> None:
    """No single change leads there from single GPUs (tests/solvers/heuristics/test_rounding.py)."""
    generation = priced(two_boxes().fleet)
    plan = best_of(Dives(generation.fleet, tuple(generation.paths.held)).dived("cbc", soon()))
    assert plan is not None
    assert plan.objective == pytest.approx(6 * 730)


def test_commitments_that_are_decided_stay_so() -> None:
    fleet = replace(two_boxes().fleet, held={("better", "reserved-1y"): (0, 0)})
    generation = priced(fleet)
    plan = best_of(Dives(generation.fleet, tuple(generation.paths.held)).dived("cbc", soon()))
    assert plan is not None
    assert plan.objective == pytest.approx(7 * 730)


def test_the_same_draw_leads_to_the_same_plan() -> None:
    generation = priced(case_of(1012).fleet)
    held = tuple(generation.paths.held)
    for n in range(3):
        one, other = (best_of(Dives(generation.fleet, held).dived("cbc", soon(), n)) for _ in range(2))
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert one.objective == other.objective
            assert all(
                np.array_equal(a.slot, b.slot) and a.key == b.key for a, b in zip(one.paths, other.paths, strict=True)
            )


def test_late_is_late() -> None:
    generation = priced(two_boxes().fleet)
    assert not list(Dives(generation.fleet, tuple(generation.paths.held)).dived("cbc", time.monotonic() - 1))


@for_each("seed", SEEDS[::5])
def test_a_dive_does_not_depend_on_those_before_it(seed: int) -> None:
    generation = priced(case_of(seed).fleet)
    if not generation.feasible:
        return
    held = tuple(generation.paths.held)
    together, last = Dives(generation.fleet, held), None
    for n in range(3):
        last = together._recipes_and_commitments(soon(), n)
    alone = Dives(generation.fleet, held)._recipes_and_commitments(soon(), 2)
    assert (last is None) == (alone is None)
    if last is not None and alone is not None:
        assert last.known_as == alone.known_as


@for_each("seed", SEEDS[::5])
def test_what_was_decided_before_is_not_counted_again(seed: int) -> None:
    generation = priced(case_of(seed).fleet)
    if not generation.feasible:
        return
    dives = Dives(generation.fleet, tuple(generation.paths.held))
    first = dives.decided(soon())
    assert first is None or len(first.recipes) == len({recipe.key for recipe in first.recipes})
    assert dives.decided(soon()) is None
    assert not list(dives.dived("cbc", soon()))


def test_a_dive_ends_where_it_cannot_lead_below_what_is_known() -> None:
    generation = priced(two_boxes().fleet)

    def dives() -> Dives:
        return Dives(generation.fleet, tuple(generation.paths.held))

    plan = best_of(dives().dived("cbc", soon()))
    assert plan is not None
    assert list(dives().dived("cbc", soon(), 0, plan.objective * 2))
    assert not list(dives().dived("cbc", soon(), 0, generation.bound / 2))
