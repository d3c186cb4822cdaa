"""Whatever fleetplan starts ends with it, even where it is killed, and what it leaves behind is removed next time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from solvers.backends import scratch
from tests.support.command_line import SCRIPT, SMALL
from tests.support.patience import wait_until
from tests.support.places import ROOT
from tests.support.rows import for_each

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sees processes in /proc"),
]
HOLD = """\
from solvers.backends.scratch import scratch_folder
with scratch_folder("cbc") as folder:
    (folder / "model.mps").touch()
    print(folder, flush=True)
    input()
"""
SOLVE = """\
from solvers.backends import highs
highs.MOST_COLUMNS_HERE = 0
from tests.solvers.backends.test_solver_traps import market_split
from solvers.backends.solve import solve_mip
solve_mip(market_split(), solver={!r})
"""
QUIET = """\
import sys, tempfile
from solvers.backends.child import run_child
run_child([sys.executable, "-c", "import time; time.sleep(600)", tempfile.gettempdir()], None, print)
"""
"""a solver that prints nothing: no broken pipe tells it that nobody reads"""
SWEEP = """\
from tests.support.executing_work import endless, squares
from planner.studies.executing.executors import executor_from
from planner.studies.executing.run import run_jobs
if __name__ == "__main__":
    with executor_from("processes:2") as chosen:
        run_jobs(endless, squares(4), chosen)
"""
Started = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A TMPDIR of its own, so that the folders and solvers of a run can be told from others."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def started(temporary: Path) -> Iterator[Started]:
    processes: list[subprocess.Popen[str]] = []

    def start(*command: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        processes.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True))
        return processes[-1]

    yield start
    for pid in processes_in(temporary):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for process in processes:
        process.communicate()


def processes_in(temporary: Path) -> list[int]:
    """Those that were started with this TMPDIR, by whomever."""
    found = psutil.process_iter(["environ", "status"])
    alive = [process for process in found if process.info["status"] != psutil.STATUS_ZOMBIE]
    return [process.pid for process in alive if (process.info["environ"] or {}).get("TMPDIR") == str(temporary)]


def solvers_in(temporary: Path) -> list[int]:
    """Those that work on a file there."""
    found = psutil.process_iter(["cmdline"])
    return [p.pid for p in found if any(a.startswith(str(temporary)) for a in p.info["cmdline"] or ())]


@for_each(
    ("code", "count"),
    [(SOLVE.format("cbc"), 1), (SOLVE.format("highs"), 1), (QUIET, 1), (SWEEP, 2)],
)
def test_nothing_outlives_a_process_that_is_killed(code: str, count: int, started: Started, temporary: Path) -> None:
    process = started(sys.executable, "-c", code)
    wait_until(lambda: len(solvers_in(temporary)) == count)
    assert {process.pid, *solvers_in(temporary)} <= set(processes_in(temporary))
    process.kill()
    process.wait()
    wait_until(lambda: not processes_in(temporary))


def test_folders_of_dead_processes_are_removed_and_no_others(
    started: Started, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed, living = (started(sys.executable, "-c", HOLD) for _ in range(2))
    assert killed.stdout is not None and living.stdout is not None
    left, held = (Path(process.stdout.readline().strip()) for process in (killed, living))
    killed.kill()
    killed.wait()
    assert left.exists() and held.exists()
    machine, pid, began = left.name.split("-")[2:5]
    reused = left.with_name(f"fleetplan-highs-{machine}-{os.getpid()}-1-abc")
    elsewhere = left.with_name(f"fleetplan-cbc-{'0' * 8}-{pid}-{began}-abc")
    another = left.with_name(f"fleetplan-notes-{machine}-{pid}-{began}-abc")
    of_logs = left.with_name(f"fleetplan-logs-{machine}-{pid}-{began}-abc")
    for folder in (reused, elsewhere, another, of_logs):
        folder.mkdir()
    precious = temporary.with_name("precious")
    precious.mkdir()
    (precious / "work").touch()
    link = left.with_name(f"fleetplan-cbc-{machine}-{pid}-{began}-link")
    link.symlink_to(precious)
    file = left.with_name(f"fleetplan-cbc-{machine}-{pid}-{began}-file")
    file.touch()
    (left / "precious").symlink_to(precious)

    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    scratch.prepare.__wrapped__()
    assert left.exists(), "another user's"
    monkeypatch.setattr(os, "getuid", lambda: user)
    scratch.prepare.__wrapped__()
    assert sorted(temporary.iterdir()) == sorted([held, elsewhere, another, link, file])
    assert (held / "model.mps").exists() and (precious / "work").exists()


def test_the_next_plan_clears_what_a_killed_process_left(started: Started, temporary: Path) -> None:
    killed = started(sys.executable, "-c", HOLD)
    assert killed.stdout is not None
    assert Path(killed.stdout.readline().strip()).parent == temporary
    killed.kill()
    killed.wait()
    Path("small.yaml").write_text(SMALL)
    assert started(str(SCRIPT), "plan", "small.yaml", "-q").wait(60) == 0
    assert list(temporary.iterdir()) == []
