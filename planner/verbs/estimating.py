"""Verbs around the performance model: estimate, accuracy and calibrate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.case.demand.overrides import catalog_with
from planner.io.errors import input_error
from planner.io.result import Result
from planner.io.units import parse_duration, parse_positive_count
from planner.performance.accuracy import Accuracy, score
from planner.performance.calibration.calibrate import Calibration
from planner.performance.calibration.calibrate import calibrate as calibrate_files
from planner.performance.estimate import Estimate
from planner.performance.estimate import estimate as estimate_one
from planner.performance.length_spread import LengthSpread, least_mean, spread_around
from planner.performance.machine_by_name import parallelism_named
from planner.plan.benchmarks import Suggestion, suggestions
from planner.verbs.opening import PlanOrFile, block
from planner.verbs.results import Answer

PERCENTILE = 0.95
"""of the objectives"""
Amount = float | int | str
"""a number, or text with its unit, such as "50ms" or "1.2k" """


def estimate(
    model: str,
    gpu: str,
    input: Amount,
    output: Amount,
    *,
    gpus_per_replica: int = 1,
    parallelism: str = "tensor",
    quantization: str = "fp16",
    engine: str = "vllm",
    concurrency: int | None = None,
    ttft_p95: Amount | None = None,
    tpot_p95: Amount | None = None,
    e2e_p95: Amount | None = None,
    rate: float | None = None,
    burstiness: float = 1.0,
    input_p50: Amount | None = None,
    input_p95: Amount | None = None,
    output_p50: Amount | None = None,
    output_p95: Amount | None = None,
    profile: Path | str | None = None,
    catalog: Path | str | None = None,
) -> Estimate:
    """Memory, latency and throughput of one deployment, at a concurrency, at a rate of arrivals or within an SLO.

    Prompts and answers of so many tokens, on average. Objectives are seconds or text such as "50ms"; `rate` is in
    requests a second, and `burstiness` the squared CV of their gaps. `profile` is a file of `calibrate`, `catalog` one
    with entries of your own.
    """
    prompts, answers = _tokens("--input", input), _tokens("--output", output)
    objectives = (
        _limit("--ttft-p95", ttft_p95),
        _limit("--tpot-p95", tpot_p95),
        _limit("--e2e-p95", e2e_p95),
    )
    return estimate_one(
        model,
        gpu,
        prompts,
        answers,
        gpus_per_replica=gpus_per_replica,
        parallelism=parallelism_named(parallelism),
        quantization=quantization,
        engine=engine,
        concurrency=concurrency,
        ttft=objectives[0],
        tpot=objectives[1],
        e2e=objectives[2],
        arrival_scv=burstiness,
        rate=rate,
        prompts=_spread("input", prompts, input_p50, input_p95),
        answers=_spread("output", answers, output_p50, output_p95),
        profile=None if profile is None else Path(profile),
        catalog=catalog_with(_path(catalog)),
    )


def estimate_points(points: Path | str, *, catalog: Path | str | None = None) -> Answer:
    """Estimates for every row of a CSV file: a deployment, lengths and a concurrency each."""
    from planner.reports.performance import points_document

    document = points_document(Path(points), catalog_with(_path(catalog)))
    return Answer(f"estimates for {Path(points).name}", document)


def accuracy(points: Path | str) -> Accuracy:
    """How far the performance model is off on measured points: errors by metric, GPU, precision and source."""
    return score(points)


def calibrate(
    results: Sequence[Path | str],
    *,
    model: str | None = None,
    gpu: str | None = None,
    gpus_per_replica: int | None = None,
    parallelism: str | None = None,
    quantization: str | None = None,
    catalog: Path | str | None = None,
) -> Calibration:
    """Your own benchmark results as a profile that plans use before any estimate: `.save("profile.yaml")`.

    Reads result files of vllm bench serve, GuideLLM, AIPerf and GenAI-Perf, and CSV. What the files do not say of the
    runs, or say wrongly, is given here.
    """
    return calibrate_files(
        [Path(file) for file in results],
        model=model,
        gpu=gpu,
        gpus_per_replica=gpus_per_replica,
        parallelism=None if parallelism is None else parallelism_named(parallelism),
        quantization=quantization,
        catalog=catalog_with(_path(catalog)),
    )


@dataclass(frozen=True, repr=False)
class Suggestions(Result):
    """Benchmarks that matter most to a plan, the most important first."""

    suggestions: tuple[Suggestion, ...]

    def as_json(self) -> list[dict[str, Any]]:
        return [s.as_json() for s in self.suggestions]


def suggest_benchmarks(plan: PlanOrFile) -> Suggestions:
    """The benchmarks that matter most to a plan, with commands to run them."""
    return Suggestions(suggestions(block(plan, None, None)))


def _path(file: Path | str | None) -> Path | None:
    return None if file is None else Path(file)


def _amount(option: str, parse: Callable[[object], float], value: Amount) -> float:
    """A number as it is, text as people write it; an error names the option."""
    if not isinstance(value, str):
        return float(value)
    try:
        return parse(value)
    except ValueError as error:
        raise input_error(option, str(error).rstrip(".")) from None


def _tokens(option: str, value: Amount) -> float:
    tokens = _amount(option, parse_positive_count, value)
    if tokens <= 0:
        raise input_error(option, f"expected tokens, got {tokens:g}", "Write one such as 1000")
    return tokens


def _limit(option: str, value: Amount | None) -> tuple[float, float] | None:
    """An objective in seconds, and its percentile."""
    return None if value is None else (_amount(option, parse_duration, value), PERCENTILE)


def _spread(of: str, mean: float, p50: Amount | None, p95: Amount | None) -> LengthSpread | None:
    """The spread of the prompts or answers, if it is given."""
    median, high = (
        None if value is None else _tokens(option, value)
        for option, value in ((f"--{of}-p50", p50), (f"--{of}-p95", p95))
    )
    if high is None:
        if median is not None:
            message = "says little without the 95th percentile"
            raise input_error(f"--{of}-p50", message, f"Give --{of}-p95 as well")
        return None
    if high <= mean or (median is not None and median > high):
        raise input_error(f"--{of}-p95", f"must be above the mean (--{of}) and the median", "Check the three")
    if median is not None and mean < least_mean(LengthSpread(p50=median, p95=high)):
        message = "is below any mean that fits these percentiles"
        raise input_error(f"--{of}", message, "Check the three, or leave the median out")
    return spread_around(mean, high, median)
