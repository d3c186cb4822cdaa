"""End-to-end time per output token: from arrival to the last token, over the tokens of the answer.

A request that takes s until its first token beside a wait W, and has n tokens at a pace t, takes

    r = (s + W + (n - 1) t) / n

for each, so that a promise R is broken where W > n R - s - (n - 1) t: by short answers to long prompts first. Its
percentile is over the requests of a workload, all kinds of prompts with all answers; prompts wait as they do for TTFT,
and the pace is that of a full replica at the percentile of TPOT.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from planner.case.case import Workload
from planner.performance.length_spread import lengths_at
from planner.performance.queueing import SAME_SHARE, late_frac
from planner.performance.sessions import sample_of

FROM_SHORT = np.concatenate([np.arange(0.0, 0.1, 0.005), np.arange(0.1, 0.3, 0.02), np.linspace(0.3, 1.0, 21)])
"""quantiles between which answers count as one, the closer the shorter they are"""
HALVINGS = 50


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers by length with their shares: to every prompt alike [1, answer], or of each kind of prompt [prompt, 1]."""

    share_frac: np.ndarray
    tokens: np.ndarray


def answers_of(w: Workload, prompts: int) -> Answers:
    """Of a workload whose prompts are of so many kinds: where its file gives buckets, each has an answer of its own."""
    shares, levels = np.diff(FROM_SHORT), (FROM_SHORT[1:] + FROM_SHORT[:-1]) / 2
    if w.sessions is not None:
        some = sample_of(w.sessions)
        order = np.argsort(some.answer, kind="stable")
        below = np.cumsum(some.weight[order]) / some.weight.sum()
        tokens = some.answer[order][np.minimum(np.searchsorted(below, levels), len(order) - 1)]
    elif w.output_spread is not None:
        tokens = lengths_at(w.output_spread, levels, np.array([NormalDist().inv_cdf(x) for x in levels.tolist()]))
    else:
        outputs = np.array([b.output_tokens for b in w.buckets])
        return Answers(np.ones((prompts, 1)), np.maximum(np.resize(outputs, (prompts, 1)), 1.0))
    return Answers(shares[None, :], np.maximum(tokens, 1.0)[None, :])


@dataclass(frozen=True, eq=False)
class PerToken:
    """Requests of a workload on a replica: what each takes beside waiting, with its share [prompt, answer]."""

    share_frac: np.ndarray
    alone_s: np.ndarray
    """from arrival to the last token where nothing waits"""
    tokens: np.ndarray

    def over_s(self, limit_s: float) -> np.ndarray:
        """How much longer each takes than so much per token, without waiting; below 0 is room for that [request]."""
        over: np.ndarray = (self.alone_s - limit_s * self.tokens).ravel()
        return over

    @property
    def shares(self) -> np.ndarray:
        """[request]"""
        return self.share_frac.ravel()

    def percentile_s(self, wait_s: float, waiting_share: float, percentile: float) -> float:
        """Time per token that such a share of the requests keeps where prompts wait, by halving."""
        waits = wait_s / waiting_share if waiting_share > 0 else 0.0
        low, high = 0.0, float((self.alone_s / self.tokens).max())
        most = 1 - percentile + SAME_SHARE
        while self._late_frac(high, waits, waiting_share) > most:
            low, high = high, 2 * high
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self._late_frac(middle, waits, waiting_share) <= most else (middle, high)
        return high

    def _late_frac(self, limit_s: float, waits: float, waiting_share: float) -> float:
        over = self.over_s(limit_s)
        if waits <= 0:
            return float(self.shares @ (over > 0))
        return late_frac(0.0, over, self.shares, waits, waiting_share)


def per_token_of(w: Workload, prompt_shares: np.ndarray, first_s: np.ndarray, pace_s: float) -> PerToken:
    """Prompts with their shares and the time until the first token, each with the answers of the workload."""
    answers = answers_of(w, len(prompt_shares))
    alone_s = first_s[:, None] + (answers.tokens - 1) * pace_s
    tokens = np.broadcast_to(answers.tokens, alone_s.shape)
    return PerToken(prompt_shares[:, None] * answers.share_frac, alone_s, tokens)
