"""Tables and text of GitHub's Markdown, in which nothing that a user wrote is taken for markup."""

from __future__ import annotations

import re
from collections.abc import Iterable

from planner.io.errors import escaped
from planner.reports.tables.table import Table

SPECIAL = "\\`*_[]#|~$"
ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_LIST = re.compile(r"^(\d*)([-+=.)])")
_MENTION = re.compile(r"(?<!\w)([@#])(?=\w)")


def table_markdown(table: Table) -> list[str]:
    """The table, and its notes as a list below it."""
    view = table.view("markdown")
    lines = [_row([inline(c.title) for c in view.columns])]
    lines.append(_row(["--:" if c.right else "---" for c in view.columns]))
    for row in view.shown():
        cells = zip(view.columns, row, strict=True)
        lines.append(_row([code(x) if c.kind == "code" and x != c.missing else inline(x) for c, x in cells]))
    return [*lines, *([""] if table.notes else []), *bullets(table.notes)]


def titled_markdown(table: Table) -> list[str]:
    return [f"## {markdown(table.title[:1].upper() + table.title[1:])}", "", *table_markdown(table)]


def bullets(lines: Iterable[str]) -> list[str]:
    return [f"- {markdown(line)}" for line in lines]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


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


def fenced(text: str) -> list[str]:
    """Lines of a shell, behind a fence that nothing in them can close."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}sh", *(escaped(line) for line in text.split("\n")), fence]


def _as_it_is(text: str) -> str:
    return "".join(ENTITIES.get(c) or (f"\\{c}" if c in SPECIAL else c) for c in text)
