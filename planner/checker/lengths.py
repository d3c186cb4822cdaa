"""Requests are as long as the case says, and those that nobody lets in are refused, counted, and served by nobody."""

from __future__ import annotations

from collections.abc import Iterator

from planner.case.case import Workload
from planner.performance.length_spread import slices
from planner.performance.long_requests import longer_than
from planner.plan.view import PlanView, Served, differs

IGNORED_FRAC = 1e-4
"""share of its requests that may be too long for whoever serves a workload, without anybody saying so"""
CLOSE_FRAC = 2e-4
"""by which lengths may be off that are added up in steps"""


def longer_share(w: Workload, tokens: float) -> float:
    """Share of the requests that are let in which have more tokens than that."""
    if w.length_limit is not None and tokens >= w.length_limit.tokens:
        return 0.0
    if w.input_spread is None or w.output_spread is None:
        return sum(b.share_frac for b in w.buckets if b.input_tokens + b.output_tokens > tokens)
    longer = float(longer_than(w.input_spread, w.output_spread, tokens).share.sum())
    refused = w.length_limit.refused_frac if w.length_limit else 0.0
    return max(0.0, longer - refused) / (1 - refused)


def refusals_are_told(facts: PlanView, s: Served) -> Iterator[str]:
    """What is refused for its length is what the plan says, and no bucket has it."""
    limit, told = s.w.length_limit, s.told
    refused = limit.refused_frac if limit else 0.0
    yield from differs("longest_request_tokens", told.longest_request_tokens, limit.tokens if limit else None)
    arriving = 3600 * facts.a_month(facts.arriving_rps(s.w))
    yield from differs("refused_share_frac", told.refused_share_frac, refused or None)
    yield from differs("refused_requests_per_month", told.refused_requests_per_month, refused * arriving or None)
    yield from _lengths_are_those_let_in(s.w)


def _lengths_are_those_let_in(w: Workload) -> Iterator[str]:
    limit = w.length_limit
    if abs(sum(b.share_frac for b in w.buckets) - 1) > CLOSE_FRAC:
        yield "the shares of its lengths do not add up to all of its requests"
    if limit is not None and any(b.input_tokens + b.output_tokens > limit.tokens for b in w.buckets):
        yield f"requests of more than the {limit.tokens} tokens that are let in are planned for"
    if w.input_spread is None or w.output_spread is None:
        return
    beyond = longer_than(w.input_spread, w.output_spread, limit.tokens) if limit else None
    refused = float(beyond.share.sum()) if beyond else 0.0
    if beyond is None or refused < IGNORED_FRAC:
        beyond, refused = None, 0.0
    if limit is not None and abs(limit.refused_frac - refused) > CLOSE_FRAC * refused:
        yield f"{refused:.4%} of its requests are longer than {limit.tokens} tokens, not {limit.refused_frac:.4%}"
    sides = (("prompt", "input_tokens", w.input_spread), ("answer", "output_tokens", w.output_spread))
    for what, key, spread in sides:
        arriving = sum(share * max(1.0, tokens) for share, tokens in slices(spread))
        mean = (arriving - (float(getattr(beyond, what).sum()) if beyond else 0.0)) / (1 - refused)
        counted = sum(b.share_frac * getattr(b, key) for b in w.buckets)
        if abs(counted - mean) > CLOSE_FRAC * arriving:
            yield f"the mean {what} that is let in has {mean:.6g} tokens, not {counted:.6g}"
