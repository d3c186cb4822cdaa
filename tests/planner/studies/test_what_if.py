"""What-if: changes read like the file, frontiers that never fall, and tables that nothing in a name can break."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.case.changes import with_limits
from planner.case.demand.future.edits import relative
from planner.io.errors import InputError
from planner.io.formatting import usd
from planner.reports.markdown import as_markdown
from planner.reports.page import as_page
from planner.reports.text import as_text
from planner.reports.what_if import what_if_document, what_if_json
from planner.studies.executing.executors import InProcess, executor_from
from planner.studies.executing.jobs import Job, Result, Work
from planner.studies.frontier import Frontier
from planner.studies.overrides import Override, Scenario, Source, grid, options_of, pieces, steps
from planner.studies.sweep import Sweep, sweep, swings
from planner.studies.what_if_file import read_what_if
from solvers.heuristics.budget_heuristic import within_budget
from solvers.heuristics.incumbent import limits_are_kept
from solvers.search.fleet_solution import Options
from tests.support.command_line import Command, run_script
from tests.support.markdown_pages import only_our_tags
from tests.support.rows import for_each
from tests.support.shown import csv_of

HOSTILE = "<script>alert(1)</script>|`x`|=1+1 [bold]"
CASE = """\
name: tiny
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 500k, shape: consumer}
    tokens: {input: 800, output: 150}
    slo: {ttft_p95: 2s, tpot_p95: 80ms}
    quality: {max_loss: 2%}
    shed: {priority: low}
    api: forbidden
menu: {gpus: [l4], quantizations: [int8], purchase: [on-demand], max_deployments: 1}
baseline: openai/gpt-4o-mini
"""
PRICED = CASE + "prices: {aws/g6.xlarge: {on_demand: $0.80/h}}\n"
STRICT = CASE.replace("    shed: {priority: low}\n", "")
OPTIONS = Options(gap_frac=0.02, time_limit_s=60.0)
BUDGETS = [500.0, 1000.0, 1400.0, 5000.0]
FRONTIER_KEYS = {
    "budget_usd_per_month", "cost_usd_per_month", "bound_usd_per_month", "served_frac", "api_frac", "shed_frac",
    "gap_frac",
}  # fmt: skip


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    return Source(written(tmp_path_factory.mktemp("case"), CASE))


@pytest.fixture(scope="module")
def found(source: Source) -> Sweep:
    runs = [Scenario(), Scenario((Override("scale", "demand", "0.5"),))]
    return sweep(source, runs, BUDGETS, OPTIONS, InProcess())


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


def written(folder: Path, text: str, name: str = "case.yaml") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def changed(source: Source, *options: tuple[str, str]) -> planner.Case:
    return source.changed(Scenario(tuple(c for o in options for c in options_of(*o))))


# -- the frontier ---------------------------------------------------------------------------------------------


def test_a_frontier_never_falls(found: Sweep) -> None:
    points = found.frontier
    assert [p["budget_usd_per_month"] for p in points] == BUDGETS
    objectives = [p["cost_usd_per_month"] + p["penalty_usd_per_month"] for p in points]
    served = [p["served_frac"] for p in points]
    bounds = [p["bound_usd_per_month"] for p in points]
    assert objectives == sorted(objectives, reverse=True)
    assert bounds == sorted(bounds, reverse=True)
    assert served == sorted(served)
    assert served[0] < served[-1]
    assert served[-1] == pytest.approx(1.0, abs=0.01)


def test_every_point_keeps_its_budget_and_its_proof(found: Sweep) -> None:
    for p in found.rows:
        objective = p["cost_usd_per_month"] + p["penalty_usd_per_month"]
        assert p["cost_usd_per_month"] <= p["budget_usd_per_month"] * (1 + 1e-9)
        assert p["bound_usd_per_month"] <= objective * (1 + 1e-9)
        assert p["gap_frac"] == pytest.approx(1 - p["bound_usd_per_month"] / objective, abs=1e-9)
        assert p["gap_frac"] <= OPTIONS.gap_frac
        assert p["served_frac"] + p["shed_frac"] == pytest.approx(1.0)
        assert 0 <= p["api_frac"] <= p["served_frac"]


@pytest.mark.parametrize("budget", [1000.0, 1400.0])
def test_a_point_is_the_single_plan_within_the_gaps(source: Source, found: Sweep, budget: float) -> None:
    alone = planner.plan_fleet(with_limits(budget_usd_per_month=budget)(source.case), OPTIONS)
    point = next(p for p in found.frontier if p["budget_usd_per_month"] == budget)
    one, other = (
        alone.cost_usd_per_month + alone.penalty_usd_per_month,
        point["cost_usd_per_month"] + point["penalty_usd_per_month"],
    )
    assert max(alone.bound_usd_per_month, point["bound_usd_per_month"]) <= min(one, other) * (1 + 1e-9)


def test_the_shape_of_the_lp_comes_first_and_is_below_every_plan(source: Source, found: Sweep) -> None:
    shown: list[list[tuple[float, float | None]]] = []
    runs = [Scenario(), Scenario((Override("scale", "demand", "0.5"),))]
    again = sweep(source, runs, BUDGETS, OPTIONS, InProcess(), on_shape=shown.append)
    assert [b for b, _ in shown[0]] == BUDGETS
    for (_, bound), point in zip(shown[0], again.frontier, strict=True):
        assert bound is not None
        assert bound <= point["cost_usd_per_month"] + point["penalty_usd_per_month"] + 1e-6
    assert again == found  # whoever asks for the shape changes no plan


def test_the_next_thousand_is_what_a_plan_with_a_thousand_more_serves(source: Source, found: Sweep) -> None:
    first, last = found.frontier[0], found.frontier[-1]
    assert first["next_1000_basis"] == "planned"
    assert first["next_1000_served_frac"] > 0.2
    assert first["next_1000_requests_per_month"] == pytest.approx(
        first["next_1000_served_frac"] * first["requests_per_month"]
    )
    assert last["next_1000_served_frac"] == 0


def test_a_budget_that_is_not_enough_says_the_least_that_is(tmp_path: Path) -> None:
    case = Source(written(tmp_path, STRICT)).case
    cheapest = planner.plan_fleet(case, OPTIONS).cost_usd_per_month
    low, high = Frontier(case, OPTIONS).plans([cheapest * 0.7, cheapest * 1.02])
    assert low.plan is None
    assert low.outcome == "infeasible"
    assert low.least_budget_usd_per_month == pytest.approx(cheapest, rel=0.01)
    assert high.plan is not None
    assert high.plan.cost_usd_per_month <= cheapest * 1.02


def test_a_plan_within_a_budget_is_found_in_closed_form(source: Source) -> None:
    fleet = replace(Frontier(source.case, OPTIONS).fleet, budget_usd_per_month=1000.0)
    plan = within_budget(fleet, None)
    assert plan is not None
    assert limits_are_kept(fleet, plan)
    assert 900 < plan.cost_usd_per_month <= 1000
    assert within_budget(replace(fleet, budget_usd_per_month=None), None) is None


# -- changes --------------------------------------------------------------------------------------------------


def test_values_are_read_like_the_file(source: Source) -> None:
    assert changed(source, ("set", "workloads.chat.slo.ttft_p95=4s")).workloads[0].ttft.seconds == 4
    assert changed(source, ("set", "policy.min_replicas=3")).limits.min_replicas == 3
    assert changed(source, ("set", "workloads.chat.models=[llama-3.1-8b, qwen2.5-14b]")).workloads[0].models[1:]
    more = changed(source, ("set", "workloads.chat.forecast.requests_per_day=+20%")).workloads[0].weekday_rps
    assert more == pytest.approx([1.2 * rps for rps in source.case.workloads[0].weekday_rps])
    assert changed(source, ("scale", "demand=2")).workloads[0].weekday_rps[3] == pytest.approx(
        2 * source.case.workloads[0].weekday_rps[3]
    )
    assert source.changed(Scenario()) is source.case


def test_a_price_changes_by_gpu_or_by_instance(tmp_path: Path) -> None:
    source = Source(written(tmp_path, PRICED))

    def price(case: planner.Case) -> float:
        offer = case.offers["aws/g6.xlarge@us-east-1"]
        assert offer.prices.on_demand is not None
        return offer.prices.on_demand.usd_per_h

    assert price(changed(source, ("set", "prices.l4.on_demand=-20%"))) == pytest.approx(0.64)
    assert price(changed(source, ("set", "prices.aws/g6.xlarge.on_demand=$0.50/h"))) == pytest.approx(0.5)
    assert price(changed(source, ("set", "prices.'aws/g6.xlarge'.on_demand=+50%"))) == pytest.approx(1.2)


def test_menus_shrink(tmp_path: Path) -> None:
    wide = Source(written(tmp_path, CASE.replace("[l4]", "[l4, l40s]").replace("purchase: [on-demand], ", "")))
    assert changed(wide, ("without", "spot")).purchase == ("on-demand",)
    assert set(changed(wide, ("without", "l40s")).gpus) == {"l4"}
    assert set(changed(wide, ("only", "gpus=l40s, l4"), ("without", "spot")).gpus) == {"l4", "l40s"}
    with pytest.raises(InputError, match="would leave nothing"):
        changed(wide, ("without", "l40s"), ("without", "l4"))
    model = CASE.split("models: [")[1].split("]")[0]
    experts = Source(written(tmp_path, CASE.replace(model, "gpt-oss-20b")))
    assert changed(experts, ("only", "parallelism=expert,data")).limits.parallelism == ("expert", "data")


@for_each(
    ("kind", "text", "words"),
    [
        ("set", "workloads.caht.slo.ttft_p95=1s", "did you mean 'chat'"),
        ("set", "workloads.chat.sloo.ttft_p95=1s", "did you mean 'slo'"),
        ("set", "workloads.chat.slo.ttft=1s", "ttft_p95"),
        ("set", "workloads.chat.name.more=1", "nothing below it"),
        ("set", "nothing.at.all=1", "known names: name, workloads"),
        ("set", "policy.budgets=1", "known names: budget"),
        ("set", "prices.l5.on_demand=-5%", "known names: l4"),
        ("set", "prices.l4.on_demand=5", "/h"),
        ("set", "workloads.chat.slo.ttft_p95=1", "needs a unit"),
        ("set", "workloads.chat.slo.ttft_p95=[1s", "closing ']'"),
        ("set", "workloads.chat.slo.ttft_p95=", "value is missing"),
        ("set", "workloads.chat.slo.ttft_p95", "expected name=value"),
        ("set", "..=1", "not a path"),
        ("set", "menu.gpus=[no-such-gpu]", "no-such-gpu"),
        ("scale", "demand=0", "more than 0"),
        ("scale", "demand=4:1:3", "not a range"),
        ("scale", "caht=2", "did you mean 'chat'"),
        ("without", "spto", "did you mean 'spot'"),
        ("without", "spot", "not on the menu"),
        ("without", "l4", "would leave nothing"),
        ("only", "gpu=l4", "did you mean 'gpus'"),
        ("only", "gpus=l5", "no GPU 'l5'"),
        ("only", "parallelism=pipeline", "'tensor', 'expert' or 'data'"),
    ],
)
def test_every_wrong_change_complains(source: Source, kind: str, text: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        changed(source, (kind, text))
    said = str(refused.value)
    assert words.lower() in said.lower()
    assert f"--{kind}" in said


def test_the_order_of_changes_does_not_matter(source: Source) -> None:
    options = [
        ("set", "workloads.chat.slo.ttft_p95=4s"),
        ("set", "prices.l4.on_demand=-20%"),
        ("scale", "demand=2"),
        ("set", "policy.min_replicas=3"),
    ]
    assert len({changed(source, *order).hash() for order in permutations(options)}) == 1


def test_two_changes_of_one_place_are_refused(source: Source) -> None:
    for other in ("workloads.chat.slo.ttft_p95=2s", "workloads.chat.slo={ttft_p95: 2s}"):
        with pytest.raises(InputError, match="changed twice"):
            changed(source, ("set", "workloads.chat.slo.ttft_p95=4s"), ("set", other))


@given(st.text(max_size=30), st.text(max_size=10))
@settings(max_examples=150, deadline=None)
def test_no_path_or_value_crashes(source: Source, path: str, value: str) -> None:
    for text in (f"{path}={value}", f"workloads.chat.{path}={value}"):
        try:
            for change in options_of("set", text):
                source.changed(Scenario((change,)))
        except InputError as error:
            assert str(error).replace("\n", "").isprintable()


def test_grids_combine_and_each_does_not() -> None:
    inputs = [options_of("set", "a=1,2,3"), options_of("set", "b=[x, y],z")]
    assert len(grid(inputs)) == 1 + 6
    assert len(grid(inputs, one_at_a_time=True)) == 1 + 5
    assert [c.text for c in inputs[1]] == ["[x, y]", "z"]
    with pytest.raises(InputError, match="runs"):
        grid([options_of("set", "a=" + ",".join("1" * 500))] * 2)


def test_steps_are_even() -> None:
    assert steps("20k:120k:3", "--budget", log=False) == [20e3, 70e3, 120e3]
    assert steps("0.5:8:5", "--scale", log=True) == [0.5, 1, 2, 4, 8]
    assert pieces("a, 'b,c', {d: [1, 2]}") == ["a", "'b,c'", "{d: [1, 2]}"]
    assert relative("800k", "+25%") == "1000k"
    assert relative("8%", "-2%") == "-2%"
    assert relative(None, "-2%") == "-2%"


# -- files, tables and the command ----------------------------------------------------------------------------


def test_a_what_if_file(tmp_path: Path) -> None:
    text = "runs:\n  - name: dearer\n    set: {prices.l4.on_demand: +20%}\n    scale: {demand: 2}\n"
    text += "grid: {policy.min_replicas: [2, 3]}\nbudgets: [1k, '2k:3k:2']\n"
    read = read_what_if(written(tmp_path, text, "what.yaml"))
    assert read.runs[0].name == "dearer"
    assert {c.kind for c in read.runs[0].changes} == {"set", "scale"}
    assert len(read.grid[0]) == 2
    assert read.budgets == ("1k", "2k:3k:2")
    for wrong, words in (
        ("rnus: []\n", "Did you mean 'runs'"),
        ("runs: [{set: {a: 1}}]\n", "name"),
        ("runs: [{name: a}]\n", "changes nothing"),
        ("runs: 3\n", "a list"),
        ("runs: [{name: a, without: [spot]}, {name: a, without: [spot]}]\n", "given before"),
    ):
        with pytest.raises(InputError, match=words):
            read_what_if(written(tmp_path, wrong, "wrong.yaml"))


def test_a_what_if_file_has_every_mistake_named_at_once(tmp_path: Path) -> None:
    text = "runs:\n  - {name: a}\n  - {nmae: b, set: 3}\n  - 7\nbudget: [1k]\ngrid: []\n"
    with pytest.raises(InputError) as error:
        read_what_if(written(tmp_path, text, "wrong.yaml"))
    assert [(d.line, d.where) for d in error.value.diagnostics] == [
        *((2, "runs[0]"), (3, "runs[1]"), (3, "runs[1].set"), (4, "runs[2]"), (5, ""), (6, "grid")),
    ]


def test_the_input_that_moves_the_cost_most_comes_first(source: Source) -> None:
    inputs = [options_of("scale", "demand=0.5,2"), options_of("set", "prices.l4.on_demand=-5%,+5%")]
    found = sweep(source, grid(inputs, one_at_a_time=True), [], OPTIONS, InProcess())
    moved = swings(found)
    assert [s.input for s in moved] == ["scale demand", "prices.l4.on_demand"]
    assert moved[0].low_value == "0.5"
    assert moved[0].high_value == "2"
    assert all(s.proved for s in moved)
    rows = list(csv.DictReader(io.StringIO(csv_of(what_if_document(found), "what_if"))))
    assert len(rows) == 5
    assert [r["scale demand"] for r in rows] == ["", "0.5", "2", "", ""]
    assert [r["prices.l4.on_demand"] for r in rows] == ["", "", "", "'-5%", "'+5%"]


def test_what_is_held_is_in_every_headline(found: Sweep) -> None:
    rows = tuple(
        row
        if row["cost_usd_per_month"] is None
        else row | {"held_usd_per_month": 26_000.0, "total_usd_per_month": row["cost_usd_per_month"] + 26_000.0}
        for row in found.rows
    )
    held = replace(found, rows=rows)
    best = max((row for row in held.frontier if row["served_frac"] is not None), key=lambda row: row["served_frac"])
    page = as_page(what_if_document(held))
    assert f"{usd(best['total_usd_per_month'])} a month serves" in page
    assert "cost with what is held, $ / month" in page
    for before, after in zip(swings(found), swings(held), strict=True):
        assert after.low_usd_per_month == pytest.approx(before.low_usd_per_month + 26_000.0)


def test_hostile_text_is_inert(found: Sweep) -> None:
    rows = tuple({**row, "run": HOSTILE, "inputs": {HOSTILE: "=cmd()"}} for row in found.rows)
    hostile = Sweep(HOSTILE, (HOSTILE,), rows, found.budgets, found.gap_frac)
    assert as_page(what_if_document(hostile)).count("<script") == as_page(what_if_document(found)).count("<script") == 1
    assert only_our_tags(as_markdown(what_if_document(hostile)))
    for row in csv.reader(io.StringIO(csv_of(what_if_document(hostile), "what_if"))):
        assert not any(cell.startswith(("=", "@", "\t")) for cell in row)
    escape = Sweep("\x1b[31mred", (), tuple({**r, "run": "\x1b[2J"} for r in found.rows), (), 0.01)
    assert "\x1b" not in as_text(what_if_document(escape))


def test_the_json_of_a_frontier_is_a_list_of_points(found: Sweep) -> None:
    points = json.loads(what_if_json(found))
    assert all(set(p) >= FRONTIER_KEYS for p in points)
    assert as_page(what_if_document(found)) == as_page(what_if_document(found))


def test_the_command_writes_everything_and_resumes(tmp_path: Path, command: Command) -> None:
    case, journal = written(tmp_path, CASE), tmp_path / "runs.jsonl"
    arguments = ["what-if", case, "--budget", "1400", "--set", "policy.min_replicas=2,1", "--journal", journal]
    files = [tmp_path / name for name in ("a.csv", "a.json", "a.md", "a.parquet")]
    first = command(*arguments, "--out", files[0], "--html", tmp_path / "a.html", "--svg", tmp_path / "a.svg")
    assert first.code == 0, first.err
    assert "cost + penalty at least" in first.err
    lines = journal.read_text(encoding="utf-8").splitlines()
    for file in files[1:]:
        again = command(*arguments, "--out", file, "-q")
        assert (again.code, again.out) == (0, first.out)
        assert again.err == ""
    assert journal.read_text(encoding="utf-8").splitlines() == lines
    assert len(json.loads(files[1].read_text(encoding="utf-8"))) == 3
    import pandas as pd

    assert pd.read_parquet(files[3])["cost_usd_per_month"].notna().all()


@for_each(
    ("arguments", "code", "words"),
    [
        (["--budget", "100"], 3, "no run has a plan"),
        ([], 2, "nothing would change"),
        (["--budget", "x"], 2, "--budget x"),
        (["--set", "polcy.x=1"], 2, "Did you mean 'policy'"),
        (["--scale", "demand=2", "--svg", "a.svg"], 2, "--svg"),
        (["--scale", "demand=2", "--out", "a.xls"], 2, "End the name with"),
        (["--scale", "demand=2", "--executor", "magic"], 2, "executor"),
    ],
)
def test_mistakes_of_the_command(tmp_path: Path, command: Command, arguments: list[str], code: int, words: str) -> None:
    ran = command("what-if", written(tmp_path, STRICT), *arguments)
    assert ran.code == code
    assert words in ran.err


@pytest.mark.process
def test_what_nothing_may_be_turned_away_means_and_how_to_change_it(tmp_path: Path) -> None:
    case = written(tmp_path, STRICT)
    strict = run_script("what-if", case, "--budget", "1000", "--budget", "9k")
    assert strict.code == 0, strict.err
    assert "no fleet can meet the demand" in strict.out
    assert "--shed normal" in strict.out
    lenient = run_script("what-if", case, "--budget", "1000", "--shed", "low", "--format", "json", "-q")
    (point,) = json.loads(lenient.out)
    assert 0 < point["served_frac"] < 1


class Failing:
    """An executor on which one run fails by itself."""

    def results(self, work: Work, jobs: Sequence[Job]) -> Iterator[tuple[Job, Result]]:
        for k, (job, result) in enumerate(InProcess().results(work, jobs)):
            yield job, {"status": "error", "error": "ValueError: <b>no</b>"} if k == 1 else result


def test_a_run_that_fails_leaves_the_others_and_says_why(source: Source) -> None:
    inputs = [tuple(options_of("scale", "demand=0.5,1"))]
    found = sweep(source, grid(inputs), [], OPTIONS, Failing())
    costs = [row["cost_usd_per_month"] for row in found.rows]
    assert [cost is None for cost in costs].count(True) == 1
    failed = [row["status"] for row in found.rows if row["cost_usd_per_month"] is None]
    assert failed == ["error: ValueError: <b>no</b>"]
    assert "error: ValueError" in as_text(what_if_document(found))
    assert "<b>no</b>" not in as_page(what_if_document(found))


@pytest.mark.process
@pytest.mark.parametrize("executor", ["processes:2"])
def test_other_executors_give_the_same_table(executor: str, source: Source) -> None:
    inputs = [tuple(options_of("scale", "demand=0.5,1"))]
    here = sweep(source, grid(inputs), [], OPTIONS, InProcess())
    with executor_from(executor) as workers:
        there = sweep(source, grid(inputs), [], OPTIONS, workers)
    assert there.rows == here.rows
