"""One replica under arrivals that do not wait for answers: TTFT with queueing, at a percentile.

Two things make a request wait for its first token.

* Others' prefills. They pass one at a time, so they are a queue with utilization rho = rate x prefill; its mean wait
  is Kingman's, rho / (1 - rho) x prefill x (c2 + cv2) / 2, with a tail that falls exponentially.
* A full engine. In flight are on average rate x time in the engine, with variance that mean x (1 + c2) / 2
  (infinite-server peakedness). What exceeds the places waits until that many have left.

A fleet pays for the second in its staffing margin, where pooling makes it small; a replica by itself cannot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from planner.performance.closed_loop import largest_in_flight
from planner.performance.latency import Machine, decode_step_s, prefill_added_s, prefill_s

PROMPT_CV2 = 1.0


@dataclass(frozen=True)
class OpenLoop:
    """What a stream of requests sees at one replica."""

    requests_per_s: float
    in_flight: float
    tpot_s: float
    ttft_s: float
    """at the percentile asked for; infinite where the replica cannot keep up"""
    utilization_frac: float


def open_loop(
    machine: Machine,
    requests_per_s: float,
    input_tokens: float,
    output_tokens: float,
    arrival_scv: float = 1.0,
    percentile: float = 0.95,
    cached_tokens: float = 0.0,
) -> OpenLoop:
    """TTFT and TPOT of one replica at a given rate."""
    places = float(largest_in_flight(machine, input_tokens, output_tokens))
    new = max(input_tokens - cached_tokens, 1.0)
    in_flight = _steady_in_flight(machine, requests_per_s, input_tokens, output_tokens, new, places)
    if not math.isfinite(in_flight):
        return OpenLoop(requests_per_s, places, math.inf, math.inf, 1.0)
    batch = max(in_flight, 1.0)
    context = input_tokens + output_tokens / 2
    step = float(decode_step_s(machine, batch, context))
    alone, added = float(prefill_s(machine, new, input_tokens)), float(prefill_added_s(machine, new, input_tokens, batch))
    share = machine.engine.interruption_frac
    tpot = step + share * max(batch - 1, 0.0) * added / output_tokens
    rho = min(requests_per_s * added, 0.999)
    mean_wait = rho / (1 - rho) * added * (arrival_scv + PROMPT_CV2) / 2
    tail = max(0.0, math.log(max(rho, 1e-12) / (1 - percentile)))
    wait = mean_wait / max(rho, 1e-12) * tail
    z = max(0.0, NormalDist().inv_cdf(percentile))
    crowd = in_flight + z * math.sqrt(in_flight * (1 + arrival_scv) / 2)
    full = max(0.0, crowd - places) / _rate(machine, places, input_tokens, output_tokens, new)
    busy = requests_per_s / _rate(machine, places, input_tokens, output_tokens, new)
    return OpenLoop(requests_per_s, in_flight, tpot, alone + step + wait + full, busy)


def _rate(machine: Machine, batch: float, input_tokens: float, output_tokens: float, new: float) -> float:
    """Requests/s with so many in flight."""
    step = decode_step_s(machine, batch, input_tokens + output_tokens / 2)
    added = prefill_added_s(machine, np.asarray(new), np.asarray(input_tokens), np.asarray(batch))
    return float(batch / (batch * added + output_tokens * step))


def _steady_in_flight(
    machine: Machine, rate: float, input_tokens: float, output_tokens: float, new: float, places: float
) -> float:
    """The number in flight at which the replica answers as many requests as come (bisection: its rate rises with it)."""
    if places < 1 or rate >= _rate(machine, places, input_tokens, output_tokens, new):
        return math.inf
    if rate <= _rate(machine, 1.0, input_tokens, output_tokens, new):
        return rate / _rate(machine, 1.0, input_tokens, output_tokens, new)
    low, high = 1.0, places
    for _ in range(60):
        middle = (low + high) / 2
        if _rate(machine, middle, input_tokens, output_tokens, new) < rate:
            low = middle
        else:
            high = middle
    return high
