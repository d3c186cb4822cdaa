"""Hours in which scarce instances that a plan buys by the hour cannot be had, and what is left to serve with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from planner.checker.packing import boxes_needed
from planner.io.formatting import hour_name
from planner.plan.plan import DeploymentPlan, Plan
from planner.plan.stock import Stock, stocks_exceeded
from planner.verification.arrivals import HOURS

DRAW = 7
"""of random numbers, apart from those of requests, which stay the same"""
Place = tuple[str, int]
"""the key of a pool, and the number of a deployment in it"""


@dataclass(frozen=True, eq=False)
class StockOuts:
    missing: Mapping[Place, np.ndarray]
    """replicas of a deployment that have no instance to run on [hour of the week]"""
    notes: tuple[str, ...]


def stock_outs(plan: Plan, week: np.ndarray, times: int, days: int, seed: int) -> StockOuts:
    """So many hours of a week, drawn from those in which a plan wants more than may be there, without the rest."""
    if not times:
        return StockOuts({}, ())
    exceeded = stocks_exceeded(plan)
    beyond = sum((stock.beyond[week] for stock in exceeded), np.zeros(HOURS, dtype=np.int64))
    hours = np.flatnonzero(beyond[: 24 * days])
    if not len(hours):
        return StockOuts({}, ("no stock-out: what the plan buys by the hour may be taken to be there",))
    chosen = np.random.default_rng([seed, DRAW]).choice(hours, min(times, len(hours)), replace=False)
    missing: dict[Place, np.ndarray] = {}
    notes = []
    for hour in sorted(chosen.tolist()):
        t = int(week[hour])
        gone, kept, planned = _without_the_rest(plan, exceeded, t)
        for place, replicas in gone.items():
            missing.setdefault(place, np.zeros(HOURS, dtype=np.int64))[hour] = replicas
        boxes = [
            f"{s.beyond[t]} of {s.wanted[t]} x {s.main_line.gpus_per_instance} x {s.main_line.gpu}"
            for s in exceeded
            if s.beyond[t]
        ]
        notes.append(
            f"stock-out, {hour_name(hour)}: {', '.join(boxes)} could not be had by the hour; served with {kept} of "
            f"the {planned} replicas that stand on such instances"
        )
    return StockOuts(missing, tuple(notes))


def _without_the_rest(plan: Plan, exceeded: list[Stock], t: int) -> tuple[dict[Place, int], int, int]:
    """Replicas that find no place in a slot, and how many there are of those concerned, left and planned."""
    lost: Counter[str] = Counter()
    for stock in exceeded:
        left = int(stock.beyond[t])
        for line in sorted(stock.lines, key=lambda line: (-line.instances_by_slot[t], line.offer, line.purchase)):
            gone = min(left, line.instances_by_slot[t])
            lost[line.offer] += gone
            left -= gone
    missing: dict[Place, int] = {}
    kept = planned = 0
    for offer in (offer for offer, boxes in lost.items() if boxes):
        there = sum(line.instances_by_slot[t] for line in plan.fleet if line.offer == offer) - lost[offer]
        on_it = {
            (pool.key, k): d
            for pool in plan.pools
            for k, d in enumerate(pool.deployments)
            if d.deployment.offer == offer and d.replicas_by_slot[t]
        }
        left_of = _that_fit(on_it, plan.case.offers[offer].gpus, there, t)
        for place, d in on_it.items():
            missing[place] = d.replicas_by_slot[t] - left_of[place]
            kept, planned = kept + left_of[place], planned + d.replicas_by_slot[t]
    return missing, kept, planned


def _that_fit(on_it: Mapping[Place, DeploymentPlan], box: int, boxes: int, t: int) -> dict[Place, int]:
    """Replicas of each deployment that so many boxes hold; the one that has the most GPUs loses one first."""
    left = {place: d.replicas_by_slot[t] for place, d in on_it.items()}
    gpus = {place: d.deployment.gpus_per_replica for place, d in on_it.items()}

    def taken() -> int:
        small: Counter[int] = Counter()
        for place, n in left.items():
            small[gpus[place]] += n
        apart = sum(n * -(-size // box) for size, n in small.items() if size > box)
        return apart + boxes_needed(box, {size: n for size, n in small.items() if size <= box})

    while any(left.values()) and taken() > boxes:
        left[max(left, key=lambda place: (left[place] * gpus[place], place))] -= 1
    return left
