"""Files as tables: CSV, JSON lines, JSON pages and Parquet in pieces, each with the numbers of its rows."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.io.errors import input_error, shown
from planner.logs.reading.csv_blocks import csv_block
from planner.logs.reading.documents import rows_of_document
from planner.logs.reading.ledger import Ledger
from planner.logs.reading.presets import NAMED_BY_FLAG, Preset, preset_of
from planner.logs.reading.sources import PARQUET, line_blocks, log_pieces, short_lines, whole_lines

if TYPE_CHECKING:
    import pandas as pd

MOST_DOCUMENT_BYTES = 1 << 30
CHUNK_ROWS = 200_000
BROKEN = "a broken row"


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
    """A JSON answer of Prometheus: series of samples."""

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
    text, rest = head.lstrip(), chain([head], pieces)
    if not text:
        reason = "ends before its first row" if path in ledger.cut_short else "is empty"
        raise input_error(path, reason, "Name a log with at least one request")
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
        raise input_error(path, "is neither CSV, JSON nor Parquet", "Name a log") from None
    preset = preset_of(path, header, reading.columns, reading.time_unit, reading.naming)
    wanted = preset.wanted(header)
    twice = sorted(name for name in wanted if header.count(name) > 1)
    if twice:
        ledger.note(f"{shown(path.name)}: column {shown(twice[0])} occurs {header.count(twice[0])} times; "
                    "the first one is read")  # fmt: skip
    _note_unused(path, preset, header, ledger)
    places = {name: header.index(name) for name in wanted}
    row = 2
    for part in chain([block], blocks):
        if not part.strip():
            continue
        table, numbers, broken, count = csv_block(part, len(header), places, preset.text_columns(), delimiter)
        ledger.rows += count
        ledger.leave_out(BROKEN, path, broken + row)
        yield Piece(path, preset, table, numbers + row)
        row += count


def _with_line_feeds(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Lines that end in a carriage return alone, as old spreadsheets write them, end in a line feed."""
    first = next(pieces, b"")
    alone = b"\r" in first and b"\n" not in first
    for piece in chain([first], pieces):
        yield piece.replace(b"\r", b"\n") if alone else piece


def _json_lines(path: Path, pieces: Iterator[bytes], reading: Reading, ledger: Ledger) -> Iterator[Piece]:
    preset: Preset | None = None
    line_number = 0
    for block in line_blocks(short_lines(pieces, path), quoted=False):
        requests: list[dict[str, Any]] = []
        numbers, broken = [], []
        for line in block.splitlines():
            line_number += 1
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                rows = rows_of_document(path, record, ledger) if isinstance(record, dict) else None
            except (ValueError, RecursionError):
                rows = None
            if rows is None:
                broken.append(line_number)
                continue
            requests += rows
            numbers += [line_number] * len(rows)
        ledger.rows += len(requests) + len(broken)
        ledger.leave_out(BROKEN, path, np.array(broken, dtype=np.int64))
        if requests:
            if preset is None:
                preset = preset_of(path, _keys(requests), reading.columns, reading.time_unit, reading.naming)
                _note_unused(path, preset, _keys(requests), ledger)
            yield _piece(path, preset, requests, np.array(numbers, dtype=np.int64))


def _document(path: Path, pieces: Iterator[bytes], reading: Reading, ledger: Ledger) -> Iterator[Piece | Document]:
    raw = bytearray()
    for piece in pieces:
        raw += piece
        if len(raw) > MOST_DOCUMENT_BYTES:
            raise input_error(path, "is one JSON document of more than 1 GB", "Export it as one line a request")
    try:
        whole = json.loads(bytes(raw))
    except (ValueError, RecursionError) as error:
        place = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise input_error(path, f"is no whole JSON{place}", "Export it again, or one request a line") from None
    data = whole.get("data") if isinstance(whole, dict) else None
    if isinstance(data, dict) and isinstance(data.get("result"), list):
        ledger.formats["Prometheus query_range answers"] += 1
        yield Document(path, data["result"])
        return
    records = whole if isinstance(whole, list) else data if isinstance(data, list) else [whole]
    rows, numbers, broken = [], [], []
    for number, record in enumerate(records, 1):
        some = rows_of_document(path, record, ledger) if isinstance(record, dict) else None
        if some is None:
            broken.append(number)
        else:
            rows += some
            numbers += [number] * len(some)
    ledger.rows += len(rows) + len(broken)
    ledger.leave_out(BROKEN, path, np.array(broken, dtype=np.int64))
    if rows:
        preset = preset_of(path, _keys(rows), reading.columns, reading.time_unit, reading.naming)
        _note_unused(path, preset, _keys(rows), ledger)
        yield _piece(path, preset, rows, np.array(numbers, dtype=np.int64))


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
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise input_error(path, "needs a reader of Parquet", "Install it: pip install 'fleetplan[parquet]'") from None
    try:
        file = pq.ParquetFile(path, memory_map=True)
        header = [str(name) for name in file.schema_arrow.names]
        preset = preset_of(path, header, reading.columns, reading.time_unit, reading.naming)
        _note_unused(path, preset, header, ledger)
        row = 1
        for batch in file.iter_batches(CHUNK_ROWS, columns=preset.wanted(header)):
            table = batch.to_pandas()
            ledger.rows += len(table)
            yield Piece(path, preset, table, np.arange(row, row + len(table)))
            row += len(table)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).split("\n")[0][:120]
        raise input_error(path, f"cannot be read as Parquet: {reason}", "Export it again") from None


def _note_unused(path: Path, preset: Preset, header: list[str], ledger: Ledger) -> None:
    if preset.signature:  # of a known format everything that matters is known
        return
    unused = [name for name in header if name not in preset.columns.values()]
    if unused:
        more = f" and {len(unused) - 5} more" if len(unused) > 5 else ""
        added = "; rows that differ in them are added up" if preset.counts else ""
        ledger.note(f"{shown(path.name)}: columns not used: {', '.join(shown(n) for n in unused[:5])}{more}{added}")
