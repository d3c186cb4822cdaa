"""Requests that are longer than a number of tokens, prompt and answer together, where lengths are spread.

Prompts and answers are taken as independent, as length buckets do. Those of the two that differ by fewer tokens are
gone through in small steps; for each of them the others that are too long for what is left are a tail, whose share and
moments are known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from statistics import NormalDist

import numpy as np

from planner.performance.length_spread import CUTS, ONE_LENGTH, LengthSpread, lengths_at

LOWEST, HIGHEST, STEP = -9.0, 12.0, 0.01
"""standard normal values between which lengths are tabulated, and the step: moments of wide spreads lie far out"""


@dataclass(frozen=True, eq=False)
class Part:
    """Requests by the slices that their prompt and answer are in, as shares and sums over all [prompt, answer]."""

    share: np.ndarray
    prompt: np.ndarray
    """tokens a request, over all requests"""
    prompt_square: np.ndarray
    answer: np.ndarray

    def with_means(self, whole: Part, prompt: np.ndarray, answer: np.ndarray) -> Part:
        """The part of a whole whose slices have exactly these means, which the table has but for its steps."""
        return replace(
            self,
            prompt=self.prompt * prompt * whole.share / whole.prompt,
            answer=self.answer * answer * whole.share / whole.answer,
        )

    def less(self, other: Part) -> Part:
        """What is left without another part of it."""
        return Part(*(np.maximum(getattr(self, n) - getattr(other, n), 0.0) for n in self.__dataclass_fields__))


@lru_cache(maxsize=4096)
def longer_than(prompts: LengthSpread, answers: LengthSpread, tokens: float) -> Part:
    """The requests of more tokens than that."""
    by_answer = prompts.p95 - prompts.p50 >= answers.p95 - answers.p50
    stepped, rest = (answers, prompts) if by_answer else (prompts, answers)
    found = _longer_than(_table(stepped), _table(rest), tokens)
    if by_answer:
        return Part(found.share.T, found.rest.T, found.rest_square.T, found.stepped.T)
    return Part(found.share, found.stepped, found.stepped_square, found.rest)


@dataclass(frozen=True, eq=False)
class _Longer:
    """Shares and sums of what is longer, by the slices of the lengths gone through and of the rest [stepped, rest]."""

    share: np.ndarray
    stepped: np.ndarray
    stepped_square: np.ndarray
    rest: np.ndarray
    rest_square: np.ndarray


def _longer_than(stepped: _Table, rest: _Table, tokens: float) -> _Longer:
    low, high = rest.edges[:-1], rest.edges[1:]
    begin = np.clip(rest.place(tokens - stepped.steps_length)[:, None], low, high)
    after = np.clip(np.searchsorted(rest.values, begin), 1, len(rest.values) - 1)
    part = (begin - rest.values[after - 1]) / (rest.values[after] - rest.values[after - 1])
    owner = stepped.steps_slice == np.arange(len(stepped.edges) - 1)[:, None]

    def summed(of_step: np.ndarray | float, of_rest: np.ndarray) -> np.ndarray:
        above = of_rest[after - 1] + part * (of_rest[after] - of_rest[after - 1])
        tail = above - np.interp(high, rest.values, of_rest)
        return np.asarray((owner * (stepped.steps_share * of_step)) @ tail)

    return _Longer(
        share=summed(1.0, rest.upper),
        stepped=summed(stepped.steps_length, rest.upper),
        stepped_square=summed(stepped.steps_length**2, rest.upper),
        rest=summed(1.0, rest.first),
        rest_square=summed(1.0, rest.second),
    )


def share_longer(prompts: LengthSpread, answers: LengthSpread, tokens: float) -> float:
    """Share of the requests that have more tokens than that."""
    return float(longer_than(prompts, answers, tokens).share.sum())


@dataclass(frozen=True, eq=False)
class _Table:
    """A length distribution by standard normal values, and what lies above each of them."""

    values: np.ndarray
    lengths: np.ndarray
    upper: np.ndarray
    """share above"""
    first: np.ndarray
    second: np.ndarray
    """length, and its square, over all that lie above"""
    edges: np.ndarray
    """of the slices"""
    steps_share: np.ndarray
    steps_length: np.ndarray
    steps_slice: np.ndarray
    """small parts of it, one after the other: their share, length and slice"""

    def place(self, length: np.ndarray) -> np.ndarray:
        """Where lengths begin to be larger than these."""
        if self.lengths[0] == self.lengths[-1]:
            return np.where(self.lengths[0] > length, LOWEST, HIGHEST)
        found: np.ndarray = np.interp(length, self.lengths, self.values, left=LOWEST, right=HIGHEST)
        return found


@lru_cache(maxsize=1024)
def _table(spread: LengthSpread) -> _Table:
    values, upper = _normal()
    one_length = spread.p95 <= spread.p50 * (1 + ONE_LENGTH)
    cuts = [] if one_length else [NormalDist().inv_cdf(q) for q in CUTS[1:-1]]
    edges = np.array([LOWEST, *cuts, HIGHEST])
    lengths = np.full_like(values, spread.p50) if one_length else lengths_at(spread, 1 - upper, values)
    lengths = np.maximum.accumulate(lengths)
    share = -np.diff(upper)
    middle = (lengths[1:] + lengths[:-1]) / 2
    first, second = (np.append(np.cumsum((share * x)[::-1])[::-1], 0.0) for x in (middle, middle**2))
    counted = share > 0
    return _Table(
        values=values,
        lengths=lengths,
        upper=upper,
        first=first,
        second=second,
        edges=edges,
        steps_share=share[counted],
        steps_length=middle[counted],
        steps_slice=np.searchsorted(edges, values[:-1][counted], side="right") - 1,
    )


@cache
def _normal() -> tuple[np.ndarray, np.ndarray]:
    """Standard normal values, those of the cuts among them, and the share above each."""
    cuts = [NormalDist().inv_cdf(q) for q in CUTS[1:-1]]
    values = np.unique(np.r_[np.linspace(LOWEST, HIGHEST, round((HIGHEST - LOWEST) / STEP) + 1), cuts])
    return values, np.array([0.5 * math.erfc(x / math.sqrt(2)) for x in values])
