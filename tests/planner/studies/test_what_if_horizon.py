"""What-if over a horizon: each row is the plan of the changed file, and more budget never raises the cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import planner
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.reports.page import as_page
from planner.reports.what_if import what_if_document, what_if_json
from planner.studies.executing.executors import InProcess
from planner.studies.overrides import Source, grid, options_of
from planner.studies.sweep import Sweep, sweep, swings
from solvers.search.fleet_solution import Options
from tests.support.command_line import Command
from tests.support.horizon_plans import month_usd
from tests.support.shown import csv_of, in_every_format

HOSTILE = "<b>high</b>|x"
DEMAND = f"""\
name: tiny
starts: 2027-01-01
horizon: 2 quarters
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {{requests_per_day: 500k}}
    tokens: {{input: 900, output: 180}}
    api: forbidden
scenarios:
  - {{name: low, probability: 60%}}
  - {{name: "{HOSTILE}", probability: 40%, changes: {{workloads.chat.forecast.growth_per_month: 15%}}}}
have:
  - {{offer: aws/g6e.xlarge, purchase: reserved-1y, instances: 1, price: $1.25/h, until: 2027-03-31}}
menu: {{gpus: [l40s], quantizations: [fp8], purchase: [on-demand, reserved-1y, reserved-3y], max_deployments: 1}}
baseline: openai/gpt-4o-mini
"""
OPTIONS = Options(gap_frac=0.01, time_limit_s=60.0)
MONTHS = 6


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("horizon") / "tiny.yaml"
    path.write_text(DEMAND)
    return path


def swept(file: Path, options: Sequence[tuple[str, str]], budgets: Sequence[float] = ()) -> Sweep:
    runs = grid([options_of(kind, text) for kind, text in options], one_at_a_time=True)
    return sweep(Source(file), runs, budgets, OPTIONS, InProcess())


@pytest.fixture(scope="module")
def found(file: Path) -> Sweep:
    return swept(file, [("set", "policy.max_liability=$60k"), ("scale", "demand=2")])


def planned(text: str) -> HorizonPlan:
    return planner.plan_fleet(planner.case_from_text(text), OPTIONS)


def test_each_row_is_the_plan_of_the_changed_file(found: Sweep) -> None:
    assert found.horizon and [row["run"] for row in found.rows] == ["base", "policy.max_liability=$60k", "demand x 2"]
    texts = [DEMAND, DEMAND + "policy: {max_liability: $60k}\n", DEMAND.replace("500k", "1M")]
    for row, text in zip(found.rows, texts, strict=True):
        plan = planned(text)
        signed = [f"{c.instances} x {c.offer} {c.term}" for c in plan.signed_now]
        assert row["sign_now"] == ("; ".join(signed) or "nothing")
        assert row["expected_cost_usd"] == pytest.approx(plan.expected_cost_usd)
        costs = {s.name: s.cost_usd for s in plan.scenarios}
        assert row["worst_usd"] == pytest.approx(max(costs.values())) == pytest.approx(costs[row["worst_scenario"]])
        assert row["cost_usd_per_month"] == pytest.approx(row["expected_cost_usd"] / MONTHS)
        terms = {"reserved-1y": 12, "reserved-3y": 36}
        owed = sum(c.instances * c.usd_per_h * 730 * (terms[c.term] - MONTHS) for c in plan.signed_now)
        assert row["owed_after_usd"] == pytest.approx(owed)
        assert row["bound_usd"] <= row["counted_usd"] and row["held_usd"] == pytest.approx(1.25 * 3 * 730)
    assert any("reserved-3y" in row["sign_now"] for row in found.rows[1:2])


def test_a_limit_on_what_is_owed_moves_the_cost_as_the_table_says(found: Sweep) -> None:
    moved = {s.input: s for s in swings(found)}
    base, liable = found.rows[0]["cost_usd_per_month"], found.rows[1]["cost_usd_per_month"]
    assert liable < base and moved["policy.max_liability"].usd_per_month == pytest.approx(base - liable)


def test_budgets_hold_in_every_month_and_more_money_never_costs(file: Path) -> None:
    budgets = [900.0, 1800.0, 2600.0, 9000.0]
    rows = swept(file, [], budgets).rows
    assert [row["budget_usd_per_month"] for row in rows] == budgets
    assert rows[0]["status"] == "infeasible" and rows[0]["cost_usd_per_month"] is None
    assert 900 < rows[0]["least_budget_usd_per_month"] <= 9000
    enough = [row for row in rows if row["cost_usd_per_month"] is not None]
    assert [row["counted_usd"] for row in enough] == sorted((row["counted_usd"] for row in enough), reverse=True)
    assert all(row["bound_usd"] <= row["counted_usd"] * (1 + 1e-9) for row in enough)
    least = rows[0]["least_budget_usd_per_month"]
    plan = planned(DEMAND + f"policy: {{budget_usd_per_month: {least + 0.01:.2f}}}\n")
    for q in plan.quarters:
        held = sum(h.instances * h.usd_per_h * 730 for h in q.plan.case.held or ())
        months = {slot.month for slot in q.plan.slots}
        assert max(month_usd(q.plan, month) for month in months) + held <= least + 0.02
    assert plan.counted_usd == pytest.approx(enough[-1]["counted_usd"], rel=OPTIONS.gap_frac)


def test_progress_is_told_of_every_run_and_budget(file: Path) -> None:
    runs = grid([options_of("scale", "demand=0.5")], one_at_a_time=True)
    heard: list[str] = []
    sweep(Source(file), runs, [900.0], OPTIONS, InProcess(), on_progress=lambda p: heard.append(p.phase))
    told = {phase.split(", ")[0] for phase in heard}
    assert told == {"run 1 of 2", "run 2 of 2"}
    assert {phase.split(", ")[1] for phase in heard} >= {"without a budget"}
    assert any(phase.startswith("run 1 of 2, without a budget, horizon, ") for phase in heard)


def test_every_format_says_what_is_signed_and_owed(found: Sweep) -> None:
    for text in in_every_format(what_if_document(found)):
        assert "sign now" in text and "owed after" in text and "is paid in any case" in text
    assert "<b>high" not in as_page(what_if_document(found))
    rows = json.loads(what_if_json(found))
    assert rows[0]["scenarios"][1]["name"] == HOSTILE and rows[0]["commitments"][0]["first_day"] == "2027-01-01"
    assert csv_of(what_if_document(found), "what_if").startswith(
        "run,policy.max_liability,scale demand,months,expected_cost_usd"
    )


def test_the_command_plans_horizons(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "runs.json"
    ran = Command(monkeypatch, capsys)("what-if", file, "--without", "reserved-1y", "--out", out, "-q")
    assert ran.code == 0 and "sign now" in ran.out, ran.err
    base, other = json.loads(out.read_text())
    assert other["sign_now"] == "nothing" and other["expected_cost_usd"] >= base["expected_cost_usd"]
