"""How far the model was off before a profile corrected it, and how far it is after.

A correction passes through its own points, so its error on them says nothing. Where there are enough runs, each
is predicted by the correction that the others make.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.catalog.profile import MeasuredPoint, Profile
from planner.performance.calibration.correction import UNCORRECTED, correction_from, in_flight_of, predicted
from planner.performance.latency import Machine

LEAST_RUNS_TO_LEAVE_OUT = 3
METRICS = ("tpot_ms", "ttft_ms", "requests_per_s", "decode_step_ms")


@dataclass(frozen=True)
class ErrorRow:
    """Absolute errors of one metric as fractions of what was measured."""

    metric: str
    n: int
    before_mean_ape: float
    before_median_ape: float
    after_mean_ape: float
    after_median_ape: float
    held_out: bool
    """after: each run predicted from the others; otherwise from itself, and then it proves nothing"""


def errors_before_after(profile: Profile, machine: Machine) -> tuple[ErrorRow, ...]:
    """One row per metric that was measured; TTFT at the lowest concurrency only, since others wait."""
    runs = {point.run for point in profile.points}
    held_out = len(runs) >= LEAST_RUNS_TO_LEAVE_OUT
    corrections = {
        run: correction_from([p for p in profile.points if not (held_out and p.run == run)], machine) for run in runs
    }
    rows = []
    for metric in METRICS:
        before: list[float] = []
        after: list[float] = []
        for point in _scored(profile.points, metric):
            measured = getattr(point, metric)
            for correction, errors in ((UNCORRECTED, before), (corrections[point.run], after)):
                run = predicted(machine, correction, point.input_tokens, point.output_tokens, in_flight_of(point))
                errors.append(abs(getattr(run, metric) / measured - 1))
        if before:
            means = float(np.mean(before)), float(np.median(before)), float(np.mean(after)), float(np.median(after))
            rows.append(ErrorRow(metric, len(before), *means, held_out))
    return tuple(rows)


def _scored(points: Sequence[MeasuredPoint], metric: str) -> list[MeasuredPoint]:
    given = [point for point in points if getattr(point, metric) is not None]
    if metric != "ttft_ms" or not given:
        return given
    lowest = min(point.concurrency for point in given)
    return [point for point in given if point.concurrency == lowest]
