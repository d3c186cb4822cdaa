"""Requests a second that one replica carries inside its SLO, and which limit stops it.

Continuous batching at steady state (steady_state.py), with B requests in flight, of which others interrupt one:

    TPOT percentile      = mean + z x sqrt(interruptions (1 + cv2)) x interruption   (their number is Poisson)

The answer is the largest rate over all B whose TPOT and KV memory hold. TTFT here is prefill and one step: the waiting
that fluctuating arrivals cause is paid once, in the staffing margin (problems/staffing.py).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np

from planner.performance.closed_loop import most_in_memory
from planner.performance.latency import prefill_s
from planner.performance.machine import Machine
from planner.performance.ranks import busiest_requests, context_excess
from planner.performance.steady_state import Scaling, steady_state

KV_MEMORY = "KV memory"
"""what bounds a replica whose requests fill it"""
PROMPT_CV2 = 1.0
"""squared coefficient of variation of the prompts whose prefills interrupt a request"""
RANK_PROMPT_CV2 = 4.0
"""the same where a prompt has one data-parallel rank for its attention, which grows with the square of its length: with
it, mixed lengths keep the percentile of TPOT about as often as on a replica that splits attention"""
ADMITTED = 1.5
"""requests in flight that a replica lets in, over those that the plan counts on"""
MOST_IN_FLIGHT = 512
"""requests in flight that a plan counts on per replica, or rank of it, even if the engine admits more"""
GROWTH_FRAC, GROWTH_Z = 0.1, 1.0
"""room for answers, which hold more KV memory the longer they have become: a share of what they hold on average, since
long ones are more often among those in flight, and standard deviations of it. Replicas that were full on average
preempted 13 to 15% of their requests and carried 82 to 94% of what was planned; prompts wait until they fit"""


@dataclass(frozen=True, eq=False)
class Lengths:
    """Requests by length: one entry per bucket."""

    input_tokens: np.ndarray
    output_tokens: np.ndarray
    cached_tokens: np.ndarray
    """prompt tokens whose KV is found, on average"""
    resident_tokens: np.ndarray | float = 0.0
    """tokens whose KV a replica keeps so that they are found: prefixes and templates of all its workloads [bucket]"""
    reused_tokens: np.ndarray | float = 0.0
    """prompt tokens beyond these that are found in whatever memory is left: they save prefill and no memory [bucket]"""
    read_s: np.ndarray | float = 0.0
    """time in which what waited in other memory comes back, while others are computed [bucket]"""


@dataclass(frozen=True)
class Limits:
    """What must hold, and for which share of the requests (z standard deviations)."""

    tpot_s: np.ndarray | float
    z: np.ndarray | float
    e2e_s: np.ndarray | float = np.inf
    """from arrival to the last token, without waiting for a place [bucket]"""


@dataclass(frozen=True, eq=False)
class Throughput:
    """What one replica does for each bucket."""

    requests_per_s: np.ndarray
    """0 where not even one request at a time holds the limits"""
    in_flight: np.ndarray
    tpot_s: np.ndarray
    """at the SLO's percentile"""
    ttft_s: np.ndarray
    """prefill plus one step, without waiting"""
    step_s: np.ndarray
    prefill_s: np.ndarray
    """what one more prompt takes from the replica"""
    lone_s: np.ndarray
    """prefill of a prompt in a replica by itself"""
    new_tokens: np.ndarray
    """of a prompt, on average: those that are not found"""
    e2e_s: np.ndarray
    """TTFT, and every further token at the percentile of TPOT"""
    planned_s: np.ndarray
    """of the replica's time for a request with as many in flight as here, whatever was measured"""
    crowded_s: np.ndarray
    """the same with as many as it lets in"""
    bound_by: tuple[str, ...]
    """TPOT, E2E, KV memory, engine (requests in flight) or compute (more in flight would not carry more)"""

    def part(self, buckets: slice) -> Throughput:
        return Throughput(**{f.name: getattr(self, f.name)[buckets] for f in fields(self)})


def prompt_cv2(machine: Machine) -> float:
    return PROMPT_CV2 if machine.ranks == 1 else RANK_PROMPT_CV2


@lru_cache(maxsize=8)
def _batches(most: int) -> np.ndarray:
    fine = np.arange(1, min(32, most) + 1)
    coarse = np.unique(np.round(np.geomspace(33, most, 60))) if most > 32 else np.array([])
    return np.concatenate([fine, coarse]).astype(float)


def _in_flight(machine: Machine) -> np.ndarray:
    """Numbers in flight that are tried; of ranks each has the same number, but for a few requests."""
    each, ranks = _batches(min(MOST_IN_FLIGHT, machine.engine.max_in_flight)), machine.layout.attention_copies
    return each if ranks == 1 else np.concatenate([np.arange(1.0, ranks), ranks * each])


def throughput(machine: Machine, lengths: Lengths, limits: Limits, scaling: Scaling | None = None) -> Throughput:
    """The best batch size for each bucket, all buckets and batch sizes at once."""
    batch = _in_flight(machine)[None, :]
    out = np.maximum(lengths.output_tokens, 1.0)[:, None]
    new_tokens = np.maximum(lengths.input_tokens - lengths.cached_tokens - lengths.reused_tokens, 1.0)
    alone = prefill_s(machine, new_tokens, lengths.input_tokens)
    steady = steady_state(machine, batch, lengths.input_tokens[:, None], out, new_tokens[:, None]).scaled(scaling)
    if scaling is not None:
        alone = scaling.lone_ttft_s(alone)
    step, prefill, rate = steady.step_s, steady.prefill_s, steady.requests_per_s
    if np.any(lengths.read_s):  # the links carry no more than that
        alone = alone + lengths.read_s
        rate = np.minimum(rate, 1 / np.maximum(np.broadcast_to(lengths.read_s, alone.shape), 1e-12)[:, None])
    spread = np.sqrt(steady.interruptions * (1 + prompt_cv2(machine))) * steady.interruption_s
    if machine.speculation is not None:
        spread = np.hypot(spread, steady.by_acceptance_s)
    tpot = steady.tpot_s + _by_row(limits.z, alone) * spread
    fits = most_in_memory(
        machine, lengths.input_tokens, lengths.output_tokens, lengths.cached_tokens, lengths.resident_tokens
    )
    e2e = alone[:, None] + step + (out - 1) * tpot
    held = lengths.input_tokens - lengths.cached_tokens + lengths.output_tokens / 2
    ranks = machine.layout.attention_copies
    uneven = busiest_requests(batch, ranks) / batch * context_excess(batch, ranks) if machine.ranks > 1 else 1.0
    in_memory = _in_memory(batch / ranks, fits[:, None] / ranks, (lengths.output_tokens / held)[:, None], uneven)
    in_time = tpot <= _by_row(limits.tpot_s, alone)
    answered = e2e <= _by_row(limits.e2e_s, alone)
    allowed = in_memory & in_time & answered
    best = np.argmax(np.where(allowed, rate, -1.0), axis=1)
    rows = np.arange(len(best))
    feasible = allowed[rows, best]
    following = np.minimum(best + 1, batch.shape[1] - 1)
    first_bad = (rows, np.where(feasible, following, 0))
    reasons = np.select(
        [~in_memory[first_bad], ~in_time[first_bad], ~answered[first_bad], best == following],
        [KV_MEMORY, "TPOT", "E2E", "engine"],
        "compute",
    )
    pick = (rows, best)
    in_flight = np.where(feasible, batch[0, best], 0.0)
    crowds = np.maximum(in_flight, 1.0) * np.array([[1.0], [ADMITTED]])
    planned_s, crowded_s = (
        1 / steady_state(machine, crowds, lengths.input_tokens, lengths.output_tokens, new_tokens).requests_per_s
    )
    return Throughput(
        requests_per_s=np.where(feasible, rate[pick], 0.0),
        in_flight=in_flight,
        tpot_s=tpot[pick],
        ttft_s=alone + step[pick],
        step_s=step[pick],
        prefill_s=prefill[pick],
        lone_s=alone,
        new_tokens=new_tokens,
        e2e_s=e2e[pick],
        planned_s=planned_s,
        crowded_s=crowded_s,
        bound_by=tuple(reasons.tolist()),
    )


def _in_memory(
    batch: np.ndarray, fits: np.ndarray, answer_frac: np.ndarray, uneven: np.ndarray | float = 1.0
) -> np.ndarray:
    """Whether the KV memory of every rank holds so many requests on average.

    `answer_frac` is a whole answer over what a request holds, `uneven` what the busiest rank holds over the mean: a
    request more than others, and longer ones, without use of their memory.
    """
    growth = GROWTH_FRAC * batch * answer_frac / 2 + GROWTH_Z * np.sqrt(batch / 12) * answer_frac
    busiest = batch * uneven
    return np.where(busiest <= 1, fits >= 1, busiest + growth <= fits)


def _by_row(limit: np.ndarray | float, rows: np.ndarray) -> np.ndarray:
    return np.broadcast_to(limit, rows.shape)[:, None]
