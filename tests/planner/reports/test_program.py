"""What can be seen of a search: its log, a line a round, and the restricted master as a file that solvers read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import highspy
import numpy as np
import pytest

from problems.lp_file import lp_text, names
from problems.model import Column, Row, build_model
from tests.support.command_line import SMALL, Command


@pytest.fixture
def fleetplan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL, encoding="utf-8")
    return Command(monkeypatch, capsys)


def optimum_of(path: Path) -> float:
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    assert highs.readModel(str(path)) == highspy.HighsStatus.kOk
    highs.setOptionValue("mip_rel_gap", 0.0)
    highs.run()
    assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return float(highs.getObjectiveValue())


def test_the_optimum_of_the_written_program_is_the_plan(fleetplan: Command) -> None:
    done = fleetplan("plan", "small.yaml", "--write-lp", "small.lp", "--gap", "0%", "--format", "json", "--quiet")
    assert done.code == 0
    plan = json.loads(done.out)
    text = Path("small.lp").read_text(encoding="utf-8")
    assert optimum_of(Path("small.lp")) == pytest.approx(plan["cost_usd_per_month"], rel=1e-5)
    remarks = set(re.findall(r"^\\ (pick\.\d+):", text, re.M))
    assert remarks and remarks == set(re.findall(r"pick\.\d+", text.split("Minimize")[1]))


def test_any_model_is_read_as_it_is(tmp_path: Path) -> None:
    columns = [
        Column(("a", "x/y"), -1.0, 0.0, 3.5),
        Column(("a", "x y"), 2.0, -np.inf, np.inf),
        Column(("c",), 0.25, 1.0, 9.0, integer=True),
    ]
    rows = [
        Row(("most",), [(0, 1.0), (2, 2.0)], "<=", 7.5),
        Row(("least",), [(1, 1.0), (0, -0.5)], ">=", -4.0),
        Row(("same",), [(1, 1.0), (2, -1.0), (0, 1e-3)], "==", -3.0),
    ]
    (tmp_path / "m.lp").write_text(lp_text(build_model(columns, rows), ["größe"]), encoding="utf-8")
    # c = 2: b = -1 - a / 1000, and a = 3.5 is allowed by both other rows
    assert optimum_of(tmp_path / "m.lp") == pytest.approx(
        min(-a + 2 * (c - 3 - a / 1000) + c / 4 for a, c in [(3.5, 2), (3.5, 1)])
    )
    assert names([("a", "x/y"), ("a", "x y"), ("a", "x-y")]) == ["a.x_y", "a.x_y__2", "a.x_y__3"]


def test_it_is_refused_where_it_cannot_be_written(fleetplan: Command) -> None:
    assert fleetplan("plan", "small.yaml", "--write-lp", "small.yaml").code == 2
    assert fleetplan("plan", "small.yaml", "--write-lp", "nowhere/small.lp").code == 2


def test_the_log_of_a_search_closes_the_gap_and_changes_no_plan(fleetplan: Command) -> None:
    logged = fleetplan("plan", "small.yaml", "--log-search", "--quiet", "--format", "json")
    assert logged.code == 0 and logged.out == fleetplan("plan", "small.yaml", "--quiet", "--format", "json").out
    head, *lines = logged.err.splitlines()
    assert head.split() == ["phase", "seconds", "plan", "$/month", "bound", "gap", "LP", "columns", "cuts"]
    rounds = [line for line in lines if "pricing, round" in line]
    assert rounds and all(int(line.split()[-2].replace(",", "")) > 0 for line in rounds)
    seconds, plan, bound, gap, *_ = lines[-1].partition("end of the search")[2].split()
    assert float(seconds) >= 0 and gap.endswith("%")
    assert float(bound.replace(",", "")) <= float(plan.replace(",", "")) * (1 + 1e-9)
