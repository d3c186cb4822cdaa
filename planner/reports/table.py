"""The one model of a table: columns that know their unit, the formats that show them, and how to get their cell from a
record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from planner.catalog.terms import in_words
from planner.io.formatting import percent, tokens

Cell = str | int | float | bool | None
Row = tuple[Cell, ...]
FIGURES = {
    "money": ",.0f", "price": ",.2f", "small price": ",.3f", "count": ",.0f", "number": ",.4g", "plain": "g",
}  # fmt: skip
"""kinds of figures, and how Python writes them"""
WORDS = ("text", "code", "warning", "way to buy")
"""kinds that are flush left; ways to buy are in words where people read them"""
Format = Literal["text", "markdown", "html", "csv"]
EVERY: tuple[Format, ...] = ("text", "markdown", "html", "csv")
PEOPLE: tuple[Format, ...] = ("text", "markdown", "html")
SCREEN: tuple[Format, ...] = ("text", "html")
FILES: tuple[Format, ...] = ("markdown", "csv")
BEYOND_TEXT: tuple[Format, ...] = ("markdown", "html", "csv")
RICH: tuple[Format, ...] = ("markdown", "html")
PLAIN: tuple[Format, ...] = ("text", "markdown")
TEXT: tuple[Format, ...] = ("text",)
MARKDOWN: tuple[Format, ...] = ("markdown",)
HTML: tuple[Format, ...] = ("html",)
DATA: tuple[Format, ...] = ("csv",)
TICK = "✓ "
"""begins the first cell of a row that was chosen"""
BLANK = " "
"""a cell that continues the one above it"""


class Cells(dict[str, Cell]):
    """A row that is no record: cells by the keys of their columns, nothing where one is missing."""


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
    get: Callable[[Any], Cell] | None = None
    """the cell of a record; by default its attribute or item of the name of the key"""

    @property
    def right(self) -> bool:
        return self.kind not in WORDS

    def of(self, record: Any) -> Cell:
        """The cell of a record."""
        if isinstance(record, Cells) or (self.get is None and isinstance(record, Mapping)):
            value: Cell = record.get(self.key)
            return value
        return self.get(record) if self.get is not None else getattr(record, self.key)

    def shown(self, value: Cell) -> str:
        """A value as people read it."""
        if value is None or value == "" or (self.kind == "share" and not value):
            return self.missing
        if isinstance(value, bool):
            return "✓" if value else BLANK
        if isinstance(value, str):
            return in_words(value) if self.kind == "way to buy" else value
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
    """Records, and the columns that show them."""

    name: str
    """one word, such as fleet: the name of its CSV file"""
    title: str
    columns: tuple[Column, ...]
    records: tuple[Any, ...]
    """what the rows are about; a tuple is a row itself, with its cells in the order of the columns"""
    notes: tuple[str, ...] = ()
    """what a reader should know besides"""
    people: tuple[Any, ...] | None = None
    """where people read other rows than machines: some more, or alike ones together"""

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """All cells, in the order of the columns."""
        return self._cells(self.columns, self.records)

    @property
    def people_rows(self) -> tuple[Row, ...]:
        """All cells, as people read them."""
        return self._cells(self.columns, self.records if self.people is None else self.people)

    def view(self, format: Format) -> Table:
        """The columns and rows that a format shows, cell by cell."""
        shown = [k for k, c in enumerate(self.columns) if format in c.formats]
        columns = tuple(self.columns[k] for k in shown)
        records = self.records if format == "csv" or self.people is None else self.people
        rows = tuple(
            tuple(r[k] for k in shown) if isinstance(r, tuple) else tuple(c.of(r) for c in columns) for r in records
        )
        return replace(self, columns=columns, records=rows, people=None)

    def where(self, holds: Callable[[dict[str, Cell]], bool]) -> Table:
        """The records for which something holds of their cells by key."""
        keys = [c.key for c in self.columns]
        pairs = zip(self.records, self.rows, strict=True)
        return replace(self, records=tuple(x for x, row in pairs if holds(dict(zip(keys, row, strict=True)))))

    def shown(self) -> list[tuple[str, ...]]:
        """The rows as people read them, without the head."""
        return [tuple(c.shown(value) for c, value in zip(self.columns, row, strict=True)) for row in self.rows]

    @staticmethod
    def _cells(columns: tuple[Column, ...], records: Iterable[Any]) -> tuple[Row, ...]:
        return tuple(r if isinstance(r, tuple) else tuple(c.of(r) for c in columns) for r in records)


def two_columns(name: str, title: str, rows: Iterable[tuple[str, Cell]], notes: Iterable[str] = ()) -> Table:
    """What is said of each of some things."""
    return Table(name, title, (Column("what", "what"), Column("said", "said")), tuple(rows), tuple(notes))
