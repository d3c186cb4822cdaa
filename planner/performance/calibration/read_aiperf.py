"""AIPerf and GenAI-Perf summaries: one object per run, each metric with its unit, avg and percentiles.

The unit is written beside each metric and counts, whatever is usual: early GenAI-Perf gave nanoseconds, and
its numbers as text. GPU names come from telemetry where it ran; how many of them served a replica does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.io.errors import did_you_mean, shown
from planner.performance.calibration.benchmark_runs import BenchPoint, Key, Record, Spread, iso_date

TO_MS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1.0),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1e3),
    **dict.fromkeys(("us", "µs", "microsecond", "microseconds"), 1e-3),
    **dict.fromkeys(("ns", "nanosecond", "nanoseconds"), 1e-6),
}
METRICS = ("request_throughput", "request_latency", "output_token_throughput", "time_to_first_token")
CONCURRENCY: tuple[Key, ...] = (
    ("input_config", "loadgen", "concurrency"),
    ("input_config", "perf_analyzer", "stimulus", "concurrency"),
    ("input_config", "phases", "profiling", "concurrency"),
    ("run_info", "variation_values", "phases.profiling.concurrency"),
    ("input_config", "concurrency"),
)
RATE: tuple[Key, ...] = (
    ("input_config", "loadgen", "request_rate"),
    ("input_config", "perf_analyzer", "stimulus", "request_rate"),
    ("input_config", "phases", "profiling", "request_rate"),
    ("input_config", "request_rate"),
)
MODEL: tuple[Key, ...] = (
    ("input_config", "endpoint", "model_names"),
    ("input_config", "model_names"),
    ("input_config", "models"),
    ("input_config", "model"),
    "model",
)


def is_aiperf(data: Mapping[str, Any]) -> bool:
    return any(isinstance(data.get(name), Mapping) and "avg" in data[name] for name in METRICS)


def aiperf_point(record: Record) -> BenchPoint:
    done = record.count(("request_count", "avg"))
    failed = record.count(("error_request_count", "avg"))
    notes = ("the run was cancelled before its end",) if record.get("was_cancelled") is True else ()
    return BenchPoint(
        file=record.file,
        line=record.line,
        engine=None,
        model=record.text(*MODEL),
        gpu=_gpu(record),
        input_tokens=record.needed("input tokens", _average(record, "input_sequence_length", "num_input_token")),
        output_tokens=record.needed("output tokens", _average(record, "output_sequence_length", "num_output_token")),
        concurrency=record.positive(*CONCURRENCY),
        request_rate_per_s=record.positive(*RATE),
        requests_per_s=_average(record, "request_throughput"),
        output_tok_s=_average(record, "output_token_throughput"),
        ttft_ms=_latency(record, "time_to_first_token"),
        tpot_ms=_latency(record, "time_per_output_token", "inter_token_latency"),
        e2e_ms=_latency(record, "request_latency"),
        duration_s=_seconds(record, "benchmark_duration"),
        n_requests=None if done is None else done + (failed or 0),
        failed=failed,
        date=iso_date(record.get("start_time")),
        notes=notes,
    )


def _average(record: Record, *metrics: str) -> float | None:
    return record.positive(*((metric, "avg") for metric in metrics))


def _latency(record: Record, *metrics: str) -> Spread:
    for metric in metrics:
        if isinstance(record.get(metric), Mapping):
            spread = Spread(*(record.positive((metric, name)) for name in ("avg", "p50", "p95", "p99")))
            return spread.times(_to_ms(record, metric))
    return Spread()


def _seconds(record: Record, metric: str) -> float | None:
    value = record.positive((metric, "avg"))
    return None if value is None else value * _to_ms(record, metric) / 1e3


def _to_ms(record: Record, metric: str) -> float:
    unit = record.get((metric, "unit"))
    if unit is None:
        return 1.0
    known = TO_MS.get(str(unit).strip().lower())
    if known is None:
        record.complain(f"'{metric}' has the unit {shown(unit)}", did_you_mean(str(unit), ("ms", "s", "us", "ns")))
    return known or 1.0


def _gpu(record: Record) -> str | None:
    """The name that telemetry gives, if all GPUs have the same one."""
    endpoints = record.get(("telemetry_data", "endpoints"))
    names = set()
    for endpoint in endpoints.values() if isinstance(endpoints, Mapping) else ():
        gpus = endpoint.get("gpus") if isinstance(endpoint, Mapping) else None
        for gpu in gpus.values() if isinstance(gpus, Mapping) else ():
            names.add(gpu.get("gpu_name") if isinstance(gpu, Mapping) else None)
    only = names.pop() if len(names) == 1 else None
    return only if isinstance(only, str) else None
