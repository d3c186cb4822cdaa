"""How much more load a plan carries, and how few replicas would do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from planner.plan.plan import Plan
from planner.verification.records import Slack
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

    if not holds(replace(trial, load=1.0)):
        return Slack(holds_beyond=False, days=DAYS)
    load = _last(lambda x: holds(replace(trial, load=x)), 1.0, MOST_LOAD)
    share = _last(lambda x: holds(replace(trial, load=1.0, replica_frac=1 - x)), 0.0, 1 - FEWEST_REPLICAS)
    return Slack(
        holds_to_load=load,
        holds_beyond=load >= MOST_LOAD,
        smallest_fleet_frac=1 - share,
        spare_usd_per_month=_spare_usd(plan, 1 - share),
        days=DAYS,
    )


def _last(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest value at which it holds; it does at the low end."""
    if holds(high):
        return high
    while high - low > TOLERANCE:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _spare_usd(plan: Plan, replica_frac: float) -> float:
    """What the replicas beyond a share cost, at the mean price of a GPU-hour of their offer."""
    hours = np.array([s.hours_per_month for s in plan.slots]) / len({s.month for s in plan.slots})
    usd, gpu_h = dict[str, float](), dict[str, float]()
    for line in plan.fleet:
        usd[line.offer] = usd.get(line.offer, 0.0) + line.cost_usd_per_month
        paid = float(hours @ np.array(line.instances_by_slot)) * line.gpus_per_instance
        gpu_h[line.offer] = gpu_h.get(line.offer, 0.0) + paid
    spare = 0.0
    for told in (d for pool in plan.pools for d in pool.deployments):
        d = told.deployment
        fewer = np.array(told.replicas_by_slot) - running(told, replica_frac)
        if gpu_h.get(d.offer):
            spare += float(hours @ fewer) * d.gpus_per_replica * usd[d.offer] / gpu_h[d.offer]
    return spare
