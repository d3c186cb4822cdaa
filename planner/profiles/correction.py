"""The roofline scaled so that it passes through what was measured.

    requests in flight    B  (those that waited in the engine's queue left out)
    mean TPOT             = step(B) + (B - 1) x prefill / output
    requests/s            = 1 / (prefill + output x step(B) / B)

Prefill gets one ratio, from the TTFT of requests that met no others. The decode step gets a ratio for each
number in flight that was measured; between them it is interpolated in logarithms, beyond them it stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from planner.performance.latency import Machine, decode_step_s, prefill_s
from planner.profiles.limits import Replica, running
from planner.profiles.schema import MeasuredPoint, Profile

ALONE = 2.0
"""With at most so many requests in flight TTFT is prefill; with more it is waiting, too."""
QUEUED_FRAC = 0.85
"""Below this share of the concurrency, requests queued inside the engine; above, it is the run's start and end."""

PrefillBasis = Literal["measured", "bounded", "predicted"]


@dataclass(frozen=True, eq=False)
class Correction:
    """Measured / predicted, for decode steps by requests in flight and for prefill."""

    in_flight: np.ndarray
    """ascending; empty where no decode step was measured"""
    decode_ratios: np.ndarray
    prefill_ratio: float
    prefill_basis: PrefillBasis
    """measured: TTFT of lone requests. bounded: lowered to what rates and TTFT under load allow. predicted: 1"""

    def decode_ratio(self, batch: np.ndarray | float) -> np.ndarray:
        batch = np.asarray(batch, dtype=float)
        if not len(self.in_flight):
            return np.ones_like(batch)
        return np.exp(np.interp(np.log(np.maximum(batch, 1.0)), np.log(self.in_flight), np.log(self.decode_ratios)))


UNCORRECTED = Correction(np.array([]), np.array([]), 1.0, "predicted")


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
    ratio, basis = _prefill_ratio(points, machine)
    measured: dict[float, list[float]] = {}
    for point in points:
        step = _step_s(point, machine, ratio)
        if step is not None:
            in_flight = in_flight_of(point)
            predicted_s = float(decode_step_s(machine, in_flight, _context(point)))
            measured.setdefault(in_flight, []).append(float(np.log(step / predicted_s)))
    batches = sorted(measured)
    ratios = np.exp([np.mean(measured[batch]) for batch in batches])
    return Correction(np.array(batches), np.array(ratios), ratio, basis)


def predicted(
    machine: Machine, correction: Correction, input_tokens: float, output_tokens: float, in_flight: float
) -> Prediction:
    """One run as the corrected roofline has it; TTFT without any waiting."""
    step = decode_step_s(machine, in_flight, input_tokens + output_tokens / 2) * correction.decode_ratio(in_flight)
    prefill = float(prefill_s(machine, input_tokens)) * correction.prefill_ratio
    return Prediction(
        tpot_ms=float(step + (in_flight - 1) * prefill / output_tokens) * 1e3,
        ttft_ms=prefill * 1e3,
        requests_per_s=float(1 / (prefill + output_tokens * step / in_flight)),
        decode_step_ms=float(step) * 1e3,
    )


def in_flight_of(point: MeasuredPoint) -> float:
    """The requests that shared the replica: what the run allowed, unless many of them waited in a queue."""
    if point.tpot_ms is None or point.requests_per_s is None:
        return max(1.0, point.concurrency)
    # Prefills come one after another, so they hold one request at most.
    prefilling = min(1.0, point.requests_per_s * (point.ttft_ms or 0.0) / 1e3)
    busy = running(point) + prefilling
    return max(1.0, point.concurrency if busy >= QUEUED_FRAC * point.concurrency else busy)


def _context(point: MeasuredPoint) -> float:
    return point.input_tokens + point.output_tokens / 2


def _prefill_ratio(points: Sequence[MeasuredPoint], machine: Machine) -> tuple[float, PrefillBasis]:
    alone = [_ttft_ratio(p, machine) for p in points if p.ttft_ms is not None and p.concurrency <= ALONE]
    ratio = float(np.exp(np.mean(np.log(alone)))) if alone else 1.0
    bounds = list(_bounds(points, machine))
    if not alone:
        bounds += [_ttft_ratio(p, machine) for p in points if p.ttft_ms is not None]
    lowest = min(bounds, default=ratio)
    if lowest >= ratio:
        return ratio, "measured" if alone else "predicted"
    replica = _replica(machine)
    floor = max(replica.prefill_s(p.input_tokens) / float(prefill_s(machine, p.input_tokens)) for p in points)
    return max(lowest, min(floor, ratio)), "bounded"


def _ttft_ratio(point: MeasuredPoint, machine: Machine) -> float:
    return (point.ttft_ms or 0.0) / 1e3 / float(prefill_s(machine, point.input_tokens))


def _bounds(points: Iterable[MeasuredPoint], machine: Machine) -> Iterable[float]:
    """What prefill may take at most: a rate or TPOT leaves only so much beside the fastest decode step."""
    for point in points:
        in_flight, prefill = in_flight_of(point), float(prefill_s(machine, point.input_tokens))
        step = _least_step_s(point, machine)
        if point.tpot_ms is not None and in_flight > 1:
            yield max(0.0, point.tpot_ms / 1e3 - step) * point.output_tokens / ((in_flight - 1) * prefill)
        elif point.tpot_ms is None and point.requests_per_s is not None:
            yield max(0.0, 1 / point.requests_per_s - point.output_tokens * step / in_flight) / prefill


def _step_s(point: MeasuredPoint, machine: Machine, prefill_ratio: float) -> float | None:
    """The decode step that a point implies; None if it measures none."""
    in_flight = in_flight_of(point)
    prefill = float(prefill_s(machine, point.input_tokens)) * prefill_ratio
    if point.decode_step_ms is not None:
        step = point.decode_step_ms / 1e3
    elif point.tpot_ms is not None:
        step = point.tpot_ms / 1e3 - (in_flight - 1) * prefill / point.output_tokens
    elif point.requests_per_s is not None:
        step = in_flight * (1 / point.requests_per_s - prefill) / point.output_tokens
    else:
        return None
    return max(step, _least_step_s(point, machine))


def _least_step_s(point: MeasuredPoint, machine: Machine) -> float:
    return _replica(machine).step_s(running(point), _context(point))


def _replica(machine: Machine) -> Replica:
    return Replica(machine.model, machine.quantization, machine.gpu, machine.gpus)
