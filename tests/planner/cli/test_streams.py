"""Whatever becomes of stdout, the files that were asked for are there, and a sentence says what happened."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.command_line import SCRIPT, SMALL
from tests.support.patience import PATIENCE_S
from tests.support.rows import for_each

pytestmark = pytest.mark.process

NARROW = SMALL.replace("name: chat", 'name: "chat → 日本"')


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(NARROW, encoding="utf-8")
    return tmp_path


def fleetplan(words: str, **how: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **how.pop("env", {})}  # type: ignore[dict-item]
    settings = {"stderr": subprocess.PIPE, "text": True, "timeout": 120, "check": False, "env": environment} | how
    return subprocess.run([SCRIPT, *words.split()], **settings)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
def test_characters_that_stdout_lacks_are_replaced(here: Path, encoding: str) -> None:
    ran = fleetplan("plan small.yaml --out plan.json", stdout=subprocess.PIPE, env={"PYTHONIOENCODING": encoding})
    assert (ran.returncode, ran.stderr) == (0, "wrote plan.json\n")
    assert "chat ? ??" in ran.stdout
    assert json.loads(Path("plan.json").read_text(encoding="utf-8"))["workloads"][0]["name"] == "chat → 日本"


def test_a_full_stdout_is_named_and_every_file_is_there(here: Path) -> None:
    words = "plan small.yaml --no-study --out plan.json --html plan.html --markdown plan.md --csv tables"
    with open("/dev/full", "w") as full:
        ran = fleetplan(words, stdout=full)
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1].startswith("stdout: cannot be written: No space left on device.")
    assert "Traceback" not in ran.stderr
    assert "Exception ignored" not in ran.stderr
    assert json.loads(Path("plan.json").read_text())["format"] == "fleetplan-plan/6"
    assert all(Path(name).exists() for name in ("plan.html", "plan.md", "tables/fleet.csv"))


@for_each("words", ["--help", "--version", "plan --help", "schema"])
def test_what_is_only_printed_says_so_too(here: Path, words: str) -> None:
    with open("/dev/full", "w") as full:
        ran = fleetplan(words, stdout=full)
    assert ran.returncode == 2
    assert ran.stderr.startswith("stdout: cannot be written: No space left on device.")


def test_closed_streams(here: Path) -> None:
    """A file that is opened takes the lowest free number: without a place for stdout, that of the plan."""
    command = f"'{SCRIPT}' plan small.yaml --quiet --out plan.json"
    ran = subprocess.run(
        ["sh", "-c", f"{command} >&-"], stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False
    )
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert ran.stderr.startswith("stdout: cannot be written: Bad file descriptor.")
    plan = Path("plan.json").read_bytes()
    Path("plan.json").unlink()
    all_closed = subprocess.run(["sh", "-c", f"{command} <&- >&- 2>&-"], timeout=PATIENCE_S, check=False)
    assert all_closed.returncode == 2
    assert Path("plan.json").read_bytes() == plan


@pytest.mark.smoke
def test_a_full_stderr_costs_nothing(here: Path) -> None:
    with open("/dev/full", "w") as full:
        ran = fleetplan("plan small.yaml --out plan.json --format json", stdout=subprocess.PIPE, stderr=full)
    assert ran.returncode == 0
    assert ran.stdout == Path("plan.json").read_text()


def test_out_to_stdout_comes_before_the_table(here: Path) -> None:
    with open("all.txt", "w") as stream:
        # As /dev/stdout, but where nothing can be replaced should it be tried.
        assert fleetplan("plan small.yaml --quiet --out /proc/self/fd/1", stdout=stream).returncode == 0
    text = Path("all.txt").read_text()
    plan, end = json.JSONDecoder().raw_decode(text)
    assert plan["format"] == "fleetplan-plan/6"
    assert text[end:].lstrip().startswith("small ")
