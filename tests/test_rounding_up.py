"""Boxes are bought whole: what is said of several workloads holds for every whole plan, and forbids parts of boxes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from fleets import Case

from problems.fleet import Fleet, Offer, master
from problems.model import Column, Row, build_model
from problems.pools import Deployment, Pool
from problems.recipes import Recipe, Use
from problems.rounding_up import Rounded, boxes_begun, by_slot, made_valid, most_together
from problems.staffing import Staffing
from solvers.solve import solve_lp, solve_mip
from solvers.whole_boxes import _parts

Ways = list[tuple[tuple[str, ...], int]]
"""who is served, with how many GPUs"""
ROUNDED = 1e-4
"""parts are rounded down to plain numbers"""


def random_parts(rng: np.random.Generator, workloads: list[str], box: int) -> dict[str, np.ndarray]:
    """Whatever it is, it is made valid; some workloads have none."""
    drawn = {w: rng.uniform(-1, 2, box) for w in workloads if rng.random() < 0.8} or {workloads[0]: np.zeros(box)}
    return made_valid(drawn, {w: np.ones(box, dtype=bool) for w in drawn}, box)


def random_instance(seed: int) -> tuple[Rounded, list[str], Ways]:
    """An inequality, and ways to serve workloads: some that the inequality is about, alone and together."""
    rng = np.random.default_rng(seed)
    box = int(rng.choice([2, 3, 4, 8]))
    workloads = [f"w{k}" for k in range(int(rng.integers(2, 5)))]
    ways: Ways = [((w,), int(n)) for w in workloads for n in rng.integers(0, 3 * box, 3)]
    for size in range(2, len(workloads) + 1):
        for some in itertools.combinations(workloads, size):
            if rng.random() < 0.4:
                ways.append((some, int(rng.integers(0, 4 * box))))
    return Rounded("in-use", "g", 0, box, random_parts(rng, workloads, box)), workloads, ways


def plans(workloads: list[str], ways: Ways) -> Iterator[Ways]:
    """Every choice of ways that covers each workload once."""
    if not workloads:
        yield []
        return
    for way in ways:
        if workloads[0] in way[0] and set(way[0]) <= set(workloads):
            for rest in plans([w for w in workloads if w not in way[0]], ways):
                yield [way, *rest]


@pytest.mark.parametrize("seed", range(60))
def test_every_whole_plan_keeps_it(seed: int) -> None:
    cut, workloads, ways = random_instance(seed)
    coefficient = {way: float(cut.coefficients(way[0], np.array([way[1]]))[0]) for way in ways}
    checked = 0
    for plan in plans(workloads, ways):
        bought = math.ceil(sum(n for _, n in plan) / cut.box)
        assert bought - sum(coefficient[way] for way in plan) >= cut.rhs - 1e-9
        checked += 1
    assert checked >= 3 ** len(workloads)


@pytest.mark.parametrize("seed", range(30))
def test_nothing_more_could_be_said(seed: int) -> None:
    """Each part is as large as it may be: some remainders of the others use all that is left of the box."""
    rng = np.random.default_rng(seed)
    box = int(rng.choice([2, 3, 4]))
    parts = random_parts(rng, ["a", "b", "c"], box)
    for w, part in parts.items():
        others = [own for other, own in parts.items() if other != w]
        for r in range(box):
            room = min(
                math.ceil((r + sum(rest)) / box) - sum(own[k] for own, k in zip(others, rest, strict=True))
                for rest in itertools.product(range(box), repeat=len(others))
            )
            assert part[r] <= room + 1e-9
            assert part[r] >= room - ROUNDED or w != list(parts)[-1]


@pytest.mark.parametrize("seed", range(30))
def test_no_coefficient_is_below_zero(seed: int) -> None:
    """Whoever uses more begins no fewer boxes; and a box more is a box more."""
    cut, workloads, _ = random_instance(seed)
    gpus = np.arange(4 * cut.box)
    for w in workloads:
        used = cut.coefficients((w,), gpus)
        assert used[0] == 0
        assert (np.diff(used) >= -1e-12).all()
        assert used[cut.box :] == pytest.approx(used[: -cut.box] + 1)
        assert ((used == 0) | (used > 5e-6)).all()


@pytest.mark.parametrize("seed", range(30))
def test_sums_modulo_the_box_are_those_of_all_remainders(seed: int) -> None:
    rng = np.random.default_rng(seed)
    box, n = int(rng.choice([2, 3, 4])), int(rng.integers(1, 5))
    beyond = [rng.uniform(-1, 1, box) for _ in range(n)]
    expected = np.full(box, -np.inf)
    for rest in itertools.product(range(box), repeat=n):
        s = sum(rest) % box
        expected[s] = max(expected[s], sum(own[r] for own, r in zip(beyond, rest, strict=True)))
    assert most_together(beyond, box) == pytest.approx(expected)


def least_boxes(shares: list[np.ndarray], box: int, held: int = 0) -> float:
    """How many boxes a mixture of whole plans with these shares begins at least, beyond those held: an LP over all."""
    every = list(itertools.product(*[np.flatnonzero(share).tolist() for share in shares]))
    boxes = [max(0, math.ceil(sum(rest) / box) - held) for rest in every]
    columns = [Column(("plan", k), float(begun), upper=1) for k, begun in enumerate(boxes)]
    rows = [
        Row(("share", w, r), [(k, 1.0) for k, rest in enumerate(every) if rest[w] == r], "==", float(share[r]))
        for w, share in enumerate(shares)
        for r in np.flatnonzero(share).tolist()
    ]
    found = solve_lp(build_model(columns, rows)).objective
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(40))
def test_the_row_that_is_found_says_all_that_can_be_said(seed: int) -> None:
    """It reaches what the cheapest mixture of whole plans begins: the rows describe the hull of whole plans."""
    rng = np.random.default_rng(seed)
    box = int(rng.choice([2, 4, 8]))
    shares = {}
    for k in range(int(rng.integers(1, 4))):
        drawn = np.where(rng.random(box) < 0.5, rng.random(box), 0.0)
        drawn[int(rng.integers(box))] += 0.1
        shares[f"w{k}"] = drawn / drawn.sum()
    possible = {w: np.ones(box, dtype=bool) for w in shares}
    parts = _parts(shares, possible, box)
    reached = sum(float(share @ parts[w]) for w, share in shares.items())
    assert reached == pytest.approx(least_boxes(list(shares.values()), box), abs=2e-3)


def test_what_is_left_of_a_box_that_is_begun() -> None:
    assert boxes_begun(4).tolist() == [0.0, 0.75, 0.5, 0.25]


def test_inequalities_as_arrays_say_the_same() -> None:
    """By slot and number, and nothing in slots without one."""
    rng = np.random.default_rng(0)
    parts = [random_parts(rng, ["a", "b"], 4) for _ in range(4)]
    cuts = {
        ("in-use", "g", 0, 0): Rounded("in-use", "g", 0, 4, parts[0]),
        ("in-use", "g", 2, 0): Rounded("in-use", "g", 2, 4, parts[1]),
        ("in-use", "g", 2, 1): Rounded("in-use", "g", 2, 4, parts[2]),
        ("firm", "g", 1, 0): Rounded("firm", "g", 1, 4, {"b": parts[3].get("b", np.zeros(4))}),
    }
    found = by_slot(cuts, 3)
    assert set(found) == {("in-use", "g", 0), ("in-use", "g", 1), ("firm", "g", 0)}
    slot, gpus = np.repeat(np.arange(3), 5), np.tile(np.arange(5), 3)
    for (kind, g, number), group in found.items():
        for workloads in (("a",), ("b",), ("a", "b"), ("c",)):
            use = group.use(workloads, slot, gpus)
            for t in range(3):
                cut = cuts.get((kind, g, t, number))
                expected = np.zeros(5) if cut is None else cut.coefficients(workloads, np.arange(5))
                assert use[slot == t] == pytest.approx(expected)


def test_firm_inequalities_count_firm_gpus() -> None:
    cut = Rounded("firm", "g", 0, 4, {"a": np.array([0.0, 1.0, 1.0, 1.0])})
    group = by_slot({("firm", "g", 0, 0): cut}, 1)["firm", "g", 0]
    use = Use("d", "g", 2, np.array([3]), np.array([1]), np.array([1.0]))
    zero = np.zeros(1)
    recipe = Recipe("a", ("a",), (use,), None, np.array([0]), zero, zero, zero)
    assert group.gpus(recipe).tolist() == [2]
    assert replace(group, kind="in-use").gpus(recipe).tolist() == [6]


def five_of_eight() -> Fleet:
    """Two workloads that use 5 GPUs each of boxes of 8: two boxes whole, one and a quarter in parts."""
    exact = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)
    pools = tuple(
        Pool(w, (w,), np.array([[5.0]]), 1.0, False, (Deployment(f"{w} on big", "big", 1, np.ones(1), exact),), ())
        for w in ("a", "b")
    )
    return Case(pools, {"big": Offer("big", "h100", 8, 10.0)}, np.array([730.0]), np.zeros(1, dtype=int)).fleet


def test_it_forbids_parts_of_boxes_and_no_whole_ones() -> None:
    plain = five_of_eight()
    five = np.where(np.arange(8) == 5, 1.0, 0.0)
    parts = _parts({"a": five, "b": five}, dict.fromkeys("ab", np.ones(8, dtype=bool)), 8)
    sharp = replace(plain, rounded={("in-use", "big", 0, 0): Rounded("in-use", "big", 0, 8, parts)})
    assert solve_lp(master(plain)[0]).objective == pytest.approx(7300 * 1.25)
    assert solve_lp(master(sharp)[0]).objective == pytest.approx(7300 * 2, rel=ROUNDED)
    assert solve_mip(master(sharp)[0]).objective == solve_mip(master(plain)[0]).objective == pytest.approx(7300 * 2)
