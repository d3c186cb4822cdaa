"""Requests that are too long: refused, as they are not let in, or sent past deployments that cannot hold them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.case.length_buckets import too_long_frac
from planner.plan.plan import Plan
from planner.plan.serve_commands import longest_held

WHOLLY = 0.5
"""share of a length that is too long, from which on all of it is"""


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
