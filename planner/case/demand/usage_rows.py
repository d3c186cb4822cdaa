"""The rows of a usage log as plain arrays: those that say something, and which cells of the others do not.

A cell that is blank, NaN, negative or infinite was not measured: its row is left out and named. Text where a time or
a number should be is a mistake of the file: all of them are named, and nothing is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from planner.case.demand.usage_chunks import COLUMNS, is_parquet, usage_chunks
from planner.io.errors import InputError, input_error

if TYPE_CHECKING:
    import pandas as pd

COUNTS = ("requests", "input_tokens", "output_tokens")
NOTHING = ("", "nan", "na", "n/a", "null", "none", "inf", "-inf")
BEYOND_FLOATS = r"^\s*[+-]?\d{309,}\s*$"
LINES_NAMED = 3
NO_NAME = "(no name)"


@dataclass
class Cells:
    """Cells by column: how many, and the lines of the first few."""

    unit: str
    counts: Counter[str] = field(default_factory=Counter)
    lines: dict[str, list[int]] = field(default_factory=dict)
    rows: int = 0

    def add(self, columns: dict[str, np.ndarray], lines: np.ndarray) -> None:
        """`columns` has a flag for each row."""
        for name, flags in columns.items():
            found = lines[flags]
            if len(found):
                self.counts[name] += len(found)
                first = self.lines.setdefault(name, [])
                first += found[: LINES_NAMED - len(first)].tolist()
        self.rows += int(np.logical_or.reduce(list(columns.values())).sum())

    def __str__(self) -> str:
        return ", ".join(f"{name} {self._where(name)}" for name in COLUMNS if self.counts[name])

    def _where(self, name: str) -> str:
        count, lines = self.counts[name], self.lines[name]
        more = ", ..." if count > len(lines) else ""
        return f"{count} x ({self.unit}{'s' * (count > 1)} {', '.join(map(str, lines))}{more})"


@dataclass(frozen=True, eq=False)
class UsageRows:
    """Rows with a time and a number of requests, in the order of the file."""

    workloads: tuple[str, ...]
    workload: np.ndarray
    """[row], an index of `workloads`"""
    time: np.ndarray
    """[row], in UTC"""
    counts: dict[str, np.ndarray]
    """[row] by column; NaN where tokens were not measured"""
    left_out: dict[str, Cells]
    """by workload"""
    hours_left_out: tuple[np.ndarray, np.ndarray]
    """workload and hour of each row that was left out and whose time no other row has"""
    unused: tuple[str, ...] = ()
    """columns of tokens that nobody asked for"""


def read_usage_rows(path: Path, default: str, only: str | None = None, counts: Sequence[str] = COUNTS) -> UsageRows:
    """Read the rows of a log, or of one workload alone; `default` is whose they are where no column says so."""
    reader = _Reader(path, default, only, counts)
    for chunk in usage_chunks(path):
        reader.take(chunk)
    return reader.rows()


class _Reader:
    def __init__(self, path: Path, default: str, only: str | None, counts: Sequence[str]) -> None:
        self.path, self.default, self.only, self.counts = path, default, only, counts
        self.unit = "row" if is_parquet(path) else "line"
        self.number_of: dict[str, int] = {}
        self.taken: list[dict[str, np.ndarray]] = []
        self.dropped: list[tuple[np.ndarray, np.ndarray]] = []
        self.unreadable = Cells(self.unit)
        self.left_out: dict[str, Cells] = {}
        self.unused: tuple[str, ...] = ()

    def take(self, chunk: pd.DataFrame) -> None:
        import pandas as pd

        names = chunk["workload"] if "workload" in chunk.columns else pd.Series(self.default, index=chunk.index)
        if self.only is not None and "workload" in chunk.columns:
            chunk, names = chunk[names == self.only], names[names == self.only]
        self.unused = tuple(name for name in COUNTS if name in chunk.columns and name not in self.counts)
        lines = chunk.index.to_numpy()
        numbers, unreadable, missing = {}, {}, {"workload": names.isna().to_numpy()}
        time, unreadable["time"], missing["time"] = _times(chunk["time"])
        for name in (name for name in self.counts if name in chunk.columns):
            numbers[name], unreadable[name], missing[name] = _numbers(chunk[name])
        self.unreadable.add(unreadable, lines)
        codes = self._codes(names)
        self._note_missing(codes, missing, lines)
        good = ~(missing["workload"] | missing["time"] | missing["requests"])
        known = ~(missing["workload"] | missing["time"]) & missing["requests"]
        self.dropped.append((codes[known], time[known]))
        kept = {name: np.where(missing[name], np.nan, values)[good] for name, values in numbers.items()}
        self.taken.append({"workload": codes[good], "time": time[good], **kept})

    def _codes(self, names: pd.Series) -> np.ndarray:
        import pandas as pd

        codes, unique = pd.factorize(names.astype(object), use_na_sentinel=True)
        numbers = [self.number_of.setdefault(str(name), len(self.number_of)) for name in unique]
        numbered: np.ndarray = np.array([*numbers, -1], dtype=np.int32)[codes]
        return numbered

    def _note_missing(self, codes: np.ndarray, missing: dict[str, np.ndarray], lines: np.ndarray) -> None:
        some = np.logical_or.reduce(list(missing.values()))
        names = {number: name for name, number in self.number_of.items()} | {-1: NO_NAME}
        for code in np.unique(codes[some]).tolist():
            of_it = codes == code
            cells = self.left_out.setdefault(names[code], Cells(self.unit))
            cells.add({name: flags & of_it for name, flags in missing.items()}, lines)

    def rows(self) -> UsageRows:
        if self.unreadable.counts:
            raise self._refusal(self.unreadable)
        if not any(len(part["time"]) for part in self.taken) and self.left_out:
            raise self._refusal(next(iter(self.left_out.values())))
        first: dict[str, np.ndarray] = {"workload": np.zeros(0, np.int32), "time": np.zeros(0, "datetime64[ns]")}
        columns = self.taken[0] if self.taken else first | {"requests": np.zeros(0)}
        whole = {name: np.concatenate([part[name] for part in self.taken] or [columns[name]]) for name in columns}
        self.taken.clear()
        # Names in the order of the alphabet, whatever that of the rows.
        names = tuple(sorted(self.number_of))
        place = np.zeros(max(1, len(names)), dtype=np.int32)
        place[[self.number_of[name] for name in names]] = np.arange(len(names))
        workload = place[whole.pop("workload")]
        time = whole.pop("time")
        parts = [(place[codes], times) for codes, times in self.dropped]
        return UsageRows(
            names, workload, time, whole, self.left_out, _hours_without(parts, workload, time, len(names)), self.unused
        )

    def _refusal(self, cells: Cells) -> InputError:
        name, lines = min(cells.lines.items(), key=lambda item: item[1])
        message = f"needs a time and a number of {name.replace('_', ' ')} of 0 or more: {cells}"
        if name == "time":
            message = f"needs a time and a number of requests of 0 or more: {cells}"
        remedy = "Leave out hours that were not measured"
        if name == "workload":
            message = "names no workload" + (f": {cells}" if cells.rows > 1 else "")
            remedy = "Fill in the column 'workload'"
        return input_error(self.path, message, remedy, line=lines[0])


def _times(raw: pd.Series) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times in UTC, whether the text is none, and whether there is nothing."""
    import warnings

    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it guesses a format
        time = pd.to_datetime(raw, errors="coerce", utc=True)
    nothing = raw.isna()
    if raw.dtype == object or pd.api.types.is_string_dtype(raw):
        nothing |= raw.astype(str).str.strip().str.lower().isin(NOTHING)
        strange = time.isna() & ~nothing
        if strange.any():  # one format is guessed from the first row; days may be written without their midnight
            time[strange] = pd.to_datetime(raw[strange], errors="coerce", utc=True, format="ISO8601")
    values = time.dt.tz_localize(None).to_numpy().astype("datetime64[ns]")
    return values, (time.isna() & ~nothing).to_numpy(), nothing.to_numpy()


def _numbers(raw: pd.Series) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers, whether the text is none, and whether it was not measured."""
    import pandas as pd

    try:
        found = pd.to_numeric(raw, errors="coerce")
    except OverflowError:  # of a whole number beyond all floats, which is no text for pandas to coerce
        found = pd.to_numeric(raw.astype(str).str.replace(BEYOND_FLOATS, "inf", regex=True), errors="coerce")
    values = found.to_numpy(dtype=float, na_value=np.nan)
    nothing = raw.isna().to_numpy()
    if raw.dtype == object or pd.api.types.is_string_dtype(raw):
        nothing = nothing | raw.astype(str).str.strip().str.lower().isin(NOTHING).to_numpy()
    unreadable = np.isnan(values) & ~nothing
    with np.errstate(invalid="ignore"):
        return values, unreadable, nothing | ~np.isfinite(values) & ~unreadable | (values < 0)


def _hours_without(
    dropped: list[tuple[np.ndarray, np.ndarray]], workload: np.ndarray, time: np.ndarray, workloads: int
) -> tuple[np.ndarray, np.ndarray]:
    """A row that was written again with its figures is not missing."""
    codes = np.concatenate([c for c, _ in dropped] or [np.zeros(0, np.int32)])
    times = np.concatenate([t for _, t in dropped] or [np.zeros(0, "datetime64[ns]")])
    if not len(codes):
        return codes, times.astype("datetime64[h]")

    def keys(c: np.ndarray, t: np.ndarray) -> np.ndarray:
        key: np.ndarray = t.astype("datetime64[s]").astype(np.int64) * max(1, workloads) + c
        return key

    gone = ~np.isin(keys(codes, times), keys(workload, time))
    return codes[gone], times[gone].astype("datetime64[h]")
