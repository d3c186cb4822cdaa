"""Points from a CSV file: long (one metric a row, as collections of published measurements are kept) or wide
(one run a row, its columns named like the fields of a point).

    long: model,gpu,n_gpus,tp,dtype_weights,input_len,output_len,batch_or_concurrency,metric,value
    wide: model,gpu,gpus_per_replica,quantization,input_tokens,output_tokens,concurrency,ttft_ms,tpot_p95_ms,...

Either may say how GPUs share a mixture of experts: parallelism, or attention_dp (copies of attention) and moe_ep.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from planner.io.errors import Diagnostic, did_you_mean, shown
from planner.performance.calibration.benchmark_runs import BenchPoint, Record, Spread, iso_date, sharing_of

LONG_COLUMNS = ("model", "gpu", "input_len", "output_len", "batch_or_concurrency", "metric", "value")
LATENCIES = ("ttft", "tpot", "e2e")
STATISTICS = {"": "mean", "_mean": "mean", "_p50": "p50", "_p95": "p95", "_p99": "p99"}
LATENCY_COLUMNS = tuple(f"{name}{statistic}_ms" for name in LATENCIES for statistic in STATISTICS)
PLAIN_COLUMNS = (
    "engine", "model", "gpu", "gpus_per_replica", "parallelism", "attention_dp", "moe_ep", "quantization",
    "speculation", "input_tokens", "output_tokens", "concurrency", "request_rate_per_s", "requests_per_s",
    "output_tok_s", "decode_step_ms", "duration_s", "n_requests", "failed", "date",
)  # fmt: skip
WIDE_COLUMNS = (*PLAIN_COLUMNS, *LATENCY_COLUMNS)
REMARKS = ("notes", "source", "url", "file", "line")
NOT_A_MEASUREMENT = "SUSPECT"

METRICS: dict[str, Callable[[BenchPoint, float], BenchPoint]] = {
    "tpot_ms": lambda point, value: replace(point, tpot_ms=Spread(mean=value)),
    "ttft_ms": lambda point, value: replace(point, ttft_ms=Spread(mean=value)),
    "prefill_ms": lambda point, value: replace(point, ttft_ms=Spread(mean=value)),
    "e2e_ms": lambda point, value: replace(point, e2e_ms=Spread(mean=value)),
    "decode_step_ms": lambda point, value: replace(point, decode_step_ms=value),
    "output_tok_s": lambda point, value: replace(point, output_tok_s=value),
    "req_s": lambda point, value: replace(point, requests_per_s=value),
}


def is_csv(text: str) -> bool:
    columns = _columns(text)
    return set(LONG_COLUMNS) <= set(columns) or {"input_tokens", "output_tokens"} <= set(columns)


def csv_points(text: str, file: str) -> tuple[list[BenchPoint], list[Diagnostic]]:
    columns = _columns(text)
    rows = csv.DictReader(io.StringIO(text, newline=""), fieldnames=columns, restkey="", restval=None)
    records: list[Record] = []
    try:
        next(rows)
        for row in rows:
            records.append(Record({k: v for k, v in row.items() if k and v != ""}, file, rows.line_num))
    except csv.Error as error:
        return [], [
            Diagnostic(file, rows.line_num, None, "", f"is not a row of a CSV file: {error}", "Check its quotes")
        ]
    used = [record for record in records if record.data]
    if set(LONG_COLUMNS) <= set(columns):
        points = _long_points(used)
        diagnostics: list[Diagnostic] = []
    else:
        points = [_wide_point(record) for record in used]
        diagnostics = _unknown_columns(columns, file)
    diagnostics += [diagnostic for record in used for diagnostic in record.diagnostics]
    if not used:
        diagnostics.append(Diagnostic(file, None, None, "", "holds no rows below its header"))
    return points, diagnostics


def _columns(text: str) -> list[str]:
    try:
        first = next(csv.reader(io.StringIO(text[:100_000], newline="")), [])
    except csv.Error:
        return []
    return [name.strip().lower() for name in first]


def _unknown_columns(columns: Sequence[str], file: str) -> list[Diagnostic]:
    """A misspelt column would be measured and not used, so none is passed over."""
    known = (*WIDE_COLUMNS, *REMARKS)
    return [
        Diagnostic(file, 1, None, "", f"unknown column {shown(name)}", did_you_mean(name, known) or "Delete it")
        for name in columns
        if name and name not in known
    ]


def _wide_point(record: Record) -> BenchPoint:
    gpus, sharing = sharing_of(record)
    return BenchPoint(
        file=record.file,
        line=record.line,
        engine=record.text("engine"),
        model=record.text("model"),
        gpu=record.text("gpu"),
        gpus_per_replica=gpus,
        sharing=sharing,
        quantization=record.text("quantization"),
        input_tokens=record.needed("input tokens", record.positive("input_tokens"), "Fill in input_tokens"),
        output_tokens=record.needed("output tokens", record.positive("output_tokens"), "Fill in output_tokens"),
        concurrency=record.positive("concurrency"),
        request_rate_per_s=record.positive("request_rate_per_s"),
        requests_per_s=record.positive("requests_per_s"),
        output_tok_s=record.positive("output_tok_s"),
        ttft_ms=_spread(record, "ttft"),
        tpot_ms=_spread(record, "tpot"),
        e2e_ms=_spread(record, "e2e"),
        decode_step_ms=record.positive("decode_step_ms"),
        duration_s=record.positive("duration_s"),
        n_requests=record.count("n_requests"),
        failed=record.count("failed"),
        date=iso_date(record.get("date")),
    )


def _spread(record: Record, name: str) -> Spread:
    values = {field: record.positive(f"{name}{key}_ms") for key, field in STATISTICS.items() if key}
    plain = record.positive(f"{name}_ms")
    return Spread(**{**values, "mean": values["mean"] if plain is None else plain})


def _long_points(records: Iterable[Record]) -> list[BenchPoint]:
    """Rows that differ in their metric alone are one run; a metric that comes again begins another run."""
    runs: dict[tuple[str, ...], list[tuple[BenchPoint, set[str]]]] = {}
    for record in records:
        metric, value = record.text("metric"), record.positive("value")
        if NOT_A_MEASUREMENT in str(record.get("notes")):
            record.complain(f"is marked {NOT_A_MEASUREMENT} in its notes", "Delete the row, or the mark")
        if metric not in METRICS:
            record.complain(f"unknown metric {shown(metric)}", did_you_mean(metric or "", METRICS))
        elif value is None:
            record.complain(f"says nothing about the {metric}", "Fill in value, or delete the row")
        else:
            same = ("metric", "value", "notes")
            identity = tuple(f"{k}={v}" for k, v in record.data.items() if k not in same)
            parts = runs.setdefault(identity, [])
            if not parts or metric in parts[-1][1]:
                parts.append((_long_point(record), set()))
            point, given = parts[-1]
            parts[-1] = (METRICS[metric](point, value), given | {metric})
    return [point for parts in runs.values() for point, _ in parts]


def _long_point(record: Record) -> BenchPoint:
    in_all, (gpus, sharing) = record.count("n_gpus"), sharing_of(record)
    if record.count("tp") is None:
        gpus = in_all or gpus
    elif in_all is not None and gpus is not None and in_all != gpus:
        several = sharing.attention_copies or sharing.stages
        shares = "a parallelism of" if several else "a tensor parallelism of"
        record.complain(
            f"{in_all} GPUs with {shares} {gpus} are not one replica",
            f"Give the figures of one replica and write {gpus} for n_gpus",
        )
    batch = record.text("batch_or_concurrency")
    in_flight = None if batch == "max" else record.positive("batch_or_concurrency")
    return BenchPoint(
        file=record.file,
        line=record.line,
        engine=record.text("engine"),
        model=record.text("model"),
        gpu=record.text("gpu"),
        gpus_per_replica=gpus if gpus is not None else in_all,
        sharing=sharing,
        quantization=record.text("dtype_weights"),
        input_tokens=record.needed("input tokens", record.positive("input_len"), "Fill in input_len"),
        output_tokens=record.needed("output tokens", record.positive("output_len"), "Fill in output_len"),
        concurrency=in_flight,
        date=iso_date(record.get("date")),
    )
