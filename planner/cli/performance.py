"""Verbs around the performance model: estimate, accuracy, calibrate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.common import Format, FormatOption, examples, note, refuse, seconds
from planner.cli.emit import Outputs, emit

verbs = typer.Typer()
WAYS = "tensor, expert or data"
CatalogOption = Annotated[
    Path | None, typer.Option(help="A catalog file with entries of your own, as for `catalog:` in a demand file.")
]


@verbs.command(epilog=examples("fleetplan accuracy measured.csv.gz --out scored.csv"))
def accuracy(
    points: Annotated[Path, typer.Argument(metavar="FILE.csv", help="A CSV of measured points, plain or gzipped.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write each row with its prediction to this file.")
    ] = None,
    format: FormatOption = Format.table,
) -> None:
    """Score the performance model on measured points: errors by metric, GPU, precision, parallelism and source."""
    from planner.reports.performance import accuracy_document, accuracy_rows_csv
    from planner.verbs.estimating import accuracy as scored

    outputs = Outputs(format)
    outputs.check([points], others={"--out": out})
    result = scored(points)
    emit(accuracy_document(result), outputs, also=[(out, lambda: accuracy_rows_csv(result))])


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
    model: Annotated[str | None, typer.Option(help="A model in the catalog.")] = None,
    gpu: Annotated[str | None, typer.Option(help="A GPU in the catalog.")] = None,
    input: Annotated[str | None, typer.Option("--input", help="Mean number of prompt tokens.")] = None,
    output: Annotated[str | None, typer.Option("--output", help="Mean number of generated tokens.")] = None,
    gpus_per_replica: Annotated[int, typer.Option(min=1, max=64, help="GPUs of a replica.")] = 1,
    parallelism: Annotated[str, typer.Option(help=f"How the GPUs share a mixture of experts: {WAYS}.")] = "tensor",
    quantization: Annotated[str, typer.Option(help="Format of the weights.")] = "fp16",
    speculation: Annotated[
        str | None, typer.Option(help="Drafts of each step: mtp:3, eagle3:3, ngram:3 or draft:MODEL:3, and so on.")
    ] = None,
    accepted: Annotated[
        float | None, typer.Option(help="Tokens that such a step brings, the one of any step included.")
    ] = None,
    engine: Annotated[str, typer.Option(help="Serving engine: vllm, sglang, tensorrt-llm or tgi.")] = "vllm",
    concurrency: Annotated[int | None, typer.Option(min=1, help="Requests in flight.")] = None,
    ttft_p95: Annotated[
        str | None, typer.Option(help='Objective for the time to the first token, such as "1.5s".')
    ] = None,
    tpot_p95: Annotated[
        str | None, typer.Option(help='Objective for the time per output token, such as "50ms".')
    ] = None,
    e2e_p95: Annotated[
        str | None, typer.Option(help='Objective for the time to the last token, such as "10s".')
    ] = None,
    rate: Annotated[float | None, typer.Option(min=1e-6, help="Arriving requests per second.")] = None,
    burstiness: Annotated[
        float, typer.Option(min=0.0, help="Squared coefficient of variation of the gaps between arrivals.")
    ] = 1.0,
    input_p50: Annotated[str | None, typer.Option(help="Median prompt tokens, for TTFT and E2E under load.")] = None,
    input_p95: Annotated[str | None, typer.Option(help="Their 95th percentile; else all are equally long.")] = None,
    output_p50: Annotated[str | None, typer.Option(help="Median generated tokens, for E2E under load.")] = None,
    output_p95: Annotated[str | None, typer.Option(help="Their 95th percentile; else all are equally long.")] = None,
    profile: Annotated[
        Path | None, typer.Option(help="Correct the estimate with this profile from `fleetplan calibrate`.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the latency-throughput curve to this SVG file.")] = None,
    points: Annotated[Path | None, typer.Option(help="Predict every row of this CSV file instead.")] = None,
    catalog: CatalogOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Estimate one deployment: memory, latency and throughput, at a concurrency, at a rate or within an SLO."""
    from planner.reports.performance import estimate_document, estimate_svg
    from planner.verbs.estimating import estimate as estimate_as_asked
    from planner.verbs.estimating import estimate_points

    outputs = Outputs(format)
    if points is not None:
        emit(estimate_points(points, catalog=catalog).document, outputs)
        return
    outputs.check(others={"--plot": plot})
    given = {"--model": model, "--gpu": gpu, "--input": input, "--output": output}
    if model is None or gpu is None or input is None or output is None:
        missing = [option for option, value in given.items() if value is None]
        refuse(", ".join(missing), "must be given", "Or give --points FILE.csv to predict many at once")
    result = estimate_as_asked(
        model, gpu, input, output, gpus_per_replica=gpus_per_replica, parallelism=parallelism,
        quantization=quantization, speculation=speculation, accepted=accepted, engine=engine,
        concurrency=concurrency, ttft_p95=ttft_p95, tpot_p95=tpot_p95,
        e2e_p95=e2e_p95, rate=rate, burstiness=burstiness, input_p50=input_p50, input_p95=input_p95,
        output_p50=output_p50, output_p95=output_p95, profile=profile, catalog=catalog,
    )  # fmt: skip
    tpot_s = seconds("--tpot-p95", tpot_p95)
    emit(estimate_document(result), outputs, also=[(plot, lambda: estimate_svg(result, tpot_s and tpot_s * 1e3))])


@verbs.command(
    epilog=examples(
        "fleetplan calibrate bench/*.json --model llama-3.1-8b --gpu h100 --out profile.yaml",
        "fleetplan calibrate ep/*.json --gpu h200 --gpus-per-replica 4 --parallelism expert --out profile.yaml",
        "fleetplan calibrate --suggest plan.json",
    )
)
def calibrate(
    results: Annotated[
        list[Path] | None, typer.Argument(metavar="[RESULTS...]", help="Benchmark result files, or one CSV file.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The profile to write, for `profiles:` in a demand file.")
    ] = None,
    suggest: Annotated[
        Path | None,
        typer.Option(metavar="PLAN.json", help="Print which benchmarks would matter most to this plan instead."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model, if the files do not name it correctly.")] = None,
    gpu: Annotated[str | None, typer.Option(help="The GPU used in the runs.")] = None,
    gpus_per_replica: Annotated[int | None, typer.Option(min=1, help="GPUs of a replica.")] = None,
    parallelism: Annotated[str | None, typer.Option(help=f"How the GPUs share a mixture of experts: {WAYS}.")] = None,
    quantization: Annotated[str | None, typer.Option(help="The quantization used in the runs.")] = None,
    catalog: CatalogOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Turn your own benchmark results into a profile that `plan` uses in preference to estimates.

    Reads result files of vllm bench serve (JSON, JSONL), GuideLLM, AIPerf and GenAI-Perf, and CSV.
    """
    from planner.io.files import write_whole
    from planner.reports.performance import calibration_document, suggestions_document
    from planner.verbs.estimating import calibrate as calibrate_as_asked
    from planner.verbs.estimating import suggest_benchmarks

    if suggest is not None:
        if results or out:
            refuse("--suggest", "reads a plan, not results", "Run it by itself, then calibrate with what you measured")
        emit(suggestions_document(suggest_benchmarks(suggest).suggestions), Outputs(format))
        return
    if not results:
        refuse("RESULTS", "are missing", "Give result files, or --suggest PLAN.json to see what to measure")
    if out is None:
        refuse("--out", "is missing", "Name the profile to write, such as --out profile.yaml")
    outputs = Outputs(format)
    outputs.check(results, others={"--out": out})
    done = calibrate_as_asked(
        results, model=model, gpu=gpu, gpus_per_replica=gpus_per_replica, parallelism=parallelism,
        quantization=quantization, catalog=catalog,
    )  # fmt: skip
    write_whole(out, done.profile_text)
    emit(calibration_document(done), outputs)
    note(f"wrote {out}; use it with   profiles: [{out.name}]   in a demand file")
