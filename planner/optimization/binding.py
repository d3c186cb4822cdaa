"""Which limits a plan reaches: where a little more room might make it cheaper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from planner.case.case import Case
from planner.case.quarters import held_usd_per_month
from planner.case.vendors import vendors_bought_of
from planner.optimization.serving import ServedPool
from planner.plan.plan import Binding, FleetLine
from problems.constants import HOURS_PER_MONTH
from problems.fleet_problem import FleetProblem
from solvers.heuristics.incumbent import Incumbent, cost_by_month

NEAR_BUDGET_FRAC = 1e-3


def binding_limits(
    case: Case, fleet: FleetProblem, best: Incumbent, pools: tuple[ServedPool, ...], lines: tuple[FleetLine, ...]
) -> list[Binding]:
    return [
        *_budget(case, fleet, best),
        *_gpu_quotas(case, fleet, lines),
        *_instance_quotas(case, fleet, lines),
        *_gpu_types(case, lines),
        *_vendors(case, lines, pools),
        *_min_replicas(fleet, pools),
    ]


def _budget(case: Case, fleet: FleetProblem, best: Incumbent) -> Iterator[Binding]:
    budget = case.limits.budget_usd_per_month
    if budget is not None:
        months = cost_by_month(fleet, best.paths, best.purchases) + held_usd_per_month(case)
        near = int((months >= budget * (1 - NEAR_BUDGET_FRAC)).sum())
        if near:
            yield Binding(
                limit="budget_usd_per_month",
                value=budget,
                hours_per_month=near / fleet.months * HOURS_PER_MONTH,
            )


def _gpu_quotas(case: Case, fleet: FleetProblem, lines: tuple[FleetLine, ...]) -> Iterator[Binding]:
    """Where not one more of the instances in use would fit; of a GPU that is not in use, not a single instance."""
    nothing, in_use = np.zeros(len(fleet.slot_hours), dtype=int), {line.offer for line in lines}
    for gpu, most in sorted(case.limits.max_gpus.items()):
        of = [line for line in lines if line.gpu == gpu]
        boxes = [line.gpus_per_instance for line in of] or [o.gpus for o in case.offers.values() if o.gpu == gpu]
        if boxes:
            gpus = sum((np.array(line.instances_by_slot) * line.gpus_per_instance for line in of), nothing)
            gpus = gpus + sum(o.on_hand * o.box for g, o in fleet.offers.items() if o.gpu == gpu and g not in in_use)
            yield from _reached(fleet, "max_gpus", gpu, most, gpus + min(boxes) > most)


def _instance_quotas(case: Case, fleet: FleetProblem, lines: tuple[FleetLine, ...]) -> Iterator[Binding]:
    nothing = np.zeros(len(fleet.slot_hours), dtype=int)
    for offer, most in sorted(case.limits.max_instances.items()):
        counts = [np.array(line.instances_by_slot) for line in lines if line.offer == offer]
        yield from _reached(fleet, "max_instances", offer, most, sum(counts, nothing) >= most)


def _gpu_types(case: Case, lines: tuple[FleetLine, ...]) -> Iterator[Binding]:
    most = case.limits.max_gpu_types
    if most is not None and len({line.gpu for line in lines}) >= most:
        yield Binding(limit="max_gpu_types", value=most, hours_per_month=HOURS_PER_MONTH)


def _vendors(case: Case, lines: tuple[FleetLine, ...], pools: tuple[ServedPool, ...]) -> Iterator[Binding]:
    asked = {pool.path.api for pool in pools if pool.path.api is not None and pool.api.any()}
    kinds = [kind for kind, _ in vendors_bought_of(case, (line.offer for line in lines), asked)]
    for kind, most in sorted((case.limits.max_vendors or {}).items()):
        if kinds.count(kind) >= most:
            yield Binding(limit="max_vendors", name=kind, value=most, hours_per_month=HOURS_PER_MONTH)


def _min_replicas(fleet: FleetProblem, pools: tuple[ServedPool, ...]) -> Iterator[Binding]:
    """Where the load of a deployment by itself would need fewer."""
    for served in pools:
        held, least = np.zeros(served.pool.slots, dtype=bool), 0
        for hosted in served.hosted:
            replicas, least = hosted.use.replicas, hosted.staffing.min_replicas
            without = replace(hosted.staffing, min_replicas=0).replicas(hosted.load)
            held |= (replicas > 0) & (replicas <= least) & (without < least)
        yield from _reached(fleet, "min_replicas", served.key, least, held)


def _reached(fleet: FleetProblem, limit: str, name: str, value: float, where: np.ndarray) -> Iterator[Binding]:
    if where.any():
        yield Binding(limit=limit, name=name, value=value, hours_per_month=float(fleet.weight[where].sum()))
