"""How much more load a plan carries, and how few replicas would do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from planner.plan.account.account import account_of
from planner.plan.plan import Plan
from planner.verification.records import Slack, Verification
from planner.verification.request_logs import RequestSource
from planner.verification.serving import ServeOptions, running, verify_plan

MOST_LOAD, FEWEST_REPLICAS, TOLERANCE = 3.0, 0.2, 0.02
DAYS = 2
"""that each trial serves"""


def slack_of(
    plan: Plan,
    options: ServeOptions,
    on_progress: Callable[[str, float], None],
    log: RequestSource | None = None,
) -> Slack:
    """Bisect for the largest load and for the smallest fleet at which every promise is kept."""
    trial = replace(options, days=DAYS)

    def holds(change: ServeOptions) -> bool:
        on_progress(f"trying load {change.load:.2f} on {change.replica_frac:.0%} of the replicas", 0.0)
        return verify_plan(plan, change, log=log).kept

    one_replica = all(max(deployed.replicas_by_slot) <= 1 for pool in plan.pools for deployed in pool.deployments)
    on_progress("trying load 1.00 on 100% of the replicas", 0.0)
    as_planned = verify_plan(plan, replace(trial, load=1.0), log=log)
    busy = _busy_frac(as_planned)
    if not as_planned.kept:
        return Slack(holds_beyond=False, days=DAYS, one_replica=one_replica, busy_frac=busy)
    load = _last(lambda x: holds(replace(trial, load=x)), 1.0, MOST_LOAD)
    slack = Slack(
        holds_to_load=load, holds_beyond=load >= MOST_LOAD, one_replica=one_replica, busy_frac=busy, days=DAYS
    )
    if one_replica:
        return slack
    share = _last(lambda x: holds(replace(trial, load=1.0, replica_frac=1 - x)), 0.0, 1 - FEWEST_REPLICAS)
    usd, gpu_hours = _spare(plan, 1 - share)
    return slack.model_copy(
        update={
            "smallest_fleet_frac": 1 - share,
            "spare_usd_per_month": usd,
            "spare_gpu_hours_per_month": gpu_hours,
        }
    )


def _last(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest value at which it holds; it does at the low end."""
    if holds(high):
        return high
    while high - low > TOLERANCE:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _busy_frac(served: Verification) -> float | None:
    """Share of the replicas' time in steps, over all deployments."""
    replicas = sum(d.mean_replicas for d in served.deployments)
    return sum(d.mean_replicas * d.utilization_frac for d in served.deployments) / replicas if replicas else None


def _spare(plan: Plan, replica_frac: float) -> tuple[float, float]:
    """What the replicas beyond a share cost a month, at the mean price of their offer, and their GPU-hours."""
    a_month = account_of(plan).a_month
    usd, gpu_h = dict[str, float](), dict[str, float]()
    for line in plan.fleet:
        usd[line.offer] = usd.get(line.offer, 0.0) + line.cost_usd_per_month
        paid = a_month(line.instances_by_slot) * line.gpus_per_instance
        gpu_h[line.offer] = gpu_h.get(line.offer, 0.0) + paid
    spare = spare_h = 0.0
    for deployed in (d for pool in plan.pools for d in pool.deployments):
        d = deployed.deployment
        fewer = np.array(deployed.replicas_by_slot) - running(deployed, replica_frac)
        of_gpus = a_month(fewer) * d.gpus_per_replica
        spare_h += of_gpus
        if gpu_h.get(d.offer):
            spare += of_gpus * usd[d.offer] / gpu_h[d.offer]
    return spare, spare_h
