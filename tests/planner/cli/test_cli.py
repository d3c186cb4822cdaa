"""The command line, for real: what goes to stdout and stderr, which file is written, and the exit codes."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer

import planner
from planner import pipeline
from planner.case.demand import load as loading
from planner.catalog.entries import shipped_catalog
from planner.cli.command import app
from planner.io.formatting import percent
from planner.reports.phrases import NO_BOUND_FRAC
from solvers.backends.child import run_child
from solvers.backends.clock import Stopped, ask_to_stop, stoppable
from solvers.backends.trouble import SolverMissing
from tests.support.command_line import HARD, SCRIPT, SMALL, Command, run_script
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.rows import for_each

VERBS = tuple(typer.main.get_group(app()).commands)
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")


@pytest.fixture
def fleetplan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """In an empty folder."""
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL, encoding="utf-8")
    Path("hard.yaml").write_text(HARD, encoding="utf-8")
    return Command(monkeypatch, capsys)


def write(text: str) -> str:
    Path("case.yaml").write_text(text, encoding="utf-8")
    return "case.yaml"


# -- plan: what comes out -------------------------------------------------------------------------------------------


def test_plan_prints_the_answer_first(fleetplan: Command) -> None:
    ran = fleetplan("plan", "small.yaml")
    assert (ran.code, ran.err) == (0, "")
    head = ran.out.splitlines()[:4]
    assert head[0].startswith("small   1 workload, 48 slots")
    assert "proved" in head[0]
    assert "/ month" in head[1] and "openai gpt-4o-mini" in head[1]
    assert "same model at" in head[2] and "more" in head[2]
    assert "/ 1M tokens" in head[3]
    for section in ("workload", "What could change the cost", "read on: --verbose"):
        assert f"\n  {section}" in ran.out
    assert "options for chat" not in ran.out
    whole = fleetplan("plan", "small.yaml", "--verbose").out
    for section in ("fleet", "workload", "options for chat", "assumed, since the demand file does not say"):
        assert f"\n  {section}" in whole


def test_plan_as_json_has_the_documented_keys(fleetplan: Command) -> None:
    ran = fleetplan("plan", "small.yaml", "--format", "json")
    assert (ran.code, ran.err) == (0, "")
    plan = json.loads(ran.out)
    assert plan["format"] == "fleetplan-plan/6"
    assert plan["status"] in ("optimal", "within-gap")
    assert 0 < plan["bound_usd_per_month"] <= plan["cost_usd_per_month"] * (1 + 1e-9)
    assert 0 <= plan["gap_frac"] <= 0.001
    baseline = plan["baseline"]
    assert (baseline["provider"], baseline["model"]) == ("openai", "gpt-4o-mini")
    saved = 1 - plan["cost_usd_per_month"] / baseline["cost_usd_per_month"]
    assert baseline["savings_frac"] == pytest.approx(saved)
    assert plan["fleet"] and plan["workloads"] and plan["assumptions"]
    assert planner.check_plan(plan) == []


def test_plan_and_its_file_are_the_same_bytes_every_time(fleetplan: Command) -> None:
    first = fleetplan("plan", "small.yaml", "--out", "a.json", "--format", "json")
    second = fleetplan("plan", "small.yaml", "-o", "b.json", "--quiet")
    assert (first.code, second.code) == (0, 0)
    assert first.err == "wrote a.json\n"
    assert second.err == ""
    assert Path("a.json").read_text(encoding="utf-8") == first.out
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()
    assert sorted(os.listdir()) == ["a.json", "b.json", "hard.yaml", "small.yaml"]
    assert planner.read_plan("a.json").to_json() == first.out


@pytest.mark.process
def test_the_installed_command_gives_the_same_bytes(fleetplan: Command) -> None:
    script = run_script("plan", "small.yaml", "--format", "json")
    assert (script.code, script.err) == (0, "")
    assert script.out == fleetplan("plan", "small.yaml", "--format", "json").out


def test_a_plan_that_is_not_proved_enough_is_written_and_exits_with_4(fleetplan: Command) -> None:
    unmixed = write(HARD.replace("max_deployments: 2", "max_deployments: 1"))
    limits = ("--gap", "30%", "--require-gap", "0.001%")
    ran = fleetplan("plan", unmixed, "--out", "plan.json", "--format", "json", *limits)
    assert ran.code == 4
    assert "0.001% was required" in ran.err
    plan = json.loads(Path("plan.json").read_text(encoding="utf-8"))
    assert plan == json.loads(ran.out)
    assert plan["status"] == "within-gap"
    assert plan["gap_frac"] > 1e-5
    assert planner.check_plan(plan) == []


def test_a_required_gap_that_is_reached_exits_with_0(fleetplan: Command) -> None:
    assert fleetplan("plan", "small.yaml", "--require-gap", "1%").code == 0


def test_an_optimal_plan_meets_any_required_gap(fleetplan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    best = planner.plan_fleet(planner.load_case("small.yaml"))
    noisy = best.model_copy(update={"status": "optimal", "gap_frac": 1e-9})
    monkeypatch.setattr(pipeline, "plan_fleet", lambda *_: noisy)
    assert fleetplan("plan", "small.yaml", "--require-gap", "0%").code == 0


# -- plan: what goes wrong ------------------------------------------------------------------------------------------


@for_each(
    ("options", "words"),
    [
        (("--gap", "5"), "--gap: needs a percent sign, got '5'. Write \"5%\"."),
        (("--gap", "200%"), "--gap: must lie between 0% and 100%"),
        (("--gap", "-1%"), "--gap: cannot be negative"),
        (("--gap", "nan"), "--gap: expected a percentage"),
        (("--require-gap", "lots"), "--require-gap: expected a percentage"),
        (("--time-limit", "10"), '--time-limit: needs a unit, got \'10\'. Write "10s" or "10ms".'),
        (("--time-limit", "-3s"), "--time-limit: a duration cannot be negative"),
        (("--solver", "gurobi"), "'--solver'"),
        (("--format", "xml"), "'--format'"),
        (("--frobnicate",), "No such option"),
        (("other.yaml",), "unexpected extra argument"),
    ],
)
def test_bad_options_exit_with_2(options: tuple[str, ...], words: str, fleetplan: Command) -> None:
    ran = fleetplan("plan", "small.yaml", "--out", "plan.json", *options)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert not Path("plan.json").exists()


def test_unknown_command_exits_with_2(fleetplan: Command) -> None:
    ran = fleetplan("frobnicate")
    assert (ran.code, ran.out) == (2, "")
    assert "No such command 'frobnicate'" in ran.err


NO_L40S = "{aws/g6e.xlarge: 0, aws/g6e.12xlarge: 0, aws/g6e.48xlarge: 0}"
FORBIDDEN = SMALL.replace("    quality:", "    api: forbidden\n    quality:").replace(
    "menu: {", "menu: {max_deployments: 1, "
)


@for_each(
    ("text", "words"),
    [
        (FORBIDDEN.replace("llama-3.1-8b", "llama-3.1-405b"), "'chat': nothing on the menu can serve it"),
        (FORBIDDEN.replace("quality:", "slo: {ttft_p95: 1ms}\n    quality:"), "'chat': nothing on the menu can"),
        (SMALL.replace("8b]", "405b]").replace("fp16],", "fp16], apis: [],"), "no API is on the menu"),
        (SMALL + "policy: {budget_usd_per_month: $5}\n", "policy.budget_usd_per_month"),
        (FORBIDDEN + "policy: {max_gpus: {l40s: 1}}\n", "policy.max_gpus"),
        (FORBIDDEN + f"policy: {{max_instances: {NO_L40S}}}\n", "policy.max_instances"),
        (FORBIDDEN.replace("on-demand, spot, reserved-1y", "spot"), "menu.purchase"),
    ],
)
def test_infeasible_exits_with_3_and_says_what_to_move(text: str, words: str, fleetplan: Command) -> None:
    ran = fleetplan("plan", write(text), "--out", "plan.json")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("no fleet can meet this demand:\n")
    assert words in ran.err
    assert "Traceback" not in ran.err
    assert not Path("plan.json").exists()
    assert fleetplan("validate", "case.yaml").code == 0


@pytest.mark.parametrize("target", ["no/such/folder/plan.json", "."])
def test_an_unwritable_out_exits_with_2(target: str, fleetplan: Command) -> None:
    ran = fleetplan("plan", "small.yaml", "--out", target)
    assert ran.code == 2
    assert "cannot be written" in ran.err
    assert sorted(os.listdir()) == ["hard.yaml", "small.yaml"]


def test_an_out_that_cannot_be_written_is_refused_before_the_work(
    fleetplan: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planner.pipeline.plan_fleet", lambda *_: pytest.fail("it was planned all the same"))
    ran = fleetplan("plan", "small.yaml", "--out", "no/such/folder/plan.json", "--format", "json")
    assert ran.code == 2
    assert "cannot be written" in ran.err


def test_a_failed_write_leaves_the_old_file(fleetplan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("plan.json").write_text("the old plan", encoding="utf-8")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    ran = fleetplan("plan", "small.yaml", "--out", "plan.json")
    assert ran.code == 2
    assert "plan.json: cannot be written: No space left on device" in ran.err
    assert Path("plan.json").read_text(encoding="utf-8") == "the old plan"
    assert sorted(os.listdir()) == ["hard.yaml", "plan.json", "small.yaml"]


def test_a_defect_is_one_message_and_exit_1(fleetplan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("float division by zero")

    monkeypatch.setattr(loading, "load_case", broken)
    monkeypatch.delenv("FLEETPLAN_DEBUG", raising=False)
    ran = fleetplan("plan", "small.yaml")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("ZeroDivisionError: float division by zero\n")
    assert "defect of fleetplan" in ran.err
    assert "Traceback" not in ran.err
    monkeypatch.setenv("FLEETPLAN_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        fleetplan("plan", "small.yaml")


def test_ctrl_c_before_any_plan_exits_with_130(fleetplan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise Stopped

    monkeypatch.setattr(loading, "load_case", interrupted)
    ran = fleetplan("plan", "small.yaml", "--out", "plan.json")
    assert (ran.code, ran.out) == (130, "")
    assert "Traceback" not in ran.err
    assert not Path("plan.json").exists()


# -- the other verbs ------------------------------------------------------------------------------------------------


def test_init_then_validate_then_plan(fleetplan: Command) -> None:
    made = fleetplan("init", "demand.yaml")
    assert (made.code, made.out) == (0, "")
    assert "next: fleetplan plan demand.yaml" in made.err
    assert Path("fleetplan.schema.json").read_text(encoding="utf-8") == fleetplan("schema").out
    checked = fleetplan("validate", "demand.yaml")
    assert (checked.code, checked.err) == (0, "")
    assert checked.out.startswith("demand: valid. 1 workload, ")
    assert fleetplan("plan", "demand.yaml", "--out", "plan.json").code == 0
    assert planner.check_plan(json.loads(Path("plan.json").read_text(encoding="utf-8"))) == []


def test_init_does_not_overwrite_unless_forced(fleetplan: Command) -> None:
    Path("demand.yaml").write_text("mine", encoding="utf-8")
    refused = fleetplan("init", "demand.yaml")
    assert (refused.code, refused.out) == (2, "")
    assert "demand.yaml: exists already" in refused.err and "--force" in refused.err
    assert Path("demand.yaml").read_text(encoding="utf-8") == "mine"
    assert not Path("fleetplan.schema.json").exists()
    assert fleetplan("init", "demand.yaml", "--force").code == 0
    assert Path("demand.yaml").read_text(encoding="utf-8") != "mine"


def test_init_where_nothing_can_be_written(fleetplan: Command) -> None:
    ran = fleetplan("init", "no/such/folder/demand.yaml")
    assert ran.code == 2
    assert "cannot be written" in ran.err


def test_validate_as_json_names_the_case(fleetplan: Command) -> None:
    data = json.loads(fleetplan("validate", "small.yaml", "--format", "json").out)
    case = planner.load_case("small.yaml")
    assert data["ok"] is True
    assert data["case_hash"] == case.hash()
    assert [w["name"] for w in data["workloads"]] == ["chat"]
    assert data["workloads"][0]["requests_per_month"] == pytest.approx(400_000 * 730 / 24)
    assert {a["key"] for a in data["assumptions"]} == {a.key for a in case.assumptions}


def test_version(fleetplan: Command) -> None:
    ran = fleetplan("--version")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("fleetplan ")
    assert ran.out.split()[1][0].isdigit()


def test_a_verbose_version_has_what_a_bug_report_needs(fleetplan: Command) -> None:
    ran = fleetplan("--version", "--verbose")
    assert (ran.code, ran.err) == (0, "")
    first, *others = ran.out.splitlines()
    assert f"{first}\n" == fleetplan("--version").out
    values = dict(line.split(maxsplit=1) for line in others)
    assert list(values) == ["Python", "platform", "CBC", "HiGHS", "catalog"]
    assert platform.python_version() in values["Python"]
    assert all(values[solver][0].isdigit() for solver in ("CBC", "HiGHS"))
    newest = max(o.prices.on_demand.date or "" for o in shipped_catalog().offers.values() if o.prices.on_demand)
    assert f"prices up to {newest}" in values["catalog"]


def test_a_verbose_version_says_why_a_solver_is_missing(fleetplan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise SolverMissing("HiGHS needs highspy: pip install highspy.")

    monkeypatch.setattr("solvers.backends.highs.highs_version", missing)
    ran = fleetplan("--version", "--verbose")
    assert ran.code == 0
    assert "HiGHS     cannot run: HiGHS needs highspy" in ran.out


def test_verbose_alone_is_refused(fleetplan: Command) -> None:
    ran = fleetplan("--verbose")
    assert ran.code == 2
    assert "--version" in ran.err


@for_each("verb", VERBS)
def test_help_has_an_example(verb: str, fleetplan: Command) -> None:
    ran = fleetplan(verb, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert "Example" in ran.out
    assert f"fleetplan {verb}" in ran.out.split("Example")[1]
    assert fleetplan(verb, "-h") == ran


@pytest.mark.parametrize("columns", ["80", "120"])
def test_every_example_in_the_help_has_lines_of_its_own(
    columns: str, fleetplan: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    of_catalog = ("show", "add-model", "import", "diff")
    for verb in (*((verb,) for verb in VERBS), *(("catalog", verb) for verb in of_catalog)):
        shown = fleetplan(*verb, "--help").out
        assert max(map(len, shown.splitlines())) <= int(columns), verb
        commands = re.split(r"\n {2}Examples?:\n", shown)[1].replace("\\\n", " ").strip().splitlines()
        assert [c for c in commands if not c.strip().startswith("fleetplan ") or c.count("fleetplan ") > 1] == [], verb


@pytest.mark.process
def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from planner import cli\n"
        "sys.argv = ['fleetplan', '--help']\n"
        "try:\n    cli.run()\n"
        "except SystemExit as stop:\n    assert not stop.code\n"
        "heavy = {'numpy', 'pandas', 'pydantic', 'pulp', 'highspy', 'rich', 'yaml', 'genai_prices'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stderr.strip() == "[]"
    assert "Usage:" in done.stdout


# -- pipes and signals ----------------------------------------------------------------------------------------------


@pytest.mark.process
@POSIX
@pytest.mark.parametrize("arguments", [("plan", "small.yaml", "--format", "json"), ("catalog", "apis"), ("schema",)])
def test_a_reader_that_stops_early_causes_no_traceback(arguments: tuple[str, ...], fleetplan: Command) -> None:
    """As in `fleetplan plan demand.yaml | head -1`, but the reader is gone before the first byte."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as stdout:
        done = subprocess.run(
            [SCRIPT, *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False
        )
    assert done.stderr == ""
    assert done.returncode in (0, 128 + signal.SIGPIPE, -signal.SIGPIPE), "no failure"


def children_of(pid: int) -> list[int]:
    """Processes whose parent is this one."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(stat.parent.name))
    return found


def solvers_of(pid: int) -> list[int]:
    """What the inner process of a command has started."""
    return [solver for inner in children_of(pid) for solver in children_of(inner)]


def is_running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see the solver's process")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_an_interrupt_keeps_the_best_plan(number: signal.Signals, fleetplan: Command) -> None:
    command = [str(SCRIPT), "plan", "hard.yaml", "--out", "plan.json", "--gap", "0%", "--solver", "cbc"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        solving = wait_until(lambda: solvers_of(process.pid) or process.poll() is not None)
        assert isinstance(solving, list), process.communicate()
        time.sleep(0.3)  # well into the search
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "INTERRUPTED" in out
    assert "Traceback" not in err
    plan = json.loads(Path("plan.json").read_text(encoding="utf-8"))
    assert plan["status"] == "interrupted"
    near = (
        "not proved to be near the optimum"
        if plan["gap_frac"] >= NO_BOUND_FRAC
        else f"proved within {percent(plan['gap_frac'], 2)}"
    )
    assert f"this is the best checked plan so far, {near}" in err
    assert plan["gap_frac"] > 0
    assert planner.check_plan(plan) == []
    wait_until(lambda: not any(is_running(child) for child in solving))


@pytest.mark.process
@POSIX
def test_work_that_is_given_up_leaves_no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[str]] = []
    popen = subprocess.Popen

    def asked(*arguments: Any, **options: Any) -> subprocess.Popen[str]:
        started.append(popen(*arguments, **options))
        ask_to_stop()
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", asked)
    try:
        with pytest.raises(Stopped), stoppable():
            run_child([sys.executable, "-c", "import time; time.sleep(60)"], None, print)
        assert started[0].poll() is not None
    finally:
        started[0].kill()
        started[0].wait()


@pytest.mark.process
@POSIX
def test_progress_is_shown_on_a_terminal_only(fleetplan: Command) -> None:
    """A live line on stderr with the best cost, the bound and the gap; the other tests see none of it."""
    terminal, stderr = pty.openpty()
    command = [str(SCRIPT), "plan", "hard.yaml", "--out", "plan.json", "--gap", "0%"]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "160"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr, env=environment)
    os.close(stderr)
    seen = b""

    def read() -> bool:
        """Whether the other end is still open."""
        nonlocal seen
        if not select.select([terminal], [], [], 0.1)[0]:
            return True
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # how Linux says that nobody is there
            piece = b""
        seen += piece
        return bool(piece)

    try:
        wait_until(lambda: not read() or (b"solving" in seen and b"gap" in seen))
        process.send_signal(signal.SIGINT)
        wait_until(lambda: not read())
        process.wait(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    assert process.returncode == 130, seen
    assert json.loads(Path("plan.json").read_text(encoding="utf-8"))["status"] == "interrupted"
    assert b"best $" in seen and b"bound $" in seen
    assert b"Traceback" not in seen
