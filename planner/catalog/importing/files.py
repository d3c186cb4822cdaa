"""Price files, read a piece at a time: CSV and Parquet by rows, JSON by members."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from planner.catalog.importing.quotes import Gathering
from planner.io.errors import InputError, input_error, listed, shown
from planner.io.input_files import PieceStream, open_input, unpacked
from planner.io.json_members import Descend, JsonPath, json_members

PARQUET = b"PAR1"
LONGEST_RECORD = 16_000_000
"""characters of one row of a CSV file, be it of one line or of many"""
ROWS = 20_000
"""read at a time"""


def rows_of(
    file: Path, needed: tuple[str, ...], gathering: Gathering, wanted: Collection[str] | None = None
) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of a CSV file with the line each ends on; a row with too few or too many cells is a mistake.

    Of columns that are not needed, those that are wanted and there; None: all of them.
    """
    with _text_of(file, newline="") as text:
        lines = _Lines(file, text)
        reader = csv.reader(lines, strict=True)
        try:
            head = [name.strip() for name in next(reader, [])]
            check_columns(file, head, needed)
            kept = [k for k, name in enumerate(head) if wanted is None or name in wanted or name in needed]
            names = [head[k] for k in kept]
            for cells in reader:
                lines.length = 0
                if cells and len(cells) != len(head):
                    message = f"has {len(cells)} cells, but the first row names {len(head)} columns"
                    gathering.complain(
                        file, reader.line_num, "row", message, "Fetch the file again, or correct the row"
                    )
                elif cells:
                    yield reader.line_num, dict(zip(names, [cells[k] for k in kept], strict=True))
        except csv.Error as error:
            remedy = "Fetch the file again, or correct the row"
            raise input_error(file, f"is not CSV here: {error}", remedy, reader.line_num) from None


class _Lines:
    """Lines of a text; raises InputError where a row would fill the memory, having no line break or no end."""

    def __init__(self, file: Path, text: TextIO) -> None:
        self.file, self.text = file, text
        self.length, self.number = 0, 0
        """characters since the last row, and lines"""

    def __iter__(self) -> Iterator[str]:
        while line := self.text.readline(LONGEST_RECORD + 1):
            self.length += len(line)
            self.number += 1
            if self.length > LONGEST_RECORD:
                message = f"has a row of more than {LONGEST_RECORD / 1e6:g} MB, which ends here or further down"
                raise input_error(self.file, message, "Fetch the file again, or correct the row", self.number)
            yield line


def check_columns(file: Path, head: list[str], needed: tuple[str, ...]) -> None:
    """Complain about columns that a table lacks, or has twice."""
    missing = [shown(name) for name in needed if name not in head]
    if missing:
        remedy = "Check that it is the right file; its first row must name the columns"
        raise input_error(file, f"has no column {listed(missing, 'and')}", remedy, 1)
    if twice := sorted({shown(name) for name in head if name and head.count(name) > 1}):
        raise input_error(file, f"has the column {listed(twice, 'and')} twice", "Keep one of each", 1)


def is_parquet(file: Path) -> bool:
    """Whether a file begins as Parquet files do. A pipe can be read once only, and is left to its reader."""
    with contextlib.suppress(OSError):
        if file.is_file():
            with file.open("rb") as raw:
                return raw.read(4) == PARQUET
    return False


def members_of(file: Path, descend: Descend) -> Iterator[tuple[JsonPath, int, Any]]:
    """Members of a JSON file by path and line; objects and lists for which `descend` holds come in parts."""
    with _text_of(file) as text:
        yield from json_members(file, text, descend, "Fetch the file again; check --from")


@contextlib.contextmanager
def _text_of(file: Path, newline: str | None = None) -> Iterator[TextIO]:
    """The text of a file, packed or not; what goes wrong while it is read is said of the file."""

    def cut_short() -> None:
        raise input_error(file, "is cut off or damaged: it cannot be unpacked", "Fetch it again")

    try:
        stream = io.BufferedReader(PieceStream(unpacked(file, cut_short, "Check the path")))
        if stream.peek(4)[:4] == PARQUET:
            raise input_error(file, "is a Parquet file", "Export it as CSV, plain or packed")
        yield io.TextIOWrapper(stream, encoding="utf-8-sig", newline=newline)
    except UnicodeDecodeError:
        raise input_error(file, "is not UTF-8 text", "Give the file as it was fetched") from None


def parquet_rows(
    file: Path, needed: tuple[str, ...], wanted: Collection[str] | None
) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of a Parquet file, numbered from 1, with the columns that are needed, and those wanted (None: all)."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise input_error(
            file, "needs a reader of Parquet", "Install it: pip install 'fleetplan[parquet]', or export CSV"
        ) from None
    try:
        with open_input(file) as stream:
            table = pq.ParquetFile(stream)
            names = [str(name) for name in table.schema_arrow.names]
            check_columns(file, names, needed)
            kept = [name for name in names if wanted is None or name in wanted or name in needed]
            number = 0
            for batch in table.iter_batches(ROWS, columns=kept):
                columns = [batch.column(name).to_pylist() for name in kept]
                for cells in zip(*columns, strict=True):
                    number += 1
                    yield number, {name: _cell_text(cell) for name, cell in zip(kept, cells, strict=True)}
    except InputError:
        raise
    except Exception as error:  # whatever Arrow makes of bytes that are damaged
        reason = getattr(error, "strerror", None) or str(error).split("\n")[0]
        raise input_error(file, f"cannot be read as Parquet: {reason}", "Export it again") from None


def _cell_text(cell: Any) -> str:
    """A cell as CSV has it: times in ISO 8601, maps as JSON, nothing as nothing."""
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return cell.isoformat()
    if isinstance(cell, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in cell):
        return json.dumps(dict(cell), default=str)
    return json.dumps(cell, default=str) if isinstance(cell, dict | list) else str(cell)
