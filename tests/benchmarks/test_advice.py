"""The score of advice: concerns that plans give rise to, and whether the first screen says them."""

from __future__ import annotations

from pathlib import Path

import pytest

import planner
from benchmarks.advice import CONDITIONS, demand_files, judged, on_screen, table
from planner.reports.first_screen import CONCERNS_SHOWN
from tests.support.places import ROOT
from tests.support.shared_plans import plan_of

COMPANIES = ROOT / "examples" / "companies"
GUESSED = """
workloads:
  - {name: chat, models: [llama-3.1-8b], forecast: {requests_per_day: 300k, shape: flat, log_days: 5}, api: forbidden}
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand, reserved-1y]}
baseline: openai/gpt-4o-mini
"""


def test_there_are_twelve_conditions_and_no_rule_has_two() -> None:
    keys = [key for keys in CONDITIONS.values() for key in keys]
    assert len(CONDITIONS) == 12 and len(keys) == len(set(keys))


def test_what_is_found_is_on_the_first_screen_or_ranked_below_three() -> None:
    plan = plan_of(planner.case_from_text(GUESSED))
    one = on_screen(Path("folder/chat.yaml"), plan)
    assert {c.key for c in one.found} == {"guessed-price", "not-served", "short-log", "assumed-limit"}
    assert one.shown == one.found[:CONCERNS_SHOWN] and one.shown[0].stops_signing
    rows = list(table([one]))
    assert "| a guessed price to sign | 1 | 1 | 0 |" in rows
    assert "| a promise missed in an hour | 0 | 0 | 0 |" in rows


def test_what_is_no_demand_file_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policy.yaml").write_text("max_gap: 1%\n")
    (file,) = demand_files([tmp_path])
    assert judged(file, 10.0) is None
    assert "policy.yaml: left out" in capsys.readouterr().out


def test_a_company_says_who_it_is_before_its_first_key() -> None:
    files = list(demand_files([COMPANIES]))
    assert len(files) == 12
    for file in files:
        head = file.read_text().split("\n\n")[0].splitlines()
        assert 2 <= len(head) <= 4 and all(line.startswith("# ") for line in head), file.name
        assert planner.load_case(file).workloads
