"""Requests are as long as the case says, and those that nobody lets in are refused, counted, and served by nobody."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache, lru_cache

import numpy as np

from planner.case.case import Workload
from planner.performance.length_spread import LengthSpread, lengths_at, slices
from planner.performance.long_requests import share_longer

IGNORED_FRAC = 1e-4
"""share of its requests that may be too long for whoever serves a workload, without anybody saying so"""
CLOSE_FRAC = 2e-4
"""by which shares of lengths may be off that are added up in steps"""
CLOSE_MEAN_FRAC = 4e-3
"""by which mean lengths may be off that are added up in other steps"""
FARTHEST, STEPS = 12.0, 4800
"""standard normal values up to which lengths are added up, and in how many steps"""

Mean = tuple[float, float]
"""a mean length, and the same where fewer tokens than one count as one"""


def longer_share(w: Workload, tokens: float) -> float:
    """Share of the requests that are let in which have more tokens than that."""
    if w.length_limit is not None and tokens >= w.length_limit.tokens:
        return 0.0
    if w.input_spread is None or w.output_spread is None:
        return sum(b.share_frac for b in w.buckets if b.input_tokens + b.output_tokens > tokens)
    longer = share_longer(w.input_spread, w.output_spread, tokens)
    refused = w.length_limit.refused_frac if w.length_limit else 0.0
    return max(0.0, longer - refused) / (1 - refused)


def lengths_are_those_let_in(w: Workload) -> Iterator[str]:
    """No bucket has what is refused, and the shares and means are those of the distributions."""
    limit = w.length_limit
    if abs(sum(b.share_frac for b in w.buckets) - 1) > CLOSE_FRAC:
        yield "the shares of its lengths do not add up to all of its requests"
    if limit is not None and any(b.input_tokens + b.output_tokens > limit.tokens for b in w.buckets):
        yield f"requests of more than the {limit.tokens} tokens that are let in are planned for"
    if w.input_spread is None or w.output_spread is None:
        return
    refused = share_longer(w.input_spread, w.output_spread, limit.tokens) if limit else 0.0
    refused = refused if refused >= IGNORED_FRAC else 0.0
    if limit is not None and abs(limit.refused_frac - refused) > CLOSE_FRAC * refused:
        yield f"{refused:.4%} of its requests are longer than {limit.tokens} tokens, not {limit.refused_frac:.4%}"
    if limit is not None and refused:
        let_in, close = mean_lengths_up_to(w.input_spread, w.output_spread, limit.tokens), CLOSE_MEAN_FRAC
    else:
        let_in, close = (_mean_of_all(w.input_spread), _mean_of_all(w.output_spread)), CLOSE_FRAC
    for what, key, (low, high) in zip(("prompt", "answer"), ("input_tokens", "output_tokens"), let_in, strict=True):
        counted = sum(b.share_frac * getattr(b, key) for b in w.buckets)
        if not low * (1 - close) <= counted <= high * (1 + close):
            yield f"the mean {what} that is let in has {low:.6g} tokens, not {counted:.6g}"


def _mean_of_all(spread: LengthSpread) -> Mean:
    mean = sum(share * max(1.0, tokens) for share, tokens in slices(spread))
    return mean, mean


@lru_cache(maxsize=256)
def mean_lengths_up_to(prompts: LengthSpread, answers: LengthSpread, tokens: float) -> tuple[Mean, Mean]:
    """Mean prompt and mean answer of the requests of at most so many tokens.

    Added up over those that are let in, never as all less the refused: of wide spreads that are mostly refused, nearly
    all tokens are in the refused ones. The lengths that differ by fewer tokens are gone through in steps.
    """
    by_answer = prompts.p95 - prompts.p50 >= answers.p95 - answers.p50
    (at, share), (length, below) = map(_steps, (answers, prompts) if by_answer else (prompts, answers))
    middle, each = (at[1:] + at[:-1]) / 2, np.diff(share)

    def of_rest(value: np.ndarray) -> np.ndarray:
        """What the other lengths that fit beside each step add up to."""
        sums = np.append(0.0, np.cumsum(value * np.diff(below)))
        found: np.ndarray = each * np.interp(tokens - middle, length, sums, left=0.0)
        return found

    fitting = of_rest(np.ones(len(length) - 1))
    rest = (length[1:] + length[:-1]) / 2

    def mean(low: np.ndarray, high: np.ndarray) -> Mean:
        return float(low.sum() / fitting.sum()), float(high.sum() / fitting.sum())

    stepped_mean = mean(fitting * middle, fitting * np.maximum(1.0, middle))
    rest_mean = mean(of_rest(rest), of_rest(np.maximum(1.0, rest)))
    return (rest_mean, stepped_mean) if by_answer else (stepped_mean, rest_mean)


def _steps(spread: LengthSpread) -> tuple[np.ndarray, np.ndarray]:
    """Lengths from the shortest on, and the share that is shorter than each."""
    normals, share = _normal_steps()
    return np.maximum.accumulate(lengths_at(spread, share, normals)), share


@cache
def _normal_steps() -> tuple[np.ndarray, np.ndarray]:
    normals = np.linspace(-FARTHEST, FARTHEST, STEPS + 1)
    return normals, np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in normals])
