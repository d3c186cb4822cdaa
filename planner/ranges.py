"""How far the cost moves if replicas are slower or faster than estimated, each by its own error.

The choice of deployments is kept, since it would be made before anyone knows; replicas, API overflow and purchases
are planned again.
"""

from __future__ import annotations

from dataclasses import replace

from planner.candidates import Candidates
from planner.case import Case
from planner.formulation import deployment_of, pool_of
from planner.plan import CostRange
from planner.slots import Slot
from problems.fleet import Fleet
from problems.recipes import recipes_of
from solvers.fleet_solver import Options, solve_fleet
from solvers.incumbent import Incumbent

QUICK = Options(solver="highs", gap_frac=0.005, node_limit=200, time_limit_s=20.0)


def cost_range(
    case: Case,
    candidates: Candidates,
    fleet: Fleet,
    best: Incumbent,
    slots: tuple[Slot, ...],
    cost: float,
    time_limit_s: float | None = None,
) -> CostRange:
    """The cost if every replica is faster, and if every replica is slower, by the error of its own throughput."""
    quick = QUICK if time_limit_s is None else replace(QUICK, time_limit_s=max(0.5, min(20.0, time_limit_s / 4)))
    return CostRange(
        low_usd_per_month=_cost_if(case, candidates, fleet, best, slots, quick, slower=False),
        mid_usd_per_month=cost,
        high_usd_per_month=_cost_if(case, candidates, fleet, best, slots, quick, slower=True),
    )


def _cost_if(
    case: Case,
    candidates: Candidates,
    fleet: Fleet,
    best: Incumbent,
    slots: tuple[Slot, ...],
    quick: Options,
    slower: bool,
) -> float | None:
    recipes = []
    for workload, path in zip(case.workloads, best.paths, strict=True):
        chosen = tuple(c for c in candidates.accepted[workload.name] if c.key == path.deployment)
        pool = pool_of(case, workload, chosen, slots)
        deployments = []
        for c in chosen:
            factor = 1 + c.replica.error_frac
            d = deployment_of(c)
            seconds = d.seconds_per_request * (factor if slower else 1 / factor)
            deployments.append(replace(d, seconds_per_request=seconds))
        pool = replace(pool, deployments=tuple(deployments), apis=tuple(a for a in pool.apis if a.key == path.api))
        recipes += [r for r in recipes_of(pool) if r.self_hosted == path.self_hosted]
    moved = solve_fleet(replace(fleet, recipes=tuple(recipes)), quick)
    return moved.best.cost_usd_per_month if moved.best else None
