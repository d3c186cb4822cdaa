"""Boxes are bought whole: what is said of several workloads holds for every whole plan, and forbids parts of boxes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from problems.fleet import master
from problems.fleet_problem import FleetProblem, Offer
from problems.model import Column, Row, build_model
from problems.recipes.pools import Deployment, Pool
from problems.recipes.recipe import Recipe, Use
from problems.rounding_up import BOTH, Parts, Rounded, boxes_begun, made_valid, most_together
from problems.staffing import Staffing
from solvers.backends.highs import solve_lp
from solvers.backends.solve import solve_mip
from solvers.cuts.rounding_up import each_by_itself, parts_begun
from tests.support.fleets import Case
from tests.support.rows import for_each

Ways = list[tuple[tuple[str, ...], int, int]]
"""who is served, with how many GPUs, and how many of them firm"""
ROUNDED = 1e-4
"""parts are rounded down to plain numbers"""


def random_parts(rng: np.random.Generator, workloads: list[str], box: int, firm_frac: float) -> Parts:
    """Whatever it is, it is made valid; some workloads have none."""
    drawn = {w: rng.uniform(-1, 2, (box, box)) for w in workloads if rng.random() < 0.8}
    drawn = drawn or {workloads[0]: np.zeros((box, box))}
    return made_valid(drawn, {w: np.ones((box, box), dtype=bool) for w in drawn}, box, firm_frac)


def random_instance(seed: int) -> tuple[Rounded, list[str], Ways]:
    """An inequality, and ways to serve workloads: some that the inequality is about, alone and together."""
    rng = np.random.default_rng(seed)
    box, firm_frac = int(rng.choice([2, 3, 4, 8])), float(rng.choice([0.0, 0.25, 0.6, 1.0]))
    workloads = [f"w{k}" for k in range(int(rng.integers(2, 5)))]
    ways: Ways = [((w,), int(n), int(rng.integers(0, n + 1))) for w in workloads for n in rng.integers(0, 3 * box, 3)]
    for size in range(2, len(workloads) + 1):
        for some in itertools.combinations(workloads, size):
            if rng.random() < 0.4:
                n = int(rng.integers(0, 4 * box))
                ways.append((some, n, int(rng.integers(0, n + 1))))
    return Rounded("g", 0, box, random_parts(rng, workloads, box, firm_frac), firm_frac), workloads, ways


def coefficients(cut: Rounded, workloads: tuple[str, ...], gpus: np.ndarray, firm: np.ndarray) -> np.ndarray:
    return cut.by_slot([cut], cut.slot + 1).of(workloads, np.full(len(gpus), cut.slot), gpus, firm)


def plans(workloads: list[str], ways: Ways) -> Iterator[Ways]:
    """Every choice of ways that covers each workload once."""
    if not workloads:
        yield []
        return
    for way in ways:
        if workloads[0] in way[0] and set(way[0]) <= set(workloads):
            for rest in plans([w for w in workloads if w not in way[0]], ways):
                yield [way, *rest]


@for_each("seed", range(60))
def test_every_whole_plan_keeps_it(seed: int) -> None:
    cut, workloads, ways = random_instance(seed)
    coefficient = {way: float(coefficients(cut, way[0], *np.array([[way[1]], [way[2]]]))[0]) for way in ways}
    checked = 0
    for plan in plans(workloads, ways):
        bought, firm = (math.ceil(sum(way[k] for way in plan) / cut.box) for k in (1, 2))
        counted = (1 - cut.firm_frac) * bought + cut.firm_frac * firm
        assert counted - sum(coefficient[way] for way in plan) >= cut.rhs - 1e-9
        checked += 1
    assert checked >= 3 ** len(workloads)


@for_each("seed", range(30))
def test_nothing_more_could_be_said(seed: int) -> None:
    """Each part is no larger than it may be, and the last as large: the others use all that is left of the boxes."""
    rng = np.random.default_rng(seed)
    box, firm_frac = int(rng.choice([2, 3])), float(rng.choice([0.0, 0.3, 1.0]))
    parts = random_parts(rng, ["a", "b", "c"], box, firm_frac)
    pairs = list(itertools.product(range(box), repeat=2))
    for w, part in parts.items():
        others = [own for other, own in parts.items() if other != w]
        for pair in pairs:
            room = math.inf
            for rest in itertools.product(pairs, repeat=len(others)):
                all_in_use, all_firm = (sum(column) for column in zip(pair, *rest, strict=True))
                boxes = (1 - firm_frac) * math.ceil(all_in_use / box) + firm_frac * math.ceil(all_firm / box)
                room = min(room, boxes - sum(own[at] for own, at in zip(others, rest, strict=True)))
            assert part[pair] <= room + 1e-9
            assert part[pair] >= room - ROUNDED or w != list(parts)[-1]


@for_each("seed", range(30))
def test_no_coefficient_is_below_zero(seed: int) -> None:
    """Whoever uses more begins no fewer boxes, in use and firm; and a box more is a box more."""
    cut, workloads, _ = random_instance(seed)
    most = 3 * cut.box
    gpus, firm = (both.ravel() for both in np.meshgrid(np.arange(most), np.arange(most), indexing="ij"))
    for w in workloads:
        used = coefficients(cut, (w,), gpus, firm).reshape(most, most)
        assert used[0, 0] == 0
        for axis in (0, 1):
            assert (np.diff(used, axis=axis) >= -1e-12).all()
        assert used[cut.box :] == pytest.approx(used[: -cut.box] + 1 - cut.firm_frac)
        assert used[:, cut.box :] == pytest.approx(used[:, : -cut.box] + cut.firm_frac)
        assert ((used < 1e-12) | (used > 5e-6)).all()


@for_each("seed", range(30))
def test_sums_modulo_the_box_are_those_of_all_remainders(seed: int) -> None:
    rng = np.random.default_rng(seed)
    box = int(rng.choice([2, 3, 4]))
    one, other = (rng.uniform(-1, 1, (box, box)) for _ in range(2))
    expected = np.full((box, box), -np.inf)
    for (a, b), (c, d) in itertools.product(itertools.product(range(box), repeat=2), repeat=2):
        at = ((a + c) % box, (b + d) % box)
        expected[at] = max(expected[at], one[a, b] + other[c, d])
    assert most_together(one.ravel(), other.ravel(), box) == pytest.approx(expected.ravel())


def least_short(shares: list[np.ndarray], needs: list[Callable[[tuple[int, ...]], float]], has: list[float]) -> float:
    """What a mixture of whole plans with these shares lacks at least, of what it lacks most: an LP over all plans."""
    every = list(itertools.product(*[np.flatnonzero(share).tolist() for share in shares]))
    columns = [Column(("short",), 1.0, lower=-100.0, upper=100.0)]
    columns += [Column(("plan", k), 0.0, upper=1) for k in range(len(every))]
    rows = [
        Row(("share", w, r), [(k + 1, 1.0) for k, plan in enumerate(every) if plan[w] == r], "==", float(share[r]))
        for w, share in enumerate(shares)
        for r in np.flatnonzero(share).tolist()
    ]
    for k, need in enumerate(needs):
        terms = [(0, 1.0)] + [(n + 1, -need(plan)) for n, plan in enumerate(every)]
        rows.append(Row(("need", k), terms, ">=", -has[k]))
    found = solve_lp(build_model(columns, rows)).objective
    assert found is not None
    return found


def random_shares(rng: np.random.Generator, choices: int, some: float) -> np.ndarray:
    drawn = np.where(rng.random(choices) < some, rng.random(choices), 0.0)
    drawn[int(rng.integers(choices))] += 0.1
    return drawn / drawn.sum()


@for_each("seed", range(60))
def test_the_row_that_is_found_says_all_that_can_be_said(seed: int) -> None:
    """It reaches what the cheapest mixture of whole plans lacks: the rows describe the hull of whole plans."""
    rng = np.random.default_rng(seed)
    box = int(rng.choice([2, 4]))
    shares = {f"w{k}": random_shares(rng, box**2, 0.4) for k in range(int(rng.integers(1, 4)))}
    gpus = [sum(float(share @ (np.arange(box**2) // box)) for share in shares.values()),
            sum(float(share @ (np.arange(box**2) % box)) for share in shares.values())]  # fmt: skip
    has = [used / box + float(rng.uniform(0.0, 0.7)) for used in gpus]
    needs = [
        lambda plan: math.ceil(sum(pair // box for pair in plan) / box),
        lambda plan: math.ceil(sum(pair % box for pair in plan) / box),
    ]
    short = least_short(list(shares.values()), needs, has)
    can = {w: np.ones(box**2, dtype=bool) for w in shares}
    found = parts_begun(shares, can, box, np.array(has) - np.array(gpus) / box, 0.01)
    if found is None:
        assert short <= 0.012
        return
    parts, firm_frac = found
    reached = sum(float(share @ parts[w].ravel()) for w, share in shares.items())
    assert reached - (1 - firm_frac) * has[0] - firm_frac * has[1] == pytest.approx(short, abs=2e-3)


def test_some_rows_count_both_kinds_of_boxes() -> None:
    """Of two mixtures one begins one box and a half, one of them firm; the other one box, but one and a half firm."""
    a = np.where(np.isin(np.arange(16), (1 * 4 + 1, 3 * 4 + 3)), 0.5, 0.0)
    b = np.where(np.isin(np.arange(16), (3 * 4 + 1, 1 * 4 + 3)), 0.5, 0.0)
    in_use, firm = (lambda p: math.ceil(sum(k // 4 for k in p) / 4)), (lambda p: math.ceil(sum(k % 4 for k in p) / 4))
    assert least_short([a, b], [in_use], [1.1]) < 0
    assert least_short([a, b], [firm], [1.1]) < 0
    can = {w: np.ones(16, dtype=bool) for w in "ab"}
    found = parts_begun({"a": a, "b": b}, can, 4, np.array([0.1, 0.1]), 0.01)
    assert found is not None
    assert found[1] == pytest.approx(0.5)
    reached = sum(float(share @ found[0][w].ravel()) for w, share in (("a", a), ("b", b)))
    assert reached == pytest.approx(1.25, abs=ROUNDED)


def test_a_mixture_in_which_each_decides_by_itself() -> None:
    rng = np.random.default_rng(0)
    shares = {w: random_shares(rng, 9, 0.5) for w in "ab"}
    sums = each_by_itself(shares, 3)
    expected = np.zeros((3, 3))
    for one, other in itertools.product(range(9), repeat=2):
        at = ((one // 3 + other // 3) % 3, (one + other) % 3)
        expected[at] += shares["a"][one] * shares["b"][other]
    assert sums == pytest.approx(expected.ravel())


def test_what_is_left_of_a_box_that_is_begun() -> None:
    assert boxes_begun(4).tolist() == [0.0, 0.75, 0.5, 0.25]


def test_inequalities_as_arrays_say_the_same() -> None:
    """By slot, nothing in slots without one, and added up at prices."""
    rng = np.random.default_rng(0)
    drawn = [(t, random_parts(rng, ["a", "b"], 4, f), f) for t, f in ((0, 0.5), (2, 0.0), (2, 1.0))]
    first, later, last = (Rounded("g", t, 4, parts, f) for t, parts, f in drawn)
    slots = Rounded.by_slot([first, later], 3)
    alone = Rounded.by_slot([last], 3)
    usd = np.array([2.0, 3.0, 5.0])
    total = type(slots).priced([(slots, usd), (alone, usd + 1)])
    gpus, firm = np.array([0, 3, 5, 9]), np.array([0, 3, 1, 6])
    for workloads in (("a",), ("b",), ("a", "b"), ("c",)):
        each = [coefficients(cut, workloads, gpus, firm) for cut in (first, later, last)]
        for t, expected in ((0, each[0]), (1, 0 * each[0]), (2, each[1])):
            assert slots.of(workloads, np.full(4, t), gpus, firm) == pytest.approx(expected)
        assert total.of(workloads, np.full(4, 0), gpus, firm) == pytest.approx(2 * each[0])
        assert total.of(workloads, np.full(4, 2), gpus, firm) == pytest.approx(5 * each[1] + 6 * each[2])


def test_a_recipe_counts_its_gpus_in_use_and_its_firm_ones() -> None:
    part = np.zeros((4, 4))
    part[2, 2] = 0.5
    cut = Rounded("g", 0, 4, {"a": part}, 0.25)
    use = Use("d", "g", 2, np.array([3]), np.array([1]), np.array([1.0]))
    zero = np.zeros(1)
    recipe = Recipe("a", ("a",), (use,), None, np.array([0]), zero, zero, zero)
    assert Rounded.by_slot([cut], 1).use(recipe) == pytest.approx([0.75 * 1 + 0.25 * 0 + 0.5])


def five_of_eight() -> FleetProblem:
    """Two workloads that use 5 GPUs each of boxes of 8: two boxes whole, one and a quarter in parts."""
    exact = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)
    pools = tuple(
        Pool(w, (w,), np.array([[5.0]]), 1.0, False, (Deployment(f"{w} on big", "big", 1, np.ones(1), exact),), ())
        for w in ("a", "b")
    )
    return Case(pools, {"big": Offer("big", "h100", 8, 10.0)}, np.array([730.0]), np.zeros(1, dtype=int)).fleet


def test_it_forbids_parts_of_boxes_and_no_whole_ones() -> None:
    plain = five_of_eight()
    five = np.where(np.arange(64) == 5 * 8 + 5, 1.0, 0.0)
    can = dict.fromkeys("ab", np.ones(64, dtype=bool))
    found = parts_begun({"a": five, "b": five}, can, 8, np.zeros(2), 0.01)
    assert found is not None
    sharp = replace(plain, rounded={(BOTH, "big", 0, 0): Rounded("big", 0, 8, *found)})
    assert solve_lp(master(plain)[0]).objective == pytest.approx(7300 * 1.25)
    assert solve_lp(master(sharp)[0]).objective == pytest.approx(7300 * 2, rel=ROUNDED)
    assert solve_mip(master(sharp)[0]).objective == solve_mip(master(plain)[0]).objective == pytest.approx(7300 * 2)
