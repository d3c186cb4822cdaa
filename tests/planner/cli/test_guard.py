"""The outer process of a command outlives whatever becomes of the work, and puts out the latest that it was given."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

import planner
from planner.cli import guard
from tests.support.command_line import HARD, SCRIPT
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.places import ROOT
from tests.support.rows import for_each

pytestmark = [pytest.mark.process, pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")]

PROGRAM = """\
import os, signal, sys, time
from functools import partial
from planner.cli import guard
from solvers.backends.clock import check, limited_to, stoppable, undisturbed

guard.PATIENCE_S, guard.FIRST_PATIENCE_S, guard.LATE_S, guard.LATEST_S, guard.INSIST_S = 1.5, 4.0, 0.2, 0.5, 0.1

def forever():
    while True:
        time.sleep(0.01)

def told(what):
    print(what, flush=True)

def work():
    guard.join_the_outer_process()
{}

def finish(kept, reason):
    told(f"{{reason}}: {{kept and __import__('pickle').loads(kept)}}")
    return 9

sys.exit(guard.guarded(work, finish))
"""
Started = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def started() -> Iterator[Started]:
    """A program whose inner process does some lines of work."""
    processes: list[subprocess.Popen[str]] = []

    def start(work: str) -> subprocess.Popen[str]:
        code = PROGRAM.format("".join(f"    {line}\n" for line in work.splitlines()))
        pipe = subprocess.PIPE
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", code]
        processes.append(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment))
        return processes[-1]

    yield start
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=PATIENCE_S)
    assert err == ""
    return process.returncode, out.strip()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@for_each(
    ("work", "code"), [("return 0", 0), ("return 5", 5), ("sys.exit(3)", 3), ("sys.exit()", 0), ("os._exit(4)", 4)]
)
def test_work_that_ends_by_itself_gives_the_exit_code(work: str, code: int, started: Started) -> None:
    assert ended(started(work)) == (code, "")


@pytest.mark.parametrize(("number", "reason"), [("SIGKILL", "memory"), ("SIGSEGV", "crashed"), ("SIGABRT", "crashed")])
def test_work_that_is_killed_leaves_what_it_had_handed_over(number: str, reason: str, started: Started) -> None:
    strike = f"os.kill(os.getpid(), signal.{number})"
    assert ended(started(strike)) == (9, f"{reason}: b''")
    handed = "guard.keep('first')\nguard.keep('second ' + 'x' * 1_000_000)\n"
    assert ended(started(handed + strike)) == (9, f"{reason}: second {'x' * 1_000_000}")
    assert ended(started(handed + "guard.put_out()\n" + strike)) == (9, f"{reason}: b''")


def test_memory_that_python_asks_for_in_vain_is_told_by_the_outer_process(started: Started) -> None:
    work = "guard.keep('a plan')\nassert guard.hand_over(guard.MEMORY)\nreturn 2"
    assert ended(started(work)) == (9, "memory: a plan")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_work_that_looks_at_the_clock_ends_by_itself(number: int, started: Started) -> None:
    looks = """\
with stoppable():
    told("working")
    try:
        while True:
            check()
    except KeyboardInterrupt as stop:
        told(str(stop))
        return 130"""
    process = started(looks)
    assert said(process) == "working"
    process.send_signal(number)
    assert ended(process) == (130, "interrupted")


def test_the_inner_process_itself_may_be_told_to_end(started: Started) -> None:
    process = started("guard.keep('a plan')\ntold(str(os.getpid()))\nforever()")
    os.kill(int(said(process)), signal.SIGTERM)
    assert ended(process) == (9, "interrupted: a plan")


@pytest.mark.smoke
def test_work_that_does_not_look_is_ended_at_once_or_after_a_while(started: Started) -> None:
    """At once where it would not stop anyway; else when it had time, or when somebody insists."""
    process = started("told('working')\nforever()")
    said(process)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert ended(process) == (9, "interrupted: b''")
    assert time.monotonic() - began < 1.4
    for insists in (False, True):
        process = started("with stoppable():\n    guard.keep('a plan')\n    told('working')\n    forever()")
        said(process)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        if insists:
            time.sleep(0.4)
            process.send_signal(signal.SIGINT)
        assert ended(process) == (9, "interrupted: a plan")
        assert insists or time.monotonic() - began >= 1.5


def test_what_is_finishing_is_waited_for(started: Started) -> None:
    finishing = "with stoppable(), undisturbed():\n    told('working')\n    time.sleep(3)\nreturn 130"
    process = started(finishing)
    said(process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert ended(process) == (130, "")


def test_a_deadline_ends_what_does_not_look(started: Started) -> None:
    by = "guard.end_by(time.monotonic() + 0.1)\n"
    assert ended(started(by + "forever()")) == (9, "time-limit: b''")
    assert ended(started(by + "guard.keep('a plan')\nforever()")) == (9, "time-limit: a plan")
    assert ended(started(by + "with undisturbed():\n    time.sleep(2)\nreturn 0")) == (0, "")
    kept = "guard.keep('a plan')\nwith undisturbed():\n    forever()"
    assert ended(started(by + kept)) == (9, "time-limit: a plan")


def test_the_inner_process_ends_with_the_outer_one(started: Started) -> None:
    process = started("told(str(os.getpid()))\nforever()")
    inner = int(said(process))
    process.kill()
    process.wait()
    wait_until(lambda: not psutil.pid_exists(inner) or psutil.Process(inner).status() == psutil.STATUS_ZOMBIE)


def test_where_there_is_no_fork_there_is_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    assert guard.guarded(os.getpid, lambda kept, reason: -1) == os.getpid()
    monkeypatch.setattr(os, "fork", lambda: (_ for _ in ()).throw(OSError("no more processes")), raising=False)
    assert guard.guarded(os.getpid, lambda kept, reason: -1) == os.getpid()
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, 2), (signal.SIGSEGV, 1)])
def test_a_plan_found_is_written_though_the_search_is_killed(number: int, code: int, tmp_path: Path) -> None:
    """The search has found plans, put together and checked on the way."""
    (tmp_path / "hard.yaml").write_text(HARD)
    command = [str(SCRIPT), "plan", "hard.yaml", "--gap", "0%", "--time-limit", "300s", "--out", "plan.json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        inner = wait_until(lambda: psutil.Process(process.pid).children())[0]
        wait_until(lambda: len(inner.children()) > 0)
        inner.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code, err
    assert ("more memory than there is" if code == 2 else "crashed") in err and "Traceback" not in err
    assert "INTERRUPTED" in out
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert planner.check_plan(plan) == [] and plan["status"] == "interrupted"
    assert {part["what"] for part in plan["left_out"]} >= {"options", "if_throughput_is_off"}
