"""Files as tables: CSV, JSON lines, JSON pages and Parquet in pieces, each with the numbers of its rows.

Blocks of a CSV file are fast where every row is whole, and read row by row where one is not.
"""

from __future__ import annotations

import csv
import io
import json
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.io.errors import InputError, input_error, shown
from planner.io.input_files import PieceStream
from planner.io.json_members import JsonPath, json_members
from planner.logs.reading.cells import EARLIEST_US, LATEST_US, OUTSIDE
from planner.logs.reading.documents import rows_of_document
from planner.logs.reading.ledger import Ledger
from planner.logs.reading.presets import NAMED_BY_FLAG, Preset, no_log, preset_of
from planner.logs.reading.sources import (
    BLOCK_BYTES,
    LONGEST_LINE_BYTES,
    PARQUET,
    last_break,
    line_blocks,
    log_pieces,
    short_lines,
    whole_lines,
)

if TYPE_CHECKING:
    import pandas as pd

MOST_LINES_A_RECORD = 100
CHUNK_ROWS = 200_000
BROKEN, CUT_OFF = "a broken row", "cut off where the file ends"
SPANS, SERIES = "resourceSpans", ("data", "result")
WITH_MEMBERS: tuple[JsonPath, ...] = ((), ("data",), (SPANS,), SERIES)
"""places of a JSON document whose members are read one by one"""


def csv_block(
    block: bytes, width: int, places: dict[str, int], text: Collection[str], delimiter: str
) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, int]:
    """The rows of a block with their places in it, the places of broken ones, and how many there are.

    Columns of `text` stay as they are written: of names such as 007, and of 7 beside a blank.
    """
    import pandas as pd

    names = {place: str for name, place in places.items() if name in text}
    beyond = width  # a cell beyond the header's shows a row that is shifted; the first row makes room for it
    first = (delimiter * width).encode() + b"\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            table = pd.read_csv(
                io.BytesIO(first + block), header=None, names=list(range(width + 1)), index_col=False, sep=delimiter,
                usecols=sorted({*places.values(), beyond}), skip_blank_lines=False, low_memory=False,
                encoding_errors="replace", dtype=names,
            ).iloc[1:]  # fmt: skip
        except (ValueError, pd.errors.ParserError, pd.errors.ParserWarning):
            return _csv_line_by_line(block, width, places, delimiter)
    if table[beyond].notna().any():
        return _csv_line_by_line(block, width, places, delimiter)
    table = table[list(places.values())].set_axis(list(places), axis=1)
    filled = table.notna().sum(axis=1).to_numpy()
    if len(places) > 1 and (filled == 1).any():  # it may be the rest of a row that was cut off
        return _csv_line_by_line(block, width, places, delimiter)
    some = filled > 0
    return table[some], np.flatnonzero(some), np.zeros(0, dtype=np.int64), len(table)


def _csv_line_by_line(
    block: bytes, width: int, places: dict[str, int], delimiter: str
) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, int]:
    """Like csv_block, slowly, for a block in which a row is broken: only that row is lost."""
    import pandas as pd

    kept, numbers, broken = [], [], []
    lines = block.removesuffix(b"\n").decode("utf-8", "replace").split("\n")
    at = row = 0
    while at < len(lines):
        cells, used = _record(lines, at, width, delimiter)
        if cells is not None:
            kept.append([cells[place] for place in places.values()])
            numbers.append(row)
        elif lines[at].strip():
            broken.append(row)
        at, row = at + used, row + 1
    table = pd.DataFrame(kept, columns=list(places), dtype=object)
    return table, np.array(numbers, dtype=np.int64), np.array(broken, dtype=np.int64), row


def _record(lines: list[str], at: int, width: int, delimiter: str) -> tuple[list[str] | None, int]:
    """The cells of the record that begins with a line, if it is whole, and how many lines it has."""
    text, used = lines[at], 1
    while text.count('"') % 2 and used < MOST_LINES_A_RECORD and at + used < len(lines):
        text, used = f"{text}\n{lines[at + used]}", used + 1
    text = text.replace("\0", "").rstrip("\r")
    try:
        cells = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), [])
    except csv.Error:
        cells = []
    return (cells, used) if len(cells) == width else (None, 1)


@dataclass(frozen=True)
class Reading:
    """How logs are to be read, in the user's words."""

    columns: dict[str, str]
    """field -> column"""
    time_unit: str | None = None
    naming: str = NAMED_BY_FLAG
    """how a user names the column of a field"""


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows of a file with the columns that its format needs."""

    path: Path
    preset: Preset
    table: pd.DataFrame
    rows: np.ndarray
    """numbers of the rows, the header being row 1 of a CSV"""


@dataclass(frozen=True, eq=False)
class Document:
    """Some series of a JSON answer of Prometheus, with their samples; one that is broken is empty."""

    path: Path
    series: list[dict[str, Any]]


def pieces_of(path: Path, reading: Reading, ledger: Ledger) -> Iterator[Piece | Document]:
    """Read a log piece by piece; raises InputError where it is none."""
    pieces = log_pieces(path, ledger)
    head = next(pieces, b"").removeprefix(b"\xef\xbb\xbf")
    if head.startswith(PARQUET):
        pieces.close()  # type: ignore[attr-defined]
        yield from _parquet(path, reading, ledger)
        return
    while head.lstrip()[:1] == b"{" and b"\n" not in head.lstrip() and len(head) <= LONGEST_LINE_BYTES:
        more = next(pieces, None)
        if more is None:
            break
        head += more
    text, rest = head.lstrip(), chain([head], pieces)
    if not text:
        reason = "ends before its first row" if path in ledger.cut_short else "is empty"
        raise no_log(path, reason, "Name a log with at least one request")
    if text[:1] not in (b"{", b"["):
        yield from _csv(path, rest, reading, ledger)
    elif _is_one_document(text):
        yield from _document(path, rest, reading, ledger)
    else:
        yield from _json_lines(path, rest, reading, ledger)


def _is_one_document(text: bytes) -> bool:
    """Whether JSON is one whole and not a line for each request: its first line is not whole, or is a page of rows."""
    line, _, more = text.partition(b"\n")
    try:
        first = json.loads(line)
    except (ValueError, RecursionError):
        return text[:1] == b"[" or not more.lstrip().startswith(b"{")
    return isinstance(first, list) or (isinstance(first.get("data"), list | dict) and not more.strip())


def _csv(path: Path, pieces: Iterator[bytes], reading: Reading, ledger: Ledger) -> Iterator[Piece]:
    lines = whole_lines(short_lines(_with_line_feeds(pieces), path), path, ledger)
    blocks = line_blocks(lines, quoted=True)
    block = next(blocks, b"")
    block = block.lstrip(b"\r\n")
    first, _, block = block.partition(b"\n")
    line = first.decode("utf-8", "replace")
    delimiter = max(",;\t|", key=line.count)
    try:
        header = [name.strip() for name in next(csv.reader([line.rstrip("\r")], delimiter=delimiter), [])]
    except csv.Error:
        raise no_log(path, "is neither CSV, JSON nor Parquet", "Name a log") from None
    preset = preset_of(path, header, reading.columns, reading.time_unit, reading.naming)
    wanted = preset.wanted(header)
    twice = sorted(name for name in wanted if header.count(name) > 1)
    if twice:
        ledger.note(f"{shown(path.name)}: column {shown(twice[0])} occurs {header.count(twice[0])} times; "
                    "the first one is read")  # fmt: skip
    _note_unused(path, preset, header, ledger)
    places = {name: header.index(name) for name in wanted}
    row = 2
    for block_of_rows in chain([block], blocks):
        part, cut = _without_cut_row(block_of_rows, len(header), delimiter)
        if part.strip():
            table, numbers, broken, count = csv_block(part, len(header), places, preset.text_columns(), delimiter)
            ledger.rows += count
            ledger.leave_out(BROKEN, path, broken + row)
            yield Piece(path, preset, table, numbers + row)
            row += count
        if cut:
            ledger.rows += 1
            ledger.leave_out(CUT_OFF, path, np.array([row]))


def _without_cut_row(block: bytes, width: int, delimiter: str) -> tuple[bytes, bool]:
    """A block without the row in the middle of which the file ends, and whether there was one.

    What is left of such a row may look like a whole one: 2026 is a time as well.
    """
    if block.endswith(b"\n"):
        return block, False
    begins = last_break(block, quoted=True)
    try:
        row = block[begins:].decode("utf-8", "replace").rstrip("\r")
        cells = next(csv.reader(io.StringIO(row, newline=""), delimiter=delimiter, strict=True), [])
    except csv.Error:  # csv_block finds out what is wrong with it
        return block, False
    return (block[:begins], True) if 0 < len(cells) < width else (block, False)


def _with_line_feeds(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Lines that end in a carriage return alone, as old spreadsheets write them, end in a line feed."""
    first = next(pieces, b"")
    alone = b"\r" in first and b"\n" not in first
    for piece in chain([first], pieces):
        yield piece.replace(b"\r", b"\n") if alone else piece


def _json_lines(path: Path, pieces: Iterator[bytes], reading: Reading, ledger: Ledger) -> Iterator[Piece]:
    batch = _Batch(path, reading, ledger)
    number = 0
    for block in line_blocks(short_lines(pieces, path), quoted=False):
        for line in block.splitlines():
            number += 1
            if not line.strip():
                continue
            try:
                batch.add(number, json.loads(line))
            except (ValueError, RecursionError):
                batch.broken.append(number)
        yield from batch.pieces()


def _document(path: Path, pieces: Iterator[bytes], reading: Reading, ledger: Ledger) -> Iterator[Piece | Document]:
    """A JSON document, member by member: a list or a page of records, series of Prometheus, or one record."""
    batch = _Batch(path, reading, ledger)
    opened: set[JsonPath] = set()
    number = read = given = 0
    own: dict[str, Any] = {}
    series: list[dict[str, Any]] = []

    def counted() -> Iterator[bytes]:
        nonlocal read
        for piece in pieces:
            read += len(piece)
            yield piece

    def in_parts(place: JsonPath) -> bool:
        if place not in WITH_MEMBERS:
            return False
        opened.add(place)
        return True

    text = io.TextIOWrapper(io.BufferedReader(PieceStream(counted())), encoding="utf-8")
    try:
        for place, _, member in json_members(path, text, in_parts, "Export it again, or one request a line"):
            if place[:2] == SERIES:
                series.append(_with_samples(path, member, ledger))
            elif isinstance(place[-1], int):
                number += 1
                batch.add(number, {place[0]: [member]} if place[0] == SPANS else member)
            else:
                holder = own.setdefault("data", {}) if len(place) > 1 else own
                holder[str(place[-1])] = member
                if read - given > LONGEST_LINE_BYTES + BLOCK_BYTES:
                    message = f"holds a record of more than {LONGEST_LINE_BYTES / 1e6:g} MB"
                    raise input_error(path, message, "Export it as one line a request")
            if read - given >= BLOCK_BYTES and (series or batch.numbers or batch.broken):
                yield from [Document(path, series)] if series else batch.pieces()
                series, given = [], read
    except UnicodeDecodeError:
        raise input_error(path, "is not UTF-8 text", "Export it again") from None
    if SERIES in opened:
        ledger.formats["Prometheus query_range answers"] += 1
        yield Document(path, series)
        return
    if own and not number and (own.get("data") or not {("data",), (SPANS,)} & opened):
        batch.add(1, own)
    yield from batch.pieces()


def _with_samples(path: Path, series: Any, ledger: Ledger) -> dict[str, Any]:
    """A series of Prometheus with numbers for samples, which take a tenth of the memory; nothing where it is broken."""
    try:
        samples = np.array([(float(t), float(v)) for t, v in series["values"]]).reshape(-1, 2)
        labels = series["metric"]
    except (KeyError, TypeError, ValueError, OverflowError):
        return {}
    samples = samples[np.isfinite(samples).all(axis=1)]
    inside = (samples[:, 0] >= EARLIEST_US / 1e6) & (samples[:, 0] < LATEST_US / 1e6)
    ledger.leave_out_together(OUTSIDE, int((~inside).sum()), path.name)
    return {"metric": labels, "values": samples[inside]}


class _Batch:
    """Records of a JSON file on their way to a table; the first ones tell the format."""

    def __init__(self, path: Path, reading: Reading, ledger: Ledger) -> None:
        self.path, self.reading, self.ledger = path, reading, ledger
        self.preset: Preset | None = None
        self.rows: list[dict[str, Any]] = []
        self.numbers: list[int] = []
        self.broken: list[int] = []

    def add(self, number: int, record: Any) -> None:
        rows = rows_of_document(self.path, record, self.ledger) if isinstance(record, dict) else None
        if rows is None:
            self.broken.append(number)
            return
        self.rows += rows
        self.numbers += [number] * len(rows)

    def pieces(self) -> Iterator[Piece]:
        """What was added since it was last asked."""
        if self.rows and self.preset is None:
            keys = _keys(self.rows)
            self.preset = preset_of(self.path, keys, self.reading.columns, self.reading.time_unit, self.reading.naming)
            _note_unused(self.path, self.preset, keys, self.ledger)
        self.ledger.rows += len(self.rows) + len(self.broken)
        self.ledger.leave_out(BROKEN, self.path, np.array(self.broken, dtype=np.int64))
        rows, numbers = self.rows, np.array(self.numbers, dtype=np.int64)
        self.rows, self.numbers, self.broken = [], [], []
        if rows and self.preset is not None:
            yield _piece(self.path, self.preset, rows, numbers)


def _keys(rows: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(str(key) for row in rows[:1000] for key in row))


def _piece(path: Path, preset: Preset, rows: list[dict[str, Any]], numbers: np.ndarray) -> Piece:
    import pandas as pd

    wanted = preset.wanted(_keys(rows))
    table = pd.DataFrame({name: pd.Series([_whole(row.get(name)) for row in rows], dtype=object) for name in wanted})
    return Piece(path, preset, table, numbers)


def _whole(value: Any) -> Any:
    """Text without halves of characters, which JSON can spell and no file can hold."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) and not value.isascii() else value


def _parquet(path: Path, reading: Reading, ledger: Ledger) -> Iterator[Piece]:
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise input_error(path, "needs a reader of Parquet", "Install it: pip install 'fleetplan[parquet]'") from None
    try:
        file = pq.ParquetFile(path, memory_map=True, page_checksum_verification=True)
        header = [str(name) for name in file.schema_arrow.names]
        preset = preset_of(path, header, reading.columns, reading.time_unit, reading.naming)
        _note_unused(path, preset, header, ledger)
        row = 1
        for batch in file.iter_batches(CHUNK_ROWS, columns=preset.wanted(header)):
            batch.validate(full=True)
            table = batch.to_pandas(ignore_metadata=True)  # which say what pandas once had, not what the file has
            _check_years(path, table, row)
            ledger.rows += len(table)
            yield Piece(path, preset, table, np.arange(row, row + len(table)))
            row += len(table)
    except InputError:
        raise
    except Exception as error:  # whatever Arrow and pandas make of bytes that are damaged
        reason = str(error).split("\n")[0][:120]
        raise input_error(path, f"cannot be read as Parquet: {reason}", "Export it again") from None


def _check_years(path: Path, table: pd.DataFrame, row: int) -> None:
    """Raise InputError where a time is of a year that no calendar has: then other bytes are damaged too."""
    for column in table.select_dtypes(["datetime", "datetimetz"]):
        years = table[column].dt.year.to_numpy()
        wrong = np.flatnonzero((years < 1) | (years > 9999))
        if len(wrong):
            message = f"is damaged: {shown(column)} of row {row + wrong[0]} is of the year {years[wrong[0]]:.0f}"
            raise input_error(path, message, "Export it again")


def _note_unused(path: Path, preset: Preset, header: list[str], ledger: Ledger) -> None:
    if preset.signature:  # of a known format everything that matters is known
        return
    unused = [name for name in header if name not in preset.columns.values()]
    if unused:
        more = f" and {len(unused) - 5} more" if len(unused) > 5 else ""
        added = "; rows that differ in them are added up" if preset.counts else ""
        ledger.note(f"{shown(path.name)}: columns not used: {', '.join(shown(n) for n in unused[:5])}{more}{added}")
