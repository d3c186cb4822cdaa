"""Documents and tables for a terminal. All user text is made safe to print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from textwrap import wrap

from rich.cells import cell_len

from planner.io.errors import escaped
from planner.reports.document import (
    Code,
    Document,
    Figures,
    Fold,
    Group,
    Hero,
    Items,
    Lines,
    Part,
    Parts,
    Section,
    TablePart,
    made,
    plain,
)
from planner.reports.table import Table

LINE_COLUMNS = 112
BARS = "▁▂▃▄▅▆▇█"


def as_text(document: Document, color: bool = False, seconds: float | None = None) -> str:
    """The document, a blank line between its parts; `seconds` is how long it took to make, where that is known."""
    first = document.headline or "   ".join((document.title, *document.about))
    first += f" in {seconds:.1f} s" if seconds is not None else ""
    lead = [line for part in made(document.lead, "text") for line in _lines(part, color)]
    head = [] if document.bare else [escaped(first)]
    return paragraphs([[*head, *lead], *_blocks(document.parts, color)])


def _blocks(parts: Parts, color: bool) -> Iterator[list[str]]:
    for part in made(parts, "text"):
        if isinstance(part, Section):
            yield from _blocks(part.parts, color)
        else:
            yield list(_lines(part, color))


def _lines(part: Part, color: bool, titled: bool = False) -> Iterator[str]:
    """The lines of one part, without a break; a table below a title needs none of its own."""
    if isinstance(part, Lines):
        lines = map(plain, part.lines)
        said = _wrapped(lines) if part.tone in ("remark", "warning", "stop") else lines
        yield from _titled(part.title, said, color and part.tone in ("alarm", "stop"))
    elif isinstance(part, Items):
        yield from _titled(part.title, (f"{about}: {text}" for about, text in part.items))
    elif isinstance(part, TablePart):
        yield from _table(part, color, titled)
    elif isinstance(part, Code):
        yield from (
            f"{' ' * part.indent}{escaped(line)}"
            for line in (*part.text.split("\n"), *(f"({note})" for note in part.notes))
        )
    elif isinstance(part, Fold):
        yield f"  {escaped(plain(part.summary))}"
        yield from (f"  {line}" for x in made(part.parts, "text") for line in _lines(x, color))
    elif isinstance(part, Group | Section):
        title = part.title if isinstance(part, Group) else ""
        inside = [line for x in made(part.parts, "text") for line in _lines(x, color, titled or bool(title))]
        yield from [f"  {escaped(title)}"] if title and inside else []
        yield from inside
    elif isinstance(part, Hero):
        yield f"  {escaped(part.big)}{escaped(part.per)}"
        yield from (f"  {escaped(card.title)}: {escaped(card.value)} ({escaped(card.detail)})" for card in part.cards)
        for parts in (part.parts, part.beside, part.below):
            yield from (line for x in made(parts, "text") for line in _lines(x, color))
    else:
        assert isinstance(part, Figures)


def _wrapped(sentences: Iterable[str]) -> Iterator[str]:
    """Sentences on lines that a terminal shows whole."""
    for sentence in sentences:
        yield from wrap(escaped(sentence), LINE_COLUMNS, subsequent_indent="  ", break_on_hyphens=False)


def _titled(title: str, lines: Iterable[str], alarm: bool = False) -> Iterator[str]:
    """Lines, those with a title indented below it; nothing where there are none."""
    shown = [f"{'    ' if title else '  '}{escaped(line)}" for line in lines]
    if title and shown:
        yield f"  {escaped(title)}"
    yield from map(red, shown) if alarm else shown


def _table(part: TablePart, color: bool, titled: bool) -> Iterator[str]:
    """The table below its title, unless its first column is called the same."""
    if not part.table.view("text").records:
        return
    title = part.title or part.table.title
    if not titled and "text" not in part.untitled and title.lower() != part.table.columns[0].title:
        yield f"  {escaped(title)}"
    lines = table_text(_shortened(part.table, part.most_of_text), " " * part.indent, part.head)
    if color:
        lines = [red(line) if k - part.head in part.alarms else line for k, line in enumerate(lines)]
    yield from lines


def _shortened(table: Table, most: int | None) -> Table:
    """The first rows, and a note of how many are missing."""
    view = table.view("text")
    if most is None or len(view.records) <= most + 1:
        return view
    more = f"... and {len(view.records) - most} more (--verbose)"
    return replace(view, records=view.records[:most], notes=(more, *view.notes[:1]))


def paragraphs(parts: Iterable[Iterable[str]]) -> str:
    """Parts, each of some lines, with a blank line between them; empty ones are left out."""
    return "\n\n".join("\n".join(lines) for part in parts if (lines := list(part))) + "\n"


def table_text(table: Table, indent: str = "  ", head: bool = True) -> list[str]:
    """Aligned columns, as wide as a terminal draws them, and the notes."""
    view = table.view("text")
    titles = [tuple(c.title for c in view.columns)] if head else []
    rows = [[escaped(cell) for cell in row] for row in (*titles, *view.shown())]
    widths = [max(cell_len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = []
        for column, cell, width in zip(view.columns, row, widths, strict=True):
            room = " " * (width - cell_len(cell))
            cells.append(room + cell if column.right else cell + room)
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines + [f"{indent}{escaped(note)}" for note in table.notes]


def sparkline(values: Sequence[float], top: float | None = None) -> str:
    """Bars up to the largest value, or to `top` where several lines share a scale."""
    top = max(values, default=0.0) if top is None else top
    if top <= 0:
        return BARS[0] * len(values)
    return "".join(BARS[min(len(BARS) - 1, int(len(BARS) * v / top * 0.999))] for v in values)


def red(text: str) -> str:
    """For a terminal that shows colours."""
    return f"\x1b[31m{text}\x1b[0m"
