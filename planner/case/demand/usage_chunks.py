"""A usage log in pieces: CSV, plain or compressed, or Parquet, read within a bound of memory."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from planner.io.errors import InputError, did_you_mean, input_error, listed
from planner.io.input_files import open_input
from planner.logs.reading.presets import COLUMNS as FIELDS

if TYPE_CHECKING:
    import pandas as pd

CHUNK_ROWS = 200_000
MOST_BYTES, LONGEST_LINE_BYTES = 8_000_000_000, 1_000_000
UNPACKED: dict[str, Callable[[BinaryIO], BinaryIO]] = {
    ".gz": lambda stream: gzip.GzipFile(fileobj=stream),  # type: ignore[dict-item,return-value]
    ".bz2": lambda stream: bz2.BZ2File(stream),  # type: ignore[dict-item,return-value]
    ".xz": lambda stream: lzma.LZMAFile(stream),  # type: ignore[dict-item,return-value]  # noqa: SIM115
}
COLUMNS = ("time", "requests", "workload", "input_tokens", "output_tokens")
ALIASES = {"time": FIELDS["time"], "requests": FIELDS["requests"], "input_tokens": FIELDS["prompt"][:-1],
           "output_tokens": FIELDS["output"][:-1]}  # fmt: skip
"""other names of these, as all readers of logs know them, whatever the case"""
HEADER_BYTES = 1 << 16
REMEDY = "Give a {} file with the columns time, requests"
_COLUMN_NAME = re.compile(r"[^\W\d][\w ./()%-]{0,39}")


def is_parquet(path: Path) -> bool:
    return path.suffix.lower() in (".parquet", ".pq")


def usage_chunks(path: Path) -> Iterator[pd.DataFrame]:
    """Rows of a log with those of COLUMNS that it has, numbered by their lines (in Parquet, by rows).

    Raises InputError where it is no log. What it holds instead is not quoted: it may be anybody's file.
    """
    kind = "Parquet" if is_parquet(path) else "CSV"
    try:
        with open_input(path) as stream:
            yield from (_parquet_chunks if is_parquet(path) else _csv_chunks)(path, stream)
    except ImportError:
        raise input_error(path, "needs a reader of Parquet", "Install it: pip install 'fleetplan[parquet]'") from None
    except MemoryError:
        raise input_error(
            path, "needs more memory than there is", "Give one row an hour, or leave out older rows"
        ) from None
    except (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError) as error:
        reason = getattr(error, "strerror", None) or str(error).split("\n")[0]
        raise input_error(path, f"cannot be read as {kind}: {reason}", REMEDY.format(kind)) from None


def _csv_chunks(path: Path, stream: BinaryIO) -> Iterator[pd.DataFrame]:
    import pandas as pd

    unpack = UNPACKED.get(path.suffix.lower())
    bounded = _Bounded(path, unpack(stream) if unpack else stream)
    text = io.BufferedReader(bounded, HEADER_BYTES)
    blank = _skip_blank_lines(text)
    line = re.split(rb"[\r\n]", text.peek(HEADER_BYTES), maxsplit=1)[0].decode("utf-8", "replace")
    known = known_columns(next(csv.reader([line]), []))
    columns: dict[str, None] = {}

    def wanted(name: str) -> bool:
        columns.setdefault(str(name))
        return name in known

    try:
        # Blank lines are kept as rows, so that a row's number is its line.
        reader = pd.read_csv(
            text, chunksize=CHUNK_ROWS, usecols=wanted, skip_blank_lines=False, low_memory=False,
            dtype={column: str for column, name in known.items() if name in ("time", "workload")},
        )  # fmt: skip
        _check_columns(path, list(columns))
        line_number = blank + 2
        for chunk in reader:
            if not isinstance(chunk.index, pd.RangeIndex):
                raise input_error(path, "has rows with more cells than its header", "Quote cells that hold a comma")
            numbered = chunk.rename(columns=known).set_axis(range(line_number, line_number + len(chunk)), axis=0)
            yield numbered[numbered.notna().any(axis=1)]
            line_number += len(chunk)
    except ValueError:
        if bounded.refusal is not None:  # said by the parser in words of its own
            raise bounded.refusal from None
        raise


def _skip_blank_lines(stream: io.BufferedReader[_Bounded]) -> int:
    """Go to the header, past a byte-order mark; how many lines that took."""
    beginning = re.match(rb"(?:\xef\xbb\xbf)?[\r\n]*", stream.peek(4096)[:4096])
    return len(re.findall(rb"\r\n|\r|\n", stream.read(beginning.end()))) if beginning else 0


def _parquet_chunks(path: Path, stream: BinaryIO) -> Iterator[pd.DataFrame]:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(stream)
    columns = [str(name) for name in file.schema_arrow.names]
    _check_columns(path, columns)
    row = 1
    known = known_columns(columns)
    for batch in file.iter_batches(CHUNK_ROWS, columns=list(known)):
        chunk = batch.to_pandas().rename(columns=known)
        yield chunk.set_axis(range(row, row + len(chunk)), axis=0)
        row += len(chunk)


def known_columns(columns: list[str]) -> dict[str, str]:
    """Columns of a file -> the names that they have here: their own first, then others, whatever the case."""
    folded = {column.strip().casefold(): column for column in reversed(columns)}
    known: dict[str, str] = {}
    for name in COLUMNS:
        others = (folded[other.casefold()] for other in ALIASES.get(name, (name,)) if other.casefold() in folded)
        column = name if name in columns else next(others, None)
        if column is not None:
            known.setdefault(column, name)
    return known


def _check_columns(path: Path, columns: list[str]) -> None:
    kind = "Parquet" if is_parquet(path) else "CSV"
    known = known_columns(columns).values()
    if "requests" not in known and {"time", "input_tokens", "output_tokens"} <= set(known):
        message = "has a row for each request, and no column 'requests'"
        raise input_error(path, message, f"Make a demand file from it: fleetplan demand {path.name}")
    for name in ("time", "requests"):
        if name not in known:
            if len(columns) < 2 or not all(_COLUMN_NAME.fullmatch(column) for column in columns):
                raise input_error(path, f"has no column '{name}'", REMEDY.format(kind))
            only = listed(columns[:8], "and")
            raise input_error(path, f"has no column '{name}', only {only}", did_you_mean(name, columns))


class _Bounded(io.RawIOBase):
    """A stream that ends in a refusal where it is too long, or has a line that no log has."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self.path, self.stream = path, stream
        self.total = self.line = 0
        self.refusal: InputError | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        block = self.stream.read(len(buffer))
        buffer[: len(block)] = block
        self.total += len(block)
        last_break = max(block.rfind(b"\n"), block.rfind(b"\r"))
        self.line = self.line + len(block) if last_break < 0 else len(block) - last_break - 1
        if self.line > LONGEST_LINE_BYTES:
            self._refuse("has a line of more than a million characters", REMEDY.format("CSV"))
        if self.total > MOST_BYTES:
            self._refuse(f"is larger than {MOST_BYTES // 10**9} GB", "Give one row an hour, or leave out older rows")
        return len(block)

    def _refuse(self, message: str, remedy: str) -> None:
        self.refusal = input_error(self.path, message, remedy)
        raise self.refusal
