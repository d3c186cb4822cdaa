"""One table, four renderings: aligned as a terminal draws it, and nothing that a user wrote acts in any of them."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
from rich.cells import cell_len

from planner.plan.plan import Plan
from planner.reports.csv import table_csv
from planner.reports.document import Document, TablePart
from planner.reports.html import html_report
from planner.reports.markdown import as_markdown, table_markdown
from planner.reports.markup import table_html
from planner.reports.page import as_page
from planner.reports.table import DATA, PEOPLE, Column, Table
from planner.reports.tables.options import options, options_alike
from planner.reports.tables.plan import fleet, tables_of
from planner.reports.tables.pools import pools
from planner.reports.text import as_text, table_text
from tests.support.lever_plans import lever_plan
from tests.support.markdown_pages import cells
from tests.support.shown import plan_markdown, plan_text

HOSTILE = "<script>x</script>|=1 \x1b[31m"
NAMES = ("客服聊天", "한국어 요약", "plain", "日本語テキスト分類")
FLEET = Table(
    "fleet",
    "what is paid for",
    (Column("name", "name"), Column("gpu", "gpu", formats=DATA), Column("gpus", "gpus", formats=PEOPLE),
     Column("cost_usd_per_month", "$/month", "money"), Column("share_frac", "%", "percent")),
    (("chat", "l4", "2 x l4", 1234.5, 0.25), (HOSTILE, "h100", "8 x h100", None, 0.75)),
    ("a note on |",),
    people=(("chat", None, "2 x l4", 1234.5, 0.25), ("engineers", None, None, 10.0, None)),
)  # fmt: skip


def renamed(plan: Plan, new: str) -> Plan:
    name = plan.workloads[0].name
    return Plan.model_validate_json(plan.to_json().replace(f'"{name}"', f'"{new}"'))


def test_text_is_aligned_and_figures_are_flush_right() -> None:
    table = Table("t", "t", (Column("a", "a"), Column("b", "1", "count")), (("bb", 22),))
    assert table_text(table) == ["  a    1", "  bb  22"]
    assert table_text(table, indent="", head=False) == ["bb  22"]
    assert as_text(Document("t", parts=(TablePart(FLEET),))).splitlines()[2] == "  what is paid for"
    assert table_text(FLEET)[-1] == "  a note on |"


def test_wide_characters_take_two_columns_of_a_terminal() -> None:
    columns = (Column("name", "workload"), Column("cost", "$/month", "money"), Column("basis", "basis"))
    lines = table_text(Table("t", "t", columns, tuple((name, 10.0**k, "x") for k, name in enumerate(NAMES))))
    assert len({cell_len(line.rsplit(" ", 1)[0]) for line in lines}) == 1
    assert len({len(line) for line in lines}) > 1, "as many cells, though not as many characters"


def test_a_plan_with_a_wide_name_is_aligned() -> None:
    lines = table_text(pools(renamed(lever_plan("mixed"), NAMES[3])))
    head, first = lines[0], next(line for line in lines if NAMES[3] in line)
    assert cell_len(head.split("basis")[0]) == cell_len(first.rsplit(" ", 1)[0]) + 1


def test_each_format_shows_its_columns_and_rows() -> None:
    text, page = "\n".join(table_text(FLEET)), table_html(FLEET)
    (head, *rows), (first, *lines) = csv.reader(io.StringIO(table_csv(FLEET))), cells("\n".join(table_markdown(FLEET)))
    assert head == ["name", "gpu", "cost_usd_per_month", "share_frac"]
    assert rows[0] == ["chat", "l4", "1234.5", "0.25"]
    assert rows[1][1:] == ["h100", "", "0.75"]
    assert first == ["name", "gpus", "$/month", "%"]
    assert [row[0] for row in lines] == ["chat", "engineers"]
    for rendered in (text, page):
        assert "2 x l4" in rendered
        assert "engineers" in rendered
        assert "h100" not in rendered
    assert "h100" in table_html(FLEET, view="csv")


def test_what_is_missing_reads_as_such_and_nothing_is_negative_zero() -> None:
    assert Column("a", "a", missing="not possible").shown(None) == "not possible"
    assert (Column("a", "a").shown(""), Column("a", "a").shown(True)) == ("-", "✓")
    assert (Column("a", "a", "share").shown(0.0), Column("a", "a", "percent").shown(0.0)) == ("-", "0%")
    assert (Column("a", "a", "money").shown(-0.3), Column("a", "a", ".1%").shown(-0.2)) == ("0", "-20.0%")
    assert ">–<" in table_html(FLEET)


@pytest.mark.parametrize("kind", ["text", "code", "warning"])
def test_user_text_is_inert_in_every_rendering(kind: str) -> None:
    table = Table("t", HOSTILE, (Column("a", HOSTILE, kind),), ((HOSTILE,), (f"why: {HOSTILE}",)), (HOSTILE,))
    document = Document(HOSTILE, (HOSTILE,), HOSTILE, parts=(TablePart(table),), foot=HOSTILE)
    page = as_page(document) + table_html(table, first=0)
    lines = as_markdown(document)
    for rendered in (as_text(document), page, lines, table_csv(table)):
        assert "\x1b" not in rendered
    assert "<script>x" not in page + lines
    assert all(len(row) == 1 for row in cells("\n".join(table_markdown(replace(table, notes=())))))
    assert not any(line.startswith(("=", "+", "@")) for line in table_csv(table).splitlines())


def test_a_long_table_of_a_page_says_what_it_leaves_out() -> None:
    table = Table("t", "t", (Column("n", "n", "count"),), tuple((n,) for n in range(400)), ("a note",))
    page = table_html(table, first=10, most=100)
    assert page.count("<tr>") == 100 + 2
    assert "90 more rows" in page
    assert "and 300 more, in the saved plan" in page
    assert page.count("a note") == 1
    assert "<table" not in as_page(Document("t", parts=(TablePart(replace(table, records=())),)))


def test_the_fleet_is_one_table() -> None:
    """Text, Markdown and the page show the same figures; CSV has no rows but those of instances."""
    for name in ("together", "waiting"):
        plan = lever_plan(name)
        table = fleet(plan)
        shown = [[cell.strip() for cell in row] for row in table.view("text").shown()]
        written = [[x.strip() for x in row] for row in cells(plan_markdown(plan))]
        first = written.index(shown[0])
        assert written[first : first + len(shown)] == shown
        page = html_report(plan)
        (lines,) = (part for part in plan_text(plan).split("\n\n") if part.startswith("  fleet "))
        for row, line in zip(shown, lines.splitlines()[1:], strict=False):
            assert all(cell in line for cell in row)
            assert row[-2] in page
        assert len(table.view("csv").rows) == len(plan.fleet) < len(shown)


def test_no_column_is_shown_by_nothing() -> None:
    for name in ("together", "mixed", "waiting", "shedding"):
        for table in tables_of(lever_plan(name)):
            assert all(c.formats for c in table.columns), table.name
            assert all(len(row) == len(table.columns) for row in table.people_rows), table.name


def test_options_alike_are_told_once() -> None:
    plan = lever_plan("together")
    groups = list(options_alike(plan))
    assert sorted(name for names, _ in groups for name in names) == sorted(w.name for w in plan.workloads)
    for names, mine in groups:
        table = options(plan, mine, several=len(names) > 1)
        assert len(table.where(lambda row: bool(row["chosen"])).rows) == 1
        assert [row[0].startswith("✓") for row in table.view("text").shown()] == [o.chosen for o in mine]
