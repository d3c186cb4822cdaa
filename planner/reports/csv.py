"""Tables as CSV: one on stdout, or a file each. Numbers are plain, units are in the column names."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from planner.io.errors import did_you_mean, escaped, input_error, shown
from planner.io.files import make_folder, write_whole
from planner.reports.document import Document
from planner.reports.table import Cell, Table


def table_csv(table: Table) -> str:
    view = table.view("csv")
    return rows_csv([[c.key for c in view.columns], *view.rows])


def one_table_csv(document: Document, name: str | None) -> str:
    """One table of a document by its name, else the first."""
    tables = {table.name: table for table in document.all_tables()}
    if name is not None and name not in tables:
        remedy = did_you_mean(name, tables) or "Plan with the study that makes it"
        raise input_error("--table", f"this plan has no table {shown(name)}", remedy)
    return table_csv(next(iter(tables.values())) if name is None else tables[name])


def rows_csv(rows: Iterable[Iterable[Cell]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([_plain(value) for value in row] for row in rows)
    return out.getvalue()


def write_tables(tables: Iterable[Table], folder: Path) -> list[Path]:
    """Tables as FOLDER/name.csv; the folder is made where it is missing."""
    make_folder(folder)
    written = []
    for table in tables:
        path = folder / f"{table.name}.csv"
        write_whole(path, table_csv(table))
        written.append(path)
    return written


def _plain(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _safe(escaped(value))
    return repr(value)


def _safe(text: str) -> str:
    """A CSV cell that no spreadsheet takes for a formula; numbers stay numbers."""
    if text.startswith(("=", "@", "\t", "\r")) or (text.startswith(("+", "-")) and not _is_number(text)):
        return "'" + text
    return text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
