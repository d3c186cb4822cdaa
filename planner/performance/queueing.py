"""Latencies of one replica under a rate of arrivals that may come in bursts.

Requests in flight share the replica: with n of them it answers mu(n) a second (steady_state.py). At rate r their number
is n with a probability in proportion to r/mu(1) x ... x r/mu(n), whatever the spread of answers, and beyond the largest
number that memory and engine admit they wait for a place. Bursts multiply the variance of the number by (ca2 + 1) / 2.
TPOT is that of the number which a request meets, and varies besides with the prompts that happen to interrupt it.

A prompt waits for the prompts ahead of it, as in a queue of one server (Kingman) whose service is a prefill:

    W_prompt = (ca2 + cs2) / 2 x u / (1 - u) x service,                                    u = rate x service

ca2 is the squared coefficient of variation of the times between arrivals, each over the mean of its minute: 1 if they
are Poisson, 1.1 to 6 in chat traces and 23 in Azure's code trace. Waiting is taken as exponential beyond the share of
requests that do not wait.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from planner.performance.closed_loop import largest_in_flight
from planner.performance.latency import prefill_s
from planner.performance.length_spread import LengthSpread, lengths_at
from planner.performance.machine import Machine
from planner.performance.steady_state import Scaling, steady_state
from planner.performance.throughput import PROMPT_CV2, prompt_cv2
from problems.staffing import Routing, z_of

ROUTED, ROUTED_APART, ROOM_APART = 0.6, 0.25, 5.0
"""exponents of the gain from a router: at best, and with bursts that many replicas take apart, and its room"""
STEPS_IN_WAIT = 0.5
"""prompts that a request may find ahead for each mean prefill that it may wait: a step takes several at once"""
MOST_NEWTON_STEPS, CONVERGED, HALVINGS = 50, 1e-14, 30
MOST_BUSY, SAME_SHARE = 0.999, 1e-9
"""share of its time that a replica spends on prompts, at most; difference of two shares that are the same"""
SHARES = (np.arange(100) + 0.5) / 100
QUANTILES = np.array([NormalDist().inv_cdf(share) for share in SHARES.tolist()])
"""quantiles spread evenly, and their standard normal values"""
EVERY = slice(2, None, 5)
"""of these quantiles, those of prompts and of TPOT that end-to-end latencies are added up from"""
MOST_SUMS = 2000


@dataclass(frozen=True)
class Loaded:
    """One replica at a rate; infinite latencies where it cannot keep up."""

    requests_per_s: float
    utilization: float
    """of the highest rate that it can answer"""
    in_flight: float
    tpot_s: float
    """mean"""
    tpot_percentile_s: float
    ttft_s: float
    """mean"""
    ttft_percentile_s: float
    e2e_s: float
    """mean"""
    e2e_percentile_s: float


def under_load(
    machine: Machine,
    input_tokens: float,
    output_tokens: float,
    requests_per_s: float,
    arrival_cv2: float = 1.0,
    percentile: float = 0.95,
    scaling: Scaling | None = None,
    prompts: LengthSpread | None = None,
    answers: LengthSpread | None = None,
) -> Loaded:
    """TTFT, TPOT and end-to-end latency at a rate; of lengths whose spread is given, else all of the mean length."""
    output = max(output_tokens, 1.0)
    prompt_tokens, answer_tokens = _at_quantiles(prompts, input_tokens), _at_quantiles(answers, output)
    met_output = output * (1 + float(np.var(answer_tokens) / np.mean(answer_tokens) ** 2))
    most = int(largest_in_flight(machine, input_tokens, met_output))
    if most < 1:
        return _overloaded(requests_per_s)
    n = np.arange(1.0, most + 1)
    steady = steady_state(machine, n, input_tokens, output, met_output=met_output).scaled(scaling)
    lone = prefill_s(machine, prompt_tokens)
    alone = float(prefill_s(machine, input_tokens))
    if scaling is not None:
        alone, lone = float(scaling.lone_ttft_s(np.array(alone))), scaling.lone_ttft_s(lone)
    step, added = steady.step_s, steady.prefill_s
    mu = np.maximum.accumulate(steady.requests_per_s)
    if requests_per_s >= mu[-1]:
        return _overloaded(requests_per_s)
    shares, place, waiting_share = _numbers_in_flight(requests_per_s, mu)
    burst, z = (arrival_cv2 + 1) / 2, z_of(percentile)
    met = shares * n / float(shares @ n)
    tpots = steady.tpot_s
    tpot = float(met @ tpots)
    by_chance = float(met @ (steady.interruptions * (arrival_cv2 + prompt_cv2(machine)) * steady.interruption_s**2))
    by_chance += float(met @ np.broadcast_to(steady.by_acceptance_s**2, met.shape))
    by_load = burst * float(met @ (tpots - tpot) ** 2)
    tpot_at = tpot + z * math.sqrt(by_load + by_chance)
    service, cv2 = float(met @ added), max(PROMPT_CV2, float(np.var(prompt_tokens) / np.mean(prompt_tokens) ** 2))
    first = float(met @ step)
    wait = prompt_wait_s(requests_per_s, service, cv2, arrival_cv2) + burst * place
    waits_share = min(1.0, requests_per_s * service + waiting_share)
    ttft = alone + first + wait
    ttft_at = max(first + percentile_of_sum(lone, wait, waits_share, percentile), ttft)
    e2e = ttft + (output - 1) * tpot
    decoding = _decoding_s(answer_tokens, tpot, by_load, by_chance, float(steady.token_s[0]))
    served = first + _sums(lone if lone.size == 1 else lone[EVERY], decoding)
    return Loaded(
        requests_per_s=requests_per_s,
        utilization=requests_per_s / float(mu[-1]),
        in_flight=requests_per_s * (ttft + output * tpot),
        tpot_s=tpot,
        tpot_percentile_s=tpot_at,
        ttft_s=ttft,
        ttft_percentile_s=ttft_at,
        e2e_s=e2e,
        e2e_percentile_s=max(percentile_of_sum(served, wait, waits_share, percentile), e2e),
    )


def _at_quantiles(spread: LengthSpread | None, mean: float) -> np.ndarray:
    return np.array([mean]) if spread is None else lengths_at(spread, SHARES, QUANTILES)


def _decoding_s(answers: np.ndarray, tpot: float, by_load: float, by_chance: float, least: float) -> np.ndarray:
    """How long answers take after their first token, equally likely.

    TPOT varies with the load, as much for every answer, and with the prompts that happen to interrupt it, the less the
    longer it is.
    """
    spread = np.sqrt(by_load + by_chance * answers.mean() / np.maximum(answers, 1.0))
    tpots = np.maximum(tpot + np.multiply.outer(spread, QUANTILES[EVERY]), least)
    times: np.ndarray = (np.maximum(answers - 1, 0.0)[:, None] * tpots).ravel()
    return times


def _sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Sums of one of these and one of those, equally likely; of many, means of so many equal shares."""
    sums = np.sort(np.add.outer(a, b).ravel())
    return sums if len(sums) <= MOST_SUMS else sums.reshape(MOST_SUMS, -1).mean(axis=1)


def in_flight_at(
    machine: Machine,
    input_tokens: float,
    new_tokens: float,
    output_tokens: float,
    requests_per_s: float,
    arrival_cv2: float,
    scaling: Scaling | None = None,
) -> float:
    """Requests in flight at a rate, mean and a standard deviation; inf where the replica cannot keep up.

    Of their prompts so many tokens are new.
    """
    output = max(output_tokens, 1.0)
    most = int(largest_in_flight(machine, input_tokens, output))
    if most < 1:
        return math.inf
    n = np.arange(1.0, most + 1)
    steady = steady_state(machine, n, input_tokens, output, new_tokens).scaled(scaling)
    mu = np.maximum.accumulate(steady.requests_per_s)
    if requests_per_s >= mu[-1]:
        return math.inf
    shares = _numbers_in_flight(requests_per_s, mu)[0]
    mean = float(shares @ n)
    return mean + math.sqrt((arrival_cv2 + 1) / 2 * max(0.0, float(shares @ n**2) - mean**2))


def percentile_of_sum(
    times: np.ndarray, wait: float, waiting_share: float, percentile: float, shares: np.ndarray | None = None
) -> float:
    """A percentile of the sum of one of these times and a wait, exponential for the share of those who wait.

    Times are equally likely, unless shares are given.
    """
    weights = np.full(len(times), 1 / len(times)) if shares is None else shares
    if waiting_share <= 0 or wait <= 0:
        order = np.argsort(times)
        reached = np.searchsorted(np.cumsum(weights[order]), percentile - SAME_SHARE)
        return float(times[order[min(int(reached), len(order) - 1)]])
    waits = wait / waiting_share
    low, high = 0.0, float(times.max()) + waits * math.log(max(1.0, waiting_share / (1 - percentile))) + waits
    for _ in range(60):
        middle = (low + high) / 2
        if middle in (low, high):  # nothing is between them
            break
        late = late_frac(middle, times, weights, waits, waiting_share)
        low, high = (low, middle) if late <= 1 - percentile else (middle, high)
    return high


def late_frac(limit_s: float, times: np.ndarray, shares: np.ndarray, waits: float, waiting_share: float) -> float:
    """Share whose time and wait are longer than that in sum; those who wait do so for a mean of `waits`."""
    beyond = np.where(times > limit_s, 1.0, waiting_share * np.exp(-np.maximum(limit_s - times, 0.0) / waits))
    return float(shares @ beyond)


def most_prompt_load_of_sum(
    limit_s: float,
    times: np.ndarray,
    shares: np.ndarray,
    prefill_s: float,
    prefill_cv2: float,
    arrival_cv2: float,
    percentile: float,
    waiting_frac: float = 1.0,
) -> float:
    """The share of its time that a replica may spend on prompts so that a percentile of time and wait is in a limit.

    Of the requests that may be late some are by themselves; of the others, waiting makes a share late.
    """
    by_itself = float(shares @ (times > limit_s))
    if by_itself > 1 - percentile + SAME_SHARE:
        return 0.0
    allowed = by_itself + waiting_frac * (1 - percentile - by_itself) + SAME_SHARE
    mean = (arrival_cv2 + prefill_cv2) / 2 * prefill_s

    def holds(u: float) -> bool:
        return late_frac(limit_s, times, shares, mean / (1 - u), u) <= allowed

    low, high = 0.0, MOST_BUSY
    if holds(high):
        return high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _numbers_in_flight(rate: float, mu: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Shares of time with 1, 2, ... requests in flight, the mean wait for a place, and the share that waits for one."""
    logs = np.cumsum(np.log(rate) - np.log(mu))
    rho = rate / float(mu[-1])
    highest = max(0.0, float(logs.max()))
    weights = np.exp(logs - highest)
    full = float(weights[-1]) / (1 - rho)
    in_all = math.exp(-highest) + float(weights[:-1].sum()) + full
    shares = weights / in_all
    shares[-1] = full / in_all
    waiting_share = full / in_all
    return shares, waiting_share / (1 - rho) / float(mu[-1]), waiting_share


def prompt_wait_s(
    requests_per_s: float, prefill_s: float, prefill_cv2: float, arrival_cv2: float, percentile: float | None = None
) -> float:
    """How long a prompt waits for those ahead of it: the mean, or a percentile."""
    u = min(requests_per_s * prefill_s, MOST_BUSY)
    mean = (arrival_cv2 + prefill_cv2) / 2 * u / (1 - u) * prefill_s
    return mean if percentile is None else _tail(mean, u, percentile)


def most_prompt_load(
    wait_s: np.ndarray, prefill_s: np.ndarray, prefill_cv2: np.ndarray, arrival_cv2: float, percentile: float
) -> np.ndarray:
    """The share of its time that a replica may spend on prompts so that they wait no longer: prompt_wait_s undone.

    With u that share, k = (ca2 + cs2) / 2 and y = wait / (k x prefill), both u / (1 - u) and ln(u / (1 - percentile)) /
    (1 - u) must be at most y. Newton's method comes to the root of the second from below, as ln is concave.
    """
    y = np.maximum(wait_s, 0.0) / ((arrival_cv2 + prefill_cv2) / 2 * prefill_s)
    u = np.full_like(y, 1 - percentile)
    for _ in range(MOST_NEWTON_STEPS):
        step = (y * (1 - u) - np.log(u / (1 - percentile))) / (1 / u + y)
        u = u + step
        if step.max() < CONVERGED:
            break
    load: np.ndarray = np.minimum(u, y / (1 + y))
    return load


def routing_of(
    wait_s: np.ndarray,
    prefill_s: np.ndarray,
    prefill_cv2: np.ndarray,
    prompt_share: np.ndarray,
    arrival_cv2: float,
    percentile: float,
) -> Routing:
    """How load grows with replicas behind a router where prompts may wait so long; of several lengths the worst.

    With room for y mean prefills, the exponent is that of a good router where y reaches ca2 + cs2, and less below;
    where many replicas take a burst apart, some of it is left. Constants are fitted to simulated limits
    (benchmarks/routing.py).
    """
    y = np.maximum(wait_s, 0.0) / prefill_s
    tight = ROUTED * np.minimum(1.0, y / (arrival_cv2 + prefill_cv2))
    apart = ROUTED_APART * np.minimum(1.0, y / ROOM_APART)
    return Routing(
        exponent=float(np.maximum(tight, apart).min()),
        prompt_share=float(min(prompt_share.max(), 1.0)),
        burst_room=float((1 - percentile) ** (1 / (1 + STEPS_IN_WAIT * y.min()))),
    )


def _tail(mean_wait: float, waiting_share: float, percentile: float) -> float:
    """The percentile of a wait that is zero for some, exponential for others; never below its mean."""
    if waiting_share <= 0 or mean_wait <= 0:
        return 0.0
    beyond = max(waiting_share / (1 - percentile), 1.0)
    return max(mean_wait / waiting_share * math.log(beyond), mean_wait)


def _overloaded(requests_per_s: float) -> Loaded:
    inf = float("inf")
    return Loaded(requests_per_s, inf, inf, inf, inf, inf, inf, inf, inf)
