"""Price files, read a piece at a time: CSV and Parquet by rows, JSON by members."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, TextIO

from planner.catalog.importing.quotes import Gathering
from planner.io.errors import input_error, listed, shown
from planner.io.unpacking import PieceStream, unpacked

CHUNK = 1 << 20
MOST_CHARACTERS = 64 << 20
"""of one member of a JSON file; a whole file may be larger than memory"""
LOOK_AHEAD = 3
PARQUET = b"PAR1"
JsonPath = tuple[str | int, ...]


def rows_of(
    file: Path, needed: tuple[str, ...], gathering: Gathering, wanted: Collection[str] | None = None
) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of a CSV file with the line each ends on; a row with too few or too many cells is a mistake.

    Of columns that are not needed, those that are wanted and there; None: all of them.
    """
    with _text_of(file, newline="") as text:
        reader = csv.reader(text, strict=True)
        try:
            head = [name.strip() for name in next(reader, [])]
            check_columns(file, head, needed)
            kept = [k for k, name in enumerate(head) if wanted is None or name in wanted or name in needed]
            names = [head[k] for k in kept]
            for cells in reader:
                if cells and len(cells) != len(head):
                    message = f"has {len(cells)} cells, but the first row names {len(head)} columns"
                    gathering.complain(file, reader.line_num, "row", message, "Fetch the file again, or mend the row")
                elif cells:
                    yield reader.line_num, dict(zip(names, [cells[k] for k in kept], strict=True))
        except csv.Error as error:
            remedy = "Fetch the file again, or mend the row"
            raise input_error(file, f"is not CSV here: {error}", remedy, reader.line_num) from None


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


def members_of(file: Path, descend: Callable[[JsonPath], bool]) -> Iterator[tuple[JsonPath, int, Any]]:
    """Members of a JSON file by path and line; objects and lists for which `descend` holds come in parts."""
    with _text_of(file) as text:
        yield from _JsonReader(file, text, descend).document()


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


class _JsonReader:
    """Decodes one member after the other from a window of text that moves over the file."""

    def __init__(self, file: Path, text: TextIO, descend: Callable[[JsonPath], bool]) -> None:
        self.file, self.text, self.descend = file, text, descend
        self.window, self.at, self.line, self.ended = "", 0, 1, False
        self.decoder = json.JSONDecoder()

    def document(self) -> Iterator[tuple[JsonPath, int, Any]]:
        yield from self.value(())
        if self.next_character():
            self.fail("something follows the end of the document")

    def value(self, path: JsonPath) -> Iterator[tuple[JsonPath, int, Any]]:
        opening = self.next_character()
        if opening not in ("{", "[") or not self.descend(path):
            line = self.line
            yield path, line, self.decoded()
            return
        self.at += 1
        closing, is_list, n = "}" if opening == "{" else "]", opening == "[", 0
        if self.next_character() == closing:
            self.at += 1
            return
        while True:
            key: str | int = n if is_list else self.key()
            yield from self.value((*path, key))
            n += 1
            mark = self.next_character()
            if mark not in (",", closing):
                self.fail(f"expected ',' or '{closing}' after a member")
            self.at += 1
            if mark == closing:
                return

    def key(self) -> str:
        key = self.decoded() if self.next_character() == '"' else self.fail("expected a name in quotes")
        if self.next_character() != ":":
            self.fail(f"expected ':' after {shown(key)}")
        self.at += 1
        return str(key)

    def decoded(self) -> Any:
        size = CHUNK
        while True:
            try:
                value, end = self.decoder.raw_decode(self.window, self.at)
                # A number may go on beyond the window: 1 of 1.5, or of 1e+5.
                if len(self.window) - end > LOOK_AHEAD or self.ended:
                    self.line += self.window.count("\n", self.at, end)
                    self.at = end
                    return value
            except ValueError as error:
                if self.ended:
                    where = getattr(error, "pos", self.at)
                    self.line += self.window.count("\n", self.at, where)
                    self.fail("is cut off here" if where >= len(self.window.rstrip()) else "is not JSON here")
            except RecursionError:
                self.fail("is nested too deeply")
            if len(self.window) - self.at > MOST_CHARACTERS:
                self.fail(f"holds a member of more than {MOST_CHARACTERS >> 20} MiB, or is not JSON from here")
            self.fill(size)
            size *= 2

    def next_character(self) -> str:
        """The next character that is no space; empty at the end of the file."""
        while True:
            while self.at < len(self.window):
                character = self.window[self.at]
                if character not in " \t\r\n":
                    return character
                self.line += character == "\n"
                self.at += 1
            if self.ended:
                return ""
            self.fill(CHUNK)

    def fill(self, size: int) -> None:
        more = self.text.read(size)
        self.window, self.at, self.ended = self.window[self.at :] + more, 0, not more

    def fail(self, message: str) -> Any:
        raise input_error(self.file, message, "Fetch the file again; check --from", self.line)
