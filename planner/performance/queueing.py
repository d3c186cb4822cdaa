"""Latencies of one replica under a rate of arrivals that may come in bursts.

Requests in flight share the replica: with n of them it answers mu(n) a second (steady_state.py). At rate r their number
is n with a probability in proportion to r/mu(1) x ... x r/mu(n), whatever the spread of answers, and beyond the largest
number that memory and engine admit they wait for a place. Bursts multiply the variance of the number by (ca2 + 1) / 2.
TPOT is that of the number which a request meets, and varies besides with the prompts that happen to interrupt it.

A prompt waits for the prompts ahead of it, as in a queue of one server (Kingman) whose service is a prefill:

    W_prompt = (ca2 + cs2) / 2 x u / (1 - u) x service,                                    u = rate x service

ca2 is the squared coefficient of variation of the times between arrivals: 1 if they are Poisson, 1.1 to 6 in chat
traces and 89 inside the minutes of Azure's code trace. Waiting is taken as exponential beyond the share of requests
that do not wait.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from planner.performance.closed_loop import largest_in_flight
from planner.performance.latency import Machine, prefill_s
from planner.performance.length_spread import LengthSpread, lengths_at
from planner.performance.steady_state import Scaling, steady_state
from planner.performance.throughput import PROMPT_CV2, prompt_cv2
from problems.staffing import Routing, z_of

ROUTED, ROUTED_APART, ROOM_APART = 0.6, 0.25, 5.0
"""exponents of the gain from a router: at best, and with bursts that many replicas take apart, and its room"""
STEPS_IN_WAIT = 0.5
"""prompts that a request may find ahead for each mean prefill that it may wait: a step takes several at once"""
MOST_NEWTON_STEPS, CONVERGED = 50, 1e-14
SHARES = (np.arange(100) + 0.5) / 100
QUANTILES = np.array([NormalDist().inv_cdf(share) for share in SHARES.tolist()])
"""quantiles spread evenly, and their standard normal values"""


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
) -> Loaded:
    """TTFT, TPOT and end-to-end latency at a rate; of prompts whose spread is given, else all of the mean length."""
    output = max(output_tokens, 1.0)
    most = int(largest_in_flight(machine, input_tokens, output))
    if most < 1:
        return _overloaded(requests_per_s)
    n = np.arange(1.0, most + 1)
    steady = steady_state(machine, n, input_tokens, output).scaled(scaling)
    prompt_tokens = np.array([input_tokens]) if prompts is None else lengths_at(prompts, SHARES, QUANTILES)
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
    tpot_at = tpot + z * math.sqrt(burst * float(met @ (tpots - tpot) ** 2) + by_chance)
    service, cv2 = float(met @ added), max(PROMPT_CV2, float(np.var(prompt_tokens) / np.mean(prompt_tokens) ** 2))
    first = float(met @ step)
    wait = prompt_wait_s(requests_per_s, service, cv2, arrival_cv2) + burst * place
    waits_share = min(1.0, requests_per_s * service + waiting_share)
    ttft = alone + first + wait
    ttft_at = max(first + percentile_of_sum(lone, wait, waits_share, percentile), ttft)
    return Loaded(
        requests_per_s=requests_per_s,
        utilization=requests_per_s / float(mu[-1]),
        in_flight=requests_per_s * (ttft + output * tpot),
        tpot_s=tpot,
        tpot_percentile_s=tpot_at,
        ttft_s=ttft,
        ttft_percentile_s=ttft_at,
        e2e_s=ttft + (output - 1) * tpot,
        e2e_percentile_s=ttft_at + (output - 1) * tpot_at,
    )


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


def percentile_of_sum(times: np.ndarray, wait: float, waiting_share: float, percentile: float) -> float:
    """A percentile of the sum of one of these times, equally likely, and a wait, exponential for those who wait."""
    if waiting_share <= 0 or wait <= 0:
        return float(np.quantile(times, percentile))
    waits = wait / waiting_share
    low, high = 0.0, float(times.max()) + waits * math.log(max(1.0, waiting_share / (1 - percentile))) + waits
    for _ in range(60):
        middle = (low + high) / 2
        beyond = np.where(middle < times, 1.0, waiting_share * np.exp(-np.maximum(middle - times, 0.0) / waits))
        low, high = (low, middle) if float(beyond.mean()) <= 1 - percentile else (middle, high)
    return high


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
    u = min(requests_per_s * prefill_s, 0.999)
    mean = (arrival_cv2 + prefill_cv2) / 2 * u / (1 - u) * prefill_s
    return mean if percentile is None else _tail(mean, u, percentile)


def most_prompt_load(
    wait_s: float, prefill_s: np.ndarray, prefill_cv2: np.ndarray, arrival_cv2: float, percentile: float | np.ndarray
) -> np.ndarray:
    """The share of its time that a replica may spend on prompts so that they wait no longer: prompt_wait_s undone.

    With u that share, k = (ca2 + cs2) / 2 and y = wait / (k x prefill), both u / (1 - u) and ln(u / (1 - percentile)) /
    (1 - u) must be at most y. Newton's method comes to the root of the second from below, as ln is concave.
    """
    y = max(wait_s, 0.0) / ((arrival_cv2 + prefill_cv2) / 2 * prefill_s)
    u = np.full_like(y, 1 - percentile)
    for _ in range(MOST_NEWTON_STEPS):
        step = (y * (1 - u) - np.log(u / (1 - percentile))) / (1 / u + y)
        u = u + step
        if step.max() < CONVERGED:
            break
    load: np.ndarray = np.minimum(u, y / (1 + y))
    return load


def routing_of(
    wait_s: float,
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
    y = max(wait_s, 0.0) / prefill_s
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
