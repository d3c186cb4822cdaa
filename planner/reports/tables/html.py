"""Tables of a page: boxes that scroll by themselves; long ones show their first rows, and the others on demand."""

from __future__ import annotations

from planner.io.formatting import counted
from planner.reports.markup import Html, and_more, details, el, join, notes, panel, words
from planner.reports.tables.table import TICK, Column, Format, Table

SHORT_CELL, LONG_CELL = 27, 45


def table_html(table: Table, first: int = 30, most: int = 250, view: Format = "html") -> Html:
    """The table and its notes; `most` rows at most, and a remark on what is left out."""
    chosen = table.view(view)
    rows = [_row(chosen.columns, row) for row in chosen.shown()]
    if len(rows) <= first + 5:
        return join([_box(chosen, rows), notes(table.notes)])
    rest = rows[first:most]
    more = details(counted(len(rest), "more row"), _box(chosen, rest), notes(and_more(len(rows), most)))
    return join([_box(chosen, rows[:first]), more, notes(table.notes)])


def table_panel(id_: str, table: Table, *remarks: str, title: str | None = None, most: int = 250) -> Html:
    """A table with its title; nothing where it has no rows."""
    if not table.view("html").rows:
        return Html("")
    return panel(id_, title or table.title[:1].upper() + table.title[1:], table_html(table, most=most), notes(remarks))


def _box(table: Table, rows: list[Html]) -> Html:
    head = (el("th", c.title, scope="col", class_="n" if c.right else None) for c in table.columns)
    whole = el("table", el("thead", el("tr", *head)), el("tbody", *rows))
    return el("div", whole, class_="box", tabindex="0", role="region", aria_label=table.title or table.name)


def _row(columns: tuple[Column, ...], row: tuple[str, ...]) -> Html:
    """A row whose first cell begins with two blanks belongs to the one above it."""
    cells = zip(columns, row, strict=True)
    drawn = [_cell("td" if k else "th", c, x, "row" if k == 0 else None) for k, (c, x) in enumerate(cells)]
    return el("tr", *drawn)


def _cell(tag: str, column: Column, text: str, scope: str | None) -> Html:
    kind = "n" if column.right else _width(text)
    if scope and text.startswith("  "):
        kind = f"in {kind or ''}".strip()
    if scope and text.startswith(TICK):
        inside = join([el("span", TICK, class_="tick"), words(text.removeprefix(TICK))])
    elif column.kind == "warning" and ": " in text:
        what, why = text.split(": ", 1)
        inside = join([el("span", f"{what}: ", class_="warn"), words(why)])
    else:
        inside = words("–" if text == "-" else text)
    return el(tag, inside, scope=scope, class_=kind)


def _width(text: str) -> str | None:
    """Short text stays on a line, long text keeps a width that can be read where room is scarce."""
    if isinstance(text, Html):
        return None
    return "t" if len(text) > LONG_CELL else "s" if len(text) <= SHORT_CELL else None
