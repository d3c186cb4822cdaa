"""Boxes that replicas do not divide: what stays empty is paid for, and nothing is called impossible that fits."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import planner
from planner.checker import check_plan
from planner.checker.packing import boxes_needed
from problems.dominance.recipes import no_more_expensive, without_dominated_recipes
from problems.fleet import master
from problems.fleet_problem import Offer
from problems.packing import most_of_a_box
from problems.recipes.pools import Deployment, Pool
from tests.oracle.rules import SIZES, boxes_for
from tests.oracle.shared_offers import EXACT, shared_case
from tests.solvers.search.test_shared_offers import proved
from tests.support.fleets import Case
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan


@for_each(
    ("box", "sizes", "expected"),
    [
        (8, (1, 2, 4, 8), {}),
        (7, (1, 2, 4), {2: 6, 4: 4}),
        (6, (1, 2, 4), {4: 4}),
        (3, (1, 2, 4), {2: 2}),
        (8, (3, 4, 5), {5: 5}),
        (8, (3,), {3: 6}),
    ],
)
def test_most_of_a_box(box: int, sizes: tuple[int, ...], expected: dict[int, int]) -> None:
    assert most_of_a_box(box, sizes) == expected


@for_each("box", range(1, 17))
def test_boxes_are_those_of_packing_one_replica_after_the_other(box: int) -> None:
    """The rows of the master, the checker and the oracle count the same boxes."""
    rng = np.random.default_rng(box)
    sizes = [n for n in SIZES if n <= box]
    most = most_of_a_box(box, sizes)
    for _ in range(40):
        replicas = {n: int(rng.integers(0, 9)) for n in sizes}
        gpus = np.array([[n * replicas.get(n, 0) for n in SIZES]])
        by_rows = [sum(n * k for n, k in replicas.items() if n >= size) / most.get(size, box) for size in sizes]
        (packed,) = boxes_for(gpus, box)
        assert boxes_needed(box, replicas) == packed == int(np.ceil(max(by_rows)))


@pytest.mark.parametrize("seeds", [range(k, 60, 3) for k in range(3)])
def test_the_optimum_is_that_of_brute_force(seeds: range) -> None:
    for seed in seeds:
        proved(shared_case(seed, boxes=(3, 6, 7)))


def on_sevens(size: int, key: str = "g") -> Deployment:
    return Deployment(f"{size} of {key}", key, size, np.ones(1) / size, EXACT)


def case_of(rate: float, offers: list[Offer], *deployments: Deployment) -> Case:
    pool = Pool("w", ("w",), np.full((2, 1), rate), 1.0, False, deployments, ())
    return Case((pool,), {o.key: o for o in offers}, np.full(2, 365.0), np.zeros(2, dtype=int))


def test_rows_are_said_where_replicas_leave_something_empty() -> None:
    seven, eight = Offer("g", "x", 7, 7.0), Offer("h", "x", 8, 8.0)
    fleet = case_of(8.0, [seven, eight], on_sevens(4), on_sevens(1), on_sevens(4, "h")).fleet
    rows = [key for key in master(fleet)[0].row_keys if key[0] == "fits"]
    assert rows == [("fits", "in-use", "g", 4, t) for t in range(2)]


def test_a_larger_replica_that_leaves_more_empty_beats_no_smaller_one() -> None:
    """Two of four GPUs take two boxes of seven; eight of one take two as well, and leave six for others."""
    seven = Offer("g", "x", 7, 7.0)
    fleet = case_of(8.0, [seven], on_sevens(4), on_sevens(1)).fleet
    assert [r.deployments for r in without_dominated_recipes(fleet).recipes] == [("1 of g",)]
    smaller, larger = Offer("a", "x", 7, 7.0), Offer("b", "x", 14, 14.0)
    fleet = case_of(12.0, [smaller, larger], on_sevens(4, "a"), on_sevens(4, "b")).fleet
    assert not no_more_expensive(fleet, "a", "b"), "three fit into fourteen, two into twice seven"


DEMAND = """
workloads:
  - name: chat
    models: [llama-3.3-70b]
    forecast: {requests_per_day: 40k, shape: flat}
    tokens: {input: 600, output: 100}
    slo: {ttft_p95: 4s, tpot_p95: 100ms}
    quality: {max_loss: 2%}
    api: forbidden
catalog:
  offers:
    colo/seven@home:
      provider: colo
      instance: seven
      region: home
      gpu: l40s
      gpus: 7
      prices: {on_demand: {usd_per_h: 7.0, source: rate card, date: "2026-09-01"}}
menu: {gpus: [l40s], quantizations: [fp16], regions: [home], providers: [colo], purchase: [on-demand]}
policy: {min_replicas: 2}
baseline: openai/gpt-4o-mini
"""


def test_a_box_of_seven_holds_a_replica_of_four() -> None:
    plan = fleet_plan(planner.case_from_text(DEMAND))
    (deployment,) = plan.pools[0].deployments
    assert deployment.deployment.gpus_per_replica == 4
    (line,) = plan.fleet
    assert line.instances_by_slot == deployment.replicas_by_slot
    crowded = copy.deepcopy(plan.as_json())
    crowded["fleet"][0]["instances_by_slot"][0] -= 1
    assert any("replicas take 2 x colo/seven@home, 1 bought" in said for said in check_plan(crowded))
