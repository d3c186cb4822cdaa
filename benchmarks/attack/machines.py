"""Machines that lack something: an answer where one is possible, else a sentence and its exit code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tally import FLEETPLAN, HANGS_S, ROOT, Attack, Ran, Row, environment, fleetplan, tell

import planner
from tests.support.command_line import SMALL

GROUP = "machines"
PLAN = ("plan", "small.yaml", "--out", "plan.json")
MODULES = (
    "planner",
    "solvers",
    "numpy",
    "json",
    "yaml",
    "typer",
    "sitecustomize",
    "pulp",
    "highspy",
    "signal",
    "random",
)
NO_CBC = """\
import pulp
pulp.PULP_CBC_CMD.pulp_cbc_path = "/nowhere/cbc"
from planner.cli import main
main()
"""
Try = Callable[[Path], tuple[Ran, list[str]]]


def attack_from_odd_machines(attack: Attack) -> list[Row]:
    rows = []
    for number, (what, attempt) in enumerate(TRIES.items()):
        folder = attack.place(f"machine-{number}")
        (folder / "small.yaml").write_text(SMALL, encoding="utf-8")
        row = Row(GROUP, what)
        ran, problems = attempt(folder)
        if "Traceback" in ran.err or "Exception ignored" in ran.err:
            problems.append(f"a traceback: {ran.err[-300:]}")
        row.add(problems)
        said = ran.err.replace(f"{folder}/", "").strip().splitlines() or ["nothing said"]
        row.measure(0.0, f"exit {ran.code}: {said[-1][:90]}")
        tell(f"{GROUP}: {what}: exit {ran.code}")
        rows.append(row)
    return rows


def _in(code: int, plan: bool, *words: str, **how: Any) -> Try:
    """A run with this environment or these streams ends so, and has a plan or none."""

    def attempt(folder: Path) -> tuple[Ran, list[str]]:
        changed = {name: value.format(folder=folder) if value else value for name, value in how.get("env", {}).items()}
        ran = fleetplan(*(words or PLAN), cwd=folder, env=environment(**changed))
        return ran, ran.diagnostics([code]) + _plan(folder, plan)

    return attempt


def _plan(folder: Path, wanted: bool) -> list[str]:
    file = folder / "plan.json"
    if file.exists() != wanted:
        return ["there is no plan" if wanted else "there is a plan"]
    return planner.check_plan(json.loads(file.read_text(encoding="utf-8"))) if wanted else []


def _shell(code: int, plan: bool, line: str, **env: str | None) -> Try:
    """The command as a shell runs it; `{}` stands for it and its arguments."""

    def attempt(folder: Path) -> tuple[Ran, list[str]]:
        command = " ".join(f"'{word}'" for word in (*FLEETPLAN, *PLAN))
        done = subprocess.run(
            ["sh", "-c", line.format(command)], cwd=folder, env=environment(**env), capture_output=True, timeout=HANGS_S
        )
        ran = Ran(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"), 0.0)
        return ran, ran.diagnostics([code]) + _plan(folder, plan)

    return attempt


def _without_cbc(folder: Path) -> tuple[Ran, list[str]]:
    done = subprocess.run(
        [FLEETPLAN[0], "-P", "-c", NO_CBC, *PLAN],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=HANGS_S,
    )
    ran = Ran(done.returncode, done.stdout, done.stderr, 0.0)
    said = [] if "HiGHS was used" in ran.out else ["nothing says that HiGHS was used"]
    return ran, ran.diagnostics([0]) + said + _plan(folder, True)


def _read_only_out(folder: Path) -> tuple[Ran, list[str]]:
    """Root may write anywhere but where the system itself refuses."""
    closed = Path("/proc") if os.getuid() == 0 else folder / "closed"
    if closed != Path("/proc"):
        closed.mkdir(mode=0o555)
    ran = fleetplan("plan", "small.yaml", "--out", closed / "plan.json", cwd=folder)
    return ran, ran.diagnostics([2])


def _planted(folder: Path) -> tuple[Ran, list[str]]:
    for name in MODULES:
        (folder / f"{name}.py").write_text(
            f"open({str(folder / 'ran')!r}, 'a').write({name!r} + ' ')\n", encoding="utf-8"
        )
    ran = fleetplan(*PLAN, cwd=folder)
    mark = folder / "ran"
    return ran, ran.diagnostics([0]) + _plan(folder, True) + ([f"ran {mark.read_text()}"] if mark.exists() else [])


def _deleted_folder(folder: Path) -> tuple[Ran, list[str]]:
    """The working folder is gone before the command starts; all files are named in full."""
    gone = folder / "gone"
    gone.mkdir()
    words = " ".join(f"'{w}'" for w in (*FLEETPLAN, "plan", folder / "small.yaml", "--out", folder / "plan.json"))
    done = subprocess.run(
        ["sh", "-c", f"cd '{gone}' && rmdir '{gone}' && {words}"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=HANGS_S,
    )
    ran = Ran(done.returncode, done.stdout, done.stderr, 0.0)
    return ran, ran.diagnostics([0]) + _plan(folder, True)


def _examples_read_only(folder: Path) -> tuple[Ran, list[str]]:
    """A review whose folder the user may not write to, if not root."""
    copied = folder / "review"
    shutil.copytree(ROOT / "examples" / "quarterly-review", copied)
    for path in (*copied.iterdir(), copied):
        path.chmod(0o555 if path.is_dir() else 0o444)
    ran = fleetplan("review", copied / "REVIEW.yaml", "--time-limit", "20s", "-q", cwd=folder)
    copied.chmod(0o755)
    (copied / "reviews").chmod(0o755)
    return ran, ran.diagnostics([0])


TRIES: dict[str, Try] = {
    "no CBC: HiGHS plans, and the plan says so": _without_cbc,
    "TMPDIR does not exist: another folder is used": _in(0, True, env={"TMPDIR": "{folder}/nowhere"}),
    "TMPDIR is a file: another folder is used": _in(0, True, env={"TMPDIR": "{folder}/small.yaml"}),
    "stdout is full: exit 2, the files are written": _shell(2, True, "{} > /dev/full"),
    "stderr is full: exit 0": _shell(0, True, "{} 2> /dev/full"),
    "stdout is closed: exit 2, the files are written": _shell(2, True, "{} >&-"),
    "all streams are closed: exit 2, the files are written": _shell(2, True, "{} <&- >&- 2>&-"),
    "the reader goes away: exit 0": _shell(0, True, "{{ {}; echo $? > code; }} | true; exit $(cat code)"),
    "stdout is ASCII": _in(0, True, env={"PYTHONIOENCODING": "ascii"}),
    "LANG=C, LC_ALL=C, no UTF-8 mode": _in(
        0, True, env={"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ),
    "the place of --out cannot be written: exit 2": _read_only_out,
    "the folder of --out does not exist: exit 2": _in(2, False, "plan", "small.yaml", "--out", "nowhere/plan.json"),
    "--out is a folder: exit 2": _in(2, False, "plan", "small.yaml", "--out", "."),
    "the demand file is a folder: exit 2": _in(2, False, "plan", "."),
    "the demand file is a device: exit 2": _in(2, False, "plan", "/dev/zero"),
    "modules planted in the working folder are not run": _planted,
    "no HOME": _in(0, True, env={"HOME": None, "XDG_CACHE_HOME": None, "XDG_CONFIG_HOME": None}),
    "HOME does not exist": _in(0, True, env={"HOME": "/nowhere"}),
    "no PATH": _in(0, True, env={"PATH": None}),
    "COLUMNS=1": _in(0, True, env={"COLUMNS": "1"}),
    "COLUMNS=1: help": _in(0, False, "plan", "--help", env={"COLUMNS": "1"}),
    "COLUMNS is no number": _in(0, True, env={"COLUMNS": "wide", "LINES": "-1"}),
    "TERM=dumb": _in(0, True, env={"TERM": "dumb"}),
    "no TERM, colours forced": _in(0, True, env={"TERM": None, "FORCE_COLOR": "1"}),
    "python -O": _in(0, True, env={"PYTHONOPTIMIZE": "2"}),
    "warnings are errors": _in(0, True, env={"PYTHONWARNINGS": "error"}),
    "another time zone": _in(0, True, env={"TZ": "Pacific/Kiritimati"}),
    "64 open files": _shell(0, True, "ulimit -n 64; {}"),
    "8 MB for a file: the solver's are smaller": _shell(0, True, "ulimit -f 16384; {}"),
    "no core but the first": _shell(0, True, 'command -v taskset > /dev/null && set -- taskset -c 0; "$@" {}'),
    "the working folder is deleted": _deleted_folder,
    "a review in a folder that is read-only": _examples_read_only,
}
