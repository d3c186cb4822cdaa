"""The program of one slot of a pool that several deployments serve together.

    min   sum_d cost[d](replicas[d])  +  sum_g cost[g](GPUs in shared boxes g)
          + sum_b rest[b] x cost of the bucket at the outlet

under the families listed in FAMILIES, one function each. What a number of replicas carries and costs follows no line
once there is a margin or spot: such a deployment gets a binary for each number, the others one integer column. A length
that a deployment cannot serve has no column. Boxes that several deployments share have a binary for each step of what
they cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from problems.model import Column, Model, Row, build_model
from problems.recipes.mixes import SlotMix

SMALL_LOAD = 1e-2
"""loads of a bucket so small that a part of a replica that is zero within a solver's tolerance might carry them"""
NO_LOAD = 1e-9
"""loads of a bucket that solvers would drop from a row"""


@dataclass(eq=False)
class Variables:
    """Column numbers by what they mean."""

    columns: list[Column] = field(default_factory=list)
    share: dict[tuple[int, int], int] = field(default_factory=dict)
    """(deployment, bucket) -> share of the bucket that it carries"""
    rest: dict[int, int] = field(default_factory=dict)
    """bucket -> share of it that goes to the outlet"""
    count: dict[int, int] = field(default_factory=dict)
    """deployment -> number of replicas, where what they carry and cost follows a line"""
    at: dict[int, list[int]] = field(default_factory=dict)
    """deployment -> whether it runs each of its numbers of replicas, where they follow no line"""
    step: dict[int, dict[int, int]] = field(default_factory=dict)
    """shared boxes -> step -> whether they cost that much"""
    used: dict[int, int] = field(default_factory=dict)
    """deployment -> whether it is used, where that is limited"""

    def add(self, column: Column) -> int:
        self.columns.append(column)
        return len(self.columns) - 1

    def running(self, slot: SlotMix, k: int) -> list[int]:
        """Columns whose sum is at least one where the deployment runs at all, and else nothing."""
        if k in self.count:
            return [self.count[k]]
        return [c for c, n in zip(self.at[k], slot.counts[k].replicas.tolist(), strict=True) if n]


def _variables(slot: SlotMix, most_deployments: int | None) -> Variables:
    v = Variables()
    running = [k for k, c in enumerate(slot.counts) if c.replicas[-1] > 0]
    for k in running:
        for b in np.flatnonzero(np.isfinite(slot.load[k])).tolist():
            v.share[k, b] = v.add(Column(("share", k, b), 0.0, upper=1))
    for b in np.flatnonzero(np.isfinite(slot.outlet)).tolist():
        v.rest[b] = v.add(Column(("rest", b), float(slot.outlet[b]), upper=1))
    for k in running:
        c = slot.counts[k]
        if c.on_a_line:
            fewest, most = float(c.replicas[0]), float(c.replicas[-1])
            each = float(c.own_cost[-1]) / most
            v.count[k] = v.add(Column(("count", k), each, lower=fewest, upper=most, integer=True))
        else:
            v.at[k] = [
                v.add(Column(("at", k, n), usd, upper=1, integer=True))
                for n, usd in zip(c.replicas.tolist(), c.own_cost.tolist(), strict=True)
            ]
        if most_deployments is not None:
            v.used[k] = v.add(Column(("used", k), 0.0, upper=1, integer=True))
    for g, boxes in enumerate(slot.shared):
        v.step[g] = {
            s: v.add(Column(("step", g, s), float(boxes.cost[s]), upper=1, integer=True))
            for s in boxes.steps_for(slot.counts).tolist()
        }
    return v


def every_bucket_is_served(slot: SlotMix, v: Variables) -> Iterator[Row]:
    """All requests of a bucket are carried by deployments or go to the outlet.

    sum_d share[b,d] + rest[b] = 1        for all buckets b        [-]
    """
    terms: dict[int, list[tuple[int, float]]] = {b: [] for b in range(len(slot.outlet))}
    for (_, b), column in v.share.items():
        terms[b].append((column, 1.0))
    for b, column in v.rest.items():
        terms[b].append((column, 1.0))
    for b, columns in terms.items():
        yield Row(("served", b), columns, "==", 1.0)


def the_load_fits(slot: SlotMix, v: Variables) -> Iterator[Row]:
    """A deployment carries no more than its replicas can.

    sum_b load[d,b] share[b,d] - carried[d](replicas[d]) <= 0        for all deployments d        [replica]
    """
    for k in (*v.count, *v.at):
        counts = slot.counts[k]
        terms = [(column, load) for (j, b), column in v.share.items() if j == k and (load := slot.load[k, b]) > NO_LOAD]
        if k in v.count:
            room = [(v.count[k], -1.0)]
        else:
            room = [(c, -carried) for c, carried in zip(v.at[k], counts.carried.tolist(), strict=True) if carried > 0]
        if terms:
            yield Row(("fits", k), [*((column, float(load)) for column, load in terms), *room], "<=", 0.0)


def small_loads_need_a_replica(slot: SlotMix, v: Variables) -> Iterator[Row]:
    """Even a load that is all but nothing is carried by a replica that runs.

    share[b,d] - (1 if d runs any replica) <= 0        for all b, d with little load        [-]
    """
    for (k, b), column in v.share.items():
        if slot.load[k, b] < SMALL_LOAD:
            yield Row(("runs", k, b), [(column, 1.0), *((c, -1.0) for c in v.running(slot, k))], "<=", 0.0)


def one_number_of_replicas(slot: SlotMix, v: Variables) -> Iterator[Row]:
    """A deployment runs one of its numbers of replicas; none is one of them.

    sum_n at[d,n] = 1        for all d that follow no line        [-]
    """
    for k, columns in v.at.items():
        yield Row(("one-number", k), [(c, 1.0) for c in columns], "==", 1.0)


def boxes_hold_their_gpus(slot: SlotMix, v: Variables) -> Iterator[Row]:
    """Boxes that deployments share are paid for up to a step that holds the GPUs of all of them.

    sum_{d in g} gpus[d](replicas[d]) - sum_s most[g,s] step[g,s] <= 0        for all shared boxes g        [GPU]
    """
    for g, steps in v.step.items():
        boxes = slot.shared[g]
        terms = []
        for k, size in boxes.members.items():
            if k in v.count:
                terms.append((v.count[k], float(size)))
            elif k in v.at:
                gpus = boxes.gpus(k, slot.counts[k]).tolist()
                terms += [(column, float(n)) for column, n in zip(v.at[k], gpus, strict=True) if n]
        room = [(column, -float(boxes.most[s])) for s, column in steps.items() if boxes.most[s]]
        if terms:
            yield Row(("holds", g), [*terms, *room], "<=", 0.0)


def one_step_of_boxes(slot: SlotMix, v: Variables) -> Iterator[Row]:
    """Shared boxes cost what one of the steps says.

    sum_s step[g,s] = 1        for all shared boxes g        [-]
    """
    for g, steps in v.step.items():
        yield Row(("one-step", g), [(column, 1.0) for column in steps.values()], "==", 1.0)


def few_deployments_are_used(slot: SlotMix, v: Variables, most_deployments: int) -> Iterator[Row]:
    """No more deployments run at once than may.

    replicas[d] <= most[d] used[d]  for all d,   sum_d used[d] <= K        [replica], [-]
    """
    for k, used in v.used.items():
        most = float(slot.counts[k].replicas[-1]) if k in v.count else 1.0
        yield Row(("used", k), [*((c, 1.0) for c in v.running(slot, k)), (used, -most)], "<=", 0.0)
    yield Row(("deployments",), [(c, 1.0) for c in v.used.values()], "<=", float(most_deployments))


FAMILIES: tuple[Callable[[SlotMix, Variables], Iterator[Row]], ...] = (
    every_bucket_is_served,
    the_load_fits,
    small_loads_need_a_replica,
    one_number_of_replicas,
    boxes_hold_their_gpus,
    one_step_of_boxes,
)


def slot_model(slot: SlotMix, most_deployments: int | None = None) -> tuple[Model, Variables]:
    """The mixed-integer program of a slot, with at most so many deployments at once."""
    v = _variables(slot, most_deployments)
    rows = [row for family in FAMILIES for row in family(slot, v)]
    if most_deployments is not None:
        rows += few_deployments_are_used(slot, v, most_deployments)
    return build_model(v.columns, rows), v
