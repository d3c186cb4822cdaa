"""Which part of a correction is used: what predicts runs that it was not fitted to better than the model does.

A correction fits its own runs, so its error on them says nothing. Where there are enough, all runs of one length (or,
with few lengths, each run) are predicted by the correction that the others make. What it says of rates and TPOT, and
what it says of TTFT, is each used only if no quantity becomes worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from planner.catalog.profile import MeasuredPoint, Profile
from planner.performance.calibration.correction import UNCORRECTED, Correction, predicted, rate_of
from planner.performance.calibration.fitting import ALONE, Runs, starts_together
from planner.performance.latency import Machine

LEAST_PARTS, LEAST_SCORED = 3, 2
"""parts of the runs, each left out once, below which nothing can be tested, and those that measure the same thing"""
RATE_METRICS = ("requests_per_s", "tpot_ms", "decode_step_ms")
METRICS = (*RATE_METRICS, "ttft_ms")
NO_WORSE = 0.005
"""mean errors that differ by less are the same"""
MOST_OWN_ERROR = 0.25
"""of a correction on its own runs, where there are too few to hold some out"""


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
    """after: each run predicted from others; otherwise from itself, and then it proves nothing"""

    @property
    def loses(self) -> bool:
        """Worse than the prediction on other runs, or far off the very runs it is from, which contradict each other."""
        if self.held_out:
            return self.after_mean_ape > self.before_mean_ape + NO_WORSE
        return self.after_mean_ape > MOST_OWN_ERROR


@dataclass(frozen=True)
class Assessed:
    """A correction as it is used, and how it fared."""

    correction: Correction
    errors: tuple[ErrorRow, ...]
    """of the whole correction, also of parts that are not used"""
    uses_rates: bool
    """False: runs say nothing of rates and TPOT, or lose against the prediction"""
    uses_ttft: bool
    flattered: bool
    """faster than predicted, but only with requests that start and end together: not counted"""


def assessed(points: Sequence[MeasuredPoint], machine: Machine) -> Assessed:
    """What the runs of a deployment correct, parts that lose left out."""
    runs = Runs.of(points, machine)
    whole = runs.correction(np.ones(len(points), dtype=bool))
    errors = tuple(_error_rows(points, runs, whole, machine))
    rates = [e for e in errors if e.metric in RATE_METRICS]
    ttft = [e for e in errors if e.metric == "ttft_ms"]
    uses_rates = bool(rates) and not any(e.loses for e in rates)
    uses_ttft = bool(ttft) and not any(e.loses for e in ttft)
    return Assessed(
        correction=whole.with_prediction(rates=not uses_rates, ttft=not uses_ttft), errors=errors,
        uses_rates=uses_rates, uses_ttft=uses_ttft,
        flattered=whole.least_decode_ratio > 0 and bool(np.any(whole.decode_ratio(runs.in_flight) <= 1)),
    )  # fmt: skip


def correction_of(profile: Profile, machine: Machine) -> Correction:
    """What a profile's runs make of the roofline; a table of max_rates corrects nothing."""
    return assessed(profile.points, machine).correction if profile.points else UNCORRECTED


def _error_rows(points: Sequence[MeasuredPoint], runs: Runs, whole: Correction, machine: Machine) -> Iterator[ErrorRow]:
    """One row per metric that was measured."""
    parts = _parts(points)
    held_out = len(set(parts)) >= LEAST_PARTS
    others = {part: runs.correction(np.array([p != part for p in parts])) for part in set(parts)} if held_out else {}
    for metric in METRICS:
        scored = [k for k, p in enumerate(points) if _scores(p, metric)]
        if not scored:
            continue
        # Runs that are held out are predicted by others that measure the same thing, or it would be no test.
        tests = held_out and len({parts[k] for k in scored}) >= LEAST_SCORED
        before, after = (
            np.array([_error(points[k], c, metric, float(runs.in_flight[k]), machine) for k, c in used.items()])
            for used in (
                dict.fromkeys(scored, UNCORRECTED),
                {k: others[parts[k]] if tests else whole for k in scored},
            )
        )
        means = float(before.mean()), float(np.median(before)), float(after.mean()), float(np.median(after))
        yield ErrorRow(metric, len(scored), *means, tests)


def _parts(points: Sequence[MeasuredPoint]) -> list[tuple[float, ...]]:
    """Which part of the runs each belongs to: those of one length if there are several, else repetitions of one run."""
    lengths = [(p.input_tokens, p.output_tokens) for p in points]
    return list(lengths) if len(set(lengths)) >= LEAST_PARTS else [p.run for p in points]


def _scores(point: MeasuredPoint, metric: str) -> bool:
    """TTFT of requests that were alone, since others wait; no TPOT of requests that start and end together."""
    if _measured(point, metric) is None:
        return False
    if metric == "ttft_ms":
        return point.concurrency <= ALONE
    return not (metric == "tpot_ms" and starts_together(point))


def _error(point: MeasuredPoint, correction: Correction, metric: str, in_flight: float, machine: Machine) -> float:
    run = predicted(machine, correction, point.input_tokens, point.output_tokens, in_flight)
    return float(abs(getattr(run, metric) / (_measured(point, metric) or np.nan) - 1))


def _measured(point: MeasuredPoint, metric: str) -> float | None:
    return rate_of(point) if metric == "requests_per_s" else getattr(point, metric)
