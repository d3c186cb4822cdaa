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
from problems.pools import Deployment, Pool
from problems.recipes import Recipe, Use
from problems.rounding_up import Rounded, by_slot, rounded_use, stepped, worth_saying
from problems.staffing import Staffing
from solvers.solve import solve_lp, solve_mip

Ways = list[tuple[tuple[str, ...], int]]
"""who is served, with how many GPUs"""


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
    while True:
        base = {w: int(rng.integers(0, 3 * box)) for w in workloads if rng.random() < 0.8}
        found = worth_saying("in-use", "g", 0, box, base)
        if found is not None:
            return found, workloads, ways


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


@pytest.mark.parametrize("seed", range(20))
def test_it_is_tight_at_the_usage_it_is_made_around(seed: int) -> None:
    cut, _, _ = random_instance(seed)
    bought = math.ceil(sum(cut.base.values()) / cut.box)
    used = sum(float(cut.coefficients((w,), np.array([n]))[0]) for w, n in cut.base.items())
    assert bought - used == pytest.approx(cut.rhs)


@pytest.mark.parametrize("seed", range(20))
def test_no_coefficient_is_below_zero_even_without_being_told(seed: int) -> None:
    """A coefficient raised to zero would forbid whole plans: it must never have been below."""
    cut, workloads, _ = random_instance(seed)
    gpus = np.arange(4 * cut.box)
    for size in range(1, len(workloads) + 1):
        for some in itertools.combinations(workloads, size):
            base = [cut.base.get(w, 0) for w in some]
            each = sum(float(stepped(np.array(n / cut.box), cut.part)) for n in base)
            plain = each - stepped((sum(base) - gpus) / cut.box, cut.part)
            assert plain.min() >= -1e-9
            assert cut.coefficients(some, gpus) == pytest.approx(plain)


@pytest.mark.parametrize("seed", range(20))
def test_no_coefficient_is_so_small_that_a_solver_might_drop_it(seed: int) -> None:
    cut, workloads, _ = random_instance(seed)
    for size in range(1, len(workloads) + 1):
        for some in itertools.combinations(workloads, size):
            used = cut.coefficients(some, np.arange(4 * cut.box))
            assert ((used <= 1e-9) | (used >= 0.1)).all()


def test_stairs_with_a_ramp() -> None:
    """C(a) = floor(a) + min(frac(a) / f, 1), by hand, at whole numbers too and below zero."""
    a = np.array([0.0, 0.25, 0.5, 0.75, 1.0, 1.25, -0.25, -0.75])
    assert stepped(a, 0.5).tolist() == pytest.approx([0.0, 0.5, 1.0, 1.0, 1.0, 1.5, 0.0, -0.5])


def test_usage_that_fills_its_boxes_says_nothing() -> None:
    assert worth_saying("in-use", "g", 0, 8, {"a": 5, "b": 3}) is None
    assert worth_saying("in-use", "g", 0, 8, {}) is None
    assert worth_saying("in-use", "g", 0, 100, {"a": 199}) is None
    assert worth_saying("in-use", "g", 0, 100, {"a": 201}) is None
    said = worth_saying("in-use", "g", 0, 8, {"b": 5, "a": 5, "c": 0})
    assert said is not None
    assert said.base == {"a": 5, "b": 5}


def test_inequalities_as_arrays_say_the_same() -> None:
    """By slot and number, and nothing in slots without one."""
    cuts = {
        ("in-use", "g", 0, 0): Rounded("in-use", "g", 0, 4, {"a": 3, "b": 2}),
        ("in-use", "g", 2, 0): Rounded("in-use", "g", 2, 4, {"a": 1}),
        ("in-use", "g", 2, 1): Rounded("in-use", "g", 2, 4, {"b": 6}),
        ("firm", "g", 1, 0): Rounded("firm", "g", 1, 4, {"b": 3}),
    }
    found = by_slot(cuts, 3)
    assert set(found) == {("in-use", "g", 0), ("in-use", "g", 1), ("firm", "g", 0)}
    slot, gpus = np.repeat(np.arange(3), 5), np.tile(np.arange(5), 3)
    for (kind, g, number), group in found.items():
        for workloads in (("a",), ("b",), ("a", "b")):
            use = group.use(workloads, slot, gpus)
            for t in range(3):
                cut = cuts.get((kind, g, t, number))
                expected = np.zeros(5) if cut is None else cut.coefficients(workloads, np.arange(5))
                assert use[slot == t] == pytest.approx(expected)


def test_firm_inequalities_count_firm_gpus() -> None:
    group = by_slot({("firm", "g", 0, 0): Rounded("firm", "g", 0, 4, {"a": 3})}, 1)["firm", "g", 0]
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
    cut = Rounded("in-use", "big", 0, 8, {"a": 5, "b": 5})
    sharp = replace(plain, rounded={("in-use", "big", 0, 0): cut})
    assert solve_lp(master(plain)[0]).objective == pytest.approx(7300 * 1.25)
    assert solve_lp(master(sharp)[0]).objective == pytest.approx(7300 * 2)
    assert solve_mip(master(sharp)[0]).objective == solve_mip(master(plain)[0]).objective == pytest.approx(7300 * 2)


def test_bases_may_differ_from_entry_to_entry() -> None:
    use = rounded_use(np.array([5, 5]), [np.array([5, 0])], 8, np.array([0.25, 0.25]))
    # around 5 of 8: C(5/8) - C(0) = 1; around nothing: C(0) - C(-5/8) = 0 - (-1 + 1)
    assert use.tolist() == pytest.approx([1.0, 0.0])
