"""The public face: every verb from Python and from the shell on the same case, with the same figures, and silent."""

from __future__ import annotations

import ast
import inspect
import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

import planner
from planner.case.case import Case, case_from_json
from planner.io.result import Result
from planner.plan.plan import Plan
from planner.reports.csv import table_csv
from planner.reports.results import VIEWS
from planner.reports.tables.plan import tables_of
from planner.studies.overrides import Scenario, Source, options_of
from tests.support import price_files
from tests.support.command_line import SMALL as USUAL
from tests.support.command_line import Command
from tests.support.horizon_plans import horizon_plan
from tests.support.model_configs import LLAMA_8B
from tests.support.places import ROOT
from tests.support.rows import for_each

QUICKSTART = ROOT / "examples" / "quickstart.yaml"
RESULTS = ROOT / "tests" / "planner" / "performance" / "calibration"
POLICY = ROOT / "examples" / "policies" / "production.yaml"
SMALL = USUAL.replace("400k}", "60k}\n    api: forbidden")
"""hosted, with few requests, so that they are served within seconds"""
LONGEST_REPR = 200
LOG = "time,model,prompt_tokens,completion_tokens\n" + "".join(
    f"2026-10-{1 + hour // 24:02d}T{hour % 24:02d}:{minute:02d}:00Z,llama-3.1-8b,{900 + hour},{100 + minute}\n"
    for hour in range(14 * 24)
    for minute in range(0, 60, 20)
)
POINTS = (
    "source,model,gpu,tp,dtype_weights,input_len,output_len,batch_or_concurrency,metric,value\n"
    "test,llama-3.1-8b,H100,1,fp16,1000,200,8,output_tok_s,900\n"
    "test,llama-3.1-8b,H100,1,fp16,1000,200,8,tpot_ms,9\n"
)
ASKED = "model,gpu,input,output,concurrency\nllama-3.1-8b,h100,1000,200,8\n"


@pytest.fixture(scope="module")
def case() -> Case:
    return planner.case_from_text(SMALL, "small.yaml")


@pytest.fixture(scope="module")
def plan(case: Case) -> Plan:
    made = planner.plan_fleet(case)
    assert isinstance(made, Plan)
    return made


@pytest.fixture
def fleetplan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, plan: Plan
) -> Command:
    """The shell in a folder that has the case and its plan."""
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL, encoding="utf-8")
    Path("plan.json").write_text(plan.to_json(), encoding="utf-8")
    Path("horizon.json").write_text(horizon_plan().to_json(), encoding="utf-8")
    return Command(monkeypatch, capsys)


@pytest.fixture
def silent(capsys: pytest.CaptureFixture[str]) -> Callable[[Callable[[], Any]], Any]:
    """What a call returns, once it has printed nothing and the result does what every result can do."""

    def called(call: Callable[[], Any]) -> Any:
        capsys.readouterr()
        result = call()
        shows_itself(result)
        assert capsys.readouterr() == ("", "")
        return result

    return called


def shows_itself(result: Result) -> None:
    text = repr(result)
    assert text.startswith(f"{type(result).__name__}(")
    assert len(text) < LONGEST_REPR
    assert "\n" not in text
    assert str(result) == text
    names = result.frames()
    assert len(set(names)) == len(names) > 0
    for name in names:
        frame = result.frame(name)
        assert isinstance(frame, pd.DataFrame)
        assert len(frame.columns)
    assert "<" in result._repr_html_()


def as_saved(result: Result) -> Any:
    return json.loads(result.save("saved.json").read_text(encoding="utf-8"))


# -- every verb, both ways --------------------------------------------------------------------------------


def test_plan(fleetplan: Command, silent: Any) -> None:
    made = silent(lambda: planner.plan_fleet(QUICKSTART))
    ran = fleetplan("plan", QUICKSTART, "--format", "json", "--csv", "tables")
    assert as_saved(made) == json.loads(ran.out)
    for table in Path("tables").iterdir():
        same_table(made.frame(table.stem), table)
    assert sorted(made.frames()) == sorted(table.stem for table in Path("tables").iterdir())
    assert repr(made) == f"Plan(quickstart, 1 workload, ${made.cost_usd_per_month:,.0f} / month, proved optimal)"


def same_table(frame: pd.DataFrame, file: Path) -> None:
    """What pandas reads of a CSV file is what the frame has; a quote there keeps spreadsheets from seeing a formula."""
    read = pd.read_csv(file).replace(r"^'(?=[-+=@])", "", regex=True)
    again = pd.read_csv(io.StringIO(frame.to_csv(index=False)))
    assert list(frame.columns) == list(read.columns)
    pd.testing.assert_frame_equal(read, again, check_exact=True)


def test_plan_of_a_horizon(fleetplan: Command, silent: Any) -> None:
    text = SMALL.replace("[fp8, fp16]", "[fp8]").replace("[on-demand, spot, reserved-1y]", "[on-demand, reserved-1y]")
    Path("horizon.yaml").write_text(f"starts: 2027-01-01\nhorizon: 2 quarters\n{text}", encoding="utf-8")
    made = silent(lambda: planner.plan_fleet("horizon.yaml"))
    assert isinstance(made, planner.HorizonPlan)
    ran = fleetplan("plan", "horizon.yaml", "--format", "json", "--csv", "tables")
    assert as_saved(made) == json.loads(ran.out)
    for table in Path("tables").iterdir():
        same_table(made.frame(table.stem), table)
    assert planner.plan_fleet(planner.load_case("horizon.yaml")) == made


def test_explain(fleetplan: Command, silent: Any, plan: Plan, case: Case) -> None:
    explanation = silent(lambda: planner.explain(plan))
    assert as_saved(explanation) == json.loads(fleetplan("explain", "plan.json", "--format", "json").out)
    at_once = planner.explain(case, plan, planner.Options(time_limit_s=0.001))
    assert at_once.not_tried
    assert at_once.case_hash == explanation.case_hash
    with pytest.raises(planner.InputError, match="Did you mean 'chat'"):
        planner.explain("plan.json", workload="chats")
    assert list(explanation.frame("levers")["lever"]) == [lever.lever for lever in explanation.levers]


def test_study(fleetplan: Command, silent: Any, plan: Plan) -> None:
    studied = silent(lambda: planner.study(plan))
    ran = fleetplan("study", "plan.json", "--format", "json", "--keep-plans", "steps", "--out", "studied.json")
    assert as_saved(studied) == json.loads(ran.out)
    assert {file.stem for file in Path("steps").iterdir()} == set(studied.steps)
    steps_of_plan = [step.key for step in studied.plan.studies.waterfall.steps]
    assert list(studied.frame("waterfall")["step"]) == [*steps_of_plan, "naive"]
    unpacked, steps = planner.study("plan.json", only="providers")
    assert steps == {}
    assert unpacked.studies.providers == studied.plan.studies.providers


def test_plan_that_is_served(fleetplan: Command, silent: Any) -> None:
    pytest.importorskip("numba")
    made = silent(lambda: planner.plan_fleet("small.yaml", verify=True))
    assert as_saved(made) == json.loads(fleetplan("plan", "small.yaml", "--verify", "--format", "json").out)
    assert made.verified is not None


def test_a_plan_with_studies_has_those_of_the_plan(plan: Plan) -> None:
    made = planner.plan_fleet(plan.case, study=True)
    assert isinstance(made, Plan)
    assert made.studies == planner.study(plan).plan.studies


def test_what_if(fleetplan: Command, silent: Any, case: Case) -> None:
    swept = silent(lambda: planner.what_if(case, changes={"policy.min_replicas": [2, 3]}, without=["spot"], each=True))
    given = ("--set", "policy.min_replicas=2,3", "--without", "spot", "--each")
    ran = fleetplan("what-if", "small.yaml", *given, "--format", "json", "--out", "what-if.csv")
    assert as_saved(swept) == json.loads(ran.out)
    same_table(swept.frame("what_if"), Path("what-if.csv"))
    assert swept.save("own.csv").read_text() == Path("what-if.csv").read_text()


def test_what_if_of_budgets(fleetplan: Command, silent: Any) -> None:
    swept = silent(lambda: planner.what_if("small.yaml", budgets=[500, "1k:2k:2"], shed="low"))
    ran = fleetplan(
        "what-if", "small.yaml", "--budget", "500", "--budget", "1k:2k:2", "--shed", "low", "--format", "json"
    )
    assert as_saved(swept) == json.loads(ran.out)
    assert swept.gap_frac == 0.01


def test_verify(fleetplan: Command, silent: Any, plan: Plan) -> None:
    pytest.importorskip("numba")
    report = silent(lambda: planner.verify(plan, days=1, load=[1, 1.2]))
    ran = fleetplan("verify", "plan.json", "--days", "1", "--load", "1,1.2", "--format", "json")
    assert as_saved(report) == json.loads(ran.out)
    promises = report.frame("promises")
    assert set(promises["load"]) == {1.0, 1.2}
    assert promises["kept"].all() == report.kept


def test_verify_a_horizon(fleetplan: Command, silent: Any) -> None:
    pytest.importorskip("numba")
    served = silent(lambda: planner.verify(horizon_plan(), days=1, load=0.01))
    ran = fleetplan("verify", "horizon.json", "--days", "1", "--load", "0.01", "--format", "json")
    assert as_saved(served) == json.loads(ran.out)
    first = silent(lambda: planner.verify("horizon.json", month=1, days=1, load=0.01))
    assert isinstance(first, planner.VerificationReport)


def test_review(fleetplan: Command, silent: Any) -> None:
    shutil.copytree(ROOT / "examples" / "quarterly-review", "review")
    reviewed = silent(lambda: planner.review("review/REVIEW.yaml"))
    ran = fleetplan("review", "review/REVIEW.yaml", "--format", "json", "--csv", "tables", "--plan", "next.json")
    assert as_saved(reviewed) == json.loads(ran.out)
    assert reviewed.next_plan.to_json() == Path("next.json").read_text(encoding="utf-8")
    assert sorted(reviewed.frames()) == sorted(table.stem for table in Path("tables").iterdir())
    for table in Path("tables").iterdir():
        same_table(reviewed.frame(table.stem), table)


def test_check(fleetplan: Command, silent: Any, plan: Plan) -> None:
    check = silent(lambda: planner.check(plan, policy=POLICY, as_of="2026-11-01", prove=True))
    ran = fleetplan("check", "plan.json", "--policy", POLICY, "--as-of", "2026-11-01", "--prove", "--format", "json")
    assert as_saved(check) == json.loads(ran.out)
    assert check.bound.verdict == "confirmed"
    unproved = planner.check("plan.json", policy=planner.load_policy(POLICY), as_of="2026-11-01")
    assert [(r.rule, r.passed) for r in unproved.rules] == [(r.rule, r.passed) for r in check.rules]
    for recorded, recomputed in zip(
        unproved.rules, check.rules, strict=True
    ):  # a bound is found again but for rounding
        same = pytest.approx(recomputed.value, abs=1e-9) if isinstance(recomputed.value, float) else recomputed.value
        assert recorded.value == same
    assert planner.check("horizon.json").passed


def test_diff(fleetplan: Command, silent: Any, plan: Plan, case: Case) -> None:
    busier = planner.plan_fleet(case.with_changes({"workloads.chat.forecast.requests_per_day": "900k"}))
    Path("busier.json").write_text(busier.to_json(), encoding="utf-8")
    changes = silent(lambda: planner.diff(plan, busier))
    assert as_saved(changes) == json.loads(fleetplan("diff", "plan.json", "busier.json", "--format", "json").out)
    assert len(changes.frame("fleet")) == len(changes.fleet)


def test_diff_of_horizons(fleetplan: Command, silent: Any) -> None:
    changes = silent(lambda: planner.diff("horizon.json", horizon_plan()))
    ran = fleetplan("diff", "horizon.json", "horizon.json", "--format", "json")
    assert as_saved(changes) == json.loads(ran.out)
    one = planner.diff("horizon.json", "horizon.json", quarter=2, scenario="low")
    ran = fleetplan("diff", "horizon.json", "horizon.json", "--quarter", "2", "--scenario", "low", "--format", "json")
    assert one.as_json() == json.loads(ran.out)


@for_each(
    ("to", "options"),
    [
        ("text", ("--format", "table")),
        ("markdown", ("--format", "md")),
        ("csv", ("--format", "csv", "--table", "workloads")),
        ("json", ("--format", "json")),
        ("focus", ("--format", "focus", "--starts", "2026-10-01")),
    ],
)
def test_report(
    to: str, options: tuple[str, ...], fleetplan: Command, capsys: pytest.CaptureFixture[str], plan: Plan
) -> None:
    capsys.readouterr()
    starts = "2026-10-01" if to == "focus" else None
    text = planner.report(plan, to=to, table="workloads" if to == "csv" else None, starts=starts)
    assert capsys.readouterr() == ("", "")
    assert text == fleetplan("report", "plan.json", *options).out


def test_report_of_a_horizon(fleetplan: Command) -> None:
    assert planner.report("horizon.json", to="text") == fleetplan("report", "horizon.json", "--format", "table").out
    assert planner.report("horizon.json", to="csv") == fleetplan("report", "horizon.json", "--format", "csv").out
    first = planner.report("horizon.json", to="json", quarter=1)
    assert first == fleetplan("report", "horizon.json", "--quarter", "1", "--format", "json").out
    with pytest.raises(planner.InputError, match="applies to one quarter only"):  # which one is not said
        planner.report("horizon.json", to="text", scenario="low")


def test_pages_are_those_of_the_shell(fleetplan: Command, plan: Plan) -> None:
    fleetplan("report", "plan.json", "--html", "shell.html", "--markdown", "shell.md", "--xlsx", "shell.xlsx")
    for ending in ("html", "md", "xlsx"):
        assert plan.save(f"own.{ending}").read_bytes() == Path(f"shell.{ending}").read_bytes()
    assert planner.report(plan) == Path("shell.html").read_text(encoding="utf-8")
    with pytest.raises(planner.InputError, match="unknown file extension"):
        plan.save("plan.pdf")


def test_export(fleetplan: Command, silent: Any, plan: Plan) -> None:
    exported = silent(lambda: planner.export(plan, to="kubernetes", headroom="20%"))
    fleetplan("export", "plan.json", "--to", "kubernetes", "--headroom", "20%", "--out", "shell")
    exported.write("own")
    files = {file.relative_to("shell") for file in Path("shell").rglob("*") if file.is_file()}
    assert files == {file.relative_to("own") for file in Path("own").rglob("*") if file.is_file()}
    assert all((Path("own") / file).read_bytes() == (Path("shell") / file).read_bytes() for file in files)
    assert set(exported.frame("files")["path"]) == set(exported.files)


def test_estimate(fleetplan: Command, silent: Any) -> None:
    estimate = silent(lambda: planner.estimate(model="llama-3.1-8b", gpu="h100", input=1000, output=200, tpot_p95=0.05))
    asked = ("--model", "llama-3.1-8b", "--gpu", "h100", "--input", "1000", "--output", "200", "--tpot-p95", "50ms")
    assert as_saved(estimate) == json.loads(fleetplan("estimate", *asked, "--format", "json").out)
    assert len(estimate.frame("sweep")) == len(estimate.sweep)
    spread = {"input_p95": "4k", "output_p95": 451, "rate": 3.0}
    loaded = planner.estimate("llama-3.1-8b", "h100", "1k", "200", **spread)
    more = ("--input-p95", "4k", "--output-p95", "451", "--rate", "3")
    assert as_saved(loaded) == json.loads(fleetplan("estimate", *asked[:8], *more, "--format", "json").out)


def test_estimates_of_points_and_accuracy(fleetplan: Command, silent: Any) -> None:
    Path("points.csv").write_text(POINTS, encoding="utf-8")
    scored = silent(lambda: planner.accuracy("points.csv"))
    ran = fleetplan("accuracy", "points.csv", "--out", "scored.csv", "--format", "json")
    assert as_saved(scored) == json.loads(ran.out)
    assert len(scored.scored) == 2
    same_table(scored.frame("rows"), Path("scored.csv"))
    Path("ask.csv").write_text(ASKED, encoding="utf-8")
    points = silent(lambda: planner.estimate_points("ask.csv"))
    assert as_saved(points) == json.loads(fleetplan("estimate", "--points", "ask.csv", "--format", "json").out)


def test_calibrate(fleetplan: Command, silent: Any, plan: Plan) -> None:
    results = sorted((ROOT / "tests").rglob("vllm_new.jsonl"))[:1]
    done = silent(lambda: planner.calibrate(results))
    ran = fleetplan("calibrate", *results, "--out", "shell.yaml", "--format", "json")
    assert as_saved(done) == json.loads(ran.out)
    assert done.save("own.yaml").read_text() == Path("shell.yaml").read_text()
    found = silent(lambda: planner.suggest_benchmarks(plan))
    assert as_saved(found) == json.loads(fleetplan("calibrate", "--suggest", "plan.json", "--format", "json").out)


def test_demand(fleetplan: Command, silent: Any) -> None:
    pytest.importorskip("ibis")
    Path("log.csv").write_text(LOG, encoding="utf-8")
    made = silent(lambda: planner.demand("log.csv", by="model"))
    ran = fleetplan("demand", "log.csv", "--by", "model", "--out", "shell.yaml", "--format", "json")
    assert as_saved(made) == json.loads(ran.out)
    assert made.save("own.yaml").read_text() == Path("shell.yaml").read_text()


def test_validate(fleetplan: Command, silent: Any) -> None:
    valid = silent(lambda: planner.validate("small.yaml"))
    assert as_saved(valid) == json.loads(fleetplan("validate", "small.yaml", "--format", "json").out)
    Path("bad.yaml").write_text(SMALL.replace("60k", "-1"), encoding="utf-8")
    with pytest.raises(planner.InputError) as refused:
        planner.validate("bad.yaml")
    assert str(refused.value) in fleetplan("validate", "bad.yaml").err


def test_init_and_schema(fleetplan: Command, capsys: pytest.CaptureFixture[str]) -> None:
    Path("own").mkdir()
    Path("shell").mkdir()
    capsys.readouterr()
    written = planner.init("own/demand.yaml")
    schema = planner.schema()
    assert capsys.readouterr() == ("", "")
    fleetplan("init", "shell/demand.yaml")
    assert [file.read_text() for file in written] == [(Path("shell") / file.name).read_text() for file in written]
    assert schema == json.loads(fleetplan("schema").out)


@pytest.mark.parametrize("asked", [(), ("offers", "h100"), ("models", "llama-3.1-8b")])
def test_catalog(asked: tuple[str, ...], fleetplan: Command, silent: Any) -> None:
    answer = silent(lambda: planner.catalog_entries(*asked, as_of="2026-11-01"))
    assert as_saved(answer) == json.loads(fleetplan("catalog", *asked, "--as-of", "2026-11-01", "--format", "json").out)


def test_catalog_add_model(fleetplan: Command, silent: Any) -> None:
    Path("config.json").write_text(json.dumps(LLAMA_8B), encoding="utf-8")
    added = silent(lambda: planner.add_model("config.json", name="acme/chat-8B"))
    ran = fleetplan("catalog", "add-model", "config.json", "--name", "acme/chat-8B", "--out", "shell.yaml",
                    "--format", "json")  # fmt: skip
    assert as_saved(added) == json.loads(ran.out)
    assert added.save("own.yaml").read_text() == Path("shell.yaml").read_text()


def test_catalog_import_and_diff(fleetplan: Command, silent: Any) -> None:
    price_files.skypilot(Path("sky"), "aws", "g6e.xlarge,L40S,1,1.5,0.9,us-east-1,a")
    made = silent(lambda: planner.import_prices("sky", "skypilot", as_of="2026-11-01"))
    given = ("catalog", "import", "sky", "--from", "skypilot", "--as-of", "2026-11-01", "--format", "json")
    assert as_saved(made) == json.loads(fleetplan(*given, "--out", "shell.yaml").out)
    assert made.save("own.yaml").read_text() == Path("shell.yaml").read_text()
    changes = silent(lambda: planner.diff_catalogs("shipped", "own.yaml"))
    ran = fleetplan("catalog", "diff", "shipped", "own.yaml", "--format", "json")
    assert as_saved(changes) == json.loads(ran.out)


def test_a_price_that_jumps_is_not_saved_unless_it_is_accepted(tmp_path: Path) -> None:
    price_files.skypilot(tmp_path / "sky", "aws", "g6e.xlarge,L40S,1,99,0.9,us-east-1,a")
    made = planner.import_prices(tmp_path / "sky", "skypilot", as_of="2026-11-01")
    with pytest.raises(planner.InputError, match="nothing was written"):
        made.save(tmp_path / "prices.yaml")
    assert made.save(tmp_path / "prices.yaml", accept=True).exists()


# -- results ----------------------------------------------------------------------------------------------


def test_a_case_shows_itself(silent: Any, case: Case) -> None:
    assert silent(lambda: case) == case
    assert repr(case) == "Case(case, 1 workload, 3 offers)"


def test_frames_are_the_csv_tables(plan: Plan) -> None:
    for table in tables_of(plan):
        read = pd.read_csv(io.StringIO(table_csv(table)))
        assert list(plan.frame(table.name).columns) == list(read.columns)
        assert len(plan.frame(table.name)) == len(read)


def test_a_table_that_is_not_there_is_named(plan: Plan) -> None:
    with pytest.raises(planner.InputError, match="Did you mean 'fleet'"):
        plan.frame("fleets")


def test_a_name_never_makes_a_long_repr(case: Case) -> None:
    long = case.model_copy(update={"name": "\x1b[31m" + 500 * "n"})
    assert len(repr(long)) < LONGEST_REPR
    assert "\x1b" not in repr(long)


def test_every_result_has_a_view() -> None:
    """A class that claims to be a result says how it is shown."""
    for name in planner.__all__:
        getattr(planner, name)
    results = list(Result.__subclasses__())
    for cls in results:
        results += cls.__subclasses__()
    assert [cls.__name__ for cls in results if not any(c.__name__ in VIEWS for c in cls.__mro__)] == []
    assert set(VIEWS) <= {cls.__name__ for cls in results}


# -- changes ----------------------------------------------------------------------------------------------


@for_each(
    ("path", "value", "text"),
    [
        ("workloads.chat.forecast.requests_per_day", "900k", "900k"),
        ("workloads.chat.forecast.requests_per_day", 900_000, "900k"),
        ("workloads.chat.slo.ttft_p95", "1s", "1s"),
        ("prices.l40s.on_demand", "-20%", "-20%"),
        ("policy.min_replicas", 3, "3"),
        ("menu.purchase", ["on-demand"], "[on-demand]"),
        ("menu.quantizations", ["fp8", "fp16"], "[fp8, fp16]"),
    ],
)
def test_changes_are_those_of_what_if(path: str, value: object, text: str, tmp_path: Path) -> None:
    file = tmp_path / "case.yaml"
    file.write_text(SMALL, encoding="utf-8")
    changed = planner.load_case(file).with_changes({path: value})
    assert changed == Source(file).changed(Scenario(tuple(options_of("set", f"{path}={text}"))))
    assert (changed == planner.load_case(file)) == (path == "menu.quantizations")


def test_changes_add_up_and_leave_the_case_as_it_is(case: Case) -> None:
    before = case.as_json()
    one = case.with_changes({"policy.min_replicas": 3})
    both = one.with_changes({"menu.purchase": ["on-demand"]})
    assert both == case.with_changes({"policy.min_replicas": 3, "menu.purchase": ["on-demand"]})
    assert both.limits.min_replicas == 3
    assert case.as_json() == before


def test_a_wrong_path_is_answered_with_the_right_one(case: Case) -> None:
    with pytest.raises(planner.InputError, match="Did you mean 'requests_per_day'"):
        case.with_changes({"workloads.chat.forecast.request_per_day": "900k"})
    with pytest.raises(planner.InputError, match="2 values"):
        case.with_changes({"policy.min_replicas": "2,3"})


def test_a_case_of_a_plan_or_one_changed_otherwise_says_what_to_do(case: Case) -> None:
    with pytest.raises(planner.InputError, match="Read the demand file"):
        case_from_json(case.as_json()).with_changes({"policy.min_replicas": 3})
    with pytest.raises(planner.InputError, match="no longer matches its demand file"):
        case.model_copy(update={"purchase": ("on-demand",)}).with_changes({"policy.min_replicas": 3})


def test_where_a_case_comes_from_is_neither_saved_nor_compared(case: Case) -> None:
    assert case_from_json(case.as_json()) == case
    assert case == case_from_json(case.as_json())
    assert "origin" not in json.dumps(case.as_json())


# -- names ------------------------------------------------------------------------------------------------


def test_public_names_are_listed() -> None:
    assert dir(planner) == sorted(planner.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        planner.nothing  # noqa: B018


def test_types_and_names_agree() -> None:
    """What mypy and editors see is what is imported on first use."""
    tree = ast.parse(Path(planner.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom) and node.module != "typing"]
    assert {alias.name: node.module for node in imports for alias in node.names} == planner._WHERE


def test_every_public_name_is_documented() -> None:
    text = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)[`(]", text.split("## Public names")[1]))
    assert set(planner.__all__) <= named
    assert [name for name in planner.__all__ if not inspect.getdoc(getattr(planner, name))] == []


def test_functions_are_typed() -> None:
    for name in planner.__all__:
        function = planner.public(name)
        if inspect.isfunction(function):
            signature = inspect.signature(function)
            bare = [p for p in signature.parameters.values() if p.annotation is inspect.Parameter.empty]
            assert not bare, name
            assert signature.return_annotation is not inspect.Signature.empty, name


def test_rooms_that_have_the_name_of_a_verb_are_both() -> None:
    from planner.export import folder
    from planner.review import read_review

    assert folder.write_folder
    assert read_review is planner.read_review
    for name in ("export", "review"):
        assert inspect.signature(getattr(planner, name)) == inspect.signature(planner.public(name))


def test_nothing_is_imported_before_it_is_used() -> None:
    code = "import sys, planner; dir(planner); print([m for m in sys.modules if m.startswith(('planner.', 'pandas'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_guide_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The first two blocks of the guide, with a plan at hand for the example that they plan."""
    text = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    first, second, *_ = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", "examples")
    told = yaml.safe_load(QUICKSTART.read_text(encoding="utf-8"))
    told["menu"] |= {"gpus": ["l40s"], "quantizations": ["fp8"]}
    Path("examples/quickstart.yaml").write_text(yaml.safe_dump(told), encoding="utf-8")
    names: dict[str, Any] = {}
    exec(first + second, names)
    assert Path("plan.json").exists()
    assert names["dearer"].case != names["plan"].case
