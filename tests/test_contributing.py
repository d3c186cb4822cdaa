"""The habits that CONTRIBUTING describes: marks, hooks and seeds are there, and work in any environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.conftest import NOT_QUICK
from tests.support.places import ROOT
from tests.support.shared_plans import SHARED, made_once

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TOOL = ROOT / ".ci" / "tool"


def test_every_mark_is_registered_and_described() -> None:
    marks = [line.split(":")[0] for line in PROJECT["tool"]["pytest"]["ini_options"]["markers"]]
    assert marks == [*NOT_QUICK, "quick"]
    assert [mark for mark in marks if f"`{mark}`" not in CONTRIBUTING] == []


def test_this_one_is_quick_and_nothing_else(request: pytest.FixtureRequest) -> None:
    assert [mark.name for mark in request.node.iter_markers()] == ["quick"]


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
