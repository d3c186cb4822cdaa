"""Runs that are interrupted or killed at random times: a whole plan or none, nothing alive, nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tally import FLEETPLAN, Attack, Row, environment, fleetplan, tell

import planner
from tests.support.command_line import HARD, SMALL

GROUP = "kills"
KILLS, LATEST_S, ENDS_S, ORPHANS_S, LEAVING_S = 216, 9.0, 60.0, 30.0, 0.5
BEYOND = 1.5
"""times as long as a small plan takes on a busy machine, in which runs are struck"""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
OLD = '{"format": "an older file"}\n'
HORIZON = """\
starts: 2027-01-01
horizon: 2 quarters
workloads:
  - {name: chat, models: [llama-3.1-8b], forecast: {requests_per_day: 900k, growth_per_month: 6%}}
  - {name: search, models: [qwen2.5-14b], forecast: {requests_per_day: 300k}}
scenarios:
  - {name: as today, probability: 60%}
  - {name: fast, probability: 40%, changes: {workloads.chat.forecast.growth_per_month: 20%}}
menu: {gpus: [l40s, h100], purchase: [on-demand, reserved-1y]}
baseline: openai/gpt-4o-mini
"""
REQUESTS_LOGGED = 1_500_000


@dataclass(frozen=True)
class Verb:
    """A command that takes long enough to be struck; `problems` are those of its file where one is written."""

    words: tuple[str, ...]
    problems: Callable[[str], list[str]]
    begins_s: float = 0.4
    """it is struck this long after its start at the earliest"""
    out: str = "out.json"


def _plan_problems(text: str) -> list[str]:
    return list(planner.check_plan(json.loads(text)))


def _horizon_problems(text: str) -> list[str]:
    return list(planner.check_plan(json.loads(text)))


def _served_problems(text: str) -> list[str]:
    return [] if json.loads(text)["runs"] else ["nothing was served"]


def _demand_problems(text: str) -> list[str]:
    return [] if planner.case_from_text(text).workloads else ["no workloads"]


def _table_problems(text: str) -> list[str]:
    return [] if text.endswith("\n") else ["half a table"]


VERBS = {
    "plan": Verb(("plan", "hard.yaml", "--gap", "0%"), _plan_problems),
    "plan with a limit": Verb(("plan", "hard.yaml", "--gap", "0%", "--time-limit", "300s"), _plan_problems),
    "what-if in processes": Verb(
        ("what-if", "hard.yaml", "--gap", "0%", "--scale", "demand=1:3:5", "--executor", "processes:2", "--journal",
         "journal"),
        _table_problems, out="out.csv",
    ),
    "verify": Verb(("verify", "plan.json", "--load", "1,1.1,1.2,1.3"), _served_problems, 1.5),
    "plan --verify": Verb(("plan", "small.yaml", "--verify"), _plan_problems, 1.5),
    "a horizon": Verb(("plan", "horizon.yaml"), _horizon_problems, 1.5),
    "study": Verb(("study", "plan.json"), _plan_problems, 1.5),
    "demand": Verb(("demand", "log.csv"), _demand_problems, out="out.yaml"),
}  # fmt: skip


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
    inputs, a_plan_s = _written_inputs(attack)
    rng, latest_s = Random(attack.seed), max(LATEST_S, BEYOND * a_plan_s)
    blows = [
        Blow(n, verb, SIGNALS[(n // len(VERBS)) % 3], rng.uniform(VERBS[verb].begins_s, latest_s), rng.random() < 0.5)
        for n in range(attack.times(KILLS))
        for verb in [list(VERBS)[n % len(VERBS)]]
    ]
    ends = Row(
        GROUP,
        f"SIGINT or SIGTERM at a random time in {', '.join(VERBS)}: exit 130, a sentence, no traceback, no crash",
    )
    files = Row(GROUP, "the file of --out after any signal: the old one or a new one whole, which passes the check")
    left = Row(
        GROUP,
        "after any signal no process is alive within 30 s and no files stay; after SIGKILL the next start removes them",
    )
    seen: Counter[str] = Counter()
    with ThreadPoolExecutor(attack.jobs) as pool:
        for done, blown in enumerate(pool.map(lambda blow: _struck(attack, blow, inputs), blows), 1):
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


def _written_inputs(attack: Attack) -> tuple[Path, float]:
    """What the runs read, and how long a small plan takes on this machine."""
    folder = attack.place("inputs")
    for name, text in (("hard.yaml", HARD), ("small.yaml", SMALL), ("horizon.yaml", HORIZON)):
        (folder / name).write_text(text, encoding="utf-8")
    ran = fleetplan("plan", "small.yaml", "-q", "--out", "plan.json", cwd=folder)
    assert ran.code == 0, ran
    rng = Random(attack.seed)
    with (folder / "log.csv").open("w", encoding="utf-8") as log:
        log.write("timestamp,prompt_tokens,completion_tokens\n")
        for n in range(REQUESTS_LOGGED):
            log.write(f"{1_790_000_000 + 0.8 * n:.3f},{rng.randrange(40, 4000)},{rng.randrange(1, 600)}\n")
    return folder, ran.seconds


def _struck(attack: Attack, blow: Blow, inputs: Path) -> Blown:
    folder = attack.place(f"kill-{blow.number}")
    temporary, out = folder / "tmp", folder / VERBS[blow.verb].out
    temporary.mkdir()
    for entry in inputs.iterdir():
        (folder / entry.name).symlink_to(entry)
    if blow.out_exists:
        out.write_text(OLD, encoding="utf-8")
    place = environment(TMPDIR=str(temporary))
    words = [*FLEETPLAN, *VERBS[blow.verb].words, "--out", str(out)]
    process = subprocess.Popen(words, cwd=folder, env=place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _, err = process.communicate(timeout=blow.after_s)
        ended_before = True
    except subprocess.TimeoutExpired:
        ended_before = False
    started = time.monotonic()
    if not ended_before:
        process.send_signal(blow.signal)
        try:
            _, err = process.communicate(timeout=ENDS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            _, err = process.communicate()
            err += b" (did not end)"
    ended_s, text = time.monotonic() - started, err.decode("utf-8", "replace")
    leaving = ended_s < LEAVING_S and "wrote" in text  # the work was done when it was struck
    problems = []
    if process.returncode not in ((0, 6) if ended_before else (0, 6, 130) if leaving else (130,)):
        problems.append(f"{blow}: exit {process.returncode}: {text[-200:]}")
    if "Traceback" in text:
        problems.append(f"{blow}: {text[-300:]}")
    outcome = _outcome(out, blow)
    if ended_before:
        outcome += ", before it was struck"
    file = [f"{blow}: {outcome}"] if outcome.startswith("broken") else []
    left = [f"{blow}: {problem}" for problem in _left(blow, folder, temporary, place)]
    return Blown(blow, problems, file, left, ended_s, outcome)


def _outcome(out: Path, blow: Blow) -> str:
    """What became of the file: a word for each thing that may, else broken."""
    if not out.exists():
        return "no file" if not blow.out_exists else "broken: the old file is gone"
    text = out.read_text(encoding="utf-8")
    if blow.out_exists and text == OLD:
        return "the old file"
    try:
        problems = VERBS[blow.verb].problems(text)
    except (ValueError, KeyError, planner.InputError) as error:
        return f"broken: half a file: {error}"
    return f"broken: {problems[0]}" if problems else "a new file"


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
        problems += fleetplan("plan", "small.yaml", "-q", cwd=folder, env=place).diagnostics([0])
    problems += [f"{entry.name} stays in TMPDIR" for entry in temporary.iterdir()]
    expected = {"tmp", VERBS[blow.verb].out, "journal"}
    stays = [entry.name for entry in folder.iterdir() if entry.name not in expected and not entry.is_symlink()]
    return problems + [f"{name} stays in the folder" for name in stays]


def _processes_in(temporary: Path) -> list[int]:
    """Those that were started with this TMPDIR, by whomever."""
    wanted, found = f"TMPDIR={temporary}".encode(), []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found
