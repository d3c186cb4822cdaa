"""Tables as CSV: one on stdout, or a file each. Numbers are plain, units are in the column names."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from planner.io.errors import Diagnostic, InputError, did_you_mean, escaped, shown
from planner.io.files import make_folder, write_whole
from planner.plan.plan import Plan
from planner.reports.tables.plan import NAMES, tables_of
from planner.reports.tables.table import Cell, Table


def table_csv(table: Table) -> str:
    view = table.view("csv")
    return rows_csv([[c.key for c in view.columns], *view.rows])


def rows_csv(rows: Iterable[Iterable[Cell]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([_plain(value) for value in row] for row in rows)
    return out.getvalue()


def check_table_name(name: str) -> None:
    """Complain about a table that no plan has."""
    if name not in NAMES:
        remedy = did_you_mean(name, NAMES) or f"there are {', '.join(NAMES)}"
        raise InputError([Diagnostic("--table", None, None, "", f"there is no table {shown(name)}", remedy)])


def plan_csv(plan: Plan, name: str = "fleet") -> str:
    """One table by its name."""
    check_table_name(name)
    table = next((table for table in tables_of(plan) if table.name == name), None)
    if table is None:
        remedy = "Plan with the study that makes it"
        raise InputError([Diagnostic("--table", None, None, "", f"this plan has no table {shown(name)}", remedy)])
    return table_csv(table)


def write_csv_tables(plan: Plan, folder: Path) -> list[Path]:
    """Every table of the plan as FOLDER/name.csv."""
    return write_tables(tables_of(plan), folder)


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
