"""End-to-end time per token, counted once more: the share of requests that are late in each slot, answer by answer."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from planner.candidates.replica import Replica
from planner.case.case import LatencyTarget, Workload
from planner.performance.length_spread import quantile
from planner.performance.sessions import sample_of
from planner.plan.account.flows import Served
from planner.plan.plan import DeploymentPlan

ROUTED_LOAD, MOST_BUSY = 0.95, 0.999
"""share of a load limit that is planned with behind a router; of its time that a replica spends on prompts, at most"""
ANSWERS = 1000
"""equally likely ones that stand for all"""
LATE = 0.01
"""share of the requests by which two ways to count may differ"""


def times_per_token_are_kept(members: list[Served], planned: DeploymentPlan, replica: Replica) -> Iterator[str]:
    some = [(k, s.seen, s.w.e2e_per_token) for k, s in enumerate(members)]
    for k, w, target in some:
        if target is None:
            continue
        loads = zip(planned.load_by_slot, planned.replicas_by_slot, strict=True)
        for load, n in sorted({(load / n, n) for load, n in loads if n}):
            late = _late_frac(replica, planned, k, w, target, load, n)
            if late > 1 - target.percentile + LATE:
                most = f"{1e3 * target.seconds:g} ms end to end for each token"
                yield f"{late:.1%} of {w.name} take more than {most} where {n} replicas are {load:.0%} busy"
                return


def _late_frac(
    replica: Replica, planned: DeploymentPlan, k: int, w: Workload, target: LatencyTarget, load: float, n: int
) -> float:
    """Share of the requests of the k-th member that are late."""
    service, cv2, seconds = replica.all_prompts
    busy = min(MOST_BUSY, _lone_load(planned, load, n) * service / seconds)
    wait = (replica.traffic.arrival_scv + cv2) / 2 * service / (1 - busy)  # of those who wait
    prompts, first = replica.prompts[k].share_frac, replica.lone_ttfts_s[k]
    pace = _pace_s(replica, planned)
    late = 0.0
    for share, first_s, answers in zip(prompts.tolist(), first.tolist(), _answers(w, len(first)), strict=True):
        room = answers * target.seconds - first_s - (answers - 1) * pace
        late += share * float(np.mean(np.where(room < 0, 1.0, busy * np.exp(-np.maximum(room, 0.0) / wait))))
    return late / float(prompts.sum())


def _lone_load(planned: DeploymentPlan, load: float, n: int) -> float:
    """The load at which prompts of a lone replica wait as long as those of n behind a router."""
    routing = planned.deployment.routing
    if routing is None:
        return load
    root = math.sqrt(routing.prompt_share_frac)
    left = (1 - root * min(load / ROUTED_LOAD, 1.0)) * math.pow(n, routing.exponent)
    return max(0.0, (1 - left) / root)


def _pace_s(replica: Replica, planned: DeploymentPlan) -> float:
    """Of a token after the first, by the time that lengths take; as promised where rates were measured."""
    found, seconds = replica.throughput, planned.deployment.seconds_per_request
    rows = zip(replica.traffic.shares.tolist(), seconds, found.tpot_s.tolist(), found.bound_by, strict=True)
    measured, busy_s, paced_s = replica.traffic.tpot.seconds, 0.0, 0.0
    for share, u, s, why in rows:
        if u is not None:
            busy_s += share * u
            paced_s += share * u * (measured if why == "measured table" else s)
    return paced_s / busy_s


def _answers(w: Workload, prompts: int) -> Iterator[np.ndarray]:
    """Tokens of the answers to each kind of prompt, equally likely."""
    levels = (np.arange(ANSWERS) + 0.5) / ANSWERS
    if w.sessions is not None:
        turns = sample_of(w.sessions)
        order = np.argsort(turns.answer)
        whole = np.interp(levels, np.cumsum(turns.weight[order]) / turns.weight.sum(), turns.answer[order])
    elif w.output_spread is not None:
        whole = np.array([quantile(w.output_spread, level) for level in levels.tolist()])
    else:
        tokens = [b.output_tokens for b in w.buckets]
        yield from (np.array([max(1.0, tokens[i % len(tokens)])]) for i in range(prompts))
        return
    yield from (np.maximum(whole, 1.0) for _ in range(prompts))
