"""The commands that show a saved plan, in every format, and write its files."""

from __future__ import annotations

from pathlib import Path

import pytest

import planner
from planner.plan.plan import Plan
from planner.reports.markdown import plan_markdown
from planner.reports.tables.csv import plan_csv
from planner.reports.terminal import render
from tests.support.command_line import SMALL, Command


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
    assert fleetplan("report", "plan.json", "--format", "table").out == render(small)
    assert fleetplan("report", "plan.json", "--format", "json").out == small.to_json()
    assert fleetplan("report", "plan.json", "--format", "md").out == plan_markdown(small)
    assert fleetplan("report", "plan.json", "--format", "csv").out == plan_csv(small, "fleet")
    assert fleetplan("report", "plan.json", "--format", "csv", "--table", "options").out == plan_csv(small, "options")


@pytest.mark.parametrize("verb", [("report", "plan.json"), ("plan", "small.yaml")])
def test_files_are_written_beside_what_is_printed(verb: tuple[str, str], fleetplan: Command, small: Plan) -> None:
    ran = fleetplan(*verb, "--markdown", "plan.md", "--csv", "tables")
    assert ran.code == 0
    assert ran.err == "wrote plan.md\nwrote 13 tables into tables\n"
    assert Path("plan.md").read_text(encoding="utf-8") == plan_markdown(small)
    assert Path("tables/workloads.csv").read_text(encoding="utf-8") == plan_csv(small, "workloads")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("report", "plan.json", "--format", "csv", "--table", "optios"), "--table: there is no table 'optios'"),
        (("plan", "small.yaml", "--format", "csv", "--table", "optios"), "Did you mean 'options'?"),
        (("report", "plan.json", "--format", "csv", "--table", "waterfall"), "this plan has no table 'waterfall'"),
        (("report", "plan.json", "--csv", "small.yaml"), "small.yaml: is a file"),
        (("report", "plan.json", "--csv", "small.yaml/x"), "cannot be made"),
        (("report", "plan.json", "--markdown", "nowhere/plan.md"), "cannot be written"),
        (("report", "small.yaml"), "not a plan"),
        (("plan", "small.yaml", "--explain", "--format", "md"), "--explain: is text only"),
    ],
)
def test_bad_use_exits_with_2(arguments: tuple[str, ...], words: str, fleetplan: Command) -> None:
    ran = fleetplan(*arguments)
    assert ran.code == 2
    assert words in ran.err
