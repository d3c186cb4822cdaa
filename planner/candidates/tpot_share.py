"""Which share of answers keeps TPOT among the prompts that begin beside them.

A prompt of p new tokens that adds S to the steps that it takes cannot break TPOT, in whatever number it comes, where
a step full of such prompts, step + S C / p with C tokens in a step, takes no longer. Of the others, with requests at
a rate r for each of m replicas, whose gaps have a squared coefficient of variation c2, an answer of n tokens that
takes T meets

    N = r T + (c2 - 1) / 2m

on its replica: what a renewal process has on average after an arrival. Each adds S / n to the time of a token. Long
ones break TPOT by themselves, and none of those must come (Poisson); the rest may add up, which is taken as normal,
with c2 for how their number varies:

    share = exp(-N q) x Phi((TPOT - t - N E / n) / sqrt(N (E2 + (c2 - 1) E^2) / n^2))

q is the share of long prompts, E and E2 are mean and mean square of what the rest takes, and t is the mean time of a
token beside harmless prompts. So short answers in bursts, and questions beside whole documents, are late more often
than mean lengths show.
"""

from __future__ import annotations

import math

import numpy as np

from planner.candidates.replica import MANY, Replica
from planner.performance.queueing import MOST_BUSY
from planner.performance.steady_state import steady_state

NO_SPREAD_S = 1e-12
"""where prompts do not vary at all"""
_normal_cdf = np.vectorize(lambda z: 0.5 * math.erfc(-z / math.sqrt(2)), otypes=[float])


def keeps_tpot(replica: Replica, load: float) -> bool:
    """Whether enough answers do on each of many replicas at a mean load."""
    return kept_frac(replica, load) >= replica.traffic.tpot.percentile


def kept_frac(replica: Replica, load: float) -> float:
    """Share of the answers whose TPOT holds on each of many replicas at a mean load; those of one token have none."""
    traffic, found, engine = replica.traffic, replica.throughput, replica.machine.engine
    shares = np.where(replica.serves, traffic.shares, 0.0)
    shares = shares / shares.sum()
    answers, prefill_s = np.maximum(traffic.lengths.output_tokens, 1.0), found.prefill_s * engine.interruption_frac
    means = (float(shares @ x) for x in (traffic.lengths.input_tokens, answers, found.new_tokens))
    step_s = float(steady_state(replica.machine, max(1.0, load * replica.batch), *means).step_s)
    rate, tpot_s, more_in_bursts = load / replica.mean_seconds, traffic.tpot.seconds, max(0.0, traffic.arrival_scv - 1)
    harmful = step_s + prefill_s * engine.chunk_tokens / found.new_tokens > tpot_s

    def token_s(prompts: np.ndarray) -> float:
        return step_s / (1 - min(rate * float((shares * prompts) @ prefill_s), MOST_BUSY))

    room_s = tpot_s - token_s(~harmful)
    met = rate * answers * token_s(np.ones_like(harmful)) + more_in_bursts / (2 * MANY)
    long = harmful & (prefill_s > room_s * answers[:, None])  # [answer, prompt]
    rest = np.where(harmful & ~long, shares, 0.0)
    mean, square = rest @ prefill_s, rest @ (prefill_s**2 * (1 + replica.prompt_cv2_within))
    bursts = more_in_bursts * mean**2 / np.maximum(rest.sum(axis=1), np.finfo(float).tiny)
    spread = np.sqrt(met * (square + bursts)) / answers
    in_time = _normal_cdf((room_s - met * mean / answers) / np.maximum(spread, NO_SPREAD_S))
    return float(shares @ np.where(answers > 1, np.exp(-met * (long @ shares)) * in_time, 1.0))
