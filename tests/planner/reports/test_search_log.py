"""The log of a search: a line a round, on stderr alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import SMALL, Command


@pytest.fixture
def fleetplan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL, encoding="utf-8")
    return Command(monkeypatch, capsys)


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
