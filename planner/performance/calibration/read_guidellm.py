"""GuideLLM reports: version 1 (`args` at the top), version 2 (`config`), and those of 0.2 and 0.3 before them.

A report holds one benchmark per rate or concurrency. Request latency is in seconds, TTFT and ITL in ms (their
keys say so). Its `time_per_output_token_ms` counts the first token in, which is E2E / tokens; what others
call TPOT is its inter-token latency. `p001` is the 0.1% percentile, `p01` the 1% one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from planner.performance.calibration.benchmark_runs import BenchPoint, Record, Spread, sharing_of

EXTRAS = (("args", "output_extras"), ("config", "metadata", "labels"), ("benchmark", "extras"))


def is_guidellm(data: Mapping[str, Any]) -> bool:
    runs = data.get("benchmarks")
    return isinstance(runs, list) and all(isinstance(r, Mapping) and "metrics" in r for r in runs)


def guidellm_records(data: Mapping[str, Any], file: str) -> Iterator[Record]:
    """One record per benchmark, with what the report says of all of them beside it."""
    common = {key: data.get(key) for key in ("args", "config", "metadata")}
    for k, run in enumerate(data["benchmarks"]):
        yield Record({**common, "benchmark": run}, file, where=f"benchmarks[{k}]")


def guidellm_point(record: Record) -> BenchPoint:
    sent, failed = _requests(record)
    strategy = _strategy(record)
    gpus, sharing = sharing_of(record, *EXTRAS)
    return BenchPoint(
        file=record.file,
        line=record.line,
        engine=_extra(record, "engine"),
        model=_model(record),
        gpu=_extra(record, "gpu", "gpu_type", "hardware"),
        gpus_per_replica=gpus,
        sharing=sharing,
        quantization=_extra(record, "quantization", "precision", "dtype"),
        input_tokens=record.needed("input tokens", _mean(record, "prompt_token_count")),
        output_tokens=record.needed("output tokens", _mean(record, "output_token_count")),
        concurrency=_concurrency(record, strategy),
        request_rate_per_s=_positive(strategy.get("rate")),
        requests_per_s=_mean(record, "requests_per_second"),
        output_tok_s=_mean(record, "output_tokens_per_second"),
        ttft_ms=_spread(record, "time_to_first_token_ms", 1.0),
        tpot_ms=_spread(record, "inter_token_latency_ms", 1.0),
        e2e_ms=_spread(record, "request_latency", 1e3),
        duration_s=_duration_s(record),
        n_requests=sent,
        failed=failed,
        date=_date(record),
    )


def _mean(record: Record, metric: str) -> float | None:
    return record.positive(("benchmark", "metrics", metric, "successful", "mean"))


def _spread(record: Record, metric: str, to_ms: float) -> Spread:
    base = ("benchmark", "metrics", metric, "successful")
    return Spread(
        mean=record.positive((*base, "mean")),
        p50=record.positive((*base, "percentiles", "p50"), (*base, "median")),
        p95=record.positive((*base, "percentiles", "p95")),
        p99=record.positive((*base, "percentiles", "p99")),
    ).times(to_ms)


def _requests(record: Record) -> tuple[int | None, int | None]:
    """Sent and failed. Requests that the end of the run cut off did not fail."""
    base: tuple[tuple[str, ...], ...] = (("benchmark", "metrics", "request_totals"), ("benchmark", "request_totals"))
    good = record.count(*((*b, "successful") for b in base))
    bad = record.count(*((*b, "errored") for b in base))
    if good == 0:
        record.complain("not one request succeeded", "Run the benchmark again")
    return (None if good is None else good + (bad or 0)), bad


def _strategy(record: Record) -> Mapping[str, Any]:
    paths = (("config", "strategy"), ("args", "strategy"), ("scheduler", "strategy"))
    strategy = record.get(*(("benchmark", *path) for path in paths))
    return strategy if isinstance(strategy, Mapping) else {}


def _concurrency(record: Record, strategy: Mapping[str, Any]) -> float | None:
    """Streams where their number is fixed; elsewhere max_concurrency is a cap never meant to be reached."""
    kind = strategy.get("type_") or strategy.get("kind")
    if kind == "synchronous":
        return 1.0
    fixed = _positive(strategy.get("streams", strategy.get("max_concurrency"))) if kind == "concurrent" else None
    return fixed or _mean(record, "request_concurrency")


def _positive(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def _model(record: Record) -> str | None:
    return record.text(
        ("benchmark", "config", "backend", "model"),
        ("config", "spec", "backend", "model"),
        ("args", "model"),
        ("args", "backend_kwargs", "model"),
        ("benchmark", "worker", "backend_model"),
    )


def _extra(record: Record, *names: str) -> str | None:
    """What the user attached to the report (--output-extras, labels)."""
    return record.text(*((*path, name) for path in EXTRAS for name in names))


def _duration_s(record: Record) -> float | None:
    given = record.positive(("benchmark", "duration"))
    begun, ended = record.positive(("benchmark", "start_time")), record.positive(("benchmark", "end_time"))
    return given or (ended - begun if begun and ended and ended > begun else None)


def _date(record: Record) -> str | None:
    begun = record.positive(("benchmark", "start_time"))
    return datetime.fromtimestamp(begun, UTC).date().isoformat() if begun and begun < 4e9 else None
