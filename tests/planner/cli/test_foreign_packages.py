"""Packages of other projects that are called planner, problems or solvers: named, with a remedy, and never run."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S
from tests.support.places import ROOT
from tests.support.rows import for_each

FIRST_STEP = ROOT / "planner" / "cli" / "fleetplan_command.py"
FOREIGN = "import sys\nsys.exit('foreign code ran')\n"


def command(path: list[Path | str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """`fleetplan --version` as the installed script runs it, with these folders first on Python's path."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}
    argv = [sys.executable, "-P", FIRST_STEP, "--version"]
    return subprocess.run(
        argv, cwd=cwd, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def plant(folder: Path, name: str, as_package: bool = True) -> Path:
    target = folder / name / "__init__.py" if as_package else folder / f"{name}.py"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(FOREIGN)
    return folder


@for_each("name", ["planner", "problems", "solvers"])
@for_each("as_package", [True, False])
def test_a_foreign_package_is_named_with_a_remedy(tmp_path: Path, name: str, as_package: bool) -> None:
    ran = command([plant(tmp_path / "elsewhere", name, as_package), ROOT], tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"another package called '{name}'" in ran.stderr
    assert str(tmp_path / "elsewhere" / name) in ran.stderr
    assert "pipx install" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "foreign code ran" not in ran.stderr


@pytest.mark.parametrize("name", ["planner", "problems", "solvers"])
def test_one_that_comes_later_is_no_trouble(tmp_path: Path, name: str) -> None:
    ran = command([ROOT, plant(tmp_path / "elsewhere", name)], tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("fleetplan ")


@pytest.mark.parametrize("name", ["problems", "solvers"])
def test_what_lies_in_the_working_folder_is_passed_over_as_ever(tmp_path: Path, name: str) -> None:
    ran = command(["", plant(tmp_path, name), ROOT], tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_installed_command_begins_here() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["scripts"] == {"fleetplan": "fleetplan_command:main"}
    wheel = settings["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"] == {FIRST_STEP.relative_to(ROOT).as_posix(): "fleetplan_command.py"}
