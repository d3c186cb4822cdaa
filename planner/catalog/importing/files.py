"""Price files, read a piece at a time: CSV and Parquet by rows, JSON by members."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, TextIO

from planner.catalog.importing.quotes import Gathering
from planner.io.errors import input_error, listed, shown
from planner.io.json_members import Descend, JsonPath, json_members
from planner.io.unpacking import PieceStream, unpacked

PARQUET = b"PAR1"
LONGEST_RECORD = 16_000_000
"""characters of one row of a CSV file, be it of one line or of many"""


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
                lines.held = 0
                if cells and len(cells) != len(head):
                    message = f"has {len(cells)} cells, but the first row names {len(head)} columns"
                    gathering.complain(file, reader.line_num, "row", message, "Fetch the file again, or mend the row")
                elif cells:
                    yield reader.line_num, dict(zip(names, [cells[k] for k in kept], strict=True))
        except csv.Error as error:
            remedy = "Fetch the file again, or mend the row"
            raise input_error(file, f"is not CSV here: {error}", remedy, reader.line_num) from None


class _Lines:
    """Lines of a text; raises InputError where a row would fill the memory, having no line break or no end."""

    def __init__(self, file: Path, text: TextIO) -> None:
        self.file, self.text = file, text
        self.held, self.number = 0, 0
        """characters since the last row, and lines"""

    def __iter__(self) -> Iterator[str]:
        while line := self.text.readline(LONGEST_RECORD + 1):
            self.held += len(line)
            self.number += 1
            if self.held > LONGEST_RECORD:
                message = f"has a row of more than {LONGEST_RECORD / 1e6:g} MB, which ends here or further down"
                raise input_error(self.file, message, "Fetch the file again, or mend the row", self.number)
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
