"""`fleetplan verify` of the plan of a horizon: every quarter of every scenario, served for real."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("numba", reason="verify needs numba: pip install fleetplan[verify]")

import planner
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.verification.serving import ServeOptions, verify_plan
from solvers.backends.clock import TimeIsUp
from tests.planner.verification.test_sampling import stopped_after
from tests.support.command_line import Command
from tests.support.rows import for_each

TINY = """\
name: tiny
starts: 2027-01-01
horizon: 3 quarters
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 12k, shape: flat}
    tokens: {input: {p50: 400, p95: 1200}, output: {p50: 20, p95: 60}}
    api: forbidden
scenarios:
  - {name: low, probability: 40%}
  - {name: as low, probability: 30%}
  - {name: high, probability: 30%, changes: {workloads.chat.forecast.growth_per_month: 20%}}
menu: {gpus: [l4], quantizations: [fp8], purchase: [on-demand], max_deployments: 1}
baseline: openai/gpt-4o-mini
"""


@pytest.fixture(scope="module")
def horizon() -> HorizonPlan:
    return planner.plan_fleet(planner.case_from_text(TINY), planner.Options(gap_frac=0.2))


@pytest.fixture
def fleetplan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, horizon: HorizonPlan
) -> Command:
    monkeypatch.chdir(tmp_path)
    Path("h.json").write_text(horizon.to_json(), encoding="utf-8")
    return Command(monkeypatch, capsys)


def test_every_quarter_of_every_scenario_is_served(fleetplan: Command, horizon: HorizonPlan) -> None:
    ran = fleetplan("verify", "h.json", "--days", "1", "--out", "v.json", "--markdown", "v.md", "--html", "v.html")
    assert ran.code == 0, ran.err
    assert "9 quarters of 3 scenarios" in ran.out.splitlines()[0]
    assert "every promise kept" in ran.out.splitlines()[0]
    data = json.loads(Path("v.json").read_text())
    assert data["format"] == "fleetplan-horizon-verification/1"
    places = [(q["scenario"], q["quarter"]) for q in data["quarters"]]
    assert places == [(s, q) for s in ("low", "as low", "high") for q in (0, 1, 2)]
    months = {(q["scenario"], q["quarter"]): q["month"] for q in data["quarters"]}
    assert months["high", 0] == "2027-03" and months["high", 1] == "2027-06"
    run_of = {(q["scenario"], q["quarter"]): q["run"] for q in data["quarters"]}
    assert run_of["low", 0] == run_of["as low", 0] and run_of["low", 1] == run_of["as low", 1]
    assert run_of["low", 1] == run_of["low", 2], "the same demand on the same replicas, by other dates"
    assert len(set(run_of.values())) == len(data["runs"]) == 5
    alike = "quarter 2, low; quarter 3, low; quarter 2, as low; quarter 3, as low"
    assert f"served once for all, since requests and replicas are the same: {alike}" in ran.out
    # the quarter taken out gives the same figures
    (run,) = data["runs"][run_of["high", 1]]["runs"]
    alone = verify_plan(horizon.plan_of(1, "high"), ServeOptions(days=1, month=2))
    assert run == alone.model_dump(mode="json")
    assert run["requests"] == pytest.approx(12_000 * 1.2**5, rel=0.2)
    for file in ("v.md", "v.html"):
        text = Path(file).read_text()
        assert "2027-06" in text and "as low" in text


def test_a_missed_promise_anywhere_exits_with_6(fleetplan: Command) -> None:
    ran = fleetplan("verify", "h.json", "--days", "1", "--load", "20", "--quarter", "2", "--format", "md")
    assert ran.code == 6
    assert "3 quarters of 3 scenarios verified" in ran.out and "MISSED in " in ran.out
    assert "missed in quarter 2, high at 20 times the demand: chat T" in ran.out
    ran = fleetplan("verify", "h.json", "--days", "1", "--load", "1,2", "--quarter", "2", "--format", "json")
    assert ran.code == 0, "what is asked beyond the demand is no promise"
    data = json.loads(ran.out)
    assert [(q["scenario"], q["quarter"]) for q in data["quarters"]] == [("low", 1), ("as low", 1), ("high", 1)]
    assert [run["load"] for run in data["runs"][0]["runs"]] == [1, 2]


def test_quarters_that_were_served_until_time_ran_out_are_reported(
    fleetplan: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped_after(30, TimeIsUp(0.0), monkeypatch)
    ran = fleetplan("verify", "h.json", "--days", "1", "--out", "v.json", "--markdown", "v.md", "--html", "v.html")
    assert ran.code == 7, ran.err
    data = json.loads(Path("v.json").read_text())
    assert data["stopped"] == "the time limit was reached" and len(data["runs"]) == 2
    assert data["not_served"] == ["quarter 1, high", "quarter 2, high", "quarter 3, high"]
    assert "no promise missed so far; not verified: the time limit was reached" in ran.out.splitlines()[0]
    (run,) = data["runs"][1]["runs"]
    count = len(run["hours"][0]["hours"])
    assert count in (5, 6), "but for an hour in which requests are under way"
    assert f"quarter 2, low: chat: {count} of 24 hours: Mon 00h to Mon 0{count - 1}h" in ran.out
    assert all("not served: quarter 1, high" in Path(file).read_text() for file in ("v.md", "v.html"))


def test_one_quarter_is_a_plan_as_any_other(fleetplan: Command) -> None:
    ran = fleetplan("verify", "h.json", "--days", "1", "--quarter", "2", "--scenario", "low", "--format", "json")
    assert json.loads(ran.out)["format"] == "fleetplan-verification/1"
    ran = fleetplan("verify", "h.json", "--days", "1", "--quarter", "1", "--format", "json")
    assert "serving 2027-03, high, the busiest month of quarter 1" in ran.err


@for_each(
    ("arguments", "words"),
    [
        (("--slack", "--quarter", "2"), "--scenario: is needed: quarter 2 has a plan for each scenario"),
        (("--month", "9"), "--month: the plan has"),
        (("--log", "x.csv"), "x.csv"),
        (("--quarter", "4"), "the plan has 3 quarters"),
        (("--scenario", "hihg"), "Did you mean 'high'?"),
    ],
)
def test_what_needs_one_quarter_says_so(fleetplan: Command, arguments: tuple[str, ...], words: str) -> None:
    ran = fleetplan("verify", "h.json", *arguments)
    assert ran.code == 2 and words in ran.err, ran
    assert ran.err.count("\n") == 1
