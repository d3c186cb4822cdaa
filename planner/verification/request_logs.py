"""Requests from a log: when each came, and how many tokens it read and wrote.

A reader takes the lines of a file and yields a table with `time_s`, `prompt` and `output`. To read one more format, add
the names of its columns to COLUMNS, or a reader to READERS.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from planner.case.case import Workload
from planner.io.errors import Diagnostic, InputError, did_you_mean, listed, shown
from planner.io.input_files import read_unpacked
from planner.performance.length_spread import CUTS, LengthSpread, quantile
from planner.plan.plan import Plan
from planner.verification.arrivals import HOURS, Stream, stream_of

MOST_BYTES = 4_000_000_000
DAY_S = 86_400
DAY_NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
COLUMNS = {
    "time": ("time", "timestamp", "TIMESTAMP", "arrival_time", "arrived_at"),
    "prompt": ("input_tokens", "prompt_tokens", "ContextTokens", "input_length", "num_prefill_tokens"),
    "output": ("output_tokens", "completion_tokens", "GeneratedTokens", "output_length", "num_decode_tokens"),
}
"""names that logs give these: our own, OpenAI's usage fields, Azure's and Mooncake's traces, Vidur"""


@dataclass(frozen=True, eq=False)
class RequestLog:
    time_s: np.ndarray
    """from the first request on, in order"""
    prompt: np.ndarray
    output: np.ndarray
    starts: pd.Timestamp | None
    """the first request, where the log has dates"""
    dropped: int
    """lines without a time or a length"""


def read_request_log(path: Path) -> RequestLog:
    """Read a CSV or a file of JSON lines, plain or gzipped; raises InputError where it is no log of requests."""
    try:
        text = read_unpacked(path, MOST_BYTES, "Split the log").decode("utf-8-sig")
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror}", "Name a log of requests") from None
    except UnicodeDecodeError:
        raise _refused(path, "is not a text file", "Name a CSV or a file of JSON lines") from None
    kind = "jsonl" if text.lstrip()[:1] == "{" else "csv"
    table = READERS[kind](path, text)
    return _log(path, table)


def _read_csv(path: Path, text: str) -> pd.DataFrame:
    try:
        header = pd.read_csv(io.StringIO(text), nrows=0)
        names = _columns(path, [str(name) for name in header.columns])
        table = pd.read_csv(io.StringIO(text), usecols=list(names.values()), dtype=str, skip_blank_lines=True)
    except (ValueError, pd.errors.ParserError) as error:
        raise _refused(path, "is no CSV", "Give a header and one request a line") from error
    return table.rename(columns={name: key for key, name in names.items()})


def _read_json_lines(path: Path, text: str) -> pd.DataFrame:
    rows: list[dict[str, object]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            raise InputError([Diagnostic(str(path), number, None, "", "is no JSON", "One request a line")]) from None
        if not isinstance(row, dict):
            raise InputError([Diagnostic(str(path), number, None, "", "is no request", "One mapping a line")])
        if not rows:
            names = _columns(path, [str(name) for name in row])
        rows.append({key: row.get(name) for key, name in names.items()})
    if not rows:
        raise _refused(path, "is empty", "Give one request a line")
    table = pd.DataFrame(rows)
    if names["time"] == "timestamp" and pd.api.types.is_numeric_dtype(table["time"]):
        table["time"] = table["time"] / 1000.0  # Mooncake counts milliseconds
    return table


READERS: dict[str, Callable[[Path, str], pd.DataFrame]] = {"csv": _read_csv, "jsonl": _read_json_lines}


def _columns(path: Path, given: list[str]) -> dict[str, str]:
    """The column of each thing that is needed, by the names that logs give it."""
    folded = {name.casefold(): name for name in given}
    names, missing = {}, []
    for key, known in COLUMNS.items():
        match = next((folded[k.casefold()] for k in known if k.casefold() in folded), None)
        if match is None:
            hint = did_you_mean(known[0], given)
            missing.append(Diagnostic(str(path), 1, None, "", f"has no column for {key}", hint or listed(known)))
        else:
            names[key] = match
    if missing:
        raise InputError(missing)
    return names


def _log(path: Path, table: pd.DataFrame) -> RequestLog:
    prompt = pd.to_numeric(table["prompt"], errors="coerce").to_numpy(dtype=float)
    output = pd.to_numeric(table["output"], errors="coerce").to_numpy(dtype=float)
    seconds = pd.to_numeric(table["time"], errors="coerce")
    starts: pd.Timestamp | None = None
    if seconds.isna().mean() > 0.5:
        stamps = pd.to_datetime(table["time"], errors="coerce", utc=True, format="ISO8601")
        if stamps.notna().any():
            starts = stamps.min()
            seconds = (stamps - starts).dt.total_seconds()
    time_s = seconds.to_numpy(dtype=float)
    good = np.isfinite(time_s) & (prompt >= 1) & (output >= 1)
    if not good.any():
        example = shown(table["time"].iloc[0]) if len(table) else "nothing"
        raise _refused(path, f"has no request with a time and token counts; its first time is {example}", "Check it")
    order = np.argsort(time_s[good], kind="stable")
    time_s, prompt, output = (x[good][order] for x in (time_s, prompt, output))
    return RequestLog(time_s - time_s[0], np.round(prompt), np.round(output), starts, int((~good).sum()))


@dataclass(frozen=True, eq=False)
class RequestSource:
    """A log that stands for one workload of a plan."""

    log: RequestLog
    workload: str
    start_hour: int
    name: str
    """for people"""

    def stream(self, w: Workload, load: float, rng: np.random.Generator) -> Stream:
        return stream_from_log(self.log, w, self.start_hour, load, rng)


def source_of(plan: Plan, path: Path, workload: str, start_hour: int | None) -> RequestSource:
    """The log, from its own hour of the week on; where it has no dates or spans no day, from the busiest one on."""
    log = read_request_log(path)
    if start_hour is None:
        if log.starts is not None and log.time_s[-1] >= DAY_S:
            start_hour = 24 * log.starts.day_of_week + log.starts.hour
        else:
            w = next(w for w in plan.case.workloads if w.name == workload)
            start_hour = int(np.argmax(w.weekday_rps))
    span_h = log.time_s[-1] / 3600
    dropped = f", {log.dropped:,} without a time or a length left out" if log.dropped else ""
    place = f"{DAY_NAMES[start_hour // 24]} {start_hour % 24:02d}h"
    name = f"{path.name}: {len(log.time_s):,} requests in {span_h:.3g} h from {place} on{dropped}"
    return RequestSource(log, workload, start_hour, name)


def stream_from_log(log: RequestLog, w: Workload, start_hour: int, load: float, rng: np.random.Generator) -> Stream:
    """The log's requests as they came, from an hour of the week on; at another load, time runs faster or slower."""
    times = 3600.0 * start_hour + log.time_s / load
    inside = times < 3600.0 * HOURS
    prompt, output = log.prompt[inside], log.output[inside]
    return stream_of(w, times[inside], prompt, output, bucket_of(w, prompt, output), rng)


def bucket_of(w: Workload, prompt: np.ndarray, output: np.ndarray) -> np.ndarray:
    """The bucket that a request counts as: the slice of each distribution that it is in, or the nearest length."""
    if w.input_spread is not None and w.output_spread is not None:
        cuts = _cuts(w.output_spread)
        return np.searchsorted(_cuts(w.input_spread), prompt) * (len(cuts) + 1) + np.searchsorted(cuts, output)
    inputs = np.log([b.input_tokens for b in w.buckets])
    outputs = np.log([b.output_tokens for b in w.buckets])
    best, nearest = np.zeros(len(prompt), dtype=np.int64), np.full(len(prompt), np.inf)
    for k in range(len(w.buckets)):
        away = (np.log(prompt) - inputs[k]) ** 2 + (np.log(output) - outputs[k]) ** 2
        best, nearest = np.where(away < nearest, k, best), np.minimum(away, nearest)
    return best


def _cuts(spread: LengthSpread) -> np.ndarray:
    if spread.p95 <= spread.p50 * (1 + 1e-9):
        return np.zeros(0)
    return np.array([quantile(spread, p) for p in CUTS[1:-1]])


def _refused(path: Path, message: str, fix: str) -> InputError:
    return InputError([Diagnostic(str(path), None, None, "", message, fix)])
