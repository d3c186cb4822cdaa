"""Fit a correction to benchmark runs, and decide which part of it is used.

The fit is least squares in logarithms, with priors, and little weight on odd runs. Each run counts once under load, by
the first of these that it measures: its decode step, its request rate (in a closed loop, where it is what the replica
can do), its TPOT. TTFT counts where a request was alone.

A correction fits its own runs, so its error on them says nothing. Where there are enough, all runs of one length (or,
with few lengths, each run) are predicted by the correction that the others make. What it says of rates and TPOT, and
what it says of TTFT, is each used only if no quantity becomes worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from planner.catalog.profile import MeasuredPoint, Profile
from planner.performance.calibration.correction import UNCORRECTED, Correction, in_flight_of, predicted, rate_of
from planner.performance.latency import decode_step_s, prefill_s
from planner.performance.machine import Machine
from planner.performance.steady_state import SteadyState, steady_state

ALONE = 1.0
"""with more requests in flight TTFT is waiting, too"""
NOISE = 0.05
"""by which runs differ from one another, in logarithms"""
PRIOR = np.array([0.3, 0.010, 0.3, 0.1])
"""how far from the prediction each number is expected: logarithm of the prefill ratio, s, logarithm of level, power"""
ODD = 2.0
"""a run that is off by more than so many times the noise counts less"""
MOST_STEPS, CONVERGED, NUDGE = 60, 1e-7, 1e-5
LARGEST_STEP = np.array([0.5, 0.02, 0.5, 0.2])
WHOLE = 0.02
"""tokens by which the mean of equal answers may differ from a whole number"""
TOGETHER = 1.5
"""requests in flight from which on equal lengths make them start and end together"""
MOST_IN_FLIGHT = 1e6
STEP, RATE, TPOT = range(3)
LEAST_PARTS, LEAST_SCORED = 3, 2
"""parts of the runs, each left out once, below which nothing can be tested, and those that measure the same thing"""
RATE_METRICS = ("requests_per_s", "tpot_ms", "decode_step_ms")
METRICS = (*RATE_METRICS, "ttft_ms")
NO_WORSE = 0.005
"""mean errors that differ by less are the same"""
MOST_OWN_ERROR = 0.25
"""of a correction on its own runs, where there are too few to hold some out"""


def starts_together(point: MeasuredPoint) -> bool:
    """Whether all answers of a run in a closed loop had the same length, so that requests start and end together.

    Answers that vary have a mean with a fraction, unless somebody rounded it: then the file must say so.
    """
    same = abs(point.output_tokens - round(point.output_tokens)) < WHOLE and not point.lengths_vary
    return same and point.offered_per_s is None and point.decode_step_ms is None and point.concurrency > TOGETHER


@dataclass(frozen=True, eq=False)
class Runs:
    """What runs measured, in seconds, and what is predicted of their parts."""

    in_flight: np.ndarray
    """[point]"""
    together: np.ndarray
    """whether its requests start and end together [point]"""
    loaded: np.ndarray
    """the points that measure something under load, one entry each in the following"""
    kind: np.ndarray
    """STEP, RATE or TPOT"""
    measured_s: np.ndarray
    """a step, the replica's time for a request, or a TPOT"""
    step_s: np.ndarray
    """of a step that decodes for all of them"""
    steady: SteadyState
    begun_s: float
    """the engine's constant for a prompt, as predicted"""
    lone: np.ndarray
    """the points that measure the TTFT of lone requests, one entry each in the following"""
    lone_measured_s: np.ndarray
    lone_s: np.ndarray

    @classmethod
    def of(cls, points: Sequence[MeasuredPoint], machine: Machine) -> Runs:
        in_flight = [in_flight_of(p, machine) for p in points]
        loaded = [k for k, p in enumerate(points) if _kind(p) is not None]
        lone = [k for k, p in enumerate(points) if p.ttft_ms is not None and p.concurrency <= ALONE]
        kind = [_kind(points[k]) or STEP for k in loaded]
        inside = np.array([in_flight[k] for k in loaded])
        prompt = np.array([points[k].input_tokens for k in loaded], dtype=float)
        output = np.array([points[k].output_tokens for k in loaded], dtype=float)
        return cls(
            in_flight=np.array(in_flight), together=np.array([starts_together(p) for p in points]),
            loaded=np.array(loaded, dtype=int), kind=np.array(kind, dtype=int),
            measured_s=np.array([_measured_s(points[k], what) for k, what in zip(loaded, kind, strict=True)]),
            step_s=decode_step_s(machine, inside, prompt + output / 2),
            steady=steady_state(machine, inside, prompt, output),
            begun_s=machine.engine.prefill_overhead_ms / 1e3, lone=np.array(lone, dtype=int),
            lone_measured_s=np.array([(points[k].ttft_ms or 0.0) / 1e3 for k in lone]),
            lone_s=np.array([float(prefill_s(machine, points[k].input_tokens)) for k in lone]),
        )  # fmt: skip

    def correction(self, kept: np.ndarray) -> Correction:
        """The correction that some of the runs make [point]; none where there are none.

        Requests that start and end together batch their prompts and decode with no prompt in between: one engine was
        12% slower over lengths that vary. Such runs show that a replica is slower than predicted, not that it is
        faster.
        """
        counted = np.concatenate([kept[self.loaded], kept[self.lone]])
        if not counted.any():
            return UNCORRECTED
        numbers = np.zeros(4)
        for _ in range(MOST_STEPS):
            off = self._off(numbers)[counted]
            slopes = np.stack([(self._off(numbers + d)[counted] - off) / NUDGE for d in NUDGE * np.eye(4)], axis=1)
            weight = np.minimum(1.0, ODD * NOISE / np.maximum(np.abs(off), 1e-12)) / NOISE**2
            normal = (slopes.T * weight) @ slopes + np.diag(PRIOR**-2)
            step = np.linalg.solve(normal, -(slopes.T * weight) @ off - numbers / PRIOR**2)
            numbers = numbers + np.clip(step, -LARGEST_STEP, LARGEST_STEP)
            if np.abs(step).max() < CONVERGED:
                break
        ratio, added_s, level, power = self._numbers(numbers)
        seen = self.in_flight[self.loaded][kept[self.loaded]]
        correction = Correction(
            decode_level=level, decode_power=power, least_in_flight=float(seen.min(initial=MOST_IN_FLIGHT)),
            most_in_flight=float(seen.max(initial=1.0)), prefill_ratio=ratio, ttft_ratio=ratio, ttft_added_s=added_s,
        )  # fmt: skip
        several = self.loaded[kept[self.loaded] & (self.in_flight[self.loaded] > TOGETHER)]
        return correction.not_faster() if 2 * self.together[several].sum() >= max(1, len(several)) else correction

    def _off(self, numbers: np.ndarray) -> np.ndarray:
        """Predicted / measured in logarithms, of every loaded run and then of every lone TTFT."""
        ratio, added_s, level, power = self._numbers(numbers)
        tried = Correction(
            level, power, 0.0, MOST_IN_FLIGHT, prefill_ratio=ratio, ttft_ratio=ratio, ttft_added_s=added_s
        )
        run, waiting = self.steady.scaled(tried), tried.lone_ttft_s
        step = self.step_s * tried.decode_ratio(self.steady.in_flight)
        times = np.choose(self.kind, [step, 1 / run.requests_per_s, run.tpot_s])
        off: np.ndarray = np.log(np.concatenate([times / self.measured_s, waiting(self.lone_s) / self.lone_measured_s]))
        return off

    def _numbers(self, numbers: np.ndarray) -> tuple[float, float, float, float]:
        """Prefill ratio, added seconds, level and power; no more is taken off TTFT than the engine's constant."""
        ratio = float(np.exp(numbers[0]))
        return ratio, max(float(numbers[1]), -ratio * self.begun_s), float(np.exp(numbers[2])), float(numbers[3])


def _kind(point: MeasuredPoint) -> int | None:
    if point.decode_step_ms is not None:
        return STEP
    if rate_of(point) is not None and point.offered_per_s is None:
        return RATE
    return TPOT if point.tpot_ms is not None else None


def _measured_s(point: MeasuredPoint, kind: int) -> float:
    if kind == RATE:
        return 1 / (rate_of(point) or 1.0)
    return ((point.decode_step_ms if kind == STEP else point.tpot_ms) or 0.0) / 1e3


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
