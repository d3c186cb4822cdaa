"""Rows of any format as requests, or as counts by time: one table, whole rows only.

Rows that lie years away from all others have a slip in their time. Counted, they would turn a month into decades of
hours without requests, and be the latest or the only traffic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from planner.io.errors import Diagnostic, InputError, input_error, shown
from planner.io.formatting import counted
from planner.logs.reading.cells import Cells, counts, numbers, times
from planner.logs.reading.ledger import Ledger
from planner.logs.reading.presets import NoLog
from planner.logs.reading.sources import log_files, without_copies
from planner.logs.reading.tables import Document, Piece, Reading, pieces_of

if TYPE_CHECKING:
    import pandas as pd

DAY_US = 86_400_000_000
LONGEST_GAP_D, LONGEST_SPAN_D = 400, 3653
"""more than a year, for counts by the year; ten years"""
FIRST_DATED_D = 10**14 // DAY_US
By = Literal["model", "route", "team", "workload"]
"""what a log is split by; rows that name no workload are left out where others do"""
UNKNOWN = -1
"""of cached tokens that a log does not give"""
NO_ID = 0
NO_SAMPLES = np.zeros((0, 2))
HOUR_US, FEWEST_BY_THE_HOUR = 3_600_000_000, 24
"""rows all of which are at whole hours, from which on a table is no log of single requests"""


class Days:
    """Days of the rows that were read, each with its first row."""

    def __init__(self) -> None:
        self.rows: Counter[int] = Counter()
        self.first: dict[int, tuple[Path, int | None]] = {}

    def add(self, path: Path, time_us: np.ndarray, rows: np.ndarray | None = None) -> None:
        """Times of a file, with the numbers of their rows where it has any."""
        days, places, counts = np.unique(time_us // DAY_US, return_index=True, return_counts=True)
        for day, place, count in zip(days.tolist(), places.tolist(), counts.tolist(), strict=True):
            self.rows[int(day)] += count
            self.first.setdefault(int(day), (path, None if rows is None else int(rows[place])))

    def check(self) -> None:
        """Raise InputError where a log has a gap that no log has, or is longer than any is."""
        days = sorted(self.rows)
        for place, (before, after) in enumerate(pairwise(days), 1):
            if after - before > LONGEST_GAP_D:
                raise self._far_apart(days[:place], days[place:])
        if days and days[-1] - days[0] > LONGEST_SPAN_D:
            path, row = self.first[days[0]]
            message = f"begins on {_day_text(days[0])} and ends on {_day_text(days[-1])}, more than ten years later"
            raise input_error(path, message, _remedy(days), row)

    def _far_apart(self, before: Sequence[int], after: Sequence[int]) -> InputError:
        few, many = sorted((before, after), key=lambda days: sum(self.rows[day] for day in days))
        path, row = self.first[few[0]]
        some, others = (counted(sum(self.rows[day] for day in days), "row") for days in (few, many))
        message = (
            f"has {some} of {_span(few)}, {after[0] - before[-1]:,} days {'before' if few is before else 'after'} "
            f"the other {others} of {_span(many)}"
        )
        return input_error(path, message, _remedy(few), row)


def _remedy(days: Sequence[int]) -> str:
    if days[0] < FIRST_DATED_D:
        return "Correct the times, or say their unit: --time-unit ms"
    return "Correct the times or leave these rows out; if both are right, read one part of the log"


def _span(days: Sequence[int]) -> str:
    return _day_text(days[0]) if days[0] == days[-1] else f"{_day_text(days[0])} to {_day_text(days[-1])}"


def _day_text(day: int) -> str:
    return str(date(1970, 1, 1) + timedelta(days=day)) if day >= FIRST_DATED_D else f"day {day + 1}"


@dataclass(frozen=True, eq=False)
class Requests:
    """Requests of one piece of a log [row]."""

    time_us: np.ndarray
    prompt: np.ndarray
    output: np.ndarray
    cached: np.ndarray
    """UNKNOWN where the log does not say"""
    model: pd.Series
    key: pd.Series
    """what the log is split by; empty text where there is no such thing"""
    id: np.ndarray
    """a hash of the request's id; NO_ID where there is none"""
    blocks: list[np.ndarray] | None
    """hashes of the blocks of each prompt, as whole numbers of 64 bits"""
    session: np.ndarray | None
    """a hash of the session's name; NO_ID where a row has none. None: the log names no sessions"""
    file: int
    """number of the file that holds them"""
    dated: bool


def repeated(ids: np.ndarray) -> np.ndarray:
    """Whether the id of a request comes again further on: the last one counts [request]."""
    import pandas as pd

    again: np.ndarray = pd.Series(ids, copy=False).duplicated(keep="last").to_numpy() & (ids != NO_ID)
    return again


@dataclass(frozen=True, eq=False)
class Counts:
    """Requests and tokens in spans of time [row]."""

    time_us: np.ndarray
    requests: np.ndarray
    """NaN where the row gives a time alone: then nothing is known of it"""
    span_s: np.ndarray | None
    """NaN, as below, where a row does not say; None where the table has no such column"""
    prompt: np.ndarray | None
    output: np.ndarray | None
    cached: np.ndarray | None
    model: pd.Series
    key: pd.Series
    series: np.ndarray
    """a hash of what tells rows apart: their time, all that an export was grouped by, and unused columns"""


@dataclass
class Log:
    """What a log holds, piece by piece."""

    files: list[Path]
    reading: Reading
    by: By | None
    in_folders: frozenset[Path] = frozenset()
    """files that nobody named, but a folder or a pattern has: one that is no log is left out"""
    ledger: Ledger = field(default_factory=Ledger)
    days: Days = field(default_factory=Days)

    def parts(self) -> Iterator[Requests | Counts | Document]:
        """Read every file; one that gives no request at all is refused, and so are times that are years apart."""
        errors: list[NoLog] = []
        files = without_copies(self.files, self.ledger)
        for number, path in enumerate(files):
            try:
                yield from self._parts_of(path, number)
            except NoLog as error:
                if path not in self.in_folders:
                    raise
                errors.append(error)
                self.ledger.no_logs.append(path)
                self.ledger.note(f"{shown(path.name)} is not a log and is left out: it {error.diagnostics[0].message}")
        if errors and len(errors) == len(files):
            raise InputError([diagnostic for error in errors for diagnostic in (*_no_logs(files), *error.diagnostics)])
        self.days.check()

    def _parts_of(self, path: Path, number: int) -> Iterator[Requests | Counts | Document]:
        known = False
        before, good, by_the_hour = self.ledger.rows, 0, True
        seen = dict(self.ledger.left_out)
        for piece in pieces_of(path, self.reading, self.ledger):
            if isinstance(piece, Document):
                good, by_the_hour = good + 1, False
                for series in piece.series:
                    self.days.add(path, series.get("values", NO_SAMPLES)[:, 0] * 1e6)
                yield piece
                continue
            self.ledger.formats[piece.preset.name] += not known
            known = True
            part = _counts(piece, self) if piece.preset.counts else _requests(piece, self, number)
            if isinstance(part, Requests):
                good += len(part.time_us)
                by_the_hour &= not piece.preset.signature and not (part.time_us % HOUR_US).any()
            else:
                good += int(np.isfinite(part.requests).sum())
                by_the_hour = False
            yield part
        if by_the_hour and good >= FEWEST_BY_THE_HOUR:
            message = "has a row an hour, and no column for requests: its tokens look like totals"
            raise input_error(path, message, self.reading.naming.format("requests"))
        if not good and self.ledger.rows > before:
            self._refuse(path, seen)

    def _refuse(self, path: Path, seen: dict[str, int]) -> None:
        reasons = {r: n - seen.get(r, 0) for r, n in self.ledger.left_out.items() if n > seen.get(r, 0)}
        reason = max(reasons, key=lambda r: reasons[r], default="nothing that can be read")
        line = next((row for file, row in self.ledger.first_rows.get(reason, []) if file == path), None)
        remedy = "Check what was exported, and the columns"
        if reason == "unreadable time":
            remedy = "Write 2026-09-07T12:00:00Z, or seconds or milliseconds since 1970"
        raise input_error(path, f"has no request that can be used: {reason}", remedy, line=line)


def open_logs(sources: Sequence[str], reading: Reading, by: By | None = None) -> Log:
    files = log_files(sources)
    return Log(files, reading, by, frozenset(files) - {Path(source) for source in sources})


def _no_logs(files: Sequence[Path]) -> list[Diagnostic]:
    """A line for each folder that holds nothing else."""
    message, remedy = "holds no log", "Name files with a time and with tokens or requests in each row"
    return [Diagnostic(str(folder), None, None, "", message, remedy) for folder in {path.parent for path in files}]


def _requests(piece: Piece, log: Log, file: int) -> Requests:
    table, preset, rows = piece.table.reset_index(drop=True), piece.preset, piece.rows
    by, ledger = log.by, log.ledger
    keep = np.ones(len(table), dtype=bool)
    prompt = _cells(piece, "prompt", table, 1)
    output = _cells(piece, "output", table, 0)
    if preset.excluded is not None:
        for reason, flags in preset.excluded(table).items():
            flags = flags & keep
            ledger.leave_out(reason, piece.path, rows[flags])
            keep &= ~flags
            _count_tokens(ledger, reason, prompt, output, flags)
    time_cells = preset.field_of(table, "time")
    if time_cells is None:
        raise _no_field(piece, "time")
    when = times(time_cells, preset.time_unit, ledger, shown(piece.path.name))
    for cells in (when, prompt, output):
        for reason, flags in cells.wrong.items():
            flags = flags & keep
            ledger.leave_out(reason, piece.path, rows[flags])
            keep &= ~flags
    none = keep & (output.values == 0)
    ledger.leave_out("no output tokens", piece.path, rows[none])
    _count_tokens(ledger, "no output tokens", prompt, output, none)
    keep &= ~none
    keep &= _named(piece, table, by, keep, ledger)
    log.days.add(piece.path, when.values[keep], rows[keep])
    blocks = None
    if preset.blocks and preset.blocks in table.columns:
        blocks = block_numbers(list(table[preset.blocks][keep]))
    return Requests(
        time_us=when.values[keep],
        prompt=prompt.values[keep],
        output=output.values[keep],
        cached=_cached(piece, table, prompt)[keep],
        model=_names(piece, table, "model")[keep],
        key=_names(piece, table, by)[keep],
        id=_ids(piece, table)[keep],
        blocks=blocks,
        session=_ids(piece, table, "session")[keep] if preset.field_of(table, "session") is not None else None,
        file=file,
        dated=bool(len(when.values) and when.values.max() > 10**14),
    )


def _count_tokens(ledger: Ledger, reason: str, prompt: Cells, output: Cells, flags: np.ndarray) -> None:
    read, wrote = ledger.tokens_left_out.get(reason, (0, 0))
    ledger.tokens_left_out[reason] = (read + int(prompt.values[flags].sum()), wrote + int(output.values[flags].sum()))


def _counts(piece: Piece, log: Log) -> Counts:
    table, preset, rows = piece.table.reset_index(drop=True), piece.preset, piece.rows
    by, ledger = log.by, log.ledger
    time_cells, request_cells = preset.field_of(table, "time"), preset.field_of(table, "requests")
    if time_cells is None or request_cells is None:
        raise _no_field(piece, "time and requests")
    when = times(time_cells, preset.time_unit, ledger, shown(piece.path.name))
    requests = counts(request_cells, "requests", whole=False)
    keep = when.good
    for reason, flags in when.wrong.items():
        ledger.leave_out(reason, piece.path, rows[flags])
    for reason, flags in requests.wrong.items():
        ledger.leave_out(reason, piece.path, rows[flags & keep])
    keep &= _named(piece, table, by, keep, ledger)
    log.days.add(piece.path, when.values[keep], rows[keep])
    counted = requests.good[keep]
    tokens = {name: _sums(piece, table, name, keep, counted) for name in ("prompt", "output", "cached")}
    return Counts(
        time_us=when.values[keep],
        requests=np.where(counted, requests.values[keep], np.nan),
        span_s=_sums(piece, table, "span", keep),
        prompt=tokens["prompt"],
        output=tokens["output"],
        cached=tokens["cached"],
        model=_names(piece, table, "model")[keep],
        key=_names(piece, table, by)[keep],
        series=_series(piece, table, when.values)[keep],
    )


def block_numbers(given: Sequence[Any]) -> list[np.ndarray]:
    """Hashes of blocks, which may be whole numbers or text of any size, as numbers of 64 bits.

    A request whose blocks are something else has none.
    """
    import pandas as pd

    lists = [hashes.tolist() if isinstance(hashes, np.ndarray) else hashes for hashes in given]
    lists = [hashes if isinstance(hashes, list) and _are_hashes(hashes) else [] for hashes in lists]
    hashes = [block for blocks in lists for block in blocks]
    small = np.array([isinstance(block, int) and -(2**63) <= block < 2**63 for block in hashes], dtype=bool)
    numbered = np.array([block if fits else 0 for block, fits in zip(hashes, small, strict=True)], dtype=np.int64)
    if not small.all():
        text = [str(hashes[k]).encode("utf-8", "replace").decode() for k in np.flatnonzero(~small)]
        numbered[~small] = pd.util.hash_array(np.array(text, dtype=object), categorize=False).view(np.int64)
    return np.split(numbered, np.cumsum([len(blocks) for blocks in lists])[:-1]) if lists else []


def _are_hashes(hashes: list[Any]) -> bool:
    return all(isinstance(block, int | str) and not isinstance(block, bool) for block in hashes)


def _series(piece: Piece, table: pd.DataFrame, time_us: np.ndarray) -> np.ndarray:
    import pandas as pd

    names = ("series",) if "series" in table.columns else ("model", "route", "team", "workload")
    telling = [piece.preset.columns[name] for name in names if name in piece.preset.columns]
    telling = [name for name in dict.fromkeys((*telling, *piece.preset.beside)) if name in table.columns]
    columns = [pd.Series(time_us), *(table[name].astype(str) for name in telling)]
    together: np.ndarray = pd.util.hash_pandas_object(pd.concat(columns, axis=1), index=False).to_numpy()
    return together


def _named(piece: Piece, table: pd.DataFrame, by: By | None, keep: np.ndarray, ledger: Ledger) -> np.ndarray:
    """Whether rows name their workload, where the file has a column for it."""
    if by != "workload" or piece.preset.field_of(table, by) is None:
        return np.ones(len(table), dtype=bool)
    named: np.ndarray = _names(piece, table, by).str.strip().ne("").to_numpy()
    ledger.leave_out("no workload", piece.path, piece.rows[keep & ~named])
    return named


def _sums(
    piece: Piece, table: pd.DataFrame, name: str, keep: np.ndarray, counted: np.ndarray | None = None
) -> np.ndarray | None:
    """Totals of tokens, and lengths of spans; NaN where rows that are kept are not `counted`."""
    cells = piece.preset.field_of(table, name)
    if cells is None:
        return None
    number = numbers(cells[keep])
    known = np.isfinite(number) & (number >= 0)
    return np.where(known if counted is None else known & counted, number, np.nan)


def _cells(piece: Piece, name: str, table: pd.DataFrame, least: int) -> Cells:
    cells = piece.preset.field_of(table, name)
    if cells is None:
        raise _no_field(piece, name)
    return counts(cells, f"{name} tokens", least)


def _no_field(piece: Piece, name: str) -> InputError:
    return input_error(piece.path, f"has no {name}", "Check what was exported, and the columns")


def _cached(piece: Piece, table: pd.DataFrame, prompt: Cells) -> np.ndarray:
    cells = piece.preset.field_of(table, "cached")
    if cells is None:
        return np.full(len(table), UNKNOWN, dtype=np.int64)
    cached = counts(cells, "cached tokens")
    return np.where(cached.good, np.minimum(cached.values, prompt.values), UNKNOWN)


def _names(piece: Piece, table: pd.DataFrame, name: str | None) -> pd.Series:
    import pandas as pd

    cells = piece.preset.field_of(table, name) if name else None
    if cells is None:
        return pd.Series("", index=table.index, dtype=object)
    return cells.astype(object).where(cells.notna(), "").astype(str)


def _ids(piece: Piece, table: pd.DataFrame, name: str = "id") -> np.ndarray:
    """Hashes of ids: eight bytes instead of forty, and a chance of 1 in 100,000 of a clash in 20 million."""
    import pandas as pd

    cells = piece.preset.field_of(table, name)
    if cells is None:
        return np.full(len(table), NO_ID, dtype=np.int64)
    text = cells.astype(object).where(cells.notna(), "").astype(str)
    hashes = pd.util.hash_array(text.to_numpy(dtype=object), categorize=False).view(np.int64)
    return np.where(text.to_numpy() == "", NO_ID, hashes)
