"""Lengths that a plan does not serve as asked: late first tokens, late answers, and requests that are too long.

What is too long is refused, as it is not let in, or sent past deployments that cannot hold it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from planner.candidates.tpot_share import kept_frac
from planner.case.length_buckets import too_long_frac
from planner.io.remembered import of_the_last
from planner.plan.account.account import Account, account_of
from planner.plan.plan import Plan, PoolPlan
from planner.plan.serve_commands import longest_held

SMALLEST_SHARE = 5e-4
"""of a workload's requests that is worth a line"""
WHOLLY = 0.5
"""share of a length that is too long, from which on all of it is"""


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
        for k, (planned, got) in enumerate(zip(pool.deployments, carried, strict=True)):
            d = planned.deployment
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


@dataclass(frozen=True)
class LateAnswers:
    """A deployment on which fewer answers than promised keep TPOT, by a careful estimate."""

    workloads: tuple[str, ...]
    deployment: str
    share_frac: float
    """of its answers that keep it, in the busiest slot"""
    target_s: float
    percentile: float


@of_the_last
def late_answers(plan: Plan) -> tuple[LateAnswers, ...]:
    """Where prompts keep answers waiting for too long; none where serving the plan showed that promises are kept."""
    return tuple(_late_answers(plan))


def _late_answers(plan: Plan) -> Iterator[LateAnswers]:
    if (plan.verified is not None and plan.verified.kept) or (plan.sampled is not None and not plan.sampled.missed):
        return
    account = account_of(plan)
    for pool, k, d in account.hosted:
        if account.may_wait(pool):
            continue
        replica = account.replica(pool, k)
        loads = zip(account.load(pool, k).tolist(), d.replicas_by_slot, strict=True)
        share = kept_frac(replica, max((load / n for load, n in loads if n), default=0.0))
        tpot = replica.traffic.tpot
        if share < tpot.percentile:
            yield LateAnswers(pool.workloads, str(d.variant), share, tpot.seconds, tpot.percentile)


def _carried(view: Account, pool: PoolPlan, k: int) -> np.ndarray:
    """Requests of a month that the k-th deployment of a pool answers [bucket]."""
    return np.asarray(view.hours @ view.carried(pool, k))


@dataclass(frozen=True)
class TooLong:
    """Requests of a workload that are longer than some tokens, prompt and answer together."""

    workload: str
    tokens: int
    share_frac: float
    """of the requests that arrive where they are refused, else of those that are let in"""
    requests_per_month: float
    to: str | None
    """the API that answers them, or nothing where they are refused or shed"""


def refused_requests(plan: Plan) -> Iterator[TooLong]:
    """What is not let in."""
    for w in plan.workloads:
        if w.longest_request_tokens and w.refused_share_frac and w.refused_requests_per_month:
            yield TooLong(w.name, w.longest_request_tokens, w.refused_share_frac, w.refused_requests_per_month, to=None)


def passed_on_requests(plan: Plan) -> Iterator[TooLong]:
    """What is let in and is longer than any deployment of its pool admits."""
    for w, planned in zip(plan.case.workloads, plan.workloads, strict=True):
        pool = plan.pool_of(w.name)
        if not pool.deployments:
            continue
        tokens = max(longest_held(plan, d.deployment) for d in pool.deployments)
        too_long = zip(w.buckets, too_long_frac(w, tokens).tolist(), strict=True)
        share = sum(b.share_frac for b, over in too_long if over > WHOLLY)
        if share:
            yield TooLong(w.name, tokens, share, share * planned.requests_per_month, to=planned.api)
