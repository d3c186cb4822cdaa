"""Documents and tables as a page: one HTML file, no network, no clock, the same data give the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import resources

from planner.reports.charts.svg import DRAWING
from planner.reports.document import (
    Card,
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
    Tone,
    as_sentence,
    capital,
    made,
)
from planner.reports.markup import Html, details, el, join, name, notes, panel, pre, table_html

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""the browser itself refuses whatever would leave the page"""
CLASSES: dict[Tone, str | None] = {
    "note": None, "prose": None, "remark": "remark", "warning": "remark warn", "small": "said", "notice": "notice",
    "alarm": "notice", "stop": "notice stop",
}  # fmt: skip


def as_page(document: Document) -> str:
    """The whole page: a heading with links to the sections, what comes first of all, the sections, and a foot."""
    first, loose, sections = list(_drawn(document.lead)), list[Html](), list[tuple[Section, list[Html]]]()
    for part in made(document.parts, "html"):
        if isinstance(part, Section):
            sections.append((part, [x for x in _drawn(part.parts) if x]))
        else:
            loose.append(_draw(part))
    shown = [(s, inside) for s, inside in sections if inside]
    links = el("nav", *(el("a", s.title, href=f"#{s.key}") for s, _ in shown), aria_label="sections")
    sub = document.headline or " · ".join(document.about)
    top = el("header", el("h1", name(document.title)), el("p", sub, class_="sub"), links, class_="top")
    bodies = (el("section", el("h2", s.title), *inside, id=s.key, class_="part") for s, inside in shown)
    foot = el("footer", document.foot) if document.foot else Html("")
    main = el("main", *first, *loose, *bodies)
    return page_of(document.tab or document.title, (top, main, foot), resource("script.js"))


def page_of(title: str, body: Iterable[Html], script: str, style: str = "") -> str:
    """A whole file: what it shows, and its only script."""
    inside = el("body", *body, Html(f"<script>{script}</script>"))
    return f"<!doctype html>\n{el('html', _head(title, style), inside, lang='en')}\n"


def as_fragment(parts: Parts) -> str:
    """Parts for a page of somebody else, such as a notebook, in its own style."""
    return str(el("div", *_drawn(parts, inside=True), class_="fleetplan"))


def _head(title: str, style: str) -> Html:
    return el(
        "head",
        Html('<meta charset="utf-8">'),
        Html('<meta name="viewport" content="width=device-width,initial-scale=1">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        el("title", title),
        Html(f"<style>{resource('style.css')}{DRAWING}{style}</style>"),
    )


def resource(file: str) -> str:
    """Style or script that lies in planner/reports/html."""
    return resources.files("planner.reports.html").joinpath(file).read_text(encoding="utf-8")


def _drawn(parts: Parts, inside: bool = False) -> Iterator[Html]:
    return (_draw(part, inside) for part in made(parts, "html"))


def _draw(part: Part, inside: bool = False) -> Html:
    """A part of a section, or inside of a box."""
    if isinstance(part, Lines):
        return _lines(part)
    if isinstance(part, Items):
        items = [el("li", el("b", name(about)), ": ", text) for about, text in part.items]
        return panel(
            part.key, part.title, *([el("ul", *items)] if items else [el("p", part.none)] if part.none else [])
        )
    if isinstance(part, TablePart):
        return _table(part, inside)
    if isinstance(part, Figures):
        drawn = [Html(draw()) for draw in part.draw]
        return join(drawn) if not part.beside else el("div", *drawn, class_="figures") if any(drawn) else Html("")
    if isinstance(part, Code):
        return join([pre(part.text), notes(part.notes)])
    if isinstance(part, Group):
        drawn_inside = _drawn(part.parts, inside or bool(part.title))
        return panel(part.key, capital(part.title), *drawn_inside) if part.title else join(drawn_inside)
    if isinstance(part, Fold):
        folded = details(marked(part.summary), *_drawn(part.parts, True), open_=part.open)
        return folded if inside else el("div", folded, id=part.key or None, class_="panel")
    if isinstance(part, Section):
        return join(_drawn(part.parts))
    assert isinstance(part, Hero)
    return _hero(part)


def _lines(part: Lines) -> Html:
    if part.tone == "note":
        listed = notes(map(marked, part.lines))
        return panel(part.key, capital(part.title), listed) if part.title else listed
    kind, role = CLASSES[part.tone], "note" if part.tone in ("notice", "alarm", "stop") else None
    said = [marked(as_sentence(line) if isinstance(line, str) else line) for line in part.lines]
    return join(el("p", line, class_=kind, role=role) for line in said)


def marked(sentence: Sentence) -> Html:
    """A sentence with its marks."""
    if isinstance(sentence, str):
        return join([sentence])
    tags = {"strong": "b", "good": "b", "bad": "b", "small": "span", "name": "bdi"}
    classes = {"good": "good", "bad": "bad", "small": "said"}
    return join(x if isinstance(x, str) else el(tags[x.kind], x.text, class_=classes.get(x.kind)) for x in sentence)


def _hero(part: Hero) -> Html:
    """The answer in large type with sentences about it, and what stands beside and below it."""
    large = el("div", part.big, el("small", part.per), class_="big")
    answer = el("div", large, *_drawn(part.parts, True), class_="answer")
    beside = join(_drawn(part.beside)) or el("dl", *map(_card, part.cards), class_="cards")
    columns = (el("div", answer, *_drawn(part.below), class_="column"), el("div", beside, class_="column"))
    return el("div", *columns, class_="hero")


def _card(card: Card) -> Html:
    value = el("dd", card.value, class_="v bad" if card.bad else "v")
    return el("div", el("dt", card.title), value, el("dd", card.detail, class_="s"), class_="card")


def _table(part: TablePart, inside: bool) -> Html:
    """A table with its title; nothing where it has no rows."""
    if not part.table.view("html").records:
        return Html("")
    shown = join([table_html(part.table, most=part.most), notes(part.remarks)])
    title = capital(part.title or part.table.title)
    return shown if inside else panel(part.key or part.table.name.replace("_", "-"), title, shown)
