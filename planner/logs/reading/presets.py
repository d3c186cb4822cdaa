"""Formats of request logs, known by their columns, and how each becomes one table of requests.

To read one more format, add a Preset: the columns that give it away, the names of what is needed, and functions for
what is not a plain column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.io.errors import Diagnostic, InputError, did_you_mean, listed

if TYPE_CHECKING:
    import pandas as pd

FIELDS = (
    "time",
    "prompt",
    "output",
    "cached",
    "model",
    "route",
    "team",
    "workload",
    "id",
    "requests",
    "span",
    "session",
)
NAMES = ("model", "route", "team", "workload", "id", "series", "session")
"""fields that are text, whatever they look like"""
TIME_UNITS = ("ms", "us", "ns", "s")
NAMED_BY_FLAG, NAMED_BY_KEY = "Name it: --columns {}=COLUMN", "Name it next to the log: columns: {{{}: COLUMN}}"
NO_GENERATION = r"(?i)embed|rerank|image|speech|transcription|moderation"
_COLUMN_NAME = re.compile(r"[^\W\d][\w ./()%:-]{0,39}")
_DETAILS = ("usage_details", "usageDetails", "usage")
Derive = Callable[["pd.DataFrame"], "pd.Series"]
Excluded = Callable[["pd.DataFrame"], dict[str, np.ndarray]]


class NoLog(InputError):
    """A file is no log of any known kind, as others may be that lie beside one."""


def no_log(path: Path, message: str, remedy: str) -> NoLog:
    return NoLog([Diagnostic(str(path), None, None, "", message, remedy)])


@dataclass(frozen=True)
class Preset:
    """A format of logs: requests one by one or, where it has a column `requests`, counts by time."""

    name: str
    signature: frozenset[str]
    """columns all of which it has"""
    columns: dict[str, str]
    """field -> column"""
    derive: dict[str, tuple[tuple[str, ...], Derive]] = field(default_factory=dict)
    """field -> the columns it is made from, and how"""
    excluded: Excluded | None = None
    excluded_from: tuple[str, ...] = ()
    time_unit: str | None = None
    blocks: str | None = None
    """column of prefix block hashes"""
    beside: tuple[str, ...] = ()
    """other columns of a table of counts: rows that differ in them are no duplicates"""

    @property
    def counts(self) -> bool:
        return "requests" in self.columns

    def wanted(self, given: Iterable[str]) -> list[str]:
        """The columns of a file that are read."""
        names = [*self.columns.values(), *self.excluded_from, *(n for needs, _ in self.derive.values() for n in needs)]
        names += [*self.beside, *([self.blocks] if self.blocks else [])]
        return [name for name in dict.fromkeys(names) if name in set(given)]

    def text_columns(self) -> list[str]:
        """The columns whose cells are names."""
        return [column for name, column in self.columns.items() if name in NAMES] + list(self.beside)

    def field_of(self, table: pd.DataFrame, name: str) -> pd.Series | None:
        """A field of the requests, or None where the file does not have it."""
        if name in self.derive:
            needs, derive = self.derive[name]
            return derive(table) if any(need in table.columns for need in needs) else None
        column = self.columns.get(name)
        return table[column] if column in table.columns else None


def _text(table: pd.DataFrame, column: str) -> pd.Series:
    import pandas as pd

    if column not in table.columns:
        return pd.Series("", index=table.index, dtype=object)
    return table[column].astype(object).where(table[column].notna(), "").astype(str)


def _litellm_cached(table: pd.DataFrame) -> pd.Series:
    if len(table) and isinstance(table["metadata"].iloc[0], dict):
        return _text(table.assign(m=table["metadata"].map(json.dumps)), "m").str.extract(CACHED)[0]
    return _text(table, "metadata").str.extract(CACHED)[0]


CACHED = r'"cached_tokens"\s*:\s*(\d+)'


def _first_tag(column: str) -> Derive:
    def derive(table: pd.DataFrame) -> pd.Series:
        tags = table[column].map(lambda tags: tags[0] if isinstance(tags, list) and tags else tags)
        text = _text(table.assign(tags=tags), "tags")
        inside = text.str.extract(r'^\s*\[\s*"((?:[^"\\]|\\.)*)"')[0]
        return inside.where(inside.notna(), text.where(~text.str.startswith("["), ""))

    return derive


def _litellm_excluded(table: pd.DataFrame) -> dict[str, np.ndarray]:
    failed = _text(table, "status").str.lower().isin(["failure", "failed", "error"]).to_numpy()
    hit = _text(table, "cache_hit").str.lower().eq("true").to_numpy() & ~failed
    other = _text(table, "call_type").str.contains(NO_GENERATION, regex=True).to_numpy() & ~failed & ~hit
    return {"failed": failed, "answered from the gateway's cache": hit, "no generation (embedding or the like)": other}


def _usage_detail(pattern: str) -> tuple[tuple[str, ...], Derive]:
    """The sum of those token counts of Langfuse's usage details whose key matches; `input` is without cached ones."""
    matches = re.compile(pattern).match

    def total(details: Any) -> float | None:
        if isinstance(details, str):
            try:
                details = json.loads(details)
            except ValueError:
                return None
        if not isinstance(details, dict):
            return None
        counts = [n for key, n in details.items() if matches(key) and type(n) in (int, float)]
        return float(sum(counts)) if counts else None

    def derive(table: pd.DataFrame) -> pd.Series:
        return table[next(c for c in _DETAILS if c in table.columns)].map(total).astype(float)

    return _DETAILS, derive


def _langfuse_excluded(table: pd.DataFrame) -> dict[str, np.ndarray]:
    generation = _text(table, "type").str.upper().isin(["GENERATION", ""]).to_numpy()
    failed = generation & _text(table, "level").str.upper().eq("ERROR").to_numpy()
    return {"not a generation": ~generation, "failed": failed}


def _otel_excluded(table: pd.DataFrame) -> dict[str, np.ndarray]:
    failed = _text(table, "failed").eq("True").to_numpy()
    other = _text(table, "operation").str.contains(NO_GENERATION, regex=True).to_numpy() & ~failed
    return {"failed": failed, "no generation (embedding or the like)": other}


_LANGFUSE: dict[str, Any] = {
    "derive": {
        "prompt": _usage_detail(r"input|cache_(read|creation)"),
        "output": _usage_detail(r"output"),
        "cached": _usage_detail(r"input_cache|cache_read"),
    },
    "excluded": _langfuse_excluded,
    "excluded_from": ("type", "level"),
}
PRESETS = (
    Preset(
        "LiteLLM spend logs",
        frozenset({"request_id", "call_type", "startTime", "prompt_tokens", "completion_tokens"}),
        {"time": "startTime", "prompt": "prompt_tokens", "output": "completion_tokens", "model": "model",
         "team": "team_id", "id": "request_id"},
        {"cached": (("metadata",), _litellm_cached), "route": (("request_tags",), _first_tag("request_tags"))},
        _litellm_excluded,
        ("status", "cache_hit", "call_type"),
    ),
    Preset(
        "Langfuse observations (CSV)",
        frozenset({"trace_id", "start_time", "usage_details"}),
        {"time": "start_time", "model": "provided_model_name", "route": "trace_name", "id": "id"},
        _LANGFUSE["derive"] | {"team": (("tags",), _first_tag("tags"))},
        _langfuse_excluded,
        ("type", "level"),
    ),
    Preset(
        "Langfuse observations (JSON)",
        frozenset({"traceId", "startTime", "usageDetails"}),
        {"time": "startTime", "model": "model", "route": "name", "team": "environment", "id": "id"},
        **_LANGFUSE,
    ),
    Preset(
        "OpenTelemetry GenAI spans",
        frozenset({"span_time", "span_id"}),
        {"time": "span_time", "prompt": "prompt", "output": "output", "cached": "cached", "model": "model",
         "route": "service", "team": "namespace", "id": "span_id"},
        {},
        _otel_excluded,
        ("failed", "operation"),
        "ns",
    ),
    Preset(
        "OpenAI usage pages",
        frozenset({"bucket_start", "num_model_requests"}),
        {"time": "bucket_start", "requests": "num_model_requests", "prompt": "input_tokens", "output": "output_tokens",
         "cached": "input_cached_tokens", "model": "model", "route": "tier", "team": "project_id", "span": "bucket_s",
         "series": "series"},
    ),
    Preset(
        "Azure trace",
        frozenset({"TIMESTAMP", "ContextTokens", "GeneratedTokens"}),
        {"time": "TIMESTAMP", "prompt": "ContextTokens", "output": "GeneratedTokens"},
    ),
    Preset(
        "Mooncake trace",
        frozenset({"timestamp", "input_length", "output_length"}),
        {"time": "timestamp", "prompt": "input_length", "output": "output_length"},
        time_unit="ms",
        blocks="hash_ids",
    ),
)  # fmt: skip

COLUMNS = {
    "time": ("time", "timestamp", "arrival_time", "arrived_at", "start_time", "starttime", "created_at", "date", "ts"),
    "requests": ("requests", "num_requests", "num_model_requests", "request_count"),
    "prompt": ("input_tokens", "prompt_tokens", "ContextTokens", "input_length", "num_prefill_tokens", "prompt"),
    "output": ("output_tokens", "completion_tokens", "GeneratedTokens", "output_length", "num_decode_tokens", "output"),
    "cached": ("cached_tokens", "cached_input_tokens", "cache_read_input_tokens", "input_cached_tokens"),
    "model": ("model", "model_name"),
    "route": ("route", "workload", "endpoint", "path", "service"),
    "team": ("team", "team_id", "project", "project_id", "tenant", "namespace"),
    "workload": ("workload",),
    "id": ("request_id", "id", "span_id"),
}
"""names that other logs give the fields, whatever the case"""


def preset_of(
    path: Path, given: list[str], columns: dict[str, str], time_unit: str | None = None, naming: str = NAMED_BY_FLAG
) -> Preset:
    """The format of a file by its columns; `columns` (field -> column) are the user's own words and come first."""
    for name, column in columns.items():
        if column not in given:
            raise no_log(path, f"has no column '{column}' for {name}", did_you_mean(column, given))
    known = next((p for p in PRESETS if p.signature <= set(given)), None)
    folded = {name.strip().casefold(): name for name in reversed(given)}
    guessed = {
        f: next((folded[n.casefold()] for n in names if n.casefold() in folded), "") for f, names in COLUMNS.items()
    }
    if known is not None:
        used = known.wanted(given)
        more = {
            f: name for f, name in guessed.items()
            if name and name not in used and f not in known.derive and f not in (*known.columns, "requests")
        }  # fmt: skip
        return _changed(known, more | columns, time_unit) if more or columns or time_unit else known
    taken = {f: name for f, name in (guessed | columns).items() if name}
    needed = ("time",) if "requests" in taken else ("time", "prompt", "output")
    missing = [f for f in needed if f not in taken]
    if {"prompt", "output"} <= set(missing):
        missing = [*(["time"] if "time" in missing else []), "requests"]
    if missing:
        raise NoLog([_missing(path, f, given, naming) for f in missing])
    column = taken["time"].casefold()
    by_name = next((unit for unit in TIME_UNITS if column.endswith(f"_{unit}")), None)
    unit = time_unit or by_name
    if "requests" not in taken:
        return Preset("table of requests", frozenset(), taken, time_unit=unit)
    beside = tuple(name for name in dict.fromkeys(given) if name not in taken.values())
    return Preset("table of counts by time", frozenset(), taken, time_unit=unit, beside=beside)


def _changed(preset: Preset, columns: dict[str, str], time_unit: str | None) -> Preset:
    from dataclasses import replace

    derive = {name: how for name, how in preset.derive.items() if name not in columns}
    unit = time_unit or (None if "time" in columns else preset.time_unit)
    return replace(preset, columns=preset.columns | columns, derive=derive, time_unit=unit)


def _missing(path: Path, name: str, given: list[str], naming: str) -> Diagnostic:
    # What looks like no names of columns is not quoted: it may be anybody's file.
    named = 1 < len(given) <= 60 and all(_COLUMN_NAME.fullmatch(c) for c in given)
    only = listed([f"'{c}'" for c in given[:8]], "and") if named else "others"
    what = "requests by time, nor for prompt and output" if name == "requests" else name
    return Diagnostic(str(path), 1, None, "", f"has no column for {what}, only {only}", naming.format(name))
