"""Which share of answers keeps TPOT among the prompts that begin beside them.

A prompt of p new tokens that adds S to the steps that it takes cannot break TPOT, in whatever number it comes, where
a step full of such prompts, step + S C / p with C tokens in a step, takes no longer. Of the others, with requests at
a rate r for each of m replicas, whose gaps have a squared coefficient of variation c2, an answer of n tokens that
takes T meets

    N = r T + (c2 - 1) / 2m

on its replica: what a renewal process has on average after an arrival. Each adds S / n to the time of a token. Long
ones break TPOT by themselves, and none of those must come (Poisson); the rest may add up, which is taken as normal,
with c2 for how their number varies (and how many drafts an answer accepts, where there are drafts):

    share = exp(-N q) x Phi((TPOT - t - N E / n) / sqrt(N (E2 + (c2 - 1) E^2) / n^2))

q is the share of long prompts, E and E2 are mean and mean square of what the rest takes, and t is the mean time of a
token beside harmless prompts. So short answers in bursts, and questions beside whole documents, are late more often
than mean lengths show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

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
    return kept_fracs([replica], [load])[0]


def kept_fracs(replicas: Sequence[Replica], loads: Sequence[float]) -> list[float]:
    """The same for each; steps of those on one machine are worked out together."""
    means = [_means(replica, load) for replica, load in zip(replicas, loads, strict=True)]
    found: list[float] = []
    for _, same in groupby(range(len(replicas)), key=lambda k: id(replicas[k].machine)):
        some = list(same)
        steady = steady_state(replicas[some[0]].machine, *np.array([means[k] for k in some]).T)
        a_token = np.broadcast_to(steady.steps_a_token, steady.step_s.shape).tolist()
        each = zip(some, steady.step_s.tolist(), a_token, strict=True)
        found += [_kept_frac(replicas[k], loads[k], step_s, steps) for k, step_s, steps in each]
    return found


def _means(replica: Replica, load: float) -> tuple[float, ...]:
    """Requests in flight, and the mean tokens of what it serves: prompts, answers, and what of prompts is new."""
    shares, lengths = _shares(replica), replica.traffic.lengths
    columns = (lengths.input_tokens, np.maximum(lengths.output_tokens, 1.0), replica.throughput.new_tokens)
    return (max(1.0, load * replica.batch), *(float(shares @ x) for x in columns))


def _shares(replica: Replica) -> np.ndarray:
    """Of the requests that it serves [bucket]"""
    shares = np.where(replica.serves, replica.traffic.shares, 0.0)
    normed: np.ndarray = shares / shares.sum()
    return normed


def _kept_frac(replica: Replica, load: float, step_s: float, steps_a_token: float) -> float:
    traffic, found, engine, shares = replica.traffic, replica.throughput, replica.machine.engine, _shares(replica)
    answers, prefill_s = np.maximum(traffic.lengths.output_tokens, 1.0), found.prefill_s * engine.interruption_frac
    rate, tpot_s, more_in_bursts = load / replica.mean_seconds, traffic.tpot.seconds, max(0.0, traffic.arrival_scv - 1)
    harmful = (step_s + prefill_s * replica.machine.copy_step_tokens / found.new_tokens) * steps_a_token > tpot_s

    def token_s(prompts: np.ndarray) -> float:
        return step_s * steps_a_token / (1 - min(rate * float((shares * prompts) @ prefill_s), MOST_BUSY))

    room_s = tpot_s - token_s(~harmful)
    met = rate * answers * token_s(np.ones_like(harmful)) + more_in_bursts / (2 * MANY)
    long = harmful & (prefill_s > room_s * answers[:, None])  # [answer, prompt]
    rest = np.where(harmful & ~long, shares, 0.0)
    mean, square = rest @ prefill_s, rest @ (prefill_s**2 * (1 + replica.prompt_cv2_within))
    bursts = more_in_bursts * mean**2 / np.maximum(rest.sum(axis=1), np.finfo(float).tiny)
    spread = np.sqrt(met * (square + bursts)) / answers
    if replica.machine.speculation is not None:
        decoded = np.maximum(answers - 1, 1.0)
        spread = np.hypot(spread, step_s * replica.machine.speculation.steps_sd(decoded) / decoded)
    in_time = _normal_cdf((room_s - met * mean / answers) / np.maximum(spread, NO_SPREAD_S))
    return float(shares @ np.where(answers > 1, np.exp(-met * (long @ shares)) * in_time, 1.0))
