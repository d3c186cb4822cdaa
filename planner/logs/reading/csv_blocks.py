"""Blocks of a CSV file as tables: fast where every row is whole, and row by row where one is not."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

MOST_LINES_A_RECORD = 100


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
