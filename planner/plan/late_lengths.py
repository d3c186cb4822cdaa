"""Lengths whose requests get their first token late, even alone in a replica of the deployment that serves them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from planner.plan.account import Account, account_of
from planner.plan.plan import Plan, PoolPlan

SMALLEST_SHARE = 5e-4
"""of a workload's requests that is worth a line"""


@dataclass(frozen=True)
class LateLengths:
    """Requests of a workload that a deployment answers late for their length."""

    workload: str
    deployment: str
    share_frac: float
    """of the workload's requests on GPUs"""
    input_tokens: float
    """of the shortest of them"""
    ttft_s: float
    """of a lone request of that length, at the objective's percentile"""
    target_s: float
    percentile: float
    apart: bool
    """whether lengths are routed apart: then nothing on the menu is faster with these; else the objective is for all"""


def late_lengths(plan: Plan) -> Iterator[LateLengths]:
    """What is given up of TTFT, by deployment."""
    view = account_of(plan)
    for pool in plan.pools:
        members = view.members(pool)
        if len(members) > 1 or members[0].w.deadline_h is not None:
            continue
        w = members[0].w
        carried = [_carried(view, pool, k) for k in range(len(pool.deployments))]
        total = float(sum(each.sum() for each in carried))
        for k, (told, got) in enumerate(zip(pool.deployments, carried, strict=True)):
            d = told.deployment
            replica = view.whole_replica(pool, k)
            late = np.flatnonzero(~replica.in_time & (got > 0))
            share = float(got[late].sum()) / total
            if share > SMALLEST_SHARE:
                shortest = min(late.tolist(), key=lambda b: w.buckets[b].input_tokens)
                yield LateLengths(
                    workload=w.name,
                    deployment=str(d.variant),
                    share_frac=share,
                    input_tokens=w.buckets[shortest].input_tokens,
                    ttft_s=float(replica.ttft_by_length_s[shortest]),
                    target_s=w.ttft.seconds,
                    percentile=w.ttft.percentile,
                    apart=len(pool.deployments) > 1 or None in d.seconds_per_request,
                )


def _carried(view: Account, pool: PoolPlan, k: int) -> np.ndarray:
    """Requests of a month that the k-th deployment of a pool answers [bucket]."""
    return np.asarray(view.hours @ view.carried(pool, k))
