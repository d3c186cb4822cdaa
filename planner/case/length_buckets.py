"""Length buckets: requests of about one length, each pair of a slice of prompts and one of answers.

Where a workload's requests exceed the context of one of its models, or the longest that it lets in, each pair is cut
there as well, by the tokens of prompt and answer together: a bucket then fits that context as a whole, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np

from planner.case.case import Bucket, LengthLimit, Workload
from planner.performance.length_spread import LengthSpread, cv2_within_slices, lengths_at, slices
from planner.performance.long_requests import Part, longer_than, share_longer

SMALLEST_SHARE = 1e-4
"""of the requests: fewer are neither cut off nor counted as too long"""
SMALL_PIECE = 1e-3
"""pieces beyond a cut below this share are put together"""
MOST_REFUSED_FRAC = 1e-3
"""share of its requests that a workload refuses, at most, where nobody says how long they may be"""
MOST_REFUSED_OF_SPREAD_FRAC = 1e-2
"""the same where lengths are given by percentiles: how they go on beyond p95 is an assumption, which models of that
context show to be wrong"""
EDGES = np.concatenate([np.arange(0, 0.8, 0.1), np.arange(0.8, 0.92, 0.02), np.arange(0.92, 0.9999, 0.005), [1.0]])
"""quantiles between which prompts count as one, the closer the longer they are"""
MOST_CUT_OFF_FRAC = 0.99
"""share of its requests that a workload may refuse because somebody says so"""


def buckets_from(inputs: list[tuple[float, float]], outputs: list[tuple[float, float]]) -> tuple[Bucket, ...]:
    """Every pair of an input and an output slice (lengths taken as independent)."""
    return tuple(
        Bucket(share_frac=p * q, input_tokens=max(1.0, i), output_tokens=max(1.0, o))
        for p, i in inputs
        for q, o in outputs
        if p * q >= SMALLEST_SHARE
    )


def must_hold(buckets: tuple[Bucket, ...], percentile: float, outputs: bool = False) -> list[bool]:
    """Which buckets an objective at this percentile binds: all but the longest prompts (or answers) beyond it."""
    lengths = [b.output_tokens if outputs else b.input_tokens for b in buckets]
    pairs = list(zip(lengths, (b.share_frac for b in buckets), strict=True))
    shorter = {n: sum(share for length, share in pairs if length < n) for n in set(lengths)}
    return [shorter[n] < percentile - 1e-9 for n in lengths]


@dataclass(frozen=True)
class Lengths:
    """Buckets of the requests that are let in, and what they were cut from and at."""

    buckets: tuple[Bucket, ...]
    input_spread: LengthSpread | None = None
    output_spread: LengthSpread | None = None
    length_cuts: tuple[int, ...] | None = None
    length_limit: LengthLimit | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """of a workload"""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def spread_lengths(
    prompts: LengthSpread, answers: LengthSpread, contexts: Iterable[int], longest: int | None = None
) -> Lengths:
    """Lengths by their distributions, cut at the contexts that they exceed and at the longest that is let in.

    Where nobody says how long a request may be, it is the largest context if hardly any is longer.
    """
    known = sorted(set(contexts))
    if longest is None and SMALLEST_SHARE <= share_longer(prompts, answers, known[-1]) <= MOST_REFUSED_OF_SPREAD_FRAC:
        longest = known[-1]
    refused = share_longer(prompts, answers, longest) if longest is not None else 0.0
    if refused > MOST_CUT_OFF_FRAC:
        return Lengths(())
    refused = refused if refused >= SMALLEST_SHARE else 0.0
    cuts, above = [], 1.0
    for tokens in known:
        longer = share_longer(prompts, answers, tokens)
        if above - longer >= SMALLEST_SHARE and longer - refused >= SMALLEST_SHARE:
            cuts.append(tokens)
            above = longer
    limit = None if longest is None else LengthLimit(tokens=longest, refused_frac=refused)
    buckets = cut_at(prompts, answers, tuple(cuts), longest if refused else None).buckets
    return Lengths(buckets, prompts, answers, tuple(cuts) or None, limit)


def given_lengths(buckets: tuple[Bucket, ...], contexts: Iterable[int], longest: int | None = None) -> Lengths:
    """Lengths by the buckets of a file, each as long as it says."""
    if longest is None:
        largest = max(contexts)
        longest = largest if 0 < _share_over(buckets, largest) <= MOST_REFUSED_FRAC else None
    if longest is None:
        return Lengths(buckets)
    refused = _share_over(buckets, longest)
    if refused > MOST_CUT_OFF_FRAC:
        return Lengths(())
    kept = tuple(b for b in buckets if _tokens(b) <= longest)
    if refused:
        kept = tuple(b.model_copy(update={"share_frac": min(1.0, b.share_frac / (1 - refused))}) for b in kept)
    return Lengths(kept, length_limit=LengthLimit(tokens=longest, refused_frac=refused))


def too_long_frac(w: Workload, tokens: float) -> np.ndarray:
    """Share of the requests of each bucket that have more tokens than that [bucket]."""
    if w.length_limit is not None and tokens >= w.length_limit.tokens:
        return np.zeros(len(w.buckets))
    cut = cut_of(w)
    if cut is None:
        return np.array([float(_tokens(b) > tokens) for b in w.buckets])
    assert w.input_spread is not None and w.output_spread is not None
    return cut.too_long_frac(longer_than(w.input_spread, w.output_spread, tokens).share, tokens)


def too_long_share(w: Workload, tokens: float) -> float:
    """Share of the requests that are let in which have more tokens than that."""
    return float(np.dot([b.share_frac for b in w.buckets], too_long_frac(w, tokens)))


def prompts_of(w: Workload) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Prompts by length and by what of them is cached: (share, tokens, cached tokens), each [kind of prompt].

    Of what arrives the longest prompts are refused, so a percentile of the others is a lower one of all.
    """
    if w.input_spread is not None:
        levels = w.admitted_frac * (EDGES[1:] + EDGES[:-1]) / 2
        normals = np.array([NormalDist().inv_cdf(level) for level in levels.tolist()])
        share, tokens = np.diff(EDGES), lengths_at(w.input_spread, levels, normals)
    else:
        share = np.array([b.share_frac for b in w.buckets])
        tokens = np.array([b.input_tokens for b in w.buckets])
    cached = np.zeros_like(tokens)
    for part, hits in ((w.shared_prefix_tokens, w.prefix_hit_frac), (w.template_tokens, w.template_hit_frac)):
        if part and hits:
            found = np.minimum(cached + part, tokens)
            share, tokens = np.concatenate([hits * share, (1 - hits) * share]), np.tile(tokens, 2)
            cached = np.concatenate([found, cached])
    return share / share.sum(), tokens, cached


def prompt_cv2_within(w: Workload) -> float:
    """What the buckets lack of the variance of the prompts, as much in each."""
    if w.input_spread is None:
        return 0.0
    cut = cut_of(w) if w.length_cuts or w.admitted_frac < 1 else None
    return cv2_within_slices(w.input_spread) if cut is None else cut.prompt_cv2_within


def cut_of(w: Workload) -> Cut | None:
    """How the buckets of a workload were cut; None where they are not from distributions."""
    if w.input_spread is None or w.output_spread is None:
        return None
    limit = w.length_limit
    longest = limit.tokens if limit is not None and limit.refused_frac else None
    return cut_at(w.input_spread, w.output_spread, w.length_cuts or (), longest)


@dataclass(frozen=True, eq=False)
class Cut:
    """Buckets, and which of them a request counts as."""

    buckets: tuple[Bucket, ...]
    bounds: tuple[float, ...]
    """tokens of whole requests between which buckets lie, the last perhaps without end"""
    longer: np.ndarray
    """share of all that arrive which is longer than each bound [prompt slice, answer slice, bound]"""
    bucket_of: np.ndarray
    """[prompt slice, answer slice, between two bounds]"""
    prompt_cv2_within: float
    """what the buckets lack of the variance of the prompts: the mean square over that of their means, less one"""

    def index(self, prompt_slice: np.ndarray, answer_slice: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """The bucket of requests, by the slices that their prompts and answers are in, and their tokens in all."""
        between = np.searchsorted(self.bounds[1:-1], tokens)
        found: np.ndarray = self.bucket_of[prompt_slice, answer_slice, between]
        return found

    def too_long_frac(self, longer: np.ndarray, tokens: float) -> np.ndarray:
        """Share of each bucket that is longer than some tokens, of which there are so many in each pair [bucket]."""
        pieces = self.longer[:, :, :-1] - self.longer[:, :, 1:]
        inside = np.clip(longer[:, :, None] - self.longer[:, :, 1:], 0.0, pieces)
        starts, ends = np.array(self.bounds[:-1]), np.array(self.bounds[1:])
        over = np.where(tokens >= ends, 0.0, np.where(tokens <= starts, pieces, inside))
        sums = [np.bincount(self.bucket_of.ravel(), x.ravel(), len(self.buckets)) for x in (over, pieces)]
        fractions: np.ndarray = sums[0] / sums[1]
        return fractions


@lru_cache(maxsize=256)
def cut_at(prompts: LengthSpread, answers: LengthSpread, cuts: tuple[int, ...], longest: int | None) -> Cut:
    """Pairs of slices, cut at tokens of whole requests; those longer than the longest are left out."""
    inputs, outputs = slices(prompts), slices(answers)
    bounds = (0.0, *cuts, float("inf") if longest is None else longest)
    whole, *beyond = (longer_than(prompts, answers, bound) for bound in bounds)
    exact = buckets_from(inputs, outputs)
    means = np.array([(b.input_tokens, b.output_tokens) for b in exact]).reshape(*whole.share.shape, 2)
    parts = [part.with_means(whole, *np.moveaxis(means, 2, 0)) for part in (whole, *beyond)]
    longer = np.stack([part.share for part in parts], axis=2)
    pairs = np.arange(len(inputs) * len(outputs)).reshape(len(inputs), len(outputs))
    if len(bounds) == 2 and longest is None:
        return Cut(exact, bounds, longer, pairs[:, :, None], cv2_within_slices(prompts))
    let_in = 1 - float(longer[:, :, -1].sum())
    buckets: list[Bucket] = []
    bucket_of = np.zeros((*pairs.shape, len(parts) - 1), dtype=np.int64)
    for k, piece in enumerate(a.less(b) for a, b in pairwise(parts)):
        group = _put_together(piece.share / let_in)
        for number in range(group.max() + 1):
            bucket_of[:, :, k][group == number] = len(buckets)
            buckets.append(_bucket(piece, group == number, let_in))
    square = float((whole.prompt_square - parts[-1].prompt_square).sum()) / let_in
    within = square / sum(b.share_frac * b.input_tokens**2 for b in buckets) - 1
    return Cut(tuple(buckets), bounds, longer, bucket_of, max(0.0, within))


def _put_together(share: np.ndarray) -> np.ndarray:
    """Numbers of the buckets that pairs of slices come to, small ones in one or with the largest [prompt, answer]."""
    large = share >= SMALL_PIECE
    numbers = np.where(large, np.cumsum(large).reshape(share.shape) - 1, large.sum())
    if large.any() and share[~large].sum() < SMALLEST_SHARE:
        numbers[~large] = numbers[np.unravel_index(np.argmax(share), share.shape)]
    return numbers


def _bucket(piece: Part, where: np.ndarray, let_in: float) -> Bucket:
    share = float(piece.share[where].sum())
    prompt, answer = float(piece.prompt[where].sum()), float(piece.answer[where].sum())
    return Bucket(
        share_frac=min(1.0, share / let_in),
        input_tokens=max(1.0, prompt / share),
        output_tokens=max(1.0, answer / share),
    )


def _tokens(b: Bucket) -> float:
    return b.input_tokens + b.output_tokens


def _share_over(buckets: tuple[Bucket, ...], tokens: float) -> float:
    return sum(b.share_frac for b in buckets if _tokens(b) > tokens)
