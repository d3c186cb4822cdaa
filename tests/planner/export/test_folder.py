"""The command: a folder is written whole, refused where it is somebody else's, and replaced where it is ours."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

import planner
from planner.export.folder import LIST
from planner.plan.plan import Plan
from tests.planner.export.test_targets import plan_of
from tests.support.command_line import SMALL, Command
from tests.support.rows import for_each


@cache
def small() -> Plan:
    return planner.plan_fleet(planner.case_from_text(SMALL))


@pytest.fixture
def fleetplan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    Path("plan.json").write_text(small().to_json(), encoding="utf-8")
    Path("other.json").write_text(plan_of("mixed").to_json(), encoding="utf-8")
    return Command(monkeypatch, capsys)


def files(folder: str) -> set[str]:
    return {str(p.relative_to(folder)) for p in Path(folder).rglob("*") if p.is_file()}


def test_a_folder_is_made_and_the_note_says_where_to_start(fleetplan: Command) -> None:
    ran = fleetplan("export", "plan.json", "--to", "kubernetes", "--out", "a/b")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "wrote 3 files into a/b: start with a/b/README.md\n"
    assert files("a/b") == {"README.md", LIST, "aws-us-east-1/chat.yaml", "monitoring/pods.yaml"}
    assert fleetplan("export", "plan.json", "--to", "keda", "--out", "c", "--quiet").err == ""


def test_what_is_not_empty_is_refused_and_an_earlier_export_gives_way_to_force(fleetplan: Command) -> None:
    export = ("export", "plan.json", "--to", "kubernetes", "--out", "k")
    assert fleetplan(*export).code == 0
    again = fleetplan(*export)
    assert again.code == 2 and "k: is not empty." in again.err and "--force" in again.err
    Path("k/notes.txt").write_text("mine", encoding="utf-8")
    Path("k/aws-us-east-1/mine.yaml").write_text("mine", encoding="utf-8")
    ran = fleetplan("export", "other.json", "--to", "kubernetes", "--out", "k", "--force")
    assert ran.code == 0
    left = files("k")
    assert {"notes.txt", "aws-us-east-1/mine.yaml", "README.md"} <= left
    assert "aws-us-east-1/chat.yaml" not in left, "what the plan no longer has would be applied with the rest"


def test_force_removes_nothing_that_was_edited_or_is_somebody_elses(fleetplan: Command) -> None:
    fleetplan("export", "plan.json", "--to", "kubernetes", "--out", "k")
    edited = Path("k/aws-us-east-1/chat.yaml")
    edited.write_text("edited", encoding="utf-8")
    ran = fleetplan("export", "other.json", "--to", "kubernetes", "--out", "k", "--force")
    assert ran.code == 0 and f"kept {edited}: it is no longer part of the plan, but it was edited" in ran.err
    Path("mine").mkdir()
    Path("mine/README.md").write_text("mine", encoding="utf-8")
    ran = fleetplan("export", "plan.json", "--to", "kubernetes", "--out", "mine", "--force")
    assert ran.code == 2 and "mine/README.md: was not written by an export, and is kept." in ran.err
    assert Path("mine/README.md").read_text(encoding="utf-8") == "mine"
    ran = fleetplan("export", "plan.json", "--to", "keda", "--out", "k", "--force")
    assert ran.code == 2 and "holds an export to kubernetes" in ran.err


def test_a_forged_list_reaches_nothing_outside_of_the_folder(fleetplan: Command) -> None:
    fleetplan("export", "plan.json", "--to", "kubernetes", "--out", "k")
    victim = Path("victim.yaml")
    victim.write_text("dear", encoding="utf-8")
    told = json.loads(Path(f"k/{LIST}").read_text(encoding="utf-8"))
    told["files"]["../victim.yaml"] = "8c6a9b3e"
    told["files"]["../plan.json"] = "x"
    Path(f"k/{LIST}").write_text(json.dumps(told), encoding="utf-8")
    assert fleetplan("export", "plan.json", "--to", "kubernetes", "--out", "k", "--force").code == 0
    assert victim.exists()
    Path(f"k/{LIST}").write_text("[]", encoding="utf-8")
    ran = fleetplan("export", "plan.json", "--to", "kubernetes", "--out", "k", "--force")
    assert ran.code == 2 and "is not a list of exported files" in ran.err


@for_each(
    ("arguments", "words"),
    [
        (
            ("plan.json", "--to", "kubernets", "--out", "x"),
            "there is no target 'kubernets'. Did you mean 'kubernetes'?",
        ),
        (("plan.json", "--to", "../x", "--out", "x"), "there is no target '../x'"),
        (("plan.json", "--to", "keda", "--out", "plan.json"), "plan.json: is a file"),
        (("plan.json", "--to", "keda", "--out", "plan.json/x"), "cannot be created"),
        (("plan.json", "--to", "keda", "--month", "2", "--out", "x"), "the plan has no month 2"),
        (("plan.json", "--to", "keda", "--time-zone", "Mars", "--out", "x"), "there is no time zone 'Mars'"),
        (("plan.json", "--to", "keda", "--headroom", "20", "--out", "x"), "--headroom: needs a percent sign, got '20'"),
        (("plan.json", "--to", "keda", "--headroom=-5%", "--out", "x"), "--headroom: cannot be negative"),
        (("plan.json", "--to", "keda", "--headroom", "2000%", "--out", "x"), "2000% is not from 0% to 1000%"),
        (("none.json", "--to", "keda", "--out", "x"), "none.json"),
        (("broken.json", "--to", "keda", "--out", "x"), "this plan fails its check"),
    ],
)
def test_what_cannot_be_exported_is_a_sentence(arguments: tuple[str, ...], words: str, fleetplan: Command) -> None:
    broken = small().model_copy(update={"cost_usd_per_month": 1.0})
    Path("broken.json").write_text(broken.to_json(), encoding="utf-8")
    ran = fleetplan("export", *arguments)
    assert ran.code == 2 and words in ran.err
    assert not Path("x").exists()


def test_a_plan_that_hosts_nothing_says_so(fleetplan: Command) -> None:
    Path("api.json").write_text(plan_of("examples/build-or-buy.yaml").to_json(), encoding="utf-8")
    ran = fleetplan("export", "api.json", "--to", "kubernetes", "--out", "x")
    assert ran.code == 2 and "it hosts nothing: openai/gpt-4o serves all requests" in ran.err
    assert not Path("x").exists()
