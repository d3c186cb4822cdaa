"""Replicas that stand apart: what is said of two workloads holds for all replicas of theirs, and of mixes of theirs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from problems.fleet import master
from problems.fleet_problem import Offer
from problems.packing import boxes_apart
from problems.recipes.pools import Deployment, Pool
from problems.recipes.recipe import Recipe, Use
from problems.staffing import Staffing
from problems.standing_apart import Apart, boxes_of_all, boxes_of_two, counts_by_size, made_valid_apart, standings
from solvers.backends.highs import solve_lp
from solvers.cuts.picked import picked_of
from solvers.cuts.separation import parts_of_boxes
from tests.support.fleets import Case
from tests.support.rows import for_each

TWO = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=16.0, min_replicas=2)
BOXES = 3
"""up to which the cuts of these tests tell replicas apart"""


def drawn_cut(rng: np.random.Generator, box: int) -> Apart:
    sizes = {w: sorted(rng.choice([1, 2, 4], rng.integers(1, 4), replace=False).tolist()) for w in ("a", "b")}
    ones, others = (standings([s for s in own if s <= box], BOXES * box) for own in sizes.values())
    first = np.where(rng.random(len(ones)) < 0.3, rng.uniform(-1, 4, len(ones)), -np.inf)
    first[0] = max(first[0], 0.0)
    counts = made_valid_apart(first, boxes_of_all(box, 2, ones, others))
    by_size = (counts_by_size(of, count) for of, count in zip((ones, others), counts, strict=True))
    return Apart("in-use", "g", 0, dict(zip(("a", "b"), by_size, strict=True)))


def recipe(workload: str, replicas: list[tuple[int, int]]) -> Recipe:
    """Of one serving: so many replicas of each size."""
    uses = [Use(f"{workload}{s}", "g", s, np.array([n]), np.array([n]), np.zeros(1)) for s, n in replicas]
    none = np.zeros(1)
    return Recipe(workload, (workload,), tuple(uses), None, np.zeros(1, dtype=int), none, none, none)


@for_each("seed", range(40))
def test_every_whole_plan_keeps_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    box = int(rng.choice([4, 8]))
    cut = drawn_cut(rng, box)
    slots = Apart.by_slot([cut], 1)
    tightest = np.inf
    for _ in range(300):
        plan = []
        for w in ("a", "b"):
            some = rng.permutation(sorted(cut.counts[w]))[: rng.integers(0, 3)].tolist()
            plan.append((w, [(s, int(rng.integers(1, 5 * box // s))) for s in some]))
        of_size = {s: [n for _, own in plan for z, n in own if z == s] for _, own in plan for s, _ in own}
        boxes = boxes_apart(box, tuple((s, sum(ns), sum(n > 1 for n in ns)) for s, ns in of_size.items()))
        boxes = max(boxes, 2 if of_size else 0)
        needed = cut.rhs + sum(float(slots.use(recipe(w, own))[0]) for w, own in plan)
        assert needed <= boxes + 1e-9
        tightest = min(tightest, boxes - needed)
    assert tightest < 1


@pytest.mark.parametrize("box", [4, 8])
def test_more_replicas_take_no_fewer_boxes(box: int) -> None:
    all_of = standings([1, 2, 4], 4 * box)
    boxes = boxes_of_all(box, 2, all_of, all_of)
    place = {standing: k for k, standing in enumerate(all_of)}
    for one in all_of[1:]:
        fewer = place.get(one._replace(replicas=one.replicas - 1), 0)
        assert (boxes[fewer] <= boxes[place[one]]).all()
    assert (boxes == boxes.T).all()


def test_an_lp_that_stands_together_is_forbidden() -> None:
    """Three replicas of four and two of two fill two boxes of eight, but then those of two stand in one."""
    offer = Offer("g", "x", 8, 8.0, fewest=2, fewest_firm=2)
    large = Pool("v", ("v",), np.array([[3.0]]), 1.0, False, (Deployment("l", "g", 4, np.ones(1), TWO),), ())
    small = Pool("w", ("w",), np.array([[2.0]]), 1.0, False, (Deployment("s", "g", 2, np.ones(1), TWO),), ())
    fleet = Case((large, small), {"g": offer}, np.array([730.0]), np.zeros(1, dtype=int)).fleet
    fleet = replace(fleet, recipes=tuple(r for r in fleet.recipes if r.self_hosted))
    usd = []
    for _ in range(2):
        model, v = master(fleet)
        lp = solve_lp(model)
        assert lp.x is not None
        assert lp.objective is not None
        usd.append(lp.objective)
        picked = [picked_of(v, lp.x, r, path) for r, path in enumerate(fleet.recipes)]
        own, cuts = parts_of_boxes(fleet, picked, v, lp.x)
        assert {kind for kind, *_ in cuts} <= {"apart in-use", "apart firm"}
        fleet = fleet.with_whole_boxes(own, cuts)
    assert usd == pytest.approx([2 * 8.0 * 730, 3 * 8.0 * 730])
    (four, two) = (r.uses[0] for r in fleet.recipes)
    assert boxes_of_two(8, 2, *(standings([u.gpus_per_replica], 64)[int(u.replicas[0])] for u in (four, two))) == 3
