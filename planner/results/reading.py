"""Result files of any known tool, told apart by what they hold and not by their names."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from planner.complaints import Complaint, InputError, close_match, shown
from planner.input_files import read_unpacked
from planner.results.aiperf import aiperf_point, is_aiperf
from planner.results.guidellm import guidellm_point, guidellm_records, is_guidellm
from planner.results.plain_csv import LONG_COLUMNS, csv_points, is_csv
from planner.results.points import BenchPoint, Record
from planner.results.units import settled
from planner.results.vllm import is_vllm, vllm_point

MAX_BYTES = 300_000_000
KNOWN_FORMATS = "vllm bench serve (JSON, JSONL), GuideLLM (JSON), AIPerf or GenAI-Perf (JSON), CSV"
Found = tuple[list[BenchPoint], list[Complaint]]


def read_results(paths: Iterable[Path | str]) -> list[BenchPoint]:
    """Every run in these files; raises InputError with everything that is wrong with any of them."""
    points: list[BenchPoint] = []
    complaints: list[Complaint] = []
    for path in paths:
        found, wrong = _read_one(str(path))
        points += found
        complaints += wrong
    if complaints:
        raise InputError(complaints)
    return points


def _read_one(file: str) -> Found:
    try:
        text = _text(file)
        found, complaints = _parsed(text, file)
    except InputError as error:
        return [], list(error.complaints)
    points: list[BenchPoint] = []
    for point in found if not complaints else ():
        result = settled(point)
        points.append(result.point)
        if result.problem:
            complaints.append(Complaint(file, point.line, None, "", result.problem, result.remedy))
    return points, complaints


def _text(file: str) -> str:
    try:
        raw = read_unpacked(file, MAX_BYTES, "Save the summary, not every request")
    except FileNotFoundError:
        raise _refusal(file, "there is no such file", _similar(Path(file))) from None
    except IsADirectoryError:
        raise _refusal(file, "this is a directory", "Name the result files in it") from None
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise _refusal(file, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _refusal(file, "is not a text file", f"Known are {KNOWN_FORMATS}") from None


def _parsed(text: str, file: str) -> Found:
    start = text.lstrip()[:1]
    if not start:
        raise _refusal(file, "the file is empty", "Run the benchmark again")
    if start in "{[":
        return _json_points(text, file)
    if is_csv(text):
        return csv_points(text, file)
    columns = ",".join(LONG_COLUMNS)
    remedy = f"A CSV file needs the columns {columns}" if "," in text.split("\n")[0] else f"Known are {KNOWN_FORMATS}"
    raise _refusal(file, "is in no known format", remedy)


def _json_points(text: str, file: str) -> Found:
    points: list[BenchPoint] = []
    complaints: list[Complaint] = []
    for line, run in _json_runs(text, file):
        records, read = _records(run, file, line)
        for record in records:
            point = read(record)
            points.append(point)
            complaints += record.complaints
    return points, complaints


def _json_runs(text: str, file: str) -> list[tuple[int | None, Any]]:
    """One object, a list of them, or one a line."""
    try:
        data = _loads(text)
        return [(None, run) for run in data] if isinstance(data, list) else [(None, data)]
    except (ValueError, RecursionError) as error:
        # Not splitlines(): JSON text may hold separators that it takes for ends of lines.
        lines = [(k, line) for k, line in enumerate(re.split("\r\n|\r|\n", text), 1) if line.strip()]
        if not isinstance(error, json.JSONDecodeError) or len(lines) < 2 or not _is_json(lines[0][1]):
            raise _bad_json(file, error) from None
    runs: list[tuple[int | None, Any]] = []
    complaints: list[Complaint] = []
    for k, line in lines:
        try:
            runs.append((k, _loads(line)))
        except (ValueError, RecursionError) as error:
            complaints += _bad_json(file, error, k).complaints
    if complaints:
        raise InputError(complaints)
    return runs


def _loads(text: str) -> Any:
    # NaN and Infinity stand for what was not measured and for an unlimited rate: both are "nothing" here.
    return json.loads(text, parse_constant=lambda _: None)


def _is_json(line: str) -> bool:
    try:
        return isinstance(_loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _bad_json(file: str, error: Exception, line: int | None = None) -> InputError:
    if isinstance(error, RecursionError):
        return _refusal(file, "is nested too deeply", "", line)
    if not isinstance(error, json.JSONDecodeError):
        return _refusal(file, "holds a number of thousands of digits", "Run the benchmark again", line)
    first = error.lineno if line is None else line
    return _refusal(file, f"is not valid JSON: {error.msg}", "Is the file complete?", first, error.colno)


def _records(run: Any, file: str, line: int | None) -> tuple[Iterable[Record], Callable[[Record], BenchPoint]]:
    if isinstance(run, Mapping):
        if is_guidellm(run):
            return guidellm_records(run, file), guidellm_point
        if is_aiperf(run):
            return [Record(run, file, line)], aiperf_point
        if is_vllm(run):
            return [Record(run, file, line)], vllm_point
        seen = ", ".join(shown(key, 20) for key in list(run)[:4])
        raise _refusal(file, f"is in no known format; its keys are {seen}", f"Known are {KNOWN_FORMATS}", line)
    kind = "text" if isinstance(run, str) else shown(run)
    raise _refusal(file, f"expected an object for a run, got {kind}", f"Known are {KNOWN_FORMATS}", line)


def _similar(path: Path) -> str:
    try:
        match = close_match(path.name, [entry.name for entry in path.parent.iterdir()])
    except OSError:
        return f"The directory {shown(str(path.parent))} does not exist either"
    return f"Did you mean {shown(str(path.with_name(match)), 80)}?" if match else "Check the path"


def _refusal(
    file: str, message: str, remedy: str = "", line: int | None = None, column: int | None = None
) -> InputError:
    return InputError([Complaint(file, line, column, "", message, remedy)])
