"""The tables of a plan as CSV: one file each, or one on stdout. Numbers are plain, units are in the column names."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from planner.io.errors import Diagnostic, InputError, did_you_mean, escaped, shown
from planner.io.files import write_whole
from planner.plan.plan import Plan
from planner.reports.plan_tables import NAMES, tables_of
from planner.reports.table import Cell, Table
from planner.reports.text import safe_cell


def table_csv(table: Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([c.key for c in table.columns])
    writer.writerows([_plain(value) for value in row] for row in table.rows)
    return out.getvalue()


def check_table_name(name: str) -> None:
    """Complain about a table that no plan has."""
    if name not in NAMES:
        remedy = did_you_mean(name, NAMES) or f"there are {', '.join(NAMES)}"
        raise InputError([Diagnostic("--table", None, None, "", f"there is no table {shown(name)}", remedy)])


def plan_csv(plan: Plan, name: str = "fleet") -> str:
    """One table by its name."""
    check_table_name(name)
    found = next((table for table in tables_of(plan) if table.name == name), None)
    if found is None:
        remedy = "Plan with the study that makes it"
        raise InputError([Diagnostic("--table", None, None, "", f"this plan has no table {shown(name)}", remedy)])
    return table_csv(found)


def write_csv_tables(plan: Plan, folder: Path) -> list[Path]:
    """Every table of the plan as FOLDER/name.csv; the folder is made where it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        remedy = "Name a folder that can be made, or one that is there"
        reason = f"cannot be made: {error.strerror or error}"
        raise InputError([Diagnostic(str(folder), None, None, "", reason, remedy)]) from None
    written = []
    for table in tables_of(plan):
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
        return safe_cell(escaped(value))
    return repr(value)
