"""All tables of a document as one workbook: a sheet each, numbers as numbers, users' text never a formula.

openpyxl is an extra (`fleetplan[xlsx]`). It writes the time of day into a workbook; that is taken out, so that the same
result gives the same bytes.
"""

from __future__ import annotations

import io
import re
import zipfile
from importlib.util import find_spec
from typing import Any

from planner.io.errors import escaped, input_error, shortened
from planner.reports.document import Document
from planner.reports.table import Cell, Column, Table

NUMBER_FORMATS = {
    "money": "#,##0", "price": "#,##0.00", "small price": "#,##0.000", "count": "#,##0", "tokens": "#,##0",
    "percent": "0.0%", "share": "0.0%",
}  # fmt: skip
WIDEST, LONGEST = 60, 32_000
"""characters of a column, and of a cell, which Excel limits to 32,767"""
NO_TIME = b"1980-01-01T00:00:00Z"
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def require_openpyxl() -> None:
    if find_spec("openpyxl") is None:
        raise input_error("--xlsx", "needs openpyxl, which is not installed", "Install fleetplan[xlsx]")


def as_workbook(document: Document) -> bytes:
    """A sheet for each table, as its CSV file has it, after one about the whole."""
    require_openpyxl()
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    tables = document.all_tables()
    notes = ((f"note on {table.name}", note) for table in tables for note in table.notes)
    about = Table("about", "About", (Column("what", "what"), Column("value", "value")), (*document.facts(), *notes))
    for table in (about, *tables):
        _write(book, table)
    stream = io.BytesIO()
    book.save(stream)
    return _timeless(stream.getvalue())


def _write(book: Any, table: Table) -> None:
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.styles import Font
    from openpyxl.utils import get_column_letter

    view = table.view("csv")
    sheet = book.create_sheet(table.name)
    sheet.freeze_panes = "A2"
    rows = [[_plain(value) for value in row] for row in view.rows]
    for k, column in enumerate(view.columns):
        longest = max([len(column.key), *(len(str(row[k])) for row in rows)])
        sheet.column_dimensions[get_column_letter(k + 1)].width = min(WIDEST, longest + 2)
    if rows:
        sheet.auto_filter.ref = f"A1:{get_column_letter(len(view.columns))}{len(rows) + 1}"

    def cell(value: Cell, kind: str, bold: bool = False) -> Any:
        made = WriteOnlyCell(sheet, value=value)
        if isinstance(value, str):
            made.data_type = "s"
        elif kind in NUMBER_FORMATS and not isinstance(value, bool):
            made.number_format = NUMBER_FORMATS[kind]
        if bold:
            made.font = Font(bold=True)
        return made

    sheet.append([cell(c.key, "text", bold=True) for c in view.columns])
    for row in rows:
        sheet.append([cell(value, c.kind) for value, c in zip(row, view.columns, strict=True)])


def _plain(value: Cell) -> Cell:
    return shortened(escaped(value), LONGEST) if isinstance(value, str) else value


def _timeless(workbook: bytes) -> bytes:
    """The same workbook without the moment at which it was written."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(workbook)) as before, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as after:
        for name in sorted(before.namelist()):
            data = before.read(name)
            if name == "docProps/core.xml":
                data = re.sub(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", NO_TIME, data)
            info = zipfile.ZipInfo(name, ZIP_EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            after.writestr(info, data)
    return out.getvalue()
