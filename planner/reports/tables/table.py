"""The one model of a table: columns that know their unit and the formats that show them, rows of plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from planner.io.formatting import percent, tokens

Cell = str | int | float | bool | None
Row = tuple[Cell, ...]
FIGURES = {
    "money": ",.0f", "price": ",.2f", "small price": ",.3f", "count": ",.0f", "number": ",.4g", "plain": "g",
}  # fmt: skip
"""kinds of figures, and how Python writes them"""
WORDS = ("text", "code", "warning")
"""kinds that are flush left"""
Format = Literal["text", "markdown", "html", "csv"]
EVERY: tuple[Format, ...] = ("text", "markdown", "html", "csv")
PEOPLE: tuple[Format, ...] = ("text", "markdown", "html")
SCREEN: tuple[Format, ...] = ("text", "html")
FILES: tuple[Format, ...] = ("markdown", "csv")
BEYOND_TEXT: tuple[Format, ...] = ("markdown", "html", "csv")
TEXT: tuple[Format, ...] = ("text",)
HTML: tuple[Format, ...] = ("html",)
DATA: tuple[Format, ...] = ("csv",)
TICK = "✓ "
"""begins the first cell of a row that was chosen"""
BLANK = " "
"""a cell that continues the one above it"""


@dataclass(frozen=True)
class Column:
    """`key` names the value and its unit, for machines; `title` says both to people."""

    key: str
    title: str
    kind: str = "text"
    """of words or figures as above, percent, share (where 0 is none), tokens, times, or a format of Python"""
    formats: tuple[Format, ...] = EVERY
    """those that show it"""
    missing: str = "-"
    """what people read where there is no value"""

    @property
    def right(self) -> bool:
        return self.kind not in WORDS

    def shown(self, value: Cell) -> str:
        """A value as people read it."""
        if value is None or value == "" or (self.kind == "share" and not value):
            return self.missing
        if isinstance(value, bool):
            return "✓" if value else BLANK
        if isinstance(value, str):
            return value
        text = self._figure(value)
        return text if any(c in "123456789" for c in text) else text.lstrip("+-")

    def _figure(self, value: float) -> str:
        if self.kind in ("percent", "share"):
            return percent(value)
        if self.kind == "tokens":
            return tokens(value)
        if self.kind == "times":
            return f"{value:.3g} x"
        return format(value, FIGURES.get(self.kind, self.kind))


@dataclass(frozen=True)
class Table:
    """Cells in the order of the columns, whatever the formats that show them."""

    name: str
    """one word, such as fleet: the name of its CSV file"""
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    """what a reader should know besides"""
    people_rows: tuple[Row, ...] | None = None
    """where people read other rows than machines: some more, or alike ones together"""

    def view(self, format: Format) -> Table:
        """The columns and rows that a format shows."""
        places = [k for k, c in enumerate(self.columns) if format in c.formats]
        rows = self.rows if format == "csv" or self.people_rows is None else self.people_rows
        kept = tuple(tuple(row[k] for k in places) for row in rows)
        return replace(self, columns=tuple(self.columns[k] for k in places), rows=kept, people_rows=None)

    def where(self, holds: Callable[[dict[str, Cell]], bool]) -> Table:
        """The rows for which something holds of their values by key."""
        keys = [c.key for c in self.columns]
        rows = (row for row in self.rows if holds(dict(zip(keys, row, strict=True))))
        return replace(self, rows=tuple(rows))

    def shown(self) -> list[tuple[str, ...]]:
        """The rows as people read them, without the head."""
        return [tuple(c.shown(value) for c, value in zip(self.columns, row, strict=True)) for row in self.rows]


def paragraphs(parts: Iterable[Iterable[str]]) -> str:
    """Parts of a report, each of some lines, with a blank line between them; empty ones are left out."""
    return "\n\n".join("\n".join(lines) for part in parts if (lines := list(part))) + "\n"
