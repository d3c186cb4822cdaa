"""Markdown as a browser would get it, through a parser that lets HTML through, so that what is not inert is seen."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

from markdown_it import MarkdownIt

OURS = {
    *("p", "h1", "h2", "strong", "ul", "li", "details", "summary", "code", "pre", "blockquote"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}


class _Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def html_of(page: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough").render(page)


def only_our_tags(page: str) -> bool:
    """Nothing but what reports write themselves, and no attribute that acts."""
    seen = _Seen()
    seen.feed(html_of(page))
    assert seen.tags <= OURS, seen.tags - OURS
    assert seen.attributes <= {"style", "class"}, seen.attributes
    return True


def cells(page: str) -> list[list[str]]:
    """The texts of every row of every table; text that Markdown made invisible to links is as it was."""
    rows = re.findall(r"<tr>(.*?)</tr>", html_of(page), re.DOTALL)
    found = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[unescape(re.sub(r"</?code>", "", cell)).replace("\u200b", "") for cell in row] for row in found]
