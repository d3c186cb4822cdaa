"""What a result says, described once: a title, what comes first, and parts.

A function per result builds its document; `as_text`, `as_markdown` and `as_page` show any of them. Text in it is plain:
whoever shows it makes it safe to show. A part names the formats that show it; parts that take work to make are made
where they are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from planner.reports.table import HTML, PEOPLE, Cell, Format, Table


@dataclass(frozen=True)
class Mark:
    """Words of a sentence that stand out: strong, good or bad news, small, or a name that a user gave."""

    text: str
    kind: Literal["strong", "good", "bad", "small", "name"] = "strong"


Sentence = str | tuple[str | Mark, ...]
Tone = Literal["note", "prose", "remark", "warning", "small", "notice", "alarm", "stop"]
"""of lines: notes of a list; sentences in full size, as remarks or in small print; what nobody may overlook; stops"""


@dataclass(frozen=True, kw_only=True)
class Part:
    key: str = ""
    """its id on a page"""
    formats: tuple[Format, ...] = PEOPLE
    """those that show it"""


Parts = Iterable[Part] | Callable[[], Iterable[Part]]


@dataclass(frozen=True)
class Lines(Part):
    lines: tuple[Sentence, ...]
    title: str = ""
    tone: Tone = "note"


@dataclass(frozen=True)
class Items(Part):
    """What is said about each of some things; a page may say that there are none."""

    title: str
    items: tuple[tuple[str, str], ...]
    none: str = ""


@dataclass(frozen=True)
class TablePart(Part):
    """A table; nothing where it has no rows."""

    table: Table
    title: str | None = None
    """in place of the table's own"""
    remarks: tuple[str, ...] = ()
    """of a page, below the notes of the table"""
    head: bool = True
    """whether text and Markdown show titles of columns"""
    folded: bool = False
    """in Markdown"""
    untitled: tuple[Format, ...] = ()
    """formats that show it without its title"""
    indent: int = 2
    """of text"""
    most: int = 250
    """rows of a page"""
    most_of_text: int | None = None
    """rows of text; None: all"""
    alarms: frozenset[int] = frozenset()
    """rows of text that are red where colours are shown"""


@dataclass(frozen=True)
class Figures(Part):
    """Pictures, drawn where they are shown: beside each other, or as they are."""

    draw: tuple[Callable[[], str], ...]
    beside: bool = True
    formats: tuple[Format, ...] = field(default=HTML, kw_only=True)


@dataclass(frozen=True)
class Code(Part):
    """What is to be pasted as it stands, and remarks on it."""

    text: str
    notes: tuple[str, ...] = ()
    indent: int = 4
    """of text"""


@dataclass(frozen=True)
class Group(Part):
    """Parts that stand together: with a title if it has one, and on a page in a box."""

    parts: Parts
    title: str = ""


@dataclass(frozen=True)
class Fold(Part):
    """Parts that a page and Markdown show on demand."""

    summary: Sentence
    parts: Parts
    open: bool = False


@dataclass(frozen=True)
class Section(Part):
    """Parts that follow each other; a page gives it a title and leads to it."""

    title: str
    parts: Parts


@dataclass(frozen=True)
class Card:
    title: str
    value: str
    detail: str
    bad: bool = False


@dataclass(frozen=True)
class Hero(Part):
    """The answer in large type, sentences about it, and what stands beside and below it."""

    big: str
    per: str
    parts: Parts
    cards: tuple[Card, ...] = ()
    beside: Parts = ()
    below: Parts = ()


@dataclass(frozen=True)
class Document:
    title: str
    """heading of a page and of Markdown"""
    about: tuple[str, ...] = ()
    """what is said beside the title"""
    headline: str = ""
    """the answer in a line, in place of that: the first line of text"""
    bare: bool = False
    """whether text has no first line of its own, as a list that commands may read"""
    lead: Parts = ()
    """what follows without a break"""
    parts: Parts = ()
    foot: str = ""
    tab: str = ""
    """title of a page for the browser; by default that of the document"""
    json: Callable[[], str] = lambda: "{}\n"
    """the result itself"""
    tables: Callable[[], Iterable[Table]] | None = None
    """for files, where they are not those of the parts"""
    facts: Callable[[], Iterable[tuple[str, Cell]]] = tuple
    """figures of the whole, for the first sheet of a workbook"""
    summary: Callable[[], Document] | None = None
    """one page of it to be signed; None: nothing of it is"""

    def all_tables(self) -> tuple[Table, ...]:
        """Each table once, for files."""
        if self.tables is not None:
            return tuple(self.tables())
        every = _flat((*made(self.lead), *made(self.parts)))
        return tuple({part.table.name: part.table for part in every if isinstance(part, TablePart)}.values())


def made(parts: Parts, format: Format | None = None) -> Iterator[Part]:
    """The parts, made now; those that a format shows."""
    every = parts() if callable(parts) else parts
    return (part for part in every if format is None or format in part.formats)


def _flat(parts: Iterable[Part]) -> Iterator[Part]:
    for part in parts:
        yield part
        if isinstance(part, Group | Fold | Section | Hero):
            yield from _flat(made(part.parts))


def plain(sentence: Sentence) -> str:
    """A sentence without its marks."""
    return sentence if isinstance(sentence, str) else "".join(x if isinstance(x, str) else x.text for x in sentence)


def as_sentence(text: str) -> str:
    """Text with a capital at its beginning and a full stop at its end."""
    return text[:1].upper() + text[1:].rstrip(".") + "."


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
