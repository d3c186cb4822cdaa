"""Verbs around the performance model: estimate, accuracy, calibrate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.common import Format, FormatOption, examples, note, parsed, refuse, saved_plan, seconds
from planner.cli.emit import Outputs, emit

if TYPE_CHECKING:
    from planner.catalog.variant import Parallelism
    from planner.performance.length_spread import LengthSpread

verbs = typer.Typer()
WAYS = "tensor, expert or data"
CatalogOption = Annotated[
    Path | None, typer.Option(help="A file with entries of your own, as `catalog:` of a demand file names it.")
]


@verbs.command(epilog=examples("fleetplan accuracy measured.csv.gz --out scored.csv"))
def accuracy(
    points: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Measured points, plain or gzipped.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write each row with its prediction here.")] = None,
    format: FormatOption = Format.table,
) -> None:
    """Score the performance model on measured points: errors by metric, GPU, precision, parallelism and source."""
    from planner.performance.accuracy import score
    from planner.reports.performance import accuracy_document, accuracy_rows_csv

    outputs = Outputs(format)
    outputs.check([points], others={"--out": out})
    result = score(points)
    emit(accuracy_document(result), outputs, also=[(out, lambda: accuracy_rows_csv(points, result))])


@verbs.command(
    epilog=examples(
        "fleetplan estimate --model llama-3.1-8b --gpu h100 --quantization fp8 --input 1000 --output 200 "
        "--tpot-p95 50ms",
        "fleetplan estimate --model llama-3.1-8b --gpu h200 --input 1155 --input-p95 4083 --output 211 "
        "--output-p95 451 --rate 12 --burstiness 2 --profile profile.yaml",
        "fleetplan estimate --model qwen3-235b-a22b --gpu h200 --gpus-per-replica 4 --parallelism expert "
        "--quantization fp8 --input 1000 --output 500 --concurrency 64",
    )
)
def estimate(
    model: Annotated[str | None, typer.Option(help="A model of the catalog.")] = None,
    gpu: Annotated[str | None, typer.Option(help="A GPU of the catalog.")] = None,
    input: Annotated[str | None, typer.Option("--input", help="Prompt tokens, on average.")] = None,
    output: Annotated[str | None, typer.Option("--output", help="Generated tokens, on average.")] = None,
    gpus_per_replica: Annotated[int, typer.Option(min=1, max=64, help="GPUs of a replica.")] = 1,
    parallelism: Annotated[str, typer.Option(help=f"How they share a mixture of experts: {WAYS}.")] = "tensor",
    quantization: Annotated[str, typer.Option(help="How weights are stored.")] = "fp16",
    engine: Annotated[str, typer.Option(help="vllm, sglang, tensorrt-llm or tgi.")] = "vllm",
    concurrency: Annotated[int | None, typer.Option(min=1, help="Requests in flight.")] = None,
    ttft_p95: Annotated[str | None, typer.Option(help='Objective, such as "1.5s".')] = None,
    tpot_p95: Annotated[str | None, typer.Option(help='Objective, such as "50ms".')] = None,
    e2e_p95: Annotated[str | None, typer.Option(help='Objective to the last token, such as "10s".')] = None,
    rate: Annotated[float | None, typer.Option(min=1e-6, help="Requests per second that arrive.")] = None,
    burstiness: Annotated[float, typer.Option(min=0.0, help="Squared CV of arrival gaps.")] = 1.0,
    input_p50: Annotated[str | None, typer.Option(help="Median of the prompts, for TTFT and E2E under load.")] = None,
    input_p95: Annotated[str | None, typer.Option(help="Their 95th percentile; else all are equally long.")] = None,
    output_p50: Annotated[str | None, typer.Option(help="Median of the answers, for E2E under load.")] = None,
    output_p95: Annotated[str | None, typer.Option(help="Their 95th percentile; else all are equally long.")] = None,
    profile: Annotated[Path | None, typer.Option(help="Correct it by this file of `fleetplan calibrate`.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the latency-throughput curve to this SVG file.")] = None,
    points: Annotated[Path | None, typer.Option(help="Predict every row of this CSV instead.")] = None,
    catalog: CatalogOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Estimate one deployment: memory, latency and throughput, at a concurrency, at a rate or within an SLO."""
    from planner.case.demand.overrides import catalog_with
    from planner.performance.estimate import estimate as estimate_one
    from planner.reports.performance import estimate_document, estimate_svg, points_document

    outputs = Outputs(format)
    if points is not None:
        emit(points_document(points, catalog_with(catalog)), outputs)
        return
    outputs.check(others={"--plot": plot})
    lengths = _lengths(model, gpu, input, output)
    given = (("--ttft-p95", ttft_p95), ("--tpot-p95", tpot_p95), ("--e2e-p95", e2e_p95))
    objectives = [seconds(option, text) for option, text in given]
    limits = [None if s is None else (s, 0.95) for s in objectives]
    result = estimate_one(
        model or "", gpu or "", *lengths, gpus_per_replica=gpus_per_replica, parallelism=_parallelism(parallelism),
        quantization=quantization, engine=engine, concurrency=concurrency, ttft=limits[0], tpot=limits[1],
        e2e=limits[2], arrival_scv=burstiness, rate=rate, prompts=_spread("input", lengths[0], input_p50, input_p95),
        answers=_spread("output", lengths[1], output_p50, output_p95), profile=profile, catalog=catalog_with(catalog),
    )  # fmt: skip
    objective_ms = limits[1][0] * 1e3 if limits[1] else None
    emit(estimate_document(result), outputs, also=[(plot, lambda: estimate_svg(result, objective_ms))])


@verbs.command(
    epilog=examples(
        "fleetplan calibrate bench/*.json --model llama-3.1-8b --gpu h100 --out profile.yaml",
        "fleetplan calibrate ep/*.json --gpu h200 --gpus-per-replica 4 --parallelism expert --out profile.yaml",
        "fleetplan calibrate --suggest plan.json",
    )
)
def calibrate(
    results: Annotated[
        list[Path] | None, typer.Argument(metavar="[RESULTS...]", help="Result files, or a CSV.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The profile to write, for `profiles:` in a demand file.")
    ] = None,
    suggest: Annotated[
        Path | None,
        typer.Option(metavar="PLAN.json", help="Print the benchmarks that matter most to this plan instead."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model, if the files do not name it, or name it wrongly.")
    ] = None,
    gpu: Annotated[str | None, typer.Option(help="The GPU of the runs.")] = None,
    gpus_per_replica: Annotated[int | None, typer.Option(min=1, help="GPUs of a replica.")] = None,
    parallelism: Annotated[str | None, typer.Option(help=f"How they share a mixture of experts: {WAYS}.")] = None,
    quantization: Annotated[str | None, typer.Option(help="Quantization of the runs.")] = None,
    catalog: CatalogOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Turn your own benchmark results into a profile that `plan` uses before any estimate.

    Reads result files of vllm bench serve (JSON, JSONL), GuideLLM, AIPerf and GenAI-Perf, and CSV.
    """
    from planner.case.demand.overrides import catalog_with
    from planner.io.files import write_whole
    from planner.performance.calibration.calibrate import calibrate as calibrate_files
    from planner.reports.performance import calibration_document, suggestions_document

    if suggest is not None:
        if results or out:
            refuse("--suggest", "reads a plan and no results", "Run it by itself, then calibrate what was measured")
        from planner.plan.benchmarks import suggestions

        emit(suggestions_document(suggestions(saved_plan(suggest))), Outputs(format))
        return
    if not results:
        refuse("RESULTS", "are missing", "Give result files, or --suggest PLAN.json to see what to measure")
    if out is None:
        refuse("--out", "is missing", "Name the profile to write, such as --out profile.yaml")
    outputs = Outputs(format)
    outputs.check(results, others={"--out": out})
    done = calibrate_files(
        results, model=model, gpu=gpu, gpus_per_replica=gpus_per_replica,
        parallelism=None if parallelism is None else _parallelism(parallelism), quantization=quantization,
        catalog=catalog_with(catalog),
    )  # fmt: skip
    write_whole(out, done.profile_text)
    emit(calibration_document(done), outputs)
    note(f"wrote {out}; use it with   profiles: [{out.name}]   in a demand file")


def _parallelism(text: str) -> Parallelism:
    from planner.performance.machine_by_name import parallelism_named

    return parallelism_named(text)


def _spread(of: str, mean: float, p50: str | None, p95: str | None) -> LengthSpread | None:
    """The spread of the prompts or answers, if it is given."""
    from planner.io.units import parse_positive_count
    from planner.performance.length_spread import LengthSpread, least_mean, spread_around

    median, high = (None if text is None else parsed(option, parse_positive_count, text)
                    for option, text in ((f"--{of}-p50", p50), (f"--{of}-p95", p95)))  # fmt: skip
    if high is None:
        if median is not None:
            refuse(f"--{of}-p50", "says little without the 95th percentile", f"Give --{of}-p95 as well")
        return None
    if high <= mean or (median is not None and median > high):
        refuse(f"--{of}-p95", f"must be above the mean (--{of}) and the median", "Check the three")
    if median is not None and mean < least_mean(LengthSpread(p50=median, p95=high)):
        refuse(f"--{of}", "is below any mean that fits these percentiles", "Check the three, or leave the median out")
    return spread_around(mean, high, median)


def _lengths(model: str | None, gpu: str | None, input: str | None, output: str | None) -> list[float]:
    """The two lengths, once everything that must be given is."""
    from planner.io.units import parse_positive_count

    given = {"--model": model, "--gpu": gpu, "--input": input, "--output": output}
    if model is None or gpu is None or input is None or output is None:
        missing = [option for option, value in given.items() if value is None]
        refuse(", ".join(missing), "must be given", "Or give --points FILE.csv to predict many at once")
    return [parsed("--input", parse_positive_count, input), parsed("--output", parse_positive_count, output)]
