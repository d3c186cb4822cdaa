"""Documents, tables and text in GitHub's Markdown, in which nothing that a user wrote is taken for markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

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
    Sentence,
    TablePart,
    as_sentence,
    capital,
    made,
)
from planner.reports.table import Table
from planner.reports.text import paragraphs

MOST_ROWS = 200
"""of a table that is folded away; GitHub cuts long comments off"""
SPECIAL = "\\`*_[]#|~$"
ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_LIST = re.compile(r"^(\d*)([-+=.)])")
_MENTION = re.compile(r"(?<!\w)([@#])(?=\w)")


def as_markdown(document: Document) -> str:
    """The document: long tables folded away, pictures left out."""
    head = [[f"# {markdown(document.title)}"]]
    head += [[f"**{markdown(document.headline)}**"]] if document.headline else []
    head += [[markdown(" · ".join(document.about))]] if document.about else []
    foot = [[markdown(document.foot)]] if document.foot else []
    return paragraphs([*head, *_blocks(document.lead), *_blocks(document.parts), *foot])


def _blocks(parts: Parts, titled: bool = False) -> Iterator[list[str]]:
    for part in made(parts, "markdown"):
        yield from _block(part, titled)


def _block(part: Part, titled: bool) -> Iterator[list[str]]:
    """The paragraphs of one part; a table below a title needs none of its own."""
    if isinstance(part, Lines):
        if part.title and part.lines:
            yield [f"## {markdown(capital(part.title))}"]
        yield from _lines(part)
    elif isinstance(part, Items):
        if part.items:
            yield [f"## {markdown(capital(part.title))}"]
            yield [f"- **{markdown(about)}**: {markdown(text)}" for about, text in part.items]
    elif isinstance(part, TablePart):
        yield from _table(part, titled)
    elif isinstance(part, Code):
        yield fenced(part.text)
        yield bullets(part.notes)
    elif isinstance(part, Section):
        yield from _blocks(part.parts)
    elif isinstance(part, Group):
        inside = list(_blocks(part.parts, titled or bool(part.title)))
        yield from [[f"## {markdown(capital(part.title))}"]] if part.title and inside else []
        yield from inside
    elif isinstance(part, Fold):
        yield [f"<details><summary>{_marked(part.summary)}</summary>"]
        yield from _blocks(part.parts, titled=True)
        yield ["</details>"]
    elif isinstance(part, Hero):
        yield [f"**{markdown(part.big + part.per)}**"]
        for parts in (part.parts, part.beside, part.below):
            yield from _blocks(parts)
    else:
        assert isinstance(part, Figures)


def _lines(part: Lines) -> Iterator[list[str]]:
    if part.tone == "note":
        yield [f"- {_marked(line)}" for line in part.lines]
    for line in part.lines if part.tone != "note" else ():
        said = _marked(as_sentence(line) if isinstance(line, str) else line)
        loud = f"> **{said}**"
        yield [{"notice": f"> {said}", "alarm": loud, "stop": loud, "warning": f"**{said}**"}.get(part.tone, said)]


def _marked(sentence: Sentence) -> str:
    """A sentence with its marks."""
    if isinstance(sentence, str):
        return markdown(sentence)
    strong = ("strong", "good", "bad")
    words = (
        inline(x) if isinstance(x, str) else f"**{inline(x.text.strip())}**" if x.kind in strong else inline(x.text)
        for x in sentence
        if x
    )
    return "".join(words)


def _table(part: TablePart, titled: bool) -> Iterator[list[str]]:
    view = part.table.view("markdown")
    if not view.records:
        return
    title = markdown(capital(part.title or part.table.title))
    if part.folded:
        yield [f"<details><summary>{title} ({len(view.records)})</summary>"]
        yield table_markdown(replace(view, records=view.records[:MOST_ROWS]))
        if len(view.records) > MOST_ROWS:
            yield [f"The first {MOST_ROWS} of {len(view.records)}; the CSV tables have all of them."]
        yield ["</details>"]
        return
    if not titled and "markdown" not in part.untitled:
        yield [f"## {title}"]
    yield table_markdown(view)


def table_markdown(table: Table) -> list[str]:
    """The table, and its notes as a list below it."""
    view = table.view("markdown")
    lines = [_row([inline(c.title) for c in view.columns])]
    lines.append(_row(["--:" if c.right else "---" for c in view.columns]))
    for row in view.shown():
        cells = zip(view.columns, row, strict=True)
        lines.append(_row([code(x) if c.kind == "code" and x != c.missing else inline(x) for c, x in cells]))
    return [*lines, *([""] if table.notes else []), *bullets(table.notes)]


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
