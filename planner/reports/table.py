"""A table as data: columns that know their unit, rows of plain values. Every format of a report is made from these."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from planner.io.errors import escaped
from planner.io.formatting import percent, tokens
from planner.reports.text import columns as aligned

Cell = str | int | float | bool | None
Form = Literal["text", "money", "price", "small price", "percent", "count", "number", "tokens", "code"]
NUMBERS = ("money", "price", "small price", "percent", "count", "number", "tokens")


@dataclass(frozen=True)
class Column:
    """`key` names the value and its unit, for machines; `title` says both to people."""

    key: str
    title: str
    form: Form = "text"

    @property
    def right(self) -> bool:
        return self.form in NUMBERS

    def shown(self, value: Cell) -> str:
        """A value as people read it; nothing for what is not there."""
        if value is None or value == "":
            return "-"
        if isinstance(value, bool):
            return "✓" if value else " "
        if isinstance(value, str):
            return value
        if self.form == "percent":
            return percent(value)
        if self.form == "tokens":
            return tokens(value)
        digits = {"money": 0, "price": 2, "small price": 3, "count": 0}.get(self.form)
        return f"{value:,.4g}" if digits is None else f"{value:,.{digits}f}"


@dataclass(frozen=True)
class Table:
    name: str
    """one word, such as fleet: the name of its CSV file"""
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def only(self, *keys: str) -> Table:
        """The same rows with some of the columns, in this order."""
        places = [next(k for k, c in enumerate(self.columns) if c.key == key) for key in keys]
        rows = tuple(tuple(row[k] for k in places) for row in self.rows)
        return Table(self.name, self.title, tuple(self.columns[k] for k in places), rows)

    def shown(self) -> list[tuple[str, ...]]:
        """The rows as people read them, without the head."""
        return [tuple(c.shown(value) for c, value in zip(self.columns, row, strict=True)) for row in self.rows]


def table_text(table: Table) -> list[str]:
    """For a terminal."""
    head = tuple(c.title for c in table.columns)
    right = "".join(chr(ord("a") + k) for k, c in enumerate(table.columns) if c.right)
    return aligned([head, *table.shown()], right=right)


def table_markdown(table: Table) -> list[str]:
    """A table of GitHub's Markdown, in which nothing of a cell is taken for markup."""
    lines = [_row([inline(c.title) for c in table.columns])]
    lines.append(_row(["--:" if c.right else "---" for c in table.columns]))
    for row in table.shown():
        cells = [
            code(cell) if c.form == "code" and cell != "-" else inline(cell)
            for c, cell in zip(table.columns, row, strict=True)
        ]
        lines.append(_row(cells))
    return lines


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


SPECIAL = "\\`*_[]#|~$"
ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_LIST = re.compile(r"^(\d*)([-+=.)])")
_MENTION = re.compile(r"(?<!\w)([@#])(?=\w)")


def markdown(text: str) -> str:
    """Text that Markdown shows as it is, on one line, where a line may begin with it as well."""
    return _LIST.sub(r"\1\\\2", inline(text))


def inline(text: str) -> str:
    """Text inside a line that Markdown shows as it is: no markup, HTML or links, and nobody is mentioned."""
    safe = escaped(text).replace("://", ":\u200b//").replace("www.", "www\u200b.")
    return _as_it_is(_MENTION.sub("\\1\u200b", safe))


def code(text: str) -> str:
    """Text as code inside a line; backticks would do, but for pipes, which end a cell of a table even there."""
    return f"<code>{_as_it_is(escaped(text))}</code>"


def fenced(text: str, language: str = "sh") -> list[str]:
    """Lines as code, behind a fence that nothing in them can close."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *(escaped(line) for line in text.split("\n")), fence]


def _as_it_is(text: str) -> str:
    return "".join(ENTITIES.get(c) or (f"\\{c}" if c in SPECIAL else c) for c in text)
