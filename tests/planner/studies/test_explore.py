"""Explore: what is claimed between settings holds, runs resume, and the page contains what is planned afterwards."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import planner
from planner.case.changes import multiplied, with_api_prices, with_gpu_prices
from planner.case.quarters import held_usd_per_month
from planner.io.errors import InputError
from planner.pipeline import attempt
from planner.reports.explore import explore_document, explore_page
from planner.reports.text import as_text
from planner.studies import explore as explore_settings
from planner.studies.explore import (
    DENSITIES,
    HIGH,
    LOW,
    Density,
    Exploration,
    Point,
    Setting,
    case_of,
    grid_of,
    ladder,
    plans,
    scenario_of,
)
from planner.studies.explore_job import plan_settings
from planner.studies.overrides import Scenario, Source, options_of
from solvers.search.fleet_solution import Options
from tests.support.browser import Page, is_whole_and_quiet, names_are_text
from tests.support.rows import for_each

OVERFLOWING = """\
name: tiny <b>chat</b>
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 900k, growth_per_month: 10%}
    slo: {ttft_p95: 2s, tpot_p95: 80ms}
menu: {gpus: [l40s, l4], quantizations: [fp8], purchase: [on-demand, reserved-1y], max_deployments: 1}
baseline: openai/gpt-4o-mini
"""
SHEDDING = """\
name: shedding
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 800k, shape: consumer}
    shed: {priority: low}
    api: forbidden
menu: {gpus: [l4], quantizations: [int8], purchase: [on-demand], max_deployments: 1}
baseline: openai/gpt-4o-mini
"""
CASES = {"overflowing": OVERFLOWING, "shedding": SHEDDING}
OPTIONS = Options(gap_frac=0.01, time_limit_s=60.0)
SLACK = 1e-6
"""of comparisons of dollars that came through JSON"""


FEWER = {"few": Density(7, 3, 3, (0.5, 1.0), 5, 0.08)}
"""settings, so that the tests are quick"""


def explore_fewer(text: str, **given: Any) -> Exploration:
    with patch.dict(explore_settings.DENSITIES, FEWER), patch.object(explore_settings, "BUDGETS", (0.3, 0.7, 1.2)):
        return planner.explore(planner.case_from_text(text), detail="few", options=OPTIONS, **given)


@cache
def explored(name: str) -> Exploration:
    return explore_fewer(CASES[name])


@pytest.fixture(scope="module", params=CASES)
def study(request: pytest.FixtureRequest) -> Exploration:
    return explored(request.param)


def source_of(study: Exploration) -> Source:
    return Source(study.case)


def test_the_parts_of_every_plan_are_its_cost(study: Exploration) -> None:
    assert len(plans(study.points)) > 15
    for point in plans(study.points):
        months = point.result["months"]
        assert sum(map(sum, months)) / len(months) == pytest.approx(point.result["cost"], rel=1e-9)
        assert point.result["bound"] <= point.result["cost"] + point.result["penalty"] + 0.01


def test_a_plan_costs_at_other_prices_what_its_parts_say_and_no_less_than_the_best_there(study: Exploration) -> None:
    """Linear in prices, so concave as the least of all plans."""
    base = study.base.result
    case = with_api_prices(1.7)(with_gpu_prices(0.6)(study.case))
    again = attempt(case, OPTIONS)
    assert again.plan is not None
    moved = sum(0.6 * g + 1.7 * a + rest for g, a, rest in base["months"]) / len(base["months"]) + base["penalty"]
    assert moved >= again.plan.bound_usd_per_month - 0.01
    assert again.plan.objective_usd_per_month >= 0.6 * base["bound"] - 0.01
    if base["api"] == 0:
        assert moved == pytest.approx(0.6 * base["cost"] + base["penalty"], rel=1e-9)


def test_every_plan_is_above_every_line_and_within_its_own_budget() -> None:
    """Also lines of other settings that ask no more: what the page's linear program rests on."""
    study = explored("shedding")
    budgeted = [p for p in plans(study.points) if p.setting.budget_usd_per_month is not None]
    assert len(budgeted) > 40
    assert sum(len(p.lines) for p in study.points) > 10
    for plan in budgeted:
        at, result = plan.setting, plan.result
        assert max(map(sum, result["months"])) <= at.budget_usd_per_month
        lines = [line for p in study.points if p.setting.of("demand") <= at.of("demand") and _only_demand(p, at)
                 for line in p.lines]  # fmt: skip
        assert lines
        for worth, usd in lines:
            assert (1 + worth) * result["cost"] + result["penalty"] >= usd * (1 - SLACK)


def _only_demand(point: Point, setting: Setting) -> bool:
    """Whether a point differs from a setting in nothing but demand and budget."""
    return replace(point.setting.at("demand", 1.0), budget_usd_per_month=None) == replace(
        setting.at("demand", 1.0), budget_usd_per_month=None
    )


@pytest.mark.parametrize("name", CASES)
def test_costs_never_fall_with_demand(name: str) -> None:
    case = planner.case_from_text(CASES[name])
    chance, last = random.Random(50), (0.0, 0.0)
    for factor in sorted(chance.uniform(LOW, HIGH) for _ in range(10)):
        plan = attempt(multiplied(factor)(case), OPTIONS).plan
        assert plan is not None
        assert plan.objective_usd_per_month >= last[0] - 0.01, "cheaper than what was proved for less demand"
        last = max(last, (plan.bound_usd_per_month, factor))


@for_each(
    ("line", "monotone", "linear"),
    [
        ("", True, True),
        ("savings_plans: [{name: compute-1y, provider: aws, discount: 27%}]\n", False, False),
    ],
)
def test_what_does_not_hold_is_not_claimed(line: str, monotone: bool, linear: bool) -> None:
    case = planner.case_from_text(OVERFLOWING + line)
    grid = grid_of(case, DENSITIES["few"])
    assert (grid.demand_is_monotone, grid.costs_are_linear) == (monotone, linear)
    assert bool(grid.why_not) == (not (monotone and linear))


def test_what_is_held_is_in_every_figure_and_budget() -> None:
    """Of a setting without a budget, and of those within one, which leave the rest of it to what is bought."""
    held = "savings_plans:\n  - {name: old, provider: aws, discount: 27%, held: $5/h}\n"
    case = planner.case_from_text(SHEDDING + held)
    usd = held_usd_per_month(case)
    assert usd > 3000
    given = {"solver": "cbc", "gap_frac": 0.02, "time_limit_s": 60.0}
    budgets = [usd + 200.0, usd + 400.0]
    result = plan_settings({"case": case.as_json(), "budgets": budgets, "step_frac": 0.2, "options": given})
    planned = [(b, p) for b, p in zip(result["budgets"], result["points"], strict=True) if p["cost"] is not None]
    assert len(planned) > 1
    for budget, point in planned:
        assert usd <= point["cost"] <= (budget or float("inf"))
        assert sum(map(sum, point["months"])) / len(point["months"]) == pytest.approx(point["cost"])
        assert usd <= point["bound"] <= point["cost"] + point["penalty"] + 0.01


def test_settings_are_what_ifs() -> None:
    source = Source(planner.case_from_text(OVERFLOWING))
    grid = grid_of(source.case, DENSITIES["few"])
    setting = Setting(commitments=0).at("demand", 1.25).at("ttft", 0.5)
    options = [change.option for change in scenario_of(grid, setting).changes]
    assert options == ["--scale demand=1.25", "--scale ttft=0.5", "--only purchase=on-demand"]
    case = case_of(source, grid, setting)
    assert case.purchase == ("on-demand",)
    assert case.workloads[0].ttft.seconds == 0.5 * source.case.workloads[0].ttft.seconds
    assert sum(case.workloads[0].weekday_rps) == pytest.approx(1.25 * sum(source.case.workloads[0].weekday_rps))


def test_without_commitments_there_are_no_savings_plans() -> None:
    """Commitments in dollars are commitments: those that are held stay."""
    held = "  - {name: old, provider: aws, discount: 27%, held: $5/h}\n"
    source = Source(
        planner.case_from_text(OVERFLOWING + "savings_plans:\n  - {name: new, provider: aws, discount: 27%}\n" + held)
    )
    grid = grid_of(source.case, DENSITIES["few"])
    assert grid.own_level == len(grid.levels) - 1
    none = scenario_of(grid, Setting(commitments=0))
    assert "--without savings-plans" in [change.option for change in none.changes]
    assert [a.name for a in case_of(source, grid, Setting(commitments=0)).allowances or ()] == ["old"]
    assert len(case_of(source, grid, Setting(commitments=grid.own_level)).allowances or ()) == 2


@for_each("key", ["gpu-prices", "api-prices", "ttft", "tpot"])
def test_a_scale_of_one_changes_nothing(key: str) -> None:
    source = Source(planner.case_from_text(OVERFLOWING))
    assert source.changed(Scenario(tuple(options_of("scale", f"{key}=1")))) == source.case


def test_ladders_have_the_file_s_value_in_the_middle() -> None:
    for count in (3, 5, 13, 25, 49, 97):
        steps = ladder(count)
        assert (steps[0], steps[count // 2], steps[-1]) == (LOW, 1.0, HIGH)
        assert list(steps) == sorted(set(steps))


def test_the_same_inputs_give_the_same_page_and_a_journal_resumes(tmp_path: Path) -> None:
    again = explore_fewer(SHEDDING, journal=tmp_path / "j")
    assert explore_page(again) == explore_page(explored("shedding"))
    lines = (tmp_path / "j").read_bytes().splitlines(keepends=True)
    (tmp_path / "j").write_bytes(b"".join(lines[:-2]))
    done: list[int] = []
    resumed = explore_fewer(SHEDDING, journal=tmp_path / "j", on_done=lambda k, total: done.append(k))
    assert len(done) == 2
    assert explore_page(resumed) == explore_page(again)


def test_the_document_and_the_result(study: Exploration, tmp_path: Path) -> None:
    text = as_text(explore_document(study))
    assert "costs never fall with demand" in text
    page = study.save(tmp_path / "explore.html")
    assert page.stat().st_size < 3_000_000
    data = json.loads((study.save(tmp_path / "explore.json")).read_text(encoding="utf-8"))
    assert len(data["settings"]) == len(study.points) == len(study.frame("settings"))


@pytest.mark.process
def test_the_command(tmp_path: Path) -> None:
    text = SHEDDING.replace("    shed: {priority: low}\n", "")
    (tmp_path / "d.yaml").write_text(text, encoding="utf-8")
    script = Path(sys.executable).with_name("fleetplan")
    words = ["explore", "d.yaml", "--detail", "few", "--jobs", "1", "--out", "e.html", "--journal", "j.jsonl"]
    done = subprocess.run([script, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "settings" in done.stdout and "left" in done.stderr and "wrote e.html" in done.stderr
    assert (tmp_path / "e.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_horizon_is_refused() -> None:
    text = SHEDDING + "starts: 2027-01-01\nhorizon: 2 quarters\n"
    with pytest.raises(InputError, match="one quarter"):
        planner.explore(planner.case_from_text(text), detail="few")


# -- the page -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file(study: Exploration, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return study.save(tmp_path_factory.mktemp("explore") / "explore.html")


@for_each(("width", "dark"), [(1400, False), (400, True), (400, False)])
def test_the_page_is_whole(page: Page, file: Path, width: int, dark: bool) -> None:
    is_whole_and_quiet(page, file, width, dark)
    page.js("explore.set('demand', 1.5); explore.set('gpu-prices', 0.7); document.getElementById('pin').click()")
    assert page.js("document.documentElement.scrollWidth") == width
    assert page.diagnostics() == []


def test_the_page_prints_and_names_are_text(page: Page, file: Path, study: Exploration) -> None:
    page.open(file, 1280)
    names_are_text(page, [study.case.name])
    page.open(file, 794)
    page.call("Emulation.setEmulatedMedia", media="print", features=[])
    assert page.js("document.documentElement.scrollWidth") == 794
    page.call("Emulation.setEmulatedMedia", media="", features=[])


def test_the_fragment_is_the_study_and_keys_move_sliders(page: Page, file: Path) -> None:
    page.open(file, 1280)
    page.js("document.getElementById('slide-demand').focus()")
    for _ in range(3):
        for kind in ("keyDown", "keyUp"):
            page.call(
                "Input.dispatchKeyEvent", type=kind, key="ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39
            )
    moved = page.js("explore.state().demand")
    assert moved > 1
    assert f"demand={moved:g}" in page.js("location.hash")
    page.js("document.getElementById('pin').click(); explore.set('gpu-prices', explore.positions('gpu-prices')[10])")
    kept = page.js("location.hash")
    assert "pinned=1" in kept and "pin.demand" in kept
    page.js("location.hash = ''")
    page.js("new Promise(done => setTimeout(done, 50))")
    assert page.js("explore.state().demand") == 1
    page.js(f"location.hash = {json.dumps(kept)}")
    page.js("new Promise(done => setTimeout(done, 50))")
    assert page.js("explore.state().demand") == moved
    assert page.js("document.getElementById('there').hidden") is False
    page.js("explore.set('ttft', explore.positions('ttft')[0])")
    assert len(page.js("explore.order()")) == 2, "two at a time"


def test_the_csv_has_what_is_shown(page: Page, file: Path) -> None:
    page.open(file, 1280)
    rows = page.js("explore.csv()").splitlines()
    assert rows[0].startswith("what,demand,")
    assert rows[1].startswith("setting,1,")
    assert any(row.startswith("curve over demand,2,") for row in rows)


def test_ranges_within_budgets_are_narrow(page: Page, tmp_path: Path) -> None:
    """At any budget, alone and beside any place of the demand slider or any price."""
    page.open(explored("shedding").save(tmp_path / "e.html"), 1280)
    widths = page.js("""
      ['demand', 'gpu-prices'].flatMap(key => explore.positions(key).flatMap(v =>
        explore.positions('budget').filter((b, i) => b !== null && i % 8 === 0).map(budget => {
          const b = explore.bracket(Object.assign(explore.own(), {budget: budget}, {[key]: v}));
          return b.high === null ? 1 : 1 - b.low / b.high;
        })))""")
    assert len(widths) > 500
    assert sorted(widths)[len(widths) // 2] < 0.05
    assert sorted(widths)[int(0.95 * len(widths))] < 0.15


def test_what_is_planned_afterwards_lies_in_the_range_shown(page: Page, file: Path, study: Exploration) -> None:
    """Two sliders at random places, and the command of the page planned as it stands."""
    page.open(file, 1280)
    chance = random.Random(2026)
    checked = 0
    for _ in range(10):
        asked = random_setting(page, chance)
        found = page.js(f"(b => [b.none, b.low, b.high])(explore.bracket({json.dumps(asked)}))")
        command = page.js(f"explore.command({json.dumps(asked)})")
        assert_inside(found, command, planned_as(command, study))
        checked += not found[0]
    assert checked > 5


def random_setting(page: Page, chance: random.Random) -> dict[str, float | None]:
    """Two sliders anywhere, others as the file has them."""
    asked: dict[str, float | None] = page.js("explore.own()")
    keys = page.js("STUDY.sliders.map(s => s.key)")
    for key in chance.sample(keys, 2):
        asked[key] = chance.choice(page.js(f"explore.positions({json.dumps(key)})"))
    return asked


def assert_inside(found: list[float | None], command: str, point: dict[str, Any]) -> None:
    none, low, high = found
    if none:
        assert point["cost_usd_per_month"] is None or point["status"] not in ("optimal", "within-gap"), command
        return
    assert low is not None
    if point["cost_usd_per_month"] is not None:
        assert low <= point["cost_usd_per_month"] + point["penalty_usd_per_month"] + SLACK * low + 0.01, command
    if high is not None and point["status"] != "infeasible":
        assert point["bound_usd_per_month"] <= high * (1 + SLACK) + 0.01, command
    assert high is None or point["status"] != "infeasible", command


def planned_as(command: str, study: Exploration) -> dict[str, Any]:
    """The last row of the what-if that the page names."""
    words = command.replace("'", "").split()
    given: dict[str, list[str]] = {"--scale": [], "--only": [], "--budget": []}
    for option, value in zip(words[3::2], words[4::2], strict=True):
        given[option].append(value)
    if words[1] == "plan":
        plan = attempt(study.case, OPTIONS).plan
        assert plan is not None
        names = ("cost_usd_per_month", "penalty_usd_per_month", "bound_usd_per_month", "status")
        return {name: getattr(plan, name) for name in names}
    swept = planner.what_if(
        source_of(study), scale=given["--scale"], only=given["--only"], budgets=given["--budget"], options=OPTIONS
    )
    return swept.rows[-1]
