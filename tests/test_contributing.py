"""The habits that CONTRIBUTING describes: marks, hooks and seeds are there, and work in any environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.support.costs import COSTS, DEPTHS, ELSEWHERE, Depth, is_wanted, name_of
from tests.support.places import ROOT
from tests.support.rows import for_each
from tests.support.shared_plans import SHARED, made_once

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TOOL = ROOT / ".ci" / "tool"


def test_every_mark_and_depth_is_described() -> None:
    marks = [line.split(":")[0] for line in PROJECT["tool"]["pytest"]["ini_options"]["markers"]]
    assert marks == [*ELSEWHERE, "smoke"]
    assert [word for word in (*marks, *DEPTHS) if f"`{word}`" not in CONTRIBUTING] == []


class Asked:
    """A test as pytest hands it over: its name, its marks, and how many rows it has."""

    def __init__(self, name: str, marks: tuple[str, ...] = (), rows: int = 1) -> None:
        self.nodeid, self.marks, self.function = name, marks, SimpleNamespace(rows=rows)

    def get_closest_marker(self, mark: str) -> str | None:
        return mark if mark in self.marks else None


@pytest.mark.parametrize(
    ("seconds", "marks", "rows", "depths"),
    [
        (0.0, (), 1, "quick usual"),
        (0.3, (), 1, "usual"),
        (0.7, (), 1, "deep"),
        (0.7, ("smoke",), 1, "usual"),
        (0.0, ("process",), 1, "deep"),
        (0.0, ("process", "smoke"), 1, "usual"),
        (9.0, (), 60, "usual deep"),
        (60.0, (), 60, "deep"),
    ],
)
def test_what_a_test_costs_decides_when_it_runs(
    seconds: float, marks: tuple[str, ...], rows: int, depths: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COSTS, "a.py::test", seconds)
    asked: Any = Asked("a.py::test[case]", marks, rows)
    assert [depth for depth in DEPTHS if is_wanted(asked, depth)] == [*depths.split(), "all"]


def test_of_rows_as_many_run_as_half_a_second_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    @for_each("seed", range(60))
    def test_of_seeds(seed: int) -> None:
        seen.append(seed)
        assert seed < 40, "too large"

    name = name_of(test_of_seeds)
    for depth, cost, expected in (("usual", 6.0, 5), ("deep", 6.0, 60), ("usual", 0.2, 60), ("usual", 100.0, 1)):
        monkeypatch.setattr(Depth, "of_this_run", depth)
        monkeypatch.setitem(COSTS, name, cost)
        seen.clear()
        if expected > 1:
            with pytest.raises(pytest.fail.Exception, match="59: AssertionError: too large"):
                test_of_seeds()
        else:
            test_of_seeds()
        assert len(seen) == expected


def test_hooks_run_tools_of_the_development_extra_wherever_they_are() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    extra = " ".join(PROJECT["project"]["optional-dependencies"]["dev"])
    packages = {"ruff": "ruff", "mypy": "mypy", "lint-imports": "import-linter"}
    for hook in hooks:
        program, tool, *_ = hook["entry"].split()
        assert (ROOT / program, hook["language"]) == (TOOL, "script")
        assert packages[tool] in extra


@pytest.mark.process
@pytest.mark.parametrize("environment", ["active", "on the path", "neither"])
def test_a_tool_is_found_in_the_active_environment_or_on_the_path(environment: str, tmp_path: Path) -> None:
    """In a copy, which has no .venv beside it."""
    copy = tmp_path / ".ci" / "tool"
    copy.parent.mkdir()
    copy.write_bytes(TOOL.read_bytes())
    copy.chmod(0o755)
    own = Path(sys.executable).parent
    clean = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "CONDA_PREFIX")}
    clean["PATH"] = "/usr/bin:/bin"
    found = {"active": {"VIRTUAL_ENV": str(own.parent)}, "on the path": {"PATH": f"{own}:/usr/bin:/bin"}, "neither": {}}
    tool = "lint-imports"
    done = subprocess.run([copy, tool, "--help"], env=clean | found[environment], capture_output=True, text=True)
    if environment == "neither":
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"{tool} is not installed: pip install")
    else:
        assert done.returncode == 0, done.stderr
        assert "Usage" in done.stdout


def test_the_seeds_of_the_day_are_given_to_programs_that_take_one() -> None:
    script = (ROOT / ".ci" / "seeds").read_text(encoding="utf-8")
    programs = re.findall(r"python (benchmarks/\S+) .*--seed", script)
    assert len(programs) == 2
    for program in programs:
        path = ROOT / program
        source = path if path.is_file() else path / "__main__.py"
        assert '"--seed"' in source.read_text(encoding="utf-8")


def test_what_is_shared_is_made_once_and_not_kept_where_it_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(SHARED, str(tmp_path))
    calls: list[int] = []

    def make() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("not yet")
        return len(calls)

    with pytest.raises(ValueError, match="not yet"):
        made_once("key", make)
    assert [made_once("key", make) for _ in range(3)] == [2, 2, 2]
    assert made_once("another", make) == 3
    monkeypatch.delenv(SHARED)
    assert [made_once("key", make) for _ in range(2)] == [4, 5]
