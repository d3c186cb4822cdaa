"""The action for pull requests: each step that is a script runs as it stands, in a repository with a base branch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.command_line import HOSTED
from tests.support.places import ROOT

FOLDER = ROOT / "examples" / "pull-requests"
ACTION = yaml.safe_load((FOLDER / "action.yml").read_text(encoding="utf-8"))
STEPS: dict[str, dict[str, Any]] = {step["id"]: step for step in ACTION["runs"]["steps"]}
GH = """#!/bin/bash
echo "$*" >> gh.log
case "$*" in *--edit-last*) exit 1;; esac
cp "${@: -1}" posted.md
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A clone whose branch asks for twice as much as its base."""
    base, clone = tmp_path / "base", tmp_path / "clone"
    for folder in (base / "capacity", tmp_path / "bin"):
        folder.mkdir(parents=True)
    (base / "capacity" / "demand.yaml").write_text(HOSTED, encoding="utf-8")
    git(base, "init", "-q", "-b", "main")
    git(base, "add", "-A")
    git(base, "commit", "-q", "-m", "Ask for a fleet")
    git(tmp_path, "clone", "-q", str(base), str(clone))
    (clone / "capacity" / "demand.yaml").write_text(HOSTED.replace("200k", "400k"), encoding="utf-8")
    (clone / "policy.yaml").write_text("budget_usd_per_month: 100\n", encoding="utf-8")
    (tmp_path / "bin" / "gh").write_text(GH, encoding="utf-8")
    (tmp_path / "bin" / "gh").chmod(0o755)
    return clone


def git(folder: Path, *words: str) -> None:
    names = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.com"]
    subprocess.run(["git", *names, *words], cwd=folder, check=True)


def step(name: str, folder: Path, **values: str) -> int:
    """Run it with what the runner would put in place of its expressions."""
    given = {"inputs.demand": "capacity/demand.yaml", "inputs.time-limit": "5min", "inputs.policy": "",
             "github.base_ref": "main", "github.token": "secret", "github.event.pull_request.number": "7",
             "steps.page.outputs.artifact-url": "https://example.com/page", **values}  # fmt: skip
    environment = {
        name: re.sub(r"\$\{\{ (\S+) \}\}", lambda m: given[m[1]], text)
        for name, text in STEPS[name].get("env", {}).items()
    }
    path = f"{folder.parent / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    summary = {"GITHUB_STEP_SUMMARY": str(folder / "summary.md"), "PATH": path}
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[name]["run"]]
    return subprocess.run(shell, cwd=folder, env=os.environ | environment | summary, check=False).returncode


@pytest.mark.process
def test_every_step_runs(repository: Path) -> None:
    scripts = [name for name in STEPS if "run" in STEPS[name]]
    assert scripts == ["plan", "check", "compare", "comment", "post", "gate"]
    assert STEPS["page"]["with"]["path"] == "fleet-plan/plan.html"
    assert [step(name, repository) for name in scripts] == [0] * len(scripts)
    made = repository / "fleet-plan"
    assert (made / "plan.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    comment = (repository / "posted.md").read_text(encoding="utf-8")
    assert comment.startswith("<!-- fleet-plan -->")
    assert "demand" in (made / "diff.md").read_text(encoding="utf-8")
    assert "[The page](https://example.com/page)" in comment
    assert (repository / "summary.md").exists()
    assert (repository / "gh.log").read_text(encoding="utf-8").count("pr comment 7") == 2

    policy = {"inputs.policy": "policy.yaml"}
    assert step("check", repository, **policy) == 0, "a broken policy is told first, and fails the job last"
    assert step("gate", repository) == 5
    (repository / "capacity" / "new.yaml").write_text(HOSTED, encoding="utf-8")
    assert step("compare", repository, **{"inputs.demand": "capacity/new.yaml"}) == 0
    assert "nothing to compare" in (made / "diff.md").read_text(encoding="utf-8")
    (repository / "capacity" / "wrong.yaml").write_text("workloads: []\n", encoding="utf-8")
    assert step("plan", repository, **{"inputs.demand": "capacity/wrong.yaml"}) == 2
