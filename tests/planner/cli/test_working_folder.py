"""Nothing that lies in the working folder is run: not by a command, nor by any process that it starts there."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from planner.studies.executing.executors import executor_from
from planner.studies.executing.run import run_jobs
from solvers.backends import python_child
from solvers.backends.clock import Stopped
from solvers.search import search
from solvers.search.worker import Worker
from solvers.search.worker_main import Task
from tests.support.command_line import HARD, SCRIPT, SMALL, Command
from tests.support.executing_work import squares
from tests.support.patience import wait_until
from tests.support.places import ROOT

REVIEW = ROOT / "examples" / "quarterly-review"
PACKAGES = ("planner", "problems", "solvers", "pulp", "highspy", "multiprocessing", "gurobipy", "concurrent")
MODULES = ("numpy", "pandas", "json", "pickle", "yaml", "typer", "pydantic", "signal", "subprocess", "runpy")
OWN_JOBS = 'def square(payload):\n    return {"status": "done", "x": payload["x"], "square": (payload["x"] ** 2,)}\n'
SITE = ("sitecustomize", "usercustomize")
TINY = SMALL.replace("fp8, fp16", "fp8").replace("on-demand, spot, reserved-1y", "on-demand")


def plant(folder: Path, names: tuple[str, ...]) -> Path:
    """Code under these names that leaves a mark when it is imported; where the marks would be."""
    marks = folder.parent / "marks"
    marks.mkdir()
    code = f"import os, sys\nopen(os.path.join({str(marks)!r}, __name__), 'w').close()\nraise ImportError(__name__)\n"
    for name in names:
        if name in PACKAGES:
            (folder / name).mkdir()
            (folder / name / "__init__.py").write_text(code)
        else:
            (folder / f"{name}.py").write_text(code)
    return marks


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a demand file."""
    folder = tmp_path / "cases"
    folder.mkdir()
    (folder / "demand.yaml").write_text(TINY)
    monkeypatch.chdir(folder)
    return folder


def marked(marks: Path) -> list[str]:
    return sorted(mark.name for mark in marks.iterdir())


def test_no_process_that_a_command_starts_runs_what_lies_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where an empty entry of PYTHONPATH stands for the working folder."""
    marks = plant(folder, (*PACKAGES, *MODULES, *SITE))
    monkeypatch.setenv("PYTHONPATH", os.pathsep + str(ROOT))
    fleetplan = Command(monkeypatch, capsys)
    shutil.copytree(REVIEW, folder / "review")
    for command in (
        "plan demand.yaml --out plan.json --solver highs -q",
        "what-if demand.yaml --scale demand=1:2:2 --executor processes:1 -q",
        "study plan.json --only waterfall --solver highs --gap 5% -q",
        "explain plan.json --solver highs --gap 5% -q",
        f"check plan.json --policy {ROOT}/examples/policies/production.yaml",
        "report plan.json -q",
        "review review/REVIEW.yaml -q --solver highs --gap 5% --time-limit 600s",
    ):
        ran = fleetplan(*command.split())
        assert ran.code in ((0, 5) if command.startswith("check") else (0,)), (command, ran.err)
        assert marked(marks) == [], command


def test_the_second_process_runs_nothing_of_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    marks = plant(folder, (*PACKAGES, *MODULES, *SITE))
    monkeypatch.setattr(search, "cores", lambda: 2)
    for name in ("MOST_SERVINGS", "HOPELESS", "FEW_SERVINGS"):
        monkeypatch.setattr(search, name, -1)
    look = Worker.look

    def look_until_it_answers(self: Worker, task: Task) -> None:
        look(self, task)
        answered.append(bool(wait_until(self.received)))
        raise Stopped

    answered: list[bool] = []
    monkeypatch.setattr(Worker, "look", look_until_it_answers)
    (folder / "hard.yaml").write_text(HARD)
    ran = Command(monkeypatch, capsys)("plan", "hard.yaml", "--time-limit", "600s", "--gap", "0%", "-q")
    assert ran.code == 130, ran.err
    assert answered == [True]
    assert marked(marks) == []


@pytest.mark.process
@pytest.mark.parametrize("command", [[str(SCRIPT)], [sys.executable, "-m", "planner.cli"]], ids=["script", "module"])
def test_the_command_itself_runs_nothing_of_it(command: list[str], folder: Path) -> None:
    """`python -m` takes `planner` itself from there, and with it what every Python process imports first."""
    first = {"planner", "signal", "runpy", *SITE} if "-m" in command else set()
    marks = plant(folder, tuple(name for name in (*PACKAGES, *MODULES, *SITE) if name not in first))
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([*command, "plan", "demand.yaml", "-q"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert marked(marks) == []


def test_a_child_imports_what_this_process_has_and_nothing_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = str(tmp_path / "elsewhere")
    named = os.pathsep.join(["lib", "", "/opt/own"])
    monkeypatch.setenv("PYTHONPATH", named)
    monkeypatch.setattr(sys, "path", ["", ".", "lib", str(tmp_path), str(tmp_path / "lib"), "/opt/own", elsewhere])
    assert python_child.import_path() == [str(ROOT), "/opt/own", elsewhere]
    assert python_child.module_environment()["PYTHONPATH"] == os.pathsep.join([str(ROOT), "/opt/own", elsewhere])


def test_fleetplan_in_the_working_folder_is_found_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", ["", "/opt/own"])
    assert python_child.import_path() == [str(ROOT), "/opt/own"]


def test_jobs_of_a_script_in_the_working_folder_are_found_after_everything_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = plant(folder, (*PACKAGES, *MODULES, *SITE))
    (folder / "own_jobs.py").write_text(OWN_JOBS)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    square = importlib.import_module("own_jobs").square
    with executor_from("processes:1") as there:
        found = run_jobs(square, squares(2), there)
    assert found["x=1"]["square"] == [1]
    assert set(marked(marks)) <= {"gurobipy"}, "what is installed nowhere else may be found there"
