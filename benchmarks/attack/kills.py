"""Runs that are interrupted or killed at random times: a whole plan or none, nothing alive, nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tally import FLEETPLAN, Attack, Row, environment, fleetplan, tell

import planner
from tests.support.command_line import HARD, SMALL

GROUP = "kills"
KILLS, LATEST_S, ENDS_S, ORPHANS_S = 108, 9.0, 60.0, 30.0
VERBS = ("plan", "plan with a limit", "what-if in processes")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
OLD = '{"format": "an older file"}\n'


@dataclass(frozen=True)
class Blow:
    """A run and when it is struck."""

    number: int
    verb: str
    signal: signal.Signals
    after_s: float
    out_exists: bool

    def __str__(self) -> str:
        return f"{self.verb}, {self.signal.name} after {self.after_s:.1f} s (number {self.number})"


@dataclass(frozen=True)
class Blown:
    blow: Blow
    exit_: list[str]
    file: list[str]
    left: list[str]
    ended_s: float
    outcome: str


def attack_by_killing(attack: Attack) -> list[Row]:
    rng = Random(attack.seed)
    blows = [
        Blow(n, VERBS[n % 3], SIGNALS[(n // 3) % 3], rng.uniform(0.4, LATEST_S), rng.random() < 0.5)
        for n in range(attack.times(KILLS))
    ]
    ends = Row(GROUP, "SIGINT or SIGTERM at a random time: exit 130, a sentence, no traceback")
    files = Row(GROUP, "the file of --out after any signal: the old one or a new one whole, which passes the check")
    left = Row(
        GROUP,
        "after any signal no process is alive within 30 s and no files stay; after SIGKILL the next start removes them",
    )
    seen: Counter[str] = Counter()
    with ThreadPoolExecutor(attack.jobs) as pool:
        for done, blown in enumerate(pool.map(lambda blow: _struck(attack, blow), blows), 1):
            if blown.blow.signal is not signal.SIGKILL:
                ends.add(blown.exit_)
                ends.measure(blown.ended_s, f"{blown.blow}: ended {blown.ended_s:.1f} s later, {blown.outcome}")
            files.add(blown.file)
            seen[blown.outcome] += 1
            left.add(blown.left)
            if done % 10 == 0:
                tell(f"{GROUP}: {done} of {len(blows)}; the last: {blown.blow}: {blown.outcome}")
    files.worst = ", ".join(f"{outcome}: {times}" for outcome, times in seen.most_common())
    return [ends, files, left]


def _struck(attack: Attack, blow: Blow) -> Blown:
    folder = attack.place(f"kill-{blow.number}")
    temporary, out = folder / "tmp", folder / "out.json"
    temporary.mkdir()
    (folder / "hard.yaml").write_text(HARD, encoding="utf-8")
    if blow.out_exists:
        out.write_text(OLD, encoding="utf-8")
    place = environment(TMPDIR=str(temporary))
    process = subprocess.Popen(
        [*FLEETPLAN, *_words(blow, out)], cwd=folder, env=place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    time.sleep(blow.after_s)
    process.send_signal(blow.signal)
    started = time.monotonic()
    try:
        _, err = process.communicate(timeout=ENDS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        _, err = process.communicate()
        err += b" (did not end)"
    ended_s, text = time.monotonic() - started, err.decode("utf-8", "replace")
    problems = []
    if process.returncode != 130:
        problems.append(f"{blow}: exit {process.returncode}: {text[-200:]}")
    if "Traceback" in text:
        problems.append(f"{blow}: {text[-300:]}")
    outcome = _outcome(out, blow)
    file = [f"{blow}: {outcome}"] if outcome.startswith("broken") else []
    left = [f"{blow}: {problem}" for problem in _left(blow, folder, temporary, place)]
    return Blown(blow, problems, file, left, ended_s, outcome)


def _words(blow: Blow, out: Path) -> list[str]:
    if blow.verb == "what-if in processes":
        more = ["--scale", "demand=1:3:5", "--executor", "processes:2", "--journal", "journal"]
        return ["what-if", "hard.yaml", *more, "--gap", "0%", "--out", str(out.with_suffix(".csv"))]
    limit = ["--time-limit", "300s"] if blow.verb == "plan with a limit" else []
    return ["plan", "hard.yaml", "--gap", "0%", "--out", str(out), *limit]


def _outcome(out: Path, blow: Blow) -> str:
    """What became of the file: a word for each thing that may, else broken."""
    table = out.with_suffix(".csv")
    if table.exists() and not table.read_bytes().endswith(b"\n"):
        return f"broken: half a table in {table.name}"
    if not out.exists():
        return "no file" if not blow.out_exists else "broken: the old file is gone"
    text = out.read_text(encoding="utf-8")
    if blow.out_exists and text == OLD:
        return "the old file"
    try:
        plan = json.loads(text)
    except ValueError as error:
        return f"broken: half a file: {error}"
    problems = planner.check_plan(plan)
    return f"broken: {problems[0]}" if problems else f"a plan, {plan['status']}"


def _left(blow: Blow, folder: Path, temporary: Path, place: dict[str, str]) -> list[str]:
    """Whoever is told to stop removes its files; whoever is killed leaves that to the next start."""
    until = time.monotonic() + ORPHANS_S
    while (alive := _processes_in(temporary)) and time.monotonic() < until:
        time.sleep(0.2)
    problems = [f"{len(alive)} processes are alive"] if alive else []
    for pid in alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if blow.signal is signal.SIGKILL:
        (folder / "small.yaml").write_text(SMALL, encoding="utf-8")
        problems += fleetplan("plan", "small.yaml", "-q", cwd=folder, env=place).diagnostics([0])
    problems += [f"{entry.name} stays in TMPDIR" for entry in temporary.iterdir()]
    expected = {"tmp", "hard.yaml", "small.yaml", "out.json", "out.csv", "journal"}
    return problems + [f"{entry.name} stays in the folder" for entry in folder.iterdir() if entry.name not in expected]


def _processes_in(temporary: Path) -> list[int]:
    """Those that were started with this TMPDIR, by whomever."""
    wanted, found = f"TMPDIR={temporary}".encode(), []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found
