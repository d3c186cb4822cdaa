"""HTML as text that cannot be mistaken for user text: a plain str is escaped wherever it is put, `Html` is not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from planner.io.errors import escaped
from planner.io.formatting import counted
from planner.reports.table import TICK, Column, Format, Table

CELL_LIMIT = 1000
"""characters of a user's text that a page shows; the saved plan has all of it"""
FEW_COLUMNS = 4
"""of a table with bars, which a narrow screen shows with the bar below; wider ones scroll"""
SHORT_CELL, LONG_CELL = 27, 45
LONG_WORD = re.compile(r"\S{40}(?=\S)|[/@](?=\S{8})")
"""where a name may be broken: after 40 characters, or before a long part of a path"""


class Html(str):
    """Markup."""


def esc(text: str) -> Html:
    """Text made safe: what acts on a browser or reorders a line is spelled out. Markup stays as it is."""
    if isinstance(text, Html):
        return text
    short = text if len(text) <= CELL_LIMIT else text[: CELL_LIMIT - 1] + "…"
    return Html(escape(escaped(short)))


def join(parts: Iterable[str]) -> Html:
    return Html("".join(esc(part) for part in parts))


def el(name: str, *children: str, **attributes: str | None) -> Html:
    """An element; `class_` is its class, underscores of attributes become hyphens, None leaves one out."""
    attributes_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{esc(value)}"' for key, value in attributes.items() if value is not None
    )
    return Html(f"<{name}{attributes_text}>{join(children)}</{name}>")


def name(text: str) -> Html:
    """A user's name inside a sentence: its direction of writing does not spread."""
    return el("bdi", text)


def words(text: str) -> Html:
    """Text with places to break words that are too long for a cell."""
    if isinstance(text, Html):
        return text
    printable = escaped(text.strip()[:CELL_LIMIT])
    return Html("<wbr>".join(esc(part) for part in LONG_WORD.sub("\\g<0>\n", printable).split("\n")))


def pre(text: str) -> Html:
    """Text as it stands, line by line."""
    lines = Html("\n".join(escape(escaped(line)) for line in text.splitlines()))
    return el("pre", lines, tabindex="0")


def details(summary: str, *children: str, open_: bool = False) -> Html:
    return Html(f"<details{' open' * open_}>{el('summary', summary)}{join(children)}</details>")


def panel(id_: str, title: str, *children: str) -> Html:
    """A table with a title; nothing where there is nothing in it."""
    inside = [c for c in children if c]
    return el("div", el("h3", title), *inside, id=id_, class_="panel") if inside else Html("")


def and_more(all_of: int, shown: int, what: str = "") -> list[str]:
    """The remark below a list that was cut."""
    return [f"and {all_of - shown} more{what}, in the saved plan"] if all_of > shown else []


def notes(lines: Iterable[str]) -> Html:
    """Remarks below a table."""
    items = [el("li", line) for line in lines]
    return el("ul", *items, class_="notes") if items else Html("")


def figure(id_: str, title: str, *children: str, caption: str = "", wide: bool = False) -> Html:
    """A picture with a title that says what is to be seen."""
    head = el("figcaption", el("h3", title), el("p", caption) if caption else Html(""))
    return el("figure", head, *children, id=id_, class_="wide" if wide else None)


def legend(entries: Iterable[tuple[str, str]]) -> Html:
    """(class of the colour, name)"""
    items = [el("li", el("i", class_=f"key {kind}"), label) for kind, label in entries]
    return el("ul", *items, class_="legend", aria_hidden="true")


def bar(parts: Iterable[tuple[str, float, float]], text: str = "") -> Html:
    """Pieces of a bar: (class of the colour, where it begins, how long it is), as shares of its room."""
    pieces = [
        el("i", class_=kind, style=f"left:{100 * start:.2f}%;width:{100 * max(size, 0.0):.2f}%")
        for kind, start, size in parts
    ]
    return el("div", *pieces, class_="bar", title=text or None)


def bar_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    """A table with a bar in its second column."""
    lines = [
        el("tr", el("th", r[0], scope="row"), el("td", r[1], class_="w"), *(el("td", x, class_="n") for x in r[2:]))
        for r in rows
    ]
    names = [el("th", h, scope="col", class_="n" if k > 1 else None) for k, h in enumerate(head)]
    kind = "bars many" if len(head) > FEW_COLUMNS else "bars"
    whole = el("table", el("thead", el("tr", *names)), el("tbody", *lines), class_=kind)
    return el("div", whole, class_="box")


def table_html(table: Table, first: int = 30, most: int = 250, view: Format = "html") -> Html:
    """The table in a box that scrolls by itself, and its notes; a long one shows its first rows, and others on demand:
    `most` at most, and a remark on what is left out."""
    chosen = table.view(view)
    rows = [_row(chosen.columns, row) for row in chosen.shown()]
    if len(rows) <= first + 5:
        return join([_box(chosen, rows), notes(table.notes)])
    rest = rows[first:most]
    more = details(counted(len(rest), "more row"), _box(chosen, rest), notes(and_more(len(rows), most)))
    return join([_box(chosen, rows[:first]), more, notes(table.notes)])


def _box(table: Table, rows: Sequence[Html]) -> Html:
    head = (el("th", c.title, scope="col", class_="n" if c.right else None) for c in table.columns)
    whole = el("table", el("thead", el("tr", *head)), el("tbody", *rows))
    return el("div", whole, class_="box", tabindex="0", role="region", aria_label=table.title or table.name)


def _row(columns: Iterable[Column], row: tuple[str, ...]) -> Html:
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
