"""Boxes beyond commitments: what is said of workloads holds for every whole plan, and plans lend each other none."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from problems.beyond_commitments import ALWAYS, Beyond, Counts, boxes_beyond, each_alone, made_valid_beyond
from problems.fleet import master
from problems.fleet_problem import FleetProblem, Offer
from problems.recipes.recipe import Recipe, Use
from solvers.backends.highs import solve_lp
from solvers.backends.solve import solve_mip
from solvers.cuts.beyond_commitments import always_beyond, counts_beyond, surely_enough
from solvers.cuts.separation import parts_of_boxes
from solvers.pricing.dual_bound import dual_bound_of, lifted
from tests.oracle.cases import case_of
from tests.solvers.cuts.test_rounding_up import least_short, random_shares
from tests.solvers.cuts.test_separation import picked
from tests.support.rows import for_each

PLAIN = 1e-4
"""counts are rounded down to plain numbers"""


def random_counts(rng: np.random.Generator, box: int, held: int) -> Counts:
    """Whatever it is, it is made valid; of some GPUs nothing is said at first."""
    most = {w: int(rng.integers(1, 2 * box + 1)) for w in "abc"[: int(rng.integers(1, 4))]}
    drawn = {w: np.where(rng.random(n + 1) < 0.7, rng.uniform(-1, 2, n + 1), -np.inf) for w, n in most.items()}
    for own in drawn.values():
        own[0] = rng.uniform(-1, 1)
    return made_valid_beyond(drawn, {w: np.ones(len(own), dtype=bool) for w, own in drawn.items()}, box, held)


@for_each("seed", range(60))
def test_every_whole_plan_keeps_it(seed: int) -> None:
    """With at most so many commitments, by what is bought by the hour; with at least so many, by all that is bought."""
    rng = np.random.default_rng(seed)
    box, held = int(rng.choice([2, 3, 4])), int(rng.integers(1, 3))
    keeps_it(random_counts(rng, box, held), box, held)


@for_each("held", [1, 2, 3])
@for_each("box", [1, 2, 3, 4])
def test_what_each_alone_begins_beyond_commitments_adds_up(box: int, held: int) -> None:
    keeps_it(each_alone(box, held, dict.fromkeys("abc", box * (held + 1) + 1)), box, held)


def test_without_commitments_it_would_not() -> None:
    """Two workloads that begin a box each may share one."""
    with pytest.raises(AssertionError):
        each_alone(2, 0, {"a": 1, "b": 1})


def keeps_it(counts: Counts, box: int, held: int) -> None:
    by_hour = Beyond("in-use", "g", 0, counts, held, by_hour=True)
    at_least = replace(by_hour, by_hour=False)
    more = 3  # than a function knows
    group = Beyond.by_slot([by_hour], 1)
    tables = {w: group.table((w,), np.arange(len(own) + more))[0] for w, own in counts.items()}
    for plan in itertools.product(*(range(len(table)) for table in tables.values())):
        said = sum(table[n] for table, n in zip(tables.values(), plan, strict=True))
        boxes = math.ceil(sum(plan) / box)
        assert max(0, boxes - held) - said >= by_hour.rhs - 1e-9
        for commitments in range(4):
            if commitments <= held:
                assert max(0, boxes - commitments) - said >= by_hour.rhs - 1e-9
            if commitments >= held:
                assert max(commitments, boxes) - said >= at_least.rhs - 1e-9


@for_each("seed", range(30))
def test_counts_never_fall(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for own in random_counts(rng, 4, 1).values():
        assert (np.diff(own) >= -1e-12).all()


def test_boxes_beyond_those_held() -> None:
    assert boxes_beyond(4, 1, 9).tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1, 2]


@for_each("seed", range(40))
def test_the_row_that_is_found_says_all_that_can_be_said(seed: int) -> None:
    rng = np.random.default_rng(seed)
    box, held = int(rng.choice([2, 4])), int(rng.integers(1, 3))
    shares = {f"w{k}": random_shares(rng, 3 * box, 0.4) for k in range(int(rng.integers(1, 4)))}
    can = {w: np.ones(len(share), dtype=bool) for w, share in shares.items()}
    counts = counts_beyond(shares, can, box, held)
    reached = sum(float(share @ counts[w]) for w, share in shares.items())
    least = least_short(list(shares.values()), [lambda plan: max(0, math.ceil(sum(plan) / box) - held)], [0.0])
    assert reached == pytest.approx(least, abs=2e-3)
    assert surely_enough(shares, box, held) >= least - 1e-9


def test_what_is_not_known_counts_as_the_most_that_is() -> None:
    counts = {"a": np.array([0.0, 0.0, 1.0])}
    few = Beyond("in-use", "g", 0, counts, 0, by_hour=True)
    many = Beyond("in-use", "g", 1, {"a": np.array([0.0, 0.0, 1.0, 1.0, 2.0])}, 0, by_hour=True)
    group = Beyond.by_slot([few, many], 3)
    assert group.table(("a",), np.arange(6)).tolist() == [[0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 2, 2], [0] * 6]
    assert group.table(("b",), np.arange(6)) is None


def three_boxes_or_one(held: tuple[int, int | None]) -> FleetProblem:
    """A workload that fills three boxes, or one and pays 8 USD/h to somebody else; a box by the hour is 10 USD/h."""

    def recipe(name: str, boxes: int, usd_per_h: float) -> Recipe:
        use = Use(name, "big", 8, np.array([boxes]), np.array([boxes]), np.array([1.0]))
        zero = np.zeros(1)
        return Recipe(name, ("a",), (use,), None, np.array([0]), np.array([usd_per_h]), zero, zero)

    offers = {"big": Offer("big", "h100", 8, 10.0, reserved_usd_per_h={"reserved-1y": 1.0})}
    recipes = (recipe("three", 3, 0.0), recipe("one", 1, 8.0))
    hours, month = np.array([730.0]), np.zeros(1, dtype=int)
    return FleetProblem(("a",), hours, month, offers, {}, recipes, held={("big", "reserved-1y"): held})


@pytest.mark.parametrize("held", [(2, 2), (0, 2), (2, None)])
def test_what_stands_idle_in_one_plan_is_of_no_use_to_another(held: tuple[int, int | None]) -> None:
    """Half of each plan seems to need two boxes, which are held; but either the third is bought, or one is idle."""
    plain = three_boxes_or_one((2, 2))
    assert solve_lp(master(plain)[0]).objective == pytest.approx(730 * (2 + 4))
    fleet = three_boxes_or_one(held)
    for _ in range(4):
        model, v = master(fleet)
        lp = solve_lp(model)
        assert lp.x is not None
        fleet = fleet.with_whole_boxes(*parts_of_boxes(fleet, picked(fleet, v, lp.x), v, lp.x))
    best = solve_mip(master(three_boxes_or_one(held))[0])
    assert best.objective is not None
    assert solve_mip(master(fleet)[0]).objective == pytest.approx(best.objective)
    if held == (2, 2):
        assert best.objective == pytest.approx(730 * (2 + 8))
        assert solve_lp(master(fleet)[0]).objective == pytest.approx(best.objective, rel=PLAIN)


@for_each("seed", range(1000, 1030))
def test_rows_leave_the_optimum_where_it_is(seed: int) -> None:
    """With every number of commitments up to two, decided from below, from above and both."""
    fleet = case_of(seed).fleet
    recipes = tuple(r.only(r.first_of_each_slot(r.usd_per_h)) for r in fleet.recipes if r.deferral is None)
    fleet = replace(fleet, recipes=recipes, budget_usd_per_month=None)
    if {w for r in recipes for w in r.workloads} != set(fleet.workloads):
        return
    terms = [(g, term) for g, offer in fleet.offers.items() if offer.box > 1 for term in offer.reserved_usd_per_h]
    for way in ((1, 1), (0, 1), (1, None), (2, 2)):
        decided = replace(fleet, held=dict.fromkeys(terms, way))
        best = solve_mip(master(decided)[0])
        if best.objective is None:
            continue
        sharp = decided.with_whole_boxes((), always_beyond(decided))
        for _ in range(5):
            model, v = master(sharp)
            lp = solve_lp(model)
            assert lp.x is not None
            sharp = sharp.with_whole_boxes(*parts_of_boxes(sharp, picked(sharp, v, lp.x), v, lp.x))
        assert solve_mip(master(sharp)[0]).objective == pytest.approx(best.objective, rel=1e-6)


def test_rows_that_stay_are_there_for_decided_commitments_only() -> None:
    assert not always_beyond(replace(three_boxes_or_one((0, None)), held={}))
    assert not always_beyond(three_boxes_or_one((0, 0)))
    for held, by_hour, number in (((2, None), False, 2), ((1, 3), True, 3), ((2, 2), True, 2)):
        rows = always_beyond(three_boxes_or_one(held))
        assert {key[3] for key in rows} == {ALWAYS}
        assert {(row.by_hour, row.held) for row in rows.values()} == {(by_hour, number)}


@pytest.mark.parametrize("held", [(2, None), (0, 2), (2, 2)])
def test_beyond_commitments_no_gpu_is_free(held: tuple[int, int | None]) -> None:
    """The LP uses fewer boxes than are held, so a GPU has no price; those beyond have one, and no bound falls."""
    fleet = three_boxes_or_one(held)
    fleet = replace(fleet, recipes=fleet.recipes[1:])
    fleet = fleet.with_whole_boxes((), always_beyond(fleet))
    model, v = master(fleet)
    lp = solve_lp(model)
    assert lp.row_duals is not None
    duals = dict(zip(model.row_keys, lp.row_duals.tolist(), strict=True))
    if held[0]:
        assert duals["in-use", "big", 0] == pytest.approx(0.0)
    paid = {"a": duals["served", "a"]}
    raised = lifted(fleet, model, v, duals)
    beyond = raised["rounded", "in-use", "big", 0, ALWAYS] + raised["in-use", "big", 0] * fleet.offers["big"].box
    assert beyond > 0
    assert dual_bound_of(model, raised, paid) >= dual_bound_of(model, duals, paid) - 1e-6
