"""The roofline scaled so that it passes through what was measured.

    requests in flight    B  (those that waited in the engine's queue left out)
    mean TPOT             = step(B) + c x (B - 1) x prefill(B) / output    (c: share of prefills that interrupt)
    requests/s            = 1 / (prefill(B) + output x step(B) / B)        (prefill(B): what one adds to B running)

Prefill gets one ratio, from the TTFT of requests that met no others. The decode step gets a ratio for each
number in flight that was measured; between them it is interpolated in logarithms, beyond them it stays.

Under load a point gives the sum of both. Where nothing else tells them apart, or where a measured prefill leaves
no time for decode steps that the hardware needs, the split is the one that makes the decode ratios most alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from planner.catalog.profile import MeasuredPoint, Profile
from planner.performance.calibration.datasheet_limits import Replica, running
from planner.performance.latency import Machine, decode_step_s, prefill_added_s, prefill_s

ALONE = 2.0
"""With at most so many requests in flight TTFT is prefill; with more it is waiting, too."""
QUEUED_FRAC = 0.85
"""Below this share of the concurrency, requests queued inside the engine; above, it is the run's start and end."""

DECODE_SPREAD, PREFILL_SPREAD, MISSED_SPREAD = 0.15, 0.3, 0.05
"""how far apart decode ratios may be, prefill from what is expected, and sums from their points; in logarithms"""
MOST_PREFILL_RATIO = 3.0
"""a prefill slower than this against its prediction is not believed without a TTFT that shows it"""

PrefillBasis = Literal["measured", "fitted", "predicted"]


@dataclass(frozen=True, eq=False)
class Correction:
    """Measured / predicted, for decode steps by requests in flight and for prefill."""

    in_flight: np.ndarray
    """ascending; empty where no decode step was measured"""
    decode_ratios: np.ndarray
    prefill_ratio: float
    """of the time that a prefill keeps the replica from other work, which sets rates and TPOT"""
    ttft_ratio: float
    """of the time that a lone request waits for its first token; overlap with decode steps does not shorten it"""
    prefill_basis: PrefillBasis
    """measured: TTFT of lone requests; fitted: what rates and TPOT under load leave for it; predicted: 1"""

    def decode_ratio(self, batch: np.ndarray | float) -> np.ndarray:
        batch = np.asarray(batch, dtype=float)
        if not len(self.in_flight):
            return np.ones_like(batch)
        at = np.log(np.maximum(batch, 1.0))
        ratio: np.ndarray = np.exp(np.interp(at, np.log(self.in_flight), np.log(self.decode_ratios)))
        return ratio


UNCORRECTED = Correction(np.array([]), np.array([]), 1.0, 1.0, "predicted")


@dataclass(frozen=True)
class Prediction:
    tpot_ms: float
    ttft_ms: float
    requests_per_s: float
    decode_step_ms: float


def correction_of(profile: Profile, machine: Machine) -> Correction:
    """What a profile's points make of the roofline; a table of max_rates corrects nothing."""
    return correction_from(profile.points, machine)


def correction_from(points: Sequence[MeasuredPoint], machine: Machine) -> Correction:
    if not points:
        return UNCORRECTED
    steps = _Steps.of(points, machine)
    alone = _lone_ttft_ratio(points, machine)
    ratio, basis = _prefill_ratio(points, machine, steps, alone)
    logs = np.log(steps.ratios(ratio))
    batches = np.unique(steps.in_flight)
    means = [float(np.mean(logs[steps.in_flight == batch])) for batch in batches]
    ttft_ratio = alone if alone is not None else max(1.0, ratio)
    return Correction(batches, np.exp(means), ratio, ttft_ratio, basis)


def predicted(
    machine: Machine, correction: Correction, input_tokens: float, output_tokens: float, in_flight: float
) -> Prediction:
    """One run as the corrected roofline has it; TTFT without any waiting."""
    step = decode_step_s(machine, in_flight, input_tokens + output_tokens / 2) * correction.decode_ratio(in_flight)
    alone = float(prefill_s(machine, input_tokens))
    prefill = added_prefill_s(machine, input_tokens, in_flight) * correction.prefill_ratio
    interruptions = machine.engine.interruption_frac * (in_flight - 1)
    return Prediction(
        tpot_ms=float(step + interruptions * prefill / output_tokens) * 1e3,
        ttft_ms=alone * correction.ttft_ratio * 1e3,
        requests_per_s=float(1 / (prefill + output_tokens * step / in_flight)),
        decode_step_ms=float(step) * 1e3,
    )


def added_prefill_s(machine: Machine, input_tokens: float, in_flight: float) -> float:
    """What one more prompt takes from a replica with so many requests in flight."""
    if in_flight <= 1:
        return float(prefill_s(machine, input_tokens))
    return float(prefill_added_s(machine, input_tokens, input_tokens, in_flight))


def in_flight_of(point: MeasuredPoint) -> float:
    """The requests inside the replica: those that the run allowed, unless many of them waited in a queue."""
    # Prefills come one after another, so they hold at most one request beside those that are being decoded.
    known = point.requests_per_s is not None and point.ttft_ms is not None
    prefilling = min(1.0, (point.requests_per_s or 0.0) * (point.ttft_ms or 0.0) / 1e3) if known else 1.0
    busy = running(point) + prefilling
    return max(1.0, point.concurrency if busy >= QUEUED_FRAC * point.concurrency else busy)


@dataclass(frozen=True, eq=False)
class _Steps:
    """The decode steps that points imply: `measured_s - prefill ratio x prefill_s`, one entry per point."""

    in_flight: np.ndarray
    measured_s: np.ndarray
    prefill_s: np.ndarray
    """the part of what was measured that is prefill, if prefill is as predicted"""
    predicted_s: np.ndarray
    least_s: np.ndarray

    @classmethod
    def of(cls, points: Sequence[MeasuredPoint], machine: Machine) -> _Steps:
        rows = []
        for point in points:
            prefill = added_prefill_s(machine, point.input_tokens, in_flight_of(point))
            parts = _parts(point, in_flight_of(point), prefill, machine.engine.interruption_frac)
            if parts is not None:
                context = point.input_tokens + point.output_tokens / 2
                predicted_s = float(decode_step_s(machine, in_flight_of(point), context))
                rows.append((in_flight_of(point), *parts, predicted_s, _least(machine).step_s(running(point), context)))
        return cls(*np.array(rows, dtype=float).reshape(-1, 5).T)

    def ratios(self, prefill_ratio: float) -> np.ndarray:
        decode_s = np.maximum(self.measured_s - prefill_ratio * self.prefill_s, self.least_s)
        ratios: np.ndarray = decode_s / self.predicted_s
        return ratios

    def missed(self, prefill_ratio: float) -> np.ndarray:
        """How far, in logarithms, the steps and prefills then lie above what was measured."""
        prefill = prefill_ratio * self.prefill_s
        excess: np.ndarray = np.log((self.ratios(prefill_ratio) * self.predicted_s + prefill) / self.measured_s)
        return excess

    def leave_too_little(self, prefill_ratio: float) -> bool:
        return bool(np.any(self.measured_s - prefill_ratio * self.prefill_s < self.least_s))


def _parts(
    point: MeasuredPoint, in_flight: float, prefill: float, interruption_frac: float
) -> tuple[float, float] | None:
    """What a point measures per step, and how much of that is prefill; None if it measures prefill alone."""
    if point.decode_step_ms is not None:
        return point.decode_step_ms / 1e3, 0.0
    if point.tpot_ms is not None:
        return point.tpot_ms / 1e3, interruption_frac * (in_flight - 1) * prefill / point.output_tokens
    if point.requests_per_s is not None:
        per_step = in_flight / point.output_tokens
        return per_step / point.requests_per_s, per_step * prefill
    return None


def _ttft_ratio(point: MeasuredPoint, machine: Machine) -> float:
    return (point.ttft_ms or 0.0) / 1e3 / float(prefill_s(machine, point.input_tokens))


def _lone_ttft_ratio(points: Sequence[MeasuredPoint], machine: Machine) -> float | None:
    alone = [p for p in points if p.ttft_ms is not None and p.concurrency <= ALONE]
    return float(np.exp(np.mean([np.log(_ttft_ratio(p, machine)) for p in alone]))) if alone else None


def _prefill_ratio(
    points: Sequence[MeasuredPoint], machine: Machine, steps: _Steps, alone: float | None
) -> tuple[float, PrefillBasis]:
    if alone is not None:
        if not steps.leave_too_little(alone):
            return alone, "measured"
        expected = most = alone
    elif steps.prefill_s.any():
        # Under load TTFT is prefill and waiting, so it bounds prefill from above only.
        expected = 1.0
        most = min([MOST_PREFILL_RATIO, *(_ttft_ratio(p, machine) for p in points if p.ttft_ms is not None)])
    else:
        return 1.0, "predicted"
    least = max(_least(machine).prefill_s(p.input_tokens) / float(prefill_s(machine, p.input_tokens)) for p in points)
    return _most_even(steps, expected, min(least, most), most), "fitted"


def _most_even(steps: _Steps, expected: float, least: float, most: float) -> float:
    """The prefill ratio that makes the decode ratios most alike without straying far from what is expected."""
    tried = np.geomspace(least, most, 80)
    logs = np.log([steps.ratios(ratio) for ratio in tried])
    spread = np.sum((logs - logs.mean(axis=1, keepdims=True)) ** 2, axis=1) / DECODE_SPREAD**2
    missed = np.sum([steps.missed(ratio) ** 2 for ratio in tried], axis=1) / MISSED_SPREAD**2
    strayed = np.log(tried / expected) ** 2 / PREFILL_SPREAD**2
    return float(tried[np.argmin(spread + missed + strayed)])


def _least(machine: Machine) -> Replica:
    return Replica(machine.model, machine.quantization, machine.gpu, machine.gpus)
