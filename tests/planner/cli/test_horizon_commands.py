"""Plans of a horizon on the command line: every verb reads them, or says in one sentence what to do."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

import planner
from planner.pipeline import plan_horizon
from planner.plan.blocks import AnyPlan
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.plan import CostRange
from planner.plan.saved import plan_from_json
from planner.verbs.planning import KeptWork
from solvers.search.fleet_solution import Options
from solvers.search.horizon.horizon_search import HorizonSearch
from tests.support.command_line import Command
from tests.support.horizon_plans import horizon_plan, worst_case_plan
from tests.support.rows import for_each

TINY = """\
name: tiny
starts: 2027-01-01
horizon: 2 quarters
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 500k}
    tokens: {input: 900, output: 180}
    api: forbidden
scenarios:
  - {name: low, probability: 60%}
  - {name: high, probability: 40%, changes: {workloads.chat.forecast.growth_per_month: 5%}}
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand, reserved-1y], max_deployments: 1}
baseline: openai/gpt-4o-mini
"""
POLICY = "max_liability_usd: 50k\nmax_regret: 10%\nmin_coverage: 10%\nmin_utilization: 10%\nmax_gap: 3%\n"


@pytest.fixture
def fleetplan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    return Command(monkeypatch, capsys)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("horizon") / "h.json"
    file.write_text(horizon_plan().to_json(), encoding="utf-8")
    return file


def test_what_is_written_is_read_again(saved: Path) -> None:
    assert plan_from_json(saved.read_text()) == horizon_plan()


def test_report_writes_every_format(fleetplan: Command, saved: Path, tmp_path: Path) -> None:
    targets = ["--html", tmp_path / "h.html", "--markdown", tmp_path / "h.md", "--csv", tmp_path / "t"]
    ran = fleetplan("report", saved, "--format", "table", *targets, "--xlsx", tmp_path / "h.xlsx")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("growth   2027-01 to 2027-06 (2 quarters), 2 scenarios")
    assert (tmp_path / "h.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "h.md").read_text().startswith("# growth")
    assert (tmp_path / "t" / "sign_now.csv").read_text().startswith("offer,term,instances")
    assert (tmp_path / "h.xlsx").read_bytes()[:2] == b"PK"
    assert json.loads(fleetplan("report", saved, "--format", "json").out) == json.loads(saved.read_text())
    assert fleetplan("report", saved, "--format", "csv", "--table", "ladder").out.startswith("scenario,last_month")
    wrong = fleetplan("report", saved, "--format", "csv", "--table", "lader")
    assert wrong.code == 2 and "Did you mean 'ladder'?" in wrong.err


def test_a_budget_is_of_the_first_quarter_unless_another_is_named(fleetplan: Command, saved: Path) -> None:
    asked = ("report", saved, "--format", "focus", "--starts", "2027-01-01")
    first = fleetplan(*asked)
    assert first.code == 0 and first.out.startswith("BilledCost,")
    assert first.out == fleetplan(*asked, "--quarter", "1").out
    assert first.out != fleetplan(*asked, "--quarter", "2", "--scenario", "high").out


def test_verbs_act_on_the_first_quarter_unless_another_is_named(fleetplan: Command, saved: Path) -> None:
    """What is not of the whole plan; an ordinary plan is one of one quarter."""
    Path("q.json").write_text(horizon_plan().quarters[0].plan.to_json(), encoding="utf-8")
    for verb in (("explain", "--format", "json"), ("diff", "q.json"), ("calibrate", "--suggest")):
        of_horizon, of_quarter = (fleetplan(verb[0], *verb[1:], file) for file in (saved, "q.json"))
        assert (of_horizon.code, of_horizon.out) == (of_quarter.code, of_quarter.out) == (0, of_quarter.out), verb
    held = ", plus $" if horizon_plan().quarters[0].plan.held_usd_per_month else "nothing is held"
    assert held in fleetplan("explain", saved).out and held in fleetplan("study", saved, "--only", "providers").out
    later = fleetplan("explain", saved, "--quarter", "2", "--scenario", "high", "--format", "json")
    assert later.code == 0 and later.out != fleetplan("explain", saved, "--format", "json").out
    for file in (saved, "q.json"):
        assert fleetplan("check", file, "--quarter", "1").code == 0


def test_one_quarter_is_a_plan_as_any_other(fleetplan: Command, saved: Path, tmp_path: Path) -> None:
    target = tmp_path / "q2.json"
    assert fleetplan("report", saved, "--quarter", "2", "--scenario", "high", "--out", target).code == 0
    plan = planner.read_plan(target)
    assert planner.check_plan(plan.as_json()) == []
    assert plan == horizon_plan().plan_of(1, "high")
    shown = fleetplan("report", target, "--format", "table")
    whole = f"${plan.cost_usd_per_month + plan.held_usd_per_month:,.0f} / month  "
    assert shown.code == 0 and whole in shown.out and "paid in any case for what is held" in shown.out


def test_a_quarter_whose_range_was_not_worked_out_has_none(fleetplan: Command, tmp_path: Path) -> None:
    """Plans of blocks are put together without one."""
    plan, target = horizon_plan().plan_of(1, "high"), tmp_path / "q2.json"
    nothing = CostRange(mid_usd_per_month=plan.if_throughput_is_off.mid_usd_per_month)
    target.write_text(plan.model_copy(update={"if_throughput_is_off": nothing}).to_json(), encoding="utf-8")
    for format in ("table", "md"):
        assert "no plan keeps the limits" not in fleetplan("report", target, "--format", format).out
    page = tmp_path / "q2.html"
    assert fleetplan("report", target, "--html", page).code == 0
    assert "no plan keeps the limits" not in page.read_text()


@for_each(
    ("arguments", "words"),
    [
        (("report", "H", "--quarter", "3"), "the plan has 2 quarters"),
        (("report", "H", "--quarter", "2"), "quarter 2 has a plan for each scenario. Give one of low, high"),
        (("report", "H", "--quarter", "2", "--scenario", "hihg"), "Did you mean 'high'?"),
        (("report", "H", "--scenario", "high"), "applies to one quarter only. Add --quarter 2"),
        (("check", "H", "--scenario", "high"), "applies to one quarter only. Add --quarter 2"),
        (("study", "H", "--quarter", "1", "--out", "H"), "would overwrite"),
        (("diff", "Q", "Q", "--quarter", "2"), "the plan has 1 quarter. Leave it out"),
        (("study", "H", "--out", "H"), "would overwrite"),
        (("report", "Q", "--quarter", "1", "--scenario", "high"), "The plan has no scenarios: leave it out"),
        (("export", "H", "--to", "compose", "--out", "x"), "Name a scenario"),
        (("export", "H", "--to", "compose", "--out", "x", "--scenario", "low", "--month", "4"), "has 3 months"),
        (("check", "Q", "--policy", "P", "--against", "H"), "Add --quarter 1, or a later one"),
        (("check", "H", "--policy", "P", "--against", "Q"), "or add --quarter 1"),
        (("plan", "D", "--verify"), "then: fleetplan verify plan.json"),
        (("plan", "D", "--explain"), "then: fleetplan explain plan.json"),
        (("explain", "D"), "then give h.json"),
        (("what-if", "D", "--set", "horizon=1 quarter", "--set", "scenarios=[]"), "into a plan of one quarter"),
    ],
)
def test_what_cannot_be_done_is_said(
    fleetplan: Command, saved: Path, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    demand, one, policy = tmp_path / "tiny.yaml", tmp_path / "q.json", tmp_path / "policy.yaml"
    demand.write_text(TINY)
    policy.write_text("max_change: 15%\n")
    one.write_text(horizon_plan().quarters[0].plan.to_json(), encoding="utf-8")
    names = {"H": saved, "D": demand, "Q": one, "P": policy}
    ran = fleetplan(*(names.get(a, a) for a in arguments))
    assert ran.code == 2 and words in ran.err, ran
    assert ran.err.count("\n") == 1 and "Traceback" not in ran.err


def as_in_0_1(plan: AnyPlan) -> dict[str, Any]:
    """Its JSON in the formats of version 0.1, which had one for each kind of plan."""
    if isinstance(plan, HorizonPlan):
        quarters = [q.model_dump(mode="json", exclude={"plan"}) | {"plan": as_in_0_1(q.plan)} for q in plan.quarters]
        return plan.as_json() | {"format": "fleetplan-horizon/1", "quarters": quarters}
    return plan.as_json() | {"format": "fleetplan-plan/5"}


@pytest.mark.parametrize("which", ["quarters", "one"])
def test_files_of_the_format_before_are_read(fleetplan: Command, tmp_path: Path, which: str) -> None:
    plan: AnyPlan = horizon_plan() if which == "quarters" else horizon_plan().quarters[0].plan
    file, saved = tmp_path / "older.json", tmp_path / "today.json"
    file.write_text(json.dumps(as_in_0_1(plan)))
    assert planner.read_plan(file) == plan
    assert fleetplan("check", file).code == 0
    assert fleetplan("report", file, "--out", saved).code == 0
    assert saved.read_text() == plan.to_json()
    figure = "expected_cost_usd" if isinstance(plan, HorizonPlan) else "cost_usd_per_month"
    file.write_text(json.dumps(as_in_0_1(plan) | {figure: 1.0}))
    refused = fleetplan("check", file)
    assert refused.code == 2 and figure in refused.err


@for_each(
    ("text", "words"),
    [
        ('{"format": "fleetplan-plan/7", "fleetplan_version": "9.0"}', "written by fleetplan '9.0', expected"),
        ('{"format": "fleetplan-plan/7"}', "Update fleetplan"),
        ('{"format": "fleetplan-plan/4"}', "Plan it again"),
        ('{"format": "fleetplan-plan/6", "quarters": 3}', "not a plan of several quarters"),
        ('{"format": "fleetplan-horizon/1", "quarters": [1, {"plan": 2}]}', "not a plan of several quarters"),
        ('{"format": "fleetplan-plan/6",', "line 1 column"),
    ],
)
def test_what_is_no_plan_is_refused_in_words(fleetplan: Command, text: str, words: str) -> None:
    Path("none.json").write_text(text)
    for verb in ("check", "report", "explain", "verify"):
        ran = fleetplan(verb, "none.json")
        assert (ran.code, ran.out) == (2, "") and "none.json" in ran.err and words in ran.err, ran


def test_a_tampered_or_older_file_is_refused(fleetplan: Command, saved: Path, tmp_path: Path) -> None:
    data = json.loads(saved.read_text())
    tampered = tmp_path / "tampered.json"
    tampered.write_text(json.dumps(data | {"expected_cost_usd": 1.0}))
    assert "this plan fails its check: expected_cost_usd" in fleetplan("report", tampered).err
    tampered.write_text(json.dumps(data | {"format": "fleetplan-horizon/0", "fleetplan_version": "0.0.9"}))
    ran = fleetplan("report", tampered)
    assert ran.code == 2 and "written by fleetplan '0.0.9'" in ran.err


def test_export_takes_the_month_of_a_scenario(fleetplan: Command, saved: Path, tmp_path: Path) -> None:
    peaks = {}
    for month in ("1", "3"):
        out = tmp_path / f"high-{month}"
        ran = fleetplan("export", saved, "--to", "keda", "--out", out, "--scenario", "high", "--month", month)
        assert ran.code == 0, ran.err
        peaks[month] = sorted(p.read_text() for p in out.rglob("*.yaml"))
    assert peaks["1"] != peaks["3"]


def test_diff_takes_a_quarter(fleetplan: Command, saved: Path, tmp_path: Path) -> None:
    one = tmp_path / "q.json"
    one.write_text(horizon_plan().quarters[0].plan.to_json(), encoding="utf-8")
    assert fleetplan("diff", saved, one, "--quarter", "1").out == "no change\n"
    ran = fleetplan("diff", one, saved, "--quarter", "2", "--scenario", "high", "--exit-code")
    assert ran.code == 1 and "demand" in ran.out


def test_diff_of_two_horizons(fleetplan: Command, saved: Path) -> None:
    assert fleetplan("diff", saved, saved, "--exit-code").out == "no change\n"


def test_diff_and_check_name_different_measures(fleetplan: Command, saved: Path, tmp_path: Path) -> None:
    other, policy = tmp_path / "worst.json", tmp_path / "policy.yaml"
    other.write_text(worst_case_plan().to_json(), encoding="utf-8")
    policy.write_text("max_change: 15%\nmax_gap: 3%\n")
    worst, mean = horizon_plan().scenarios[1].cost_usd, horizon_plan().expected_cost_usd
    told = fleetplan("diff", saved, other).out
    assert told.startswith(f"worst case ${worst:,.0f} → ${worst:,.0f} over the horizon  (the same cost)")
    assert f"expected ${mean:,.0f} → ${mean:,.0f}" in told
    assert "the plans minimize different measures: the expected cost → the worst case" in told
    assert "different measures: the worst case → the expected cost" in fleetplan("diff", other, saved).out
    rules = json.loads(fleetplan("check", other, "--policy", policy, "--against", saved, "--format", "json").out)[
        "rules"
    ]
    detail = {rule["rule"]: rule["detail"] for rule in rules}
    assert (
        "in the worst case over the horizon; the previous plan minimizes another measure (expected)"
        in detail["max_change"]
    )
    assert detail["max_gap"].endswith("in the worst case, as recorded in the file")
    same = fleetplan("check", other, "--policy", policy, "--against", other, "--format", "json").out
    assert "another measure" not in same


def test_check_holds_a_horizon_against_a_policy(fleetplan: Command, saved: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY + "budget_usd_per_month: 100k\n")
    ran = fleetplan("check", saved, "--policy", policy, "--format", "json")
    found = {rule["rule"]: rule for rule in json.loads(ran.out)["rules"]}
    assert ran.code == 0 and len(found) == 6
    price = horizon_plan().commitments[0].usd_per_h
    assert found["max_liability_usd"]["value"] == pytest.approx((2 * 6 + 3 * 9) * 730 * price)
    high = horizon_plan().scenarios[1]
    assert high.if_known_usd is not None and high.regret_usd is not None
    regret = high.regret_usd / (high.if_known_usd + horizon_plan().held_usd)
    assert found["max_regret"]["value"] == pytest.approx(regret)
    assert found["budget_usd_per_month"]["detail"] == "quarter 2, high"
    policy.write_text(POLICY.replace("50k", "5k"))
    assert fleetplan("check", saved, "--policy", policy).code == 5


def test_validate_says_which_measure_is_minimized(fleetplan: Command, tmp_path: Path) -> None:
    demand = tmp_path / "tiny.yaml"
    for policy, told in (("", False), ("policy: {risk: expected}\n", False), ("policy: {risk: worst-case}\n", True)):
        demand.write_text(TINY + policy)
        assert ("the worst case is minimized" in fleetplan("validate", demand).out) is told


def test_validate_gives_the_first_and_last_month_with_requests(fleetplan: Command, tmp_path: Path) -> None:
    demand = tmp_path / "tiny.yaml"
    demand.write_text(TINY.replace("- name: chat\n", "- name: chat\n    from: 2027-02-01\n    until: 2027-05-31\n"))
    out = fleetplan("validate", demand).out
    assert "requests a month: 15,208,333 in 2027-02; 15,208,333 (low), 17,605,547 (high) in 2027-05" in out


def test_plan_of_a_demand_file_with_scenarios(fleetplan: Command, tmp_path: Path) -> None:
    """The whole way: YAML, optimizer, checker, report; what it says of itself is read again."""
    demand, out = tmp_path / "tiny.yaml", tmp_path / "h.json"
    demand.write_text(TINY)
    ran = fleetplan("plan", demand, "--gap", "5%", "--out", out, "--html", tmp_path / "h.html", "--quiet")
    assert ran.code == 0, ran.err
    assert "tiny   2027-01 to 2027-06 (2 quarters), 2 scenarios" in ran.out
    assert fleetplan("report", out, "--format", "md").code == 0
    demand.write_text(TINY + "policy: {risk: worst-case}\n")
    worst = tmp_path / "worst.json"
    ran = fleetplan("plan", demand, "--gap", "5%", "--out", worst, "--quiet")
    assert ran.code == 0, ran.err
    assert "worst case minimized" in ran.out and "  worst case: $" in ran.out
    expected, least = (plan_from_json(file.read_text()) for file in (out, worst))
    assert least.risk == "worst-case"
    assert least.bound_usd <= max(s.counted_usd for s in expected.scenarios) * (1 + 1e-9)
    assert expected.bound_usd <= sum(s.probability_frac * s.counted_usd for s in least.scenarios) * (1 + 1e-9)
    changed = tmp_path / "more.json"
    changed.write_text(horizon_plan().to_json(), encoding="utf-8")
    differing = fleetplan("diff", out, changed, "--exit-code")
    assert differing.code == 1 and "what is signed" in differing.out


@pytest.mark.parametrize(
    "where",
    [
        "optimization.horizon_answers.Answers.curve",
        "optimization.horizon_work.HorizonWork.plans",
        "pipeline.check_plan",
    ],
)
def test_an_interruption_late_in_a_horizon_writes_the_plan_and_exits_with_130(
    fleetplan: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    demand, out = tmp_path / "tiny.yaml", tmp_path / "h.json"
    demand.write_text(TINY)
    begun: list[str] = []

    def struck(*arguments: Any, **options: Any) -> Any:
        if not begun:
            begun.append(where)
            signal.raise_signal(signal.SIGINT)
        return usual(*arguments, **options)

    target = f"planner.{where}"
    usual = resolve_name(target)
    monkeypatch.setattr(target, struck)
    ran = fleetplan("plan", demand, "--gap", "5%", "--out", out)
    assert begun and ran.code == 130, ran
    assert "interrupted: the plan is checked" in ran.err
    written = plan_from_json(out.read_text())
    assert written.interrupted and written.status != "interrupted"
    assert planner.check_plan(json.loads(out.read_text())) == []


def test_a_horizon_that_is_kept_before_it_is_compared_passes_its_check() -> None:
    kept: list[HorizonPlan] = []
    plan = plan_horizon(planner.case_from_text(TINY), Options(gap_frac=0.05), on_kept=kept.append)
    (before,) = kept
    assert before.quarters == plan.quarters and before.commitments == plan.commitments
    for why, said in (("interrupted", "interrupted: the figures"), ("time-limit", "time ran out: the figures")):
        ended = KeptWork(before).ended(why).plan
        assert isinstance(ended, HorizonPlan) and ended.stopped == why
        assert planner.check_plan(ended.as_json()) == []
        assert [note.startswith(said) for note in ended.notes].count(True) == 1


def test_an_interruption_inside_a_search_that_compares_ends_all_of_them(
    fleetplan: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demand, out = tmp_path / "tiny.yaml", tmp_path / "h.json"
    demand.write_text(TINY)
    usual, searches = HorizonSearch._adapt, []

    def adapt(search: HorizonSearch) -> None:
        usual(search)
        searches.append(search)
        if len(searches) == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(HorizonSearch, "_adapt", adapt)
    ran = fleetplan("plan", demand, "--gap", "5%", "--out", out)
    assert ran.code == 130, ran
    assert len(searches) == 2
    written = plan_from_json(out.read_text())
    assert written.curve is None and "interrupted: the figures that are missing were not worked out" in written.notes


def test_a_quarter_without_a_plan_is_named(fleetplan: Command, tmp_path: Path) -> None:
    demand = tmp_path / "small.yaml"
    demand.write_text(TINY.replace("growth_per_month: 5%", "growth_per_month: 25%") + "policy: {max_gpus: {l40s: 4}}\n")
    ran = fleetplan("plan", demand, "--gap", "5%", "--quiet")
    assert ran.code == 3 and "in quarter 2, high:" in ran.err, ran
