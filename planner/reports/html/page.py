"""The skeleton of every page: one HTML file, no network, no clock, the same data give the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import resources

from planner.reports.charts.svg import DRAWING
from planner.reports.markup import Html, el

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""the browser itself refuses whatever would leave the page"""
Section = tuple[str, str, Sequence[Html]]
"""its id, its title, and what is in it"""


def page(
    title: str, heading: str, sub: str, sections: Iterable[Section], first: Iterable[Html] = (), foot: str = ""
) -> str:
    """A heading with links to the sections, what comes first of all, the sections that are not empty, and a foot."""
    shown = [(key, label, parts) for key, label, children in sections if (parts := [c for c in children if c])]
    links = el("nav", *(el("a", label, href=f"#{key}") for key, label, _ in shown), aria_label="sections")
    top = el("header", el("h1", heading), el("p", sub, class_="sub"), links, class_="top")
    bodies = (el("section", el("h2", label), *parts, id=key, class_="part") for key, label, parts in shown)
    script = Html(f"<script>{_resource('script.js')}</script>")
    body = el("body", top, el("main", *first, *bodies), el("footer", foot) if foot else Html(""), script)
    return f"<!doctype html>\n{el('html', _head(title), body, lang='en')}\n"


def _head(title: str) -> Html:
    return el(
        "head",
        Html('<meta charset="utf-8">'),
        Html('<meta name="viewport" content="width=device-width,initial-scale=1">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        el("title", title),
        Html(f"<style>{_resource('style.css')}{DRAWING}</style>"),
    )


def _resource(name: str) -> str:
    return resources.files("planner.reports.html").joinpath(name).read_text(encoding="utf-8")


def figures(*drawn: Html) -> Html:
    return el("div", *drawn, class_="figures") if any(drawn) else Html("")


def hero(big: str, per: str, lines: Iterable[Html], beside: Html, below: str = "") -> Html:
    """The answer in large type with sentences about it, and what stands beside and below it."""
    answer = el("div", el("div", big, el("small", per), class_="big"), *lines, class_="answer")
    return el("div", el("div", answer, below, class_="column"), el("div", beside, class_="column"), class_="hero")


def cards(several: Iterable[Html]) -> Html:
    return el("dl", *several, class_="cards")


def card(title: str, value: str, detail: str, kind: str | None = None) -> Html:
    value_class = f"v {kind or ''}".strip()
    return el("div", el("dt", title), el("dd", value, class_=value_class), el("dd", detail, class_="s"), class_="card")
