"""Nested JSON as rows: OpenTelemetry exports, OpenAI usage pages; everything else is a row already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from planner.io.errors import shown
from planner.logs.reading.ledger import Ledger

PROMPT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
OUTPUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
CACHED = ("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cached_tokens")
"""newer and older names of the semantic conventions"""
GROUPED_BY = ("project_id", "user_id", "api_key_id", "model", "batch", "service_tier")


def rows_of_document(path: Path, record: dict[str, Any], ledger: Ledger) -> list[dict[str, Any]] | None:
    """The requests (or counts) of one JSON object; None where it should hold some and is broken."""
    try:
        if "resourceSpans" in record:
            return [row for resource in record["resourceSpans"] for row in _spans(resource)]
        if "resourceMetrics" in record:
            ledger.note(
                f"{shown(path.name)}: OpenTelemetry metrics are left out; the spans of the same calls have more detail"
            )
            return []
        if isinstance(record.get("results"), list) and "start_time" in record:
            nothing = {"num_model_requests": 0, "input_tokens": 0, "output_tokens": 0, "input_cached_tokens": 0}
            return [_usage(record, result) for result in record["results"] or [nothing]]
        if isinstance(record.get("data"), list):  # a page, one page a line
            return [row for part in record["data"] for row in rows_of_document(path, part, ledger) or []]
    except (AttributeError, KeyError, TypeError):
        return None
    return [record]


def _usage(bucket: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """A line of OpenAI's usage: one model and project in one bucket of time."""
    return {
        **result,
        "bucket_start": bucket["start_time"],
        "bucket_s": bucket.get("end_time", bucket["start_time"] + 3600) - bucket["start_time"],
        "tier": "batch" if result.get("batch") else "interactive",
        "series": "|".join(str(result.get(name)) for name in GROUPED_BY),
    }


def _spans(resource: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls of models among the spans of one resource."""
    around = _attributes(resource.get("resource", {}))
    rows = []
    for scope in resource.get("scopeSpans", ()):
        for span in scope.get("spans", ()):
            given = _attributes(span)
            if not any(key.startswith("gen_ai.") for key in given):
                continue
            prompt, output = _first(given, PROMPT), _first(given, OUTPUT)
            error = span.get("status", {}).get("code") in (2, "STATUS_CODE_ERROR") or "error.type" in given
            rows.append({
                "span_time": span["startTimeUnixNano"],
                "span_id": f"{span.get('traceId', '')}{span['spanId']}",
                "prompt": prompt,
                "output": output,
                "cached": _first(given, CACHED),
                "model": given.get("gen_ai.response.model") or given.get("gen_ai.request.model"),
                "service": around.get("service.name"),
                "namespace": around.get("service.namespace"),
                "operation": given.get("gen_ai.operation.name"),
                "failed": bool(error and output is None),
            })  # fmt: skip
    return rows


def _first(given: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((given[name] for name in names if name in given), None)


def _attributes(holder: dict[str, Any]) -> dict[str, Any]:
    """OTLP's list of keys and typed values as a mapping; of lists and maps nothing is kept."""
    values: dict[str, Any] = {}
    for attribute in holder.get("attributes", ()):
        value = attribute.get("value", {})
        for kind in ("stringValue", "intValue", "doubleValue", "boolValue"):
            if kind in value:
                values[attribute["key"]] = value[kind]
    return values
