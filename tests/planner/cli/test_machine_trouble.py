"""What a machine lacks is told in a sentence with exit code 2, and costs nobody the plan that was found before."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pulp
import pytest

import planner
from planner.case.demand import load as loading
from planner.studies.executing.executors import executor_from
from planner.studies.executing.jobs import failed
from planner.studies.executing.run import run_jobs
from solvers.backends import cbc, scratch
from solvers.backends.result import Status
from solvers.backends.solve import solve_mip
from solvers.backends.trouble import MachineTrouble
from solvers.search import fleet_solver
from tests.solvers.backends.test_solver_traps import two_choices
from tests.support.command_line import SCRIPT, SMALL, Command
from tests.support.executing_work import squares
from tests.support.patience import PATIENCE_S
from tests.support.places import ROOT
from tests.support.rows import for_each
from tests.support.shown import unwrapped

POSIX = pytest.mark.skipif(os.name != "posix", reason="signals and files as POSIX has them")


@pytest.fixture
def fleetplan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Command]:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL, encoding="utf-8")
    yield Command(monkeypatch, capsys)
    scratch.prepare.cache_clear()


def disk_full(*_: Any, **__: Any) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def missing(path: Path) -> None:
    path.unlink()


def not_executable(path: Path) -> None:
    path.chmod(0o644)


def wrong_format(path: Path) -> None:
    path.write_bytes(b"\x7fELF of another machine")


def without_its_libraries(path: Path) -> None:
    path.write_text("#!/bin/sh\nexit 127\n")


@POSIX
@for_each("spoil", [missing, not_executable, wrong_format, without_its_libraries])
def test_highs_is_used_where_cbc_cannot_run_and_the_plan_says_so(
    spoil: Callable[[Path], None], fleetplan: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    binary = tmp_path / "cbc"
    binary.touch(0o755)
    spoil(binary)
    monkeypatch.setattr(pulp.PULP_CBC_CMD, "pulp_cbc_path", str(binary))
    ran = fleetplan("plan", "small.yaml", "--out", "plan.json")
    assert ran.code == 0, ran.err
    why = "PuLP" if spoil in (missing, not_executable) else binary
    assert f"HiGHS was used, as CBC cannot run: {why}" in unwrapped(ran.out)
    plan = json.loads(Path("plan.json").read_text())
    assert plan["proof"]["solver"] == "highs"
    assert [str(binary) in note for note in plan["proof"]["notes"]].count(True) == 1
    assert plan["gap_frac"] <= 0.001
    assert planner.check_plan(plan) == []
    found = solve_mip(two_choices())
    assert (found.status, found.objective, found.solver) == (Status.OPTIMAL, 2.0, "highs")
    assert [note.startswith("CBC ") for note in found.notes] == [True]


def test_a_plan_without_trouble_says_nothing_of_it(fleetplan: Command) -> None:
    assert fleetplan("plan", "small.yaml", "--out", "plan.json").code == 0
    proof = json.loads(Path("plan.json").read_text())["proof"]
    assert proof["solver"] == "cbc"
    assert not any("HiGHS" in note or "cut short" in note for note in proof["notes"])


def test_without_highs_there_is_a_sentence(fleetplan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    ran = fleetplan("plan", "small.yaml")
    assert ran.code == 2
    assert ran.err.startswith("HiGHS needs highspy: pip install highspy (")
    assert "defect" not in ran.err


def test_a_machine_without_room_for_files_is_told_before_the_search(
    fleetplan: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scratch.prepare.cache_clear()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    for command in ("plan small.yaml", "what-if small.yaml --scale demand=1:2:2 --executor processes:1 -q"):
        ran = fleetplan(*command.split())
        assert ran.code == 2
        assert f"cannot be written to {tmp_path / 'nowhere'}: No such file or directory. Free some" in ran.err
        assert "set TMPDIR" in ran.err and "defect" not in ran.err


@pytest.mark.parametrize(("solver", "module", "name"), [("cbc", cbc, "write_mps"), ("highs", np, "savez")])
def test_a_disk_that_fills_up_keeps_the_best_plan(
    solver: str, module: Any, name: str, fleetplan: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, disk_full)
    ran = fleetplan("plan", "small.yaml", "--gap", "0%", "--solver", solver, "--out", "plan.json")
    assert ran.code == 0, ran.err
    assert "note: the search was cut short: temporary files cannot be written to " in unwrapped(ran.out)
    plan = json.loads(Path("plan.json").read_text())
    assert planner.check_plan(plan) == []
    assert 0 < plan["bound_usd_per_month"] <= plan["cost_usd_per_month"] + plan["penalty_usd_per_month"]
    assert fleetplan("plan", "small.yaml", "--gap", "0%", "--solver", solver, "--require-gap", "0%").code in (0, 4)


def test_a_disk_that_is_full_before_any_plan_is_told(fleetplan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any) -> None:
        with scratch.writing():
            disk_full()

    monkeypatch.setattr(fleet_solver, "_within_budget", stopped)
    ran = fleetplan("plan", "small.yaml")
    assert ran.code == 2
    assert "No space left on device" in ran.err and "defect" not in ran.err


def test_no_half_plan_of_a_full_disk_is_kept_in_a_journal(
    fleetplan: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = "what-if small.yaml --scale demand=1:2:2 --gap 0% -q --format json --journal journal"
    with monkeypatch.context() as full:
        full.setattr(cbc, "write_mps", disk_full)
        rows = json.loads(fleetplan(*command.split()).out)
        cut = [row for row in rows if row["status"].startswith("error: MachineTrouble: temporary files")]
        assert cut
    ran = fleetplan(*command.split())
    assert ran.code == 0
    assert not any(row["status"].startswith("error") for row in json.loads(ran.out))


@pytest.mark.parametrize("trouble", [MachineTrouble("no room"), MemoryError()])
def test_a_job_that_its_machine_could_not_run_is_tried_again_on_resuming(trouble: Exception, tmp_path: Path) -> None:
    troubles = [trouble]

    def work(payload: dict[str, Any]) -> dict[str, Any]:
        if troubles:
            raise troubles.pop()
        return payload

    with executor_from("in-process") as here:
        assert failed(run_jobs(work, squares(1), here, tmp_path / "journal")["x=0"])
        assert run_jobs(work, squares(1), here, tmp_path / "journal")["x=0"] == {"x": 0}


@for_each(
    ("error", "said"),
    [
        (MemoryError(), "needs more memory than there is"),
        (np.linalg.LinAlgError("singular"), "defect of fleetplan"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files"),
    ],
)
def test_what_a_machine_has_no_more_of_is_told(
    error: Exception, said: str, fleetplan: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: Any) -> NoReturn:
        raise error

    monkeypatch.setattr(loading, "load_case", load)
    ran = fleetplan("plan", "small.yaml")
    assert ran.code == (1 if "defect" in said else 2)
    assert said in ran.err and "Traceback" not in ran.err


# -- interrupts while modules are imported ----------------------------------------------------------------------------

STRUCK = "import os, signal, time\nos.kill(os.getppid(), signal.{})\ntime.sleep(60)\n"


@pytest.mark.process
@POSIX
@for_each("module", ["typer", "yaml"])
@for_each("name", ["SIGINT", "SIGTERM"])
def test_an_interrupt_during_imports_leaves_no_traceback(name: str, module: str, tmp_path: Path) -> None:
    (tmp_path / "demand.yaml").write_text(SMALL)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / f"{module}.py").write_text(STRUCK.format(name))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "lib"), str(ROOT)])}
    command = [SCRIPT, "plan", tmp_path / "demand.yaml"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 130, done.stderr
    assert done.stderr == "interrupted before there was a result\n"


@pytest.mark.process
@POSIX
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_command_ends_changes_nothing(number: int) -> None:
    program = (
        "import atexit, os, sys\n"
        "from planner.cli.guard import guarded\n"
        "def work():\n"
        f"    atexit.register(os.kill, os.getppid(), {int(number)})\n"
        "    return 3\n"
        "sys.exit(guarded(work, lambda kept, reason: 130))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (3, "")
