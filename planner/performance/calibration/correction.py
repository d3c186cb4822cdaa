"""The roofline scaled by what was measured: four numbers for a deployment.

    a prompt takes              prefill ratio x prediction from the replica
    a lone request waits        prefill ratio x prediction + a constant      for its first token
    a decode step takes         level x (B / 16)^power x prediction,         with B requests in flight

Between measured numbers in flight the step's ratio is smooth, beyond them it stays. A run's request rate is the sum of
both, however its requests start and end (steady_state.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planner.catalog.profile import MeasuredPoint
from planner.performance.calibration.datasheet_limits import running
from planner.performance.closed_loop import largest_in_flight
from planner.performance.latency import decode_step_s, prefill_s
from planner.performance.machine import Machine
from planner.performance.steady_state import steady_state

MID_IN_FLIGHT = 16.0
WAITED_PROMPTS = 2.0
"""a mean TTFT of so many prefills for each request allowed is waiting for a place, not for prompts ahead"""


@dataclass(frozen=True)
class Correction:
    """Measured / predicted, for decode steps by requests in flight and for prefill."""

    decode_level: float = 1.0
    """of a decode step with 16 requests in flight"""
    decode_power: float = 0.0
    least_in_flight: float = 1.0
    most_in_flight: float = 1.0
    prefill_ratio: float = 1.0
    """of the time that a prefill keeps the replica from other work, which sets rates and TPOT"""
    ttft_ratio: float = 1.0
    """of the prefill that a lone request waits for; overlap with decode steps does not shorten it"""
    ttft_added_s: float = 0.0
    """what a lone request waits besides: network, tokenizer, scheduling; below 0 where predicted as too long"""
    least_decode_ratio: float = 0.0
    """1 where runs cannot show that steps are faster than predicted"""
    corrects_rates: bool = True
    """False where runs do not tell rates better than the prediction"""

    def decode_ratio(self, batch: np.ndarray | float) -> np.ndarray:
        inside = np.clip(np.asarray(batch, dtype=float), self.least_in_flight, self.most_in_flight)
        ratio: np.ndarray = self.decode_level * (inside / MID_IN_FLIGHT) ** self.decode_power
        return np.asarray(np.maximum(ratio, self.least_decode_ratio))

    def lone_ttft_s(self, prefill_s: np.ndarray | float) -> np.ndarray:
        """What a lone request waits for its first token, given the predicted prefill of its prompt."""
        waits: np.ndarray = self.ttft_ratio * np.asarray(prefill_s, dtype=float) + self.ttft_added_s
        return waits

    def with_prediction(self, *, rates: bool = False, ttft: bool = False) -> Correction:
        """Without what it says of rates and TPOT, or of TTFT."""
        kept = replace(UNCORRECTED, ttft_ratio=self.ttft_ratio, ttft_added_s=self.ttft_added_s) if rates else self
        return replace(kept, ttft_ratio=1.0, ttft_added_s=0.0) if ttft else kept

    def not_faster(self) -> Correction:
        """Without credit for steps and prefills that are faster than predicted; TTFT stays."""
        return replace(self, least_decode_ratio=1.0, prefill_ratio=max(1.0, self.prefill_ratio))


UNCORRECTED = Correction(corrects_rates=False)


@dataclass(frozen=True)
class Prediction:
    tpot_ms: float
    ttft_ms: float
    requests_per_s: float
    decode_step_ms: float


def predicted(
    machine: Machine, correction: Correction, input_tokens: float, output_tokens: float, in_flight: float
) -> Prediction:
    """One run as the corrected roofline has it; TTFT without any waiting."""
    run = steady_state(machine, in_flight, input_tokens, output_tokens).scaled(correction)
    step = float(
        decode_step_s(machine, in_flight, input_tokens + output_tokens / 2) * correction.decode_ratio(in_flight)
    )
    return Prediction(
        tpot_ms=float(run.tpot_s) * 1e3,
        ttft_ms=float(correction.lone_ttft_s(float(prefill_s(machine, input_tokens)))) * 1e3,
        requests_per_s=float(run.requests_per_s),
        decode_step_ms=step * 1e3,
    )


def rate_of(point: MeasuredPoint) -> float | None:
    """Requests per second: measured, or what so many in flight make of their latencies in a closed loop."""
    if point.requests_per_s is not None or point.tpot_ms is None or point.ttft_ms is None:
        return point.requests_per_s
    return point.concurrency / (point.ttft_ms + (point.output_tokens - 1) * point.tpot_ms) * 1e3


def in_flight_of(point: MeasuredPoint, machine: Machine) -> float:
    """The requests inside the replica: by Little's law where the run says enough, without those that wait for a place.

    Requests of equal lengths start together, and their prompts wait for one another: that is not waiting for a place.
    """
    rate, ttft_ms, tpot_ms = rate_of(point), point.ttft_ms, point.tpot_ms
    if rate is None or ttft_ms is None or tpot_ms is None:
        busy = point.concurrency
    else:
        busy = min(point.concurrency, rate * (ttft_ms + (point.output_tokens - 1) * tpot_ms) / 1e3)
    most = float(largest_in_flight(machine, point.input_tokens, point.output_tokens))
    many, prompt, output = point.concurrency, point.input_tokens, point.output_tokens
    prompts_s = many * float(steady_state(machine, many, prompt, output).prefill_s)
    waited = ttft_ms is not None and point.concurrency > 1 and ttft_ms / 1e3 > WAITED_PROMPTS * prompts_s
    if waited or busy > most:
        # Prefills come one after another, so they hold at most one request beside those that are being decoded.
        prefilling = 1.0 if rate is None or ttft_ms is None else min(1.0, rate * ttft_ms / 1e3)
        busy = min(busy, running(point) + prefilling)
    return max(1.0, busy)
