"""The commands that show a saved plan, in every format, and write its files."""

from __future__ import annotations

from pathlib import Path

import pytest

import planner
from planner.plan.plan import Plan
from planner.reports.plan import plan_document
from planner.reports.tables.plan import tables_of
from planner.reports.xlsx import as_workbook
from tests.support.command_line import SMALL, Command
from tests.support.rows import for_each
from tests.support.shown import first_screen, plan_csv, plan_markdown


@pytest.fixture(scope="module")
def small() -> Plan:
    return planner.plan_fleet(planner.case_from_text(SMALL))


@pytest.fixture
def fleetplan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, small: Plan
) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("planner.pipeline.plan_fleet", lambda *_: small)
    Path("plan.json").write_text(small.to_json(), encoding="utf-8")
    Path("small.yaml").write_text(SMALL, encoding="utf-8")
    return Command(monkeypatch, capsys)


def test_report_shows_a_saved_plan_in_every_format(fleetplan: Command, small: Plan) -> None:
    assert fleetplan("report", "plan.json", "--format", "table").out == first_screen(small)
    assert fleetplan("report", "plan.json", "--format", "json").out == small.to_json()
    assert fleetplan("report", "plan.json", "--format", "md").out == plan_markdown(small)
    assert fleetplan("report", "plan.json", "--format", "csv").out == plan_csv(small, "fleet")
    assert fleetplan("report", "plan.json", "--format", "csv", "--table", "options").out == plan_csv(small, "options")


@pytest.mark.parametrize("verb", [("report", "plan.json"), ("plan", "small.yaml")])
def test_files_are_written_beside_what_is_printed(verb: tuple[str, str], fleetplan: Command, small: Plan) -> None:
    ran = fleetplan(*verb, "--markdown", "plan.md", "--csv", "tables")
    assert ran.code == 0
    assert ran.err == "wrote plan.md\nwrote 21 tables into tables\n"
    assert Path("plan.md").read_text(encoding="utf-8") == plan_markdown(small)
    assert Path("tables/workloads.csv").read_text(encoding="utf-8") == plan_csv(small, "workloads")


@pytest.mark.parametrize("verb", [("report", "plan.json"), ("plan", "small.yaml")])
def test_a_workbook_has_every_table_and_no_formula(verb: tuple[str, str], fleetplan: Command, small: Plan) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    assert fleetplan(*verb, "--xlsx", "plan.xlsx").err == "wrote plan.xlsx\n"
    written = Path("plan.xlsx").read_bytes()
    book = openpyxl.load_workbook("plan.xlsx")
    tables = tables_of(small)
    assert book.sheetnames == ["about", *(table.name for table in tables)]
    for table in tables:
        view = table.view("csv")
        found = [tuple(row) for row in book[table.name].iter_rows(values_only=True)]
        assert found[0] == tuple(c.key for c in view.columns)
        for told, row in zip(view.rows, found[1:], strict=True):
            for value, cell in zip(told, row, strict=True):
                assert cell == (pytest.approx(value) if isinstance(value, float) else None if value == "" else value)
    assert as_workbook(plan_document(small)) == written, "the same plan gives the same bytes"


def test_names_are_text_in_a_workbook(tmp_path: Path, small: Plan) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    (tmp_path / "h.xlsx").write_bytes(as_workbook(plan_document(small.model_copy(update={"name": "=1+1"}))))
    book = openpyxl.load_workbook(tmp_path / "h.xlsx")
    assert book["about"]["B2"].value == "=1+1"
    cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row]
    assert book["about"]["B2"].data_type == "s"
    assert {cell.data_type for cell in cells} <= {"s", "n", "b", "inlineStr"}


def test_without_openpyxl_a_sentence_says_what_to_install(fleetplan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.reports.xlsx.find_spec", lambda name: None)
    ran = fleetplan("plan", "small.yaml", "--xlsx", "plan.xlsx")
    assert (ran.code, ran.err) == (2, "--xlsx: needs openpyxl, which is not installed. Install fleetplan[xlsx].\n")
    assert not Path("plan.xlsx").exists()


@for_each(
    ("arguments", "words"),
    [
        (("report", "plan.json", "--format", "csv", "--table", "optios"), "--table: there is no table 'optios'"),
        (("plan", "small.yaml", "--format", "csv", "--table", "optios"), "Did you mean 'options'?"),
        (("report", "plan.json", "--format", "csv", "--table", "waterfall"), "this plan has no table 'waterfall'"),
        (("report", "plan.json", "--csv", "small.yaml"), "small.yaml: is a file"),
        (("report", "plan.json", "--csv", "small.yaml/x"), "cannot be created"),
        (("report", "plan.json", "--markdown", "nowhere/plan.md"), "cannot be written"),
        (("report", "small.yaml"), "not a plan"),
        (("plan", "small.yaml", "--explain", "--format", "md"), "--explain: works with text output only"),
    ],
)
def test_bad_use_exits_with_2(arguments: tuple[str, ...], words: str, fleetplan: Command) -> None:
    ran = fleetplan(*arguments)
    assert ran.code == 2
    assert words in ran.err


@for_each("verb", [("plan", "small.yaml"), ("verify", "plan.json")])
@for_each(("name", "option"), [("x.html", "--html"), ("x.md", "--markdown"), ("x.xlsx", "--xlsx")])
def test_json_is_not_written_under_the_ending_of_another_format(
    verb: tuple[str, str], name: str, option: str, fleetplan: Command
) -> None:
    ran = fleetplan(*verb, "--out", name)
    assert ran.code == 2
    assert f"Write {option} {name}" in ran.err
    assert not Path(name).exists()
