"""Result files of any known tool, told apart by what they hold and not by their names."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from planner.io.errors import Diagnostic, InputError, close_match, input_error, listed, shown
from planner.io.input_files import read_unpacked
from planner.performance.calibration.benchmark_runs import BenchPoint, Record
from planner.performance.calibration.read_aiperf import aiperf_point, is_aiperf
from planner.performance.calibration.read_csv import LONG_COLUMNS, csv_points, is_csv
from planner.performance.calibration.read_guidellm import guidellm_point, guidellm_records, is_guidellm
from planner.performance.calibration.read_vllm import is_vllm, vllm_point

MAX_BYTES = 300_000_000
KNOWN_FORMATS = "vllm bench serve (JSON, JSONL), GuideLLM (JSON), AIPerf or GenAI-Perf (JSON), CSV"
Found = tuple[list[BenchPoint], list[Diagnostic]]


def read_results(paths: Iterable[Path | str]) -> list[BenchPoint]:
    """Every run in these files; raises InputError with everything that is wrong with any of them."""
    points: list[BenchPoint] = []
    diagnostics: list[Diagnostic] = []
    for path in paths:
        of_file, wrong = _read_one(str(path))
        points += of_file
        diagnostics += wrong
    if diagnostics:
        raise InputError(diagnostics)
    return points


def _read_one(file: str) -> Found:
    try:
        text = _text(file)
        parsed, diagnostics = _parsed(text, file)
    except InputError as error:
        return [], list(error.diagnostics)
    points: list[BenchPoint] = []
    for point in parsed if not diagnostics else ():
        result = settled(point)
        points.append(result.point)
        if result.problem:
            diagnostics.append(Diagnostic(file, point.line, None, "", result.problem, result.remedy))
    return points, diagnostics


def _text(file: str) -> str:
    try:
        raw = read_unpacked(file, MAX_BYTES, "Save the summary, not every request")
    except FileNotFoundError:
        raise input_error(file, "there is no such file", _similar(Path(file))) from None
    except IsADirectoryError:
        raise input_error(file, "this is a directory", "Name the result files in it") from None
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise input_error(file, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise input_error(file, "is not a text file", f"Known are {KNOWN_FORMATS}") from None


def _parsed(text: str, file: str) -> Found:
    start = text.lstrip()[:1]
    if not start:
        raise input_error(file, "the file is empty", "Run the benchmark again")
    if start in "{[":
        return _json_points(text, file)
    if is_csv(text):
        return csv_points(text, file)
    columns = ",".join(LONG_COLUMNS)
    remedy = f"A CSV file needs the columns {columns}" if "," in text.split("\n")[0] else f"Known are {KNOWN_FORMATS}"
    raise input_error(file, "is in no known format", remedy)


def _json_points(text: str, file: str) -> Found:
    points: list[BenchPoint] = []
    diagnostics: list[Diagnostic] = []
    for line, run in _json_runs(text, file):
        records, read = _records(run, file, line)
        for record in records:
            point = read(record)
            points.append(point)
            diagnostics += record.diagnostics
    return points, diagnostics


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
    diagnostics: list[Diagnostic] = []
    for k, line in lines:
        try:
            runs.append((k, _loads(line)))
        except (ValueError, RecursionError) as error:
            diagnostics += _bad_json(file, error, k).diagnostics
    if diagnostics:
        raise InputError(diagnostics)
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
        return input_error(file, "is nested too deeply", "", line)
    if not isinstance(error, json.JSONDecodeError):
        return input_error(file, "holds a number of thousands of digits", "Run the benchmark again", line)
    first = error.lineno if line is None else line
    return input_error(file, f"is not valid JSON: {error.msg}", "Is the file complete?", first, error.colno)


def _records(run: Any, file: str, line: int | None) -> tuple[Iterable[Record], Callable[[Record], BenchPoint]]:
    if isinstance(run, Mapping):
        if is_guidellm(run):
            return guidellm_records(run, file), guidellm_point
        if is_aiperf(run):
            return [Record(run, file, line)], aiperf_point
        if is_vllm(run):
            return [Record(run, file, line)], vllm_point
        seen = ", ".join(shown(key, 20) for key in list(run)[:4])
        raise input_error(file, f"is in no known format; its keys are {seen}", f"Known are {KNOWN_FORMATS}", line)
    kind = "text" if isinstance(run, str) else shown(run)
    raise input_error(file, f"expected an object for a run, got {kind}", f"Known are {KNOWN_FORMATS}", line)


def _similar(path: Path) -> str:
    try:
        match = close_match(path.name, [entry.name for entry in path.parent.iterdir()])
    except OSError:
        return f"The directory {shown(str(path.parent))} does not exist either"
    return f"Did you mean {shown(str(path.with_name(match)), 80)}?" if match else "Check the path"


LEAST_TPOT_MS, MOST_TPOT_MS, LEAST_TTFT_MS = 0.1, 60_000.0, 1.0
E2E_FACTOR = 2.0
IN_FLIGHT_ABOVE, IN_FLIGHT_BELOW = 1.5, 0.02
RATE_TOLERANCE = 0.2
LATENCIES = ("ttft_ms", "tpot_ms", "e2e_ms")


@dataclass(frozen=True)
class Settled:
    """A point in ms, or why it cannot be one."""

    point: BenchPoint
    problem: str = ""
    remedy: str = ""


def settled(point: BenchPoint) -> Settled:
    """The point as it must have been meant; a conversion is noted, a contradiction is a problem."""
    rates = _rates_disagree(point)
    if rates:
        return Settled(point, rates, "Give output tokens only, or check the lengths")
    wrong = _contradiction(point)
    if not wrong:
        return Settled(point)
    for readings in _readings():
        fitting = {other for other in (_read_as(point, reading) for reading in readings) if not _contradiction(other)}
        if len(fitting) == 1:
            meant = fitting.pop()
            return Settled(replace(meant, notes=(*point.notes, _note(point, meant, wrong))))
    return Settled(point, wrong, "Check the units; TTFT, TPOT and E2E are read in ms")


def _readings() -> Iterator[list[dict[str, float]]]:
    """Other readings, the likely ones first: all latencies in another unit, then one of them, then two."""
    yield [dict.fromkeys(LATENCIES, 1e3)]
    yield [dict.fromkeys(LATENCIES, 1e-3)]
    for many in (1, 2):
        yield [dict.fromkeys(names, factor) for names in combinations(LATENCIES, many) for factor in (1e3, 1e-3)]


def _read_as(point: BenchPoint, factors: dict[str, float]) -> BenchPoint:
    return replace(point, **{name: getattr(point, name).times(factor) for name, factor in factors.items()})


def _rates_disagree(point: BenchPoint) -> str:
    if point.requests_per_s is None or point.output_tok_s is None:
        return ""
    expected = point.requests_per_s * point.output_tokens
    if abs(point.output_tok_s / expected - 1) <= RATE_TOLERANCE:
        return ""
    return (
        f"{point.requests_per_s:.4g} requests/s x {point.output_tokens:.4g} tokens are {expected:.4g} tok/s; "
        f"the file says {point.output_tok_s:.4g}"
    )


def _contradiction(point: BenchPoint) -> str:
    """The first thing that cannot be, with its arithmetic; empty if nothing is wrong."""
    ttft, tpot, e2e = point.ttft_ms.typical, point.tpot_ms.typical, point.e2e_ms.typical
    if tpot is not None and not LEAST_TPOT_MS <= tpot <= MOST_TPOT_MS:
        return f"a TPOT of {tpot:.3g} ms cannot be"
    if ttft is not None and ttft < LEAST_TTFT_MS:
        return f"a TTFT of {ttft:.3g} ms cannot be"
    if ttft is not None and e2e is not None and ttft > e2e * E2E_FACTOR:
        return f"a TTFT of {ttft:.4g} ms is longer than the whole request ({e2e:.4g} ms)"
    total = None if tpot is None else (ttft or 0.0) + (point.output_tokens - 1) * tpot
    if total is not None and e2e is not None and not total / E2E_FACTOR <= e2e <= total * _slack(ttft):
        first = "" if ttft is None else f"{ttft:.4g} + "
        return f"{first}{point.output_tokens - 1:.4g} x {tpot:.4g} are {total:.4g} ms; the file says {e2e:.4g}"
    return _in_flight_contradiction(point, e2e if e2e is not None else total)


def _slack(ttft: float | None) -> float:
    """Without TTFT the sum is only a part of E2E, which may then be far longer."""
    return E2E_FACTOR if ttft is not None else 100.0


def _in_flight_contradiction(point: BenchPoint, e2e_ms: float | None) -> str:
    rate = point.requests_per_s or (point.output_tok_s / point.output_tokens if point.output_tok_s else None)
    if e2e_ms is None or rate is None:
        return ""
    allowed = point.concurrency or point.n_requests
    in_flight = rate * e2e_ms / 1e3
    sum_in_words = f"{rate:.4g} requests/s x {e2e_ms / 1e3:.4g} s are {in_flight:.3g} requests in flight"
    if allowed is not None and in_flight > allowed * IN_FLIGHT_ABOVE:
        return f"{sum_in_words}; the file says {allowed:g}"
    # With a request rate the concurrency is a cap that need not be reached.
    if point.concurrency and point.request_rate_per_s is None and in_flight < point.concurrency * IN_FLIGHT_BELOW:
        return f"{sum_in_words}; the file says {point.concurrency:g}"
    return ""


def _note(before: BenchPoint, after: BenchPoint, why: str) -> str:
    changed = [name for name in LATENCIES if getattr(before, name) != getattr(after, name)]
    longer = any((getattr(after, n).typical or 0) > (getattr(before, n).typical or 0) for n in changed)
    names = listed([name.removesuffix("_ms").upper() for name in changed], "and")
    return f"{names} taken as {'seconds' if longer else 'microseconds'} and converted to ms: {why}"
