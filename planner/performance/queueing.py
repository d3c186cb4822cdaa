"""Latencies of one replica under a rate of arrivals that may come in bursts.

A request waits twice. For a place in the engine, as in a queue of b servers (Sakasegawa's G/G/m):

    W_place  = (ca2 + 1) / 2 x rho^(sqrt(2 (b + 1)) - 1) / (b (1 - rho)) x time inside,    rho = rate / mu(b)

and for the prompts ahead of it, as in a queue of one server (Kingman) whose service is a prefill:

    W_prompt = (ca2 + cs2) / 2 x u / (1 - u) x service,                                    u = rate x service

ca2 is the squared coefficient of variation of the times between arrivals: 1 if they are Poisson, 1.1 to 6 in chat
traces and 89 inside the minutes of Azure's code trace. Waiting is taken as exponential beyond the share of requests
that do not wait.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from planner.performance.closed_loop import largest_in_flight
from planner.performance.latency import Machine, decode_step_s, prefill_added_s, prefill_s
from planner.performance.throughput import PROMPT_CV2
from problems.staffing import Routing

ROUTED, ROUTED_APART, ROOM_APART = 0.6, 0.25, 5.0
"""exponents of the gain from a router: at best, and with bursts that many replicas take apart, and its room"""
STEPS_IN_WAIT = 0.5
"""prompts that a request may find ahead for each mean prefill that it may wait: a step takes several at once"""
MOST_NEWTON_STEPS, CONVERGED = 50, 1e-14


@dataclass(frozen=True)
class Loaded:
    """One replica at a rate; infinite latencies where it cannot keep up."""

    utilization: float
    in_flight: float
    tpot_s: float
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
    cached_tokens: float = 0.0,
) -> Loaded:
    """TTFT, TPOT and end-to-end latency at a rate of arrivals."""
    new = max(input_tokens - cached_tokens, 1.0)
    output = max(output_tokens, 1.0)
    most = int(largest_in_flight(machine, input_tokens, output))
    if most < 1:
        return _overloaded()
    b = np.arange(1.0, most + 1)
    step = decode_step_s(machine, b, input_tokens + output / 2)
    alone = float(prefill_s(machine, new, input_tokens))
    added = np.where(b > 1, prefill_added_s(machine, new, input_tokens, b), alone)
    capacity = b / (b * added + output * step)
    best = int(np.argmax(capacity))
    rho = requests_per_s / float(capacity[best])
    if rho >= 1:
        return _overloaded()
    now = int(np.argmax(capacity >= requests_per_s))
    tpot = float(step[now] + machine.engine.interruption_frac * (b[now] - 1) * added[now] / output)
    service = float(added[now])
    u = min(requests_per_s * service, 0.999)
    prompts = prompt_wait_s(requests_per_s, service, PROMPT_CV2, arrival_cv2)
    inside = alone + output * tpot
    servers = b[best]
    power = np.sqrt(2 * (servers + 1)) - 1
    place = float((arrival_cv2 + 1) / 2 * rho**power / (servers * (1 - rho)) * inside)
    ttft = alone + float(step[now])
    tails = _tail(prompts, u, percentile) + _tail(place, float(rho**power), percentile)
    return Loaded(
        utilization=rho,
        in_flight=requests_per_s * (inside + prompts),
        tpot_s=tpot,
        ttft_s=ttft + prompts + place,
        ttft_percentile_s=ttft + tails,
        e2e_s=ttft + prompts + place + output * tpot,
        e2e_percentile_s=ttft + tails + output * tpot,
    )


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


def _overloaded() -> Loaded:
    inf = float("inf")
    return Loaded(inf, inf, inf, inf, inf, inf, inf)
