"""Any document, in any format: each part is shown by the formats that it names, and nothing in it acts."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

import planner
from planner.reports.catalog import catalog_document
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
    Mark,
    Part,
    Section,
    TablePart,
)
from planner.reports.markdown import as_markdown
from planner.reports.page import as_page
from planner.reports.table import DATA, HTML, MARKDOWN, TEXT, Cells, Column, Format, Table
from planner.reports.text import as_text
from planner.reports.validation import validation_document
from planner.reports.xlsx import as_workbook
from tests.support.command_line import SMALL
from tests.support.markdown_pages import only_our_tags
from tests.support.shown import csv_of, in_every_format

HOSTILE = "<img src=x onerror=alert(1)> | \x1b[31m"
COLUMNS = (
    Column("name", "name"),
    Column("hours", "hours", "count", get=lambda r: r.days * 24),
    Column("secret", "secret", formats=DATA, missing="none", get=lambda r: None),
)
TABLE = Table("uses", "what is used", COLUMNS, (SimpleNamespace(name="one", days=2), Cells(name="all", hours=7)))


def every_part(word: str) -> tuple[Part, ...]:
    return (
        Lines((f"a line of {word}",)),
        Lines((f"a remark on {word}",), "what to know"),
        Items("decisions", ((word, "decide it"),)),
        TablePart(TABLE),
        Code(f"run {word}", ("a note on it",)),
        Group((TablePart(TABLE, key="again"),), "together"),
        Fold(("more of ", Mark(word, "name")), (Lines(("inside",)),)),
        Hero("$5", " / month", (Lines((f"it is {word}",), tone="prose"),), (Card("card", "7", word),)),
        Figures((lambda: "<svg></svg>",)),
    )


def document(word: str = "chat") -> Document:
    return Document(
        word,
        about=("3 rows", "proved"),
        lead=(Lines((f"stop: {word}",), tone="alarm"),),
        parts=(Section("All of it", lambda: every_part(word), key="all"),),
        foot="the end",
    )


def test_every_format_shows_every_part() -> None:
    for shown in in_every_format(document()):
        for said in ("chat", "3 rows", "proved", "a line of chat", "a remark on chat", "decide it", "run chat", "$5",
                     "a note on it", "inside", "48", "top: chat"):  # fmt: skip
            assert said in shown.replace("\\", "")
        assert "secret" not in shown
    text, markdown, page = in_every_format(document())
    assert "<svg" in page and "<svg" not in text + markdown
    assert 'href="#all"' in page and 'id="all"' in page


@pytest.mark.parametrize("format", [("text", TEXT), ("markdown", MARKDOWN), ("html", HTML)])
def test_a_part_is_made_only_where_it_is_shown(format: tuple[Format, tuple[Format, ...]]) -> None:
    made: list[str] = []

    def parts() -> Iterator[Part]:
        made.append("now")
        yield Lines(("here it is",))

    name, formats = format
    document = Document("t", parts=(Section("s", parts, key="s", formats=formats),))
    shown = {"text": as_text, "markdown": as_markdown, "html": as_page}
    for other, show in shown.items():
        assert ("here it is" in show(document).lower()) == (other == name)
    assert made == ["now"]


def test_an_alarm_is_red_where_colours_are_shown_and_only_there() -> None:
    assert "\x1b[31m  stop: chat\x1b[0m" in as_text(document(), color=True)
    assert "\x1b" not in as_text(document())
    assert "> **Stop: chat.**" in as_markdown(document())
    assert '<p class="notice" role="note">Stop: chat.</p>' in as_page(document())


def test_how_long_it_took_is_said_in_a_terminal() -> None:
    assert as_text(document(), seconds=1.23).splitlines()[0] == "chat   3 rows   proved in 1.2 s"
    assert as_text(Document("t", headline="the answer")).splitlines() == ["the answer"]
    assert as_text(Document("t", bare=True, parts=(Lines(("first",)),))) == "  first\n"


def test_nothing_that_a_user_wrote_acts() -> None:
    text, markdown, page = in_every_format(document(HOSTILE))
    assert "\x1b" not in text + markdown + page
    assert "<img" not in page
    assert only_our_tags(markdown)


def test_a_cell_comes_from_its_record() -> None:
    assert TABLE.rows == (("one", 48, None), ("all", 7, None))
    assert TABLE.view("text").rows == (("one", 48), ("all", 7))
    assert csv_of(document(), "uses") == "name,hours,secret\none,48,\nall,7,\n"
    assert [row[0] for row in TABLE.where(lambda cells: cells["hours"] == 7).rows] == ["all"]


def test_files_take_the_tables_of_the_document() -> None:
    pytest.importorskip("openpyxl")
    table = Table("one", "one", (Column("a", "a"),), (("x",),), ("a note",))
    small = Document("t", parts=(Group((TablePart(table),)),), facts=lambda: (("plan", "t"),))
    assert [t.name for t in small.all_tables()] == ["one"]
    assert as_workbook(small) == as_workbook(small)


def test_results_that_were_text_only_have_a_page_and_markdown() -> None:
    for described in (
        catalog_document(None, None, "180d", "2026-11-15"),
        catalog_document("gpus", "h100", "180d", "2026-11-15"),
        validation_document(planner.case_from_text(SMALL)),
    ):
        text, markdown, page = in_every_format(described)
        assert text.strip() and only_our_tags(markdown) and page.startswith("<!doctype html>")
