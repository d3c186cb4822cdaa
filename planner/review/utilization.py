"""Planned against used: what the replicas of a plan had to carry when something else came than was planned for.

Load is taken to follow the tokens of a pool, hour by hour. Work that may wait is spread over the day as planned. What
replicas may carry is by the staffing rule that the plan was made and checked with.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from planner.case.apis import tokens_per_request
from planner.case.case import Workload
from planner.case.slots import rates_rps, slots_of
from planner.plan.account.account import account_of
from planner.plan.account.replicas import staffing
from planner.plan.plan import DeploymentPlan, Plan, PoolPlan
from planner.review.records import CapacityUse


def capacity_used(plan: Plan, actual: dict[str, Workload]) -> Iterator[CapacityUse]:
    """`actual` are workloads as they came; one that is not there came as planned."""
    view = account_of(plan)
    hours = view.hours
    for pool in plan.pools:
        more = _more_tokens(plan, pool, actual, hours)
        for k, part in enumerate(pool.deployments):
            carried = staffing(view, pool, k).carried_load(np.array(part.replicas_by_slot))
            yield _used(pool, part, carried, more, hours)


def _more_tokens(plan: Plan, pool: PoolPlan, actual: dict[str, Workload], hours: np.ndarray) -> np.ndarray:
    """Tokens that came for each that was planned [slot]."""
    slots = slots_of(plan.case)
    asked = [w for w in plan.case.workloads if w.name in pool.workloads]
    planned = sum(tokens_per_request(w) * rates_rps(w, slots) for w in asked)
    actual_load = sum(tokens_per_request(now) * rates_rps(now, slots) for now in (actual.get(w.name, w) for w in asked))
    if any(w.deadline_h is not None for w in asked):
        planned, actual_load = (np.full(len(hours), x @ hours) for x in (np.asarray(planned), np.asarray(actual_load)))
    return np.divide(actual_load, planned, out=np.ones(len(hours)), where=np.asarray(planned) > 0)


def _used(
    pool: PoolPlan, part: DeploymentPlan, carried: np.ndarray, more: np.ndarray, hours: np.ndarray
) -> CapacityUse:
    d = part.deployment
    replicas, load = np.array(part.replicas_by_slot, dtype=float), np.array(part.load_by_slot)
    used = load * more
    most = np.maximum(carried, load)
    running = float(replicas @ hours)
    busiest = np.divide(used, most, out=np.zeros(len(used)), where=most > 0)
    return CapacityUse(
        workloads=pool.workloads,
        gpu=d.gpu,
        deployment=f"{d.model} {d.quantization}, {d.variant.gpus}",
        peak_gpus=int(replicas.max()) * d.gpus_per_replica,
        planned_frac=float(load @ hours) / running if running else 0.0,
        used_frac=float(used @ hours) / running if running else 0.0,
        hours_over_per_month=float(hours[used > most * (1 + 1e-6)].sum()),
        worst_hour_frac=float(busiest.max(initial=0.0)),
    )
