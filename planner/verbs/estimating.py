"""Verbs around the performance model: estimate, accuracy and calibrate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.case.demand.overrides import catalog_with
from planner.case.drafts import drafter_of, known_acceptance, own_acceptance
from planner.catalog.drafts import METHODS, OTHER_MODEL
from planner.catalog.entries import Catalog, find, names_of
from planner.io.errors import did_you_mean, input_error, listed, shown
from planner.io.result import Result
from planner.io.units import parse_duration, parse_positive_count
from planner.performance.accuracy import Accuracy, score
from planner.performance.calibration.calibrate import Calibration
from planner.performance.calibration.calibrate import calibrate as calibrate_files
from planner.performance.estimate import Estimate
from planner.performance.estimate import estimate as estimate_one
from planner.performance.length_spread import LengthSpread, least_mean, spread_around
from planner.performance.machine_by_name import parallelism_named
from planner.performance.speculation import MOST_DRAFTS, Speculation
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
    speculation: str | None = None,
    accepted: float | None = None,
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
    with entries of your own. `speculation` drafts tokens, as "eagle3:3"; `accepted` says how many a step then brings,
    the one that any step gives included, or else the catalog does.
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
        speculation=None
        if speculation is None
        else _drafts(speculation, accepted, model, catalog_with(_path(catalog))),
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


def _drafts(text: str, accepted: float | None, model: str, catalog: Catalog) -> Speculation:
    """METHOD:TOKENS as people write it; without a figure of theirs, acceptance is that of the catalog."""
    option, (method, _, written) = "--speculation", text.strip().lower().rpartition(":")
    if not (method in METHODS or method.startswith(OTHER_MODEL)) or not written.isdigit() or not int(written):
        example = f"Write {listed([f'{name}:3' for name in METHODS])}, or draft:MODEL:3"
        raise input_error(option, f"{shown(text)} is not METHOD:TOKENS", example)
    tokens, name = int(written), find(model, catalog.models)
    if tokens > MOST_DRAFTS:
        raise input_error(option, f"{tokens} drafts a step are too many", f"Write {MOST_DRAFTS} or fewer")
    if name is None:  # said where the model is looked up
        return Speculation(method, (0.0,) * tokens)
    if method.startswith(OTHER_MODEL):
        other = find(method.removeprefix(OTHER_MODEL), catalog.models)
        if other is None:
            remedy = did_you_mean(method.removeprefix(OTHER_MODEL), list(names_of(catalog.models)))
            raise input_error(option, f"there is no model {shown(method.removeprefix(OTHER_MODEL))}", remedy)
        method = f"{OTHER_MODEL}{other}"
    drafter = drafter_of(catalog.models, name, method)
    if isinstance(drafter, str):
        raise input_error(option, f"{name}: {drafter}", "Choose another method")
    if accepted is not None and not 1 <= accepted <= tokens + 1:
        raise input_error(
            "--accepted", f"a step of {tokens} drafts brings 1 to {tokens + 1} tokens", "Check the figure"
        )
    known = known_acceptance(name, method, None)
    chances = known[0] if known else ()
    if accepted is not None:
        chances = own_acceptance(accepted, tokens)
    if len(chances) < tokens:
        message = f"nobody measured how many of {tokens} {method} drafts of {name} are accepted"
        raise input_error(option, message, "Give --accepted, 1 + accepted / drafts of the engine's metrics")
    return Speculation(method, chances[:tokens], drafter.shape, drafter.shares_head, drafter.as_quantized)
