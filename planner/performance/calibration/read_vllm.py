"""Results of `vllm bench serve --save-result` and of the tools that grew out of it (SGLang, InferenceX).

One flat object per run. Neither GPU nor degrees of parallelism nor quantization are in it, unless `--metadata`
put them there under keys of the user's choice. Percentiles other than p99 are written on demand only. Keys
without `_ms` (`median_ttft`) are a variant that gives seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.performance.calibration.benchmark_runs import BenchPoint, Key, Record, Spread, iso_date, sharing_of

GPU_KEYS = ("gpu", "gpu_type", "gpu_name", "accelerator", "hardware")
QUANTIZATION_KEYS = ("quantization", "quant", "precision", "dtype_weights", "dtype")
REPLICA_KEYS = ("replicas", "num_replicas", "decode_replicas")
ENGINE_KEYS = ("engine", "framework", "backend", "endpoint_type")
ENGINES = ("vllm", "sglang", "tensorrt-llm", "trtllm", "tgi", "lmdeploy")
E2E_NAMES = ("e2el", "e2e_latency")


def is_vllm(data: Mapping[str, Any]) -> bool:
    rate = data.get("request_throughput", data.get("output_throughput"))
    return isinstance(rate, int | float | str) and "total_output_tokens" in data


def vllm_point(record: Record) -> BenchPoint:
    completed = record.count("completed")
    sent = record.count("num_prompts", "total_requests")
    failed = record.count("failed", "num_failed")
    if completed is None and sent is not None:
        completed = sent - (failed or 0)
    if failed is None and sent is not None and completed is not None:
        failed = max(sent - completed, 0)
    if completed == 0:
        record.complain("not one request completed", "Run the benchmark again; its 'errors' say what went wrong")
    several = record.number(*REPLICA_KEYS)
    if several is not None and several > 1:
        record.complain(
            f"was measured on {several:g} replicas together", "Benchmark one replica; a plan multiplies them"
        )
    gpus, sharing = sharing_of(record)
    return BenchPoint(
        file=record.file,
        line=record.line,
        engine=_engine(record),
        model=record.text("model_id", "model"),
        gpu=record.text(*GPU_KEYS),
        gpus_per_replica=gpus,
        sharing=sharing,
        quantization=record.text(*QUANTIZATION_KEYS),
        input_tokens=record.needed("input tokens", _mean_tokens(record, "total_input_tokens", completed)),
        output_tokens=record.needed("output tokens", _mean_tokens(record, "total_output_tokens", completed)),
        concurrency=record.positive("max_concurrency"),
        request_rate_per_s=record.positive("request_rate"),
        requests_per_s=record.positive("request_throughput"),
        output_tok_s=record.positive("output_throughput"),
        ttft_ms=_latency(record, "ttft"),
        tpot_ms=_latency(record, "tpot", "itl"),
        e2e_ms=_latency(record, *E2E_NAMES),
        duration_s=record.positive("duration"),
        n_requests=sent if sent is not None else completed,
        failed=failed,
        date=iso_date(record.get("date")),
        notes=_notes(record),
    )


def _notes(record: Record) -> tuple[str, ...]:
    bare = [key for key in ("median_ttft", "mean_ttft", "median_tpot", "mean_tpot") if record.get(key) is not None]
    return (f"{bare[0]} and its like name no unit and were taken as seconds",) if bare else ()


def _engine(record: Record) -> str | None:
    """The API that was spoken says nothing about the engine behind it, so only engines' names count."""
    for key in ENGINE_KEYS:
        name = record.text(key)
        if name and name.lower().startswith(ENGINES):
            return name
    return None


def _mean_tokens(record: Record, key: str, completed: int | None) -> float | None:
    total = record.positive(key)
    return total / completed if total and completed else None


def _latency(record: Record, *names: str) -> Spread:
    """The first of these latencies that the run gives, in ms whichever way it is written."""
    for name in names:
        for suffix, to_ms in (("_ms", 1.0), ("", 1e3), ("_s", 1e3)):
            spread = Spread(
                mean=record.positive(f"mean_{name}{suffix}", f"avg_{name}{suffix}"),
                p50=record.positive(*_percentile_keys(50, name, suffix), f"median_{name}{suffix}"),
                p95=record.positive(*_percentile_keys(95, name, suffix)),
                p99=record.positive(*_percentile_keys(99, name, suffix)),
            )
            if spread != Spread():
                return spread.times(to_ms)
    return Spread()


def _percentile_keys(percent: int, name: str, suffix: str) -> tuple[Key, ...]:
    return f"p{percent}_{name}{suffix}", f"p{percent}.0_{name}{suffix}"
