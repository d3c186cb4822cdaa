"""Small request logs in every format that `fleetplan demand` knows, written from the same made-up requests."""

from __future__ import annotations

import csv
import gzip
import io
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

MODELS = ("Qwen/Qwen3-32B", "meta-llama/Llama-3.3-70B-Instruct")
TEAMS = ("support", "search")
START = datetime(2026, 9, 7, tzinfo=UTC)
"""a Monday"""


@dataclass(frozen=True)
class Sample:
    """One request."""

    id: str
    time: datetime
    prompt: int
    output: int
    cached: int
    model: str
    team: str


def requests(count: int = 1200, days: int = 7, seed: int = 1) -> list[Sample]:
    """Requests by a daily shape, quiet at weekends, in the order of time."""
    rng = np.random.default_rng(seed)
    hours = np.arange(24 * days)
    weight = (2 + np.sin((hours % 24 - 9) / 24 * 2 * np.pi)) * np.where(hours // 24 % 7 >= 5, 0.4, 1.0)
    hour = rng.choice(hours, size=count, p=weight / weight.sum())
    seconds = np.sort(hour * 3600 + rng.random(count) * 3600)
    prompts = np.clip(rng.lognormal(7, 0.9, count), 20, 60_000).astype(int)
    outputs = np.clip(rng.lognormal(5, 0.8, count), 2, 4_000).astype(int)
    cached = np.where(rng.random(count) < 0.4, prompts // 2, 0)
    kind = rng.random(count) < 0.3
    rows = zip(seconds.tolist(), prompts.tolist(), outputs.tolist(), cached.tolist(), kind.tolist(), strict=True)
    return [
        Sample(f"req-{k:05d}", START + timedelta(microseconds=round(s * 1e6)), p, o, c, MODELS[not m], TEAMS[m])
        for k, (s, p, o, c, m) in enumerate(rows)
    ]


def packed(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def _csv(header: list[str], rows: list[list[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()


def litellm(samples: list[Sample], folder: Path) -> Path:
    """With a failure, a hit of the response cache, an embedding and a duplicate between the others."""
    header = ["request_id", "call_type", "prompt_tokens", "completion_tokens", "startTime", "model", "metadata",
              "cache_hit", "request_tags", "team_id", "messages", "status"]  # fmt: skip

    def row(s: Sample, **other: Any) -> list[Any]:
        usage = {"usage_object": {"prompt_tokens_details": {"cached_tokens": s.cached}}}
        values = {
            "request_id": s.id, "call_type": "acompletion", "prompt_tokens": s.prompt, "completion_tokens": s.output,
            "startTime": f"{s.time:%Y-%m-%d %H:%M:%S.%f}", "model": f"hosted_vllm/{s.model}",
            "metadata": json.dumps(usage), "cache_hit": "False", "request_tags": json.dumps([f"route:{s.team}"]),
            "team_id": s.team, "messages": 'a "quoted"\nsecond line', "status": "success",
        }  # fmt: skip
        return [(values | other)[name] for name in header]

    rows = [row(s) for s in samples]
    rows.insert(5, row(samples[5], request_id="x1", status="failure", completion_tokens=0))
    rows.insert(9, row(samples[9], request_id="x2", cache_hit="True"))
    rows.insert(12, row(samples[12], request_id="x3", call_type="aembedding", completion_tokens=0))
    rows.insert(20, row(samples[3]))
    return packed(folder / "spend.csv.gz", _csv(header, rows))


def otel(samples: list[Sample], folder: Path) -> Path:
    """Half of the spans with older names; HTTP spans and a failed call beside them."""

    def attribute(key: str, value: Any) -> dict[str, Any]:
        return {"key": key, "value": {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)}}

    def export(s: Sample, attributes: list[dict[str, Any]], status: dict[str, Any]) -> str:
        nano = str(round(s.time.timestamp() * 1e6) * 1000)
        call = {"traceId": s.id, "spanId": "b", "startTimeUnixNano": nano, "attributes": attributes, "status": status}
        http = call | {"spanId": "a", "attributes": [attribute("http.request.method", "POST")]}
        resource = {"attributes": [attribute("service.name", "api"), attribute("service.namespace", s.team)]}
        spans = {"resource": resource, "scopeSpans": [{"spans": [http, call]}]}
        return json.dumps({"resourceSpans": [spans]})

    lines = []
    for k, s in enumerate(samples):
        names = ("input_tokens", "output_tokens") if k % 2 else ("prompt_tokens", "completion_tokens")
        attributes = [attribute("gen_ai.response.model", s.model), attribute("gen_ai.operation.name", "chat")]
        attributes += [attribute(f"gen_ai.usage.{n}", v) for n, v in zip(names, (s.prompt, s.output), strict=True)]
        if k % 2:
            attributes.append(attribute("gen_ai.usage.cache_read.input_tokens", s.cached))
        lines.append(export(s, attributes, {}))
    failed = [attribute("gen_ai.request.model", MODELS[0]), attribute("error.type", "timeout")]
    lines.insert(4, export(samples[4], failed, {"code": 2}))
    return packed(folder / "spans.jsonl", "\n".join(lines) + "\n")


def langfuse_csv(samples: list[Sample], folder: Path) -> Path:
    header = ["id", "trace_id", "type", "start_time", "level", "provided_model_name", "usage_details", "trace_name",
              "tags"]  # fmt: skip
    rows = []
    for s in samples:
        usage = {"input": s.prompt - s.cached, "input_cached_tokens": s.cached, "output": s.output, "total": 9}
        rows.append([s.id, "t", "GENERATION", f"{s.time:%Y-%m-%d %H:%M:%S.%f}", "DEFAULT", s.model, json.dumps(usage),
                     "answers", json.dumps([s.team])])  # fmt: skip
        rows.append([s.id + "s", "t", "SPAN", f"{s.time:%Y-%m-%d %H:%M:%S.%f}", "DEFAULT", "", "{}", "answers", "[]"])
    return packed(folder / "observations.csv", _csv(header, rows))


def langfuse_json(samples: list[Sample], folder: Path) -> Path:
    data = [
        {"id": s.id, "traceId": "t", "type": "GENERATION", "startTime": s.time.isoformat().replace("+00:00", "Z"),
         "model": s.model, "name": "answer", "environment": s.team, "level": "DEFAULT",
         "usageDetails": {"input": s.prompt - s.cached, "input_cached_tokens": s.cached, "output": s.output}}
        for s in samples
    ]  # fmt: skip
    return packed(folder / "observations_page1.json", json.dumps({"data": data, "meta": {"page": 1}}))


def azure(samples: list[Sample], folder: Path) -> Path:
    rows = [[f"{s.time:%Y-%m-%d %H:%M:%S.%f}0", s.prompt, s.output] for s in samples]
    return packed(folder / "trace.csv", _csv(["TIMESTAMP", "ContextTokens", "GeneratedTokens"], rows))


def mooncake(samples: list[Sample], folder: Path, blocks: list[list[int]] | None = None) -> Path:
    lines = []
    for k, s in enumerate(samples):
        row: dict[str, Any] = {"timestamp": round((s.time - START).total_seconds() * 1000), "input_length": s.prompt}
        row |= {"output_length": s.output, "hash_ids": blocks[k] if blocks else []}
        lines.append(json.dumps(row))
    return packed(folder / "trace.jsonl.gz", "\n".join(lines))


def jsonl(samples: list[Sample], folder: Path) -> Path:
    lines = [json.dumps({"ts_ms": round(s.time.timestamp() * 1000), "in": s.prompt, "out": s.output, "who": s.team})
             for s in samples]  # fmt: skip
    return packed(folder / "own.jsonl", "\n".join(lines))


def parquet(samples: list[Sample], folder: Path) -> Path:
    import pandas as pd

    columns = {"time": "time", "input_tokens": "prompt", "output_tokens": "output", "model": "model"}
    table = pd.DataFrame({name: [getattr(s, field) for s in samples] for name, field in columns.items()})
    table.to_parquet(folder / "requests.parquet")
    return folder / "requests.parquet"


def hourly(samples: list[Sample]) -> dict[tuple[str, datetime], list[Sample]]:
    """Requests by model and hour."""
    found: dict[tuple[str, datetime], list[Sample]] = {}
    for s in samples:
        found.setdefault((s.model, s.time.replace(minute=0, second=0, microsecond=0)), []).append(s)
    return found


def openai_pages(samples: list[Sample], folder: Path) -> Path:
    """Two pages of hourly buckets; hours without requests are there and empty."""
    by_hour = hourly(samples)
    last = max(hour for _, hour in by_hour)
    buckets = []
    hour = START
    while hour <= last:
        results = [
            {"num_model_requests": len(some), "input_tokens": sum(s.prompt for s in some),
             "output_tokens": sum(s.output for s in some), "input_cached_tokens": sum(s.cached for s in some),
             "model": model, "project_id": "p", "batch": False}
            for model in MODELS if (some := by_hour.get((model, hour)))
        ]  # fmt: skip
        start = int(hour.timestamp())
        buckets.append({"object": "bucket", "start_time": start, "end_time": start + 3600, "results": results})
        hour += timedelta(hours=1)
    target = folder / "usage"
    target.mkdir()
    for page, part in enumerate((buckets[:50], buckets[50:]), 1):
        packed(target / f"page{page}.json", json.dumps({"object": "page", "data": part, "has_more": page == 1}))
    return target


def counts_csv(samples: list[Sample], folder: Path) -> Path:
    by_hour = hourly([replace(s, model="m") for s in samples])
    hours = [START + timedelta(hours=k) for k in range(max(s.time for s in samples).day * 24 - 24 * START.day + 24)]
    some = [by_hour.get(("m", hour), []) for hour in hours]
    rows = [
        [f"{hour:%Y-%m-%dT%H:%M:%SZ}", len(part), sum(s.prompt for s in part), sum(s.output for s in part)]
        for hour, part in zip(hours, some, strict=True)
    ]
    return packed(folder / "usage.csv", _csv(["time", "requests", "input_tokens", "output_tokens"], rows))


def prometheus(samples: list[Sample], folder: Path, step_s: int = 600) -> Path:
    """Counters of one pod for each model, sampled; they begin above 0, and the first pod restarts in the middle."""
    target = folder / "prometheus"
    target.mkdir()
    bounds = [1, 10, 100, 500, 1000, 2000, 5000, 10_000, 100_000]
    answers: dict[str, list[dict[str, Any]]] = {}
    start = START.timestamp()
    stops = np.arange(0, (samples[-1].time - START).total_seconds() + 2 * step_s, step_s)
    for k, model in enumerate(MODELS):
        of = [s for s in samples if s.model == model]
        when = np.array([(s.time - START).total_seconds() for s in of])
        restart = len(stops) // 2 if k == 0 else len(stops)

        def add(name: str, values: list[int], at: np.ndarray, reset: int, model: str = model, **labels: str) -> None:
            upto = np.r_[0, np.cumsum(values)]
            total = upto[np.searchsorted(at, stops, side="right")] + 1000
            total[reset:] -= total[reset - 1] if reset < len(stops) else 0
            pairs = [[start + t, str(v)] for t, v in zip(stops.tolist(), total.tolist(), strict=True)]
            metric = {"__name__": name, "model_name": model, "instance": model, "namespace": "llm", **labels}
            answers.setdefault(name, []).append({"metric": metric, "values": pairs})

        add("vllm:request_success_total", [1] * len(of), when, restart, finished_reason="stop")
        add("vllm:prompt_tokens_total", [s.prompt for s in of], when, restart)
        add("vllm:generation_tokens_total", [s.output for s in of], when, restart)
        add("vllm:prefix_cache_hits_total", [s.cached for s in of], when, restart)
        add("vllm:prefix_cache_queries_total", [s.prompt for s in of], when, restart)
        for name, field in (("prompt", "prompt"), ("generation", "output")):
            for bound in [*bounds, float("inf")]:
                values = [int(getattr(s, field) <= bound) for s in of]
                le = "+Inf" if bound == float("inf") else f"{float(bound)}"
                add(f"vllm:request_{name}_tokens_bucket", values, when, restart, le=le)
    for name, series in answers.items():
        text = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}})
        packed(target / f"{name.replace(':', '_')}.json.gz", text)
    return target
