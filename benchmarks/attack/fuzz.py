"""Spoiled files of every kind that fleetplan reads: an answer or a sentence, never a defect, a traceback or a hang."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NoReturn

from mutations import spoiled
from tally import ROOT, Attack, Ran, Row, fleetplan, tell

GROUP = "fuzz"
FILES, COMMANDS, LONGEST_S, MEMORY = 2400, 60, 60, 6 << 30
ALLOWED = (0, 2, 3, 4, 5)
REVIEW = ROOT / "examples" / "quarterly-review"
POLICY = ROOT / "examples" / "policies" / "production.yaml"
PROFILE = ROOT / "examples" / "profiles" / "one-request-a-second.yaml"
WITH_CSV = """\
workloads:
  - {name: chat, models: [llama-3.1-8b], forecast: {csv: usage.csv}}
baseline: openai/gpt-4o-mini
"""
USAGE = "time,requests\n" + "".join(
    f"2026-09-{day:02}T{hour:02}:00,{900 + 40 * hour}\n" for day in range(1, 15) for hour in range(24)
)


class TooLong(BaseException):
    """A file took longer than any may."""


@dataclass(frozen=True)
class Target:
    """A kind of file: where good ones are, and how a bad one is given to fleetplan."""

    what: str
    sources: tuple[Path, ...]
    words: Callable[[Path, Random], list[str]]
    name: str = ""
    """under which the command looks for it, in a folder with the rest of its files"""


def targets(folder: Path) -> tuple[Target, ...]:
    demand = tuple(sorted((ROOT / "examples").glob("*.yaml")) + sorted((ROOT / "examples" / "levers").glob("*.yaml")))
    usage = folder / "good-usage.csv"
    usage.write_text(USAGE, encoding="utf-8")
    plan, results = REVIEW / "last-plan.json", tuple(sorted((ROOT / "tests" / "results").iterdir()))
    measured = tuple(path for path in results if path.suffix == ".csv")
    starter = ROOT / "planner" / "data" / "starter.yaml"
    return (
        Target("demand files", (*demand, starter), lambda f, rng: ["validate", str(f)], "demand.yaml"),
        Target(
            "usage logs of demand files",
            (usage,),
            lambda f, rng: ["validate", str(f.with_name("with-csv.yaml"))],
            "usage.csv",
        ),
        Target("saved plans", (plan,), _reading_a_plan),
        Target("policies", (POLICY,), lambda f, rng: ["check", str(plan), "--policy", str(f)]),
        Target("review files", (REVIEW / "REVIEW.yaml",), lambda f, rng: ["read_review", str(f)], "REVIEW.yaml"),
        Target(
            "usage logs of reviews",
            (REVIEW / "usage.csv",),
            lambda f, rng: ["read_review", str(f.with_name("REVIEW.yaml"))],
            "usage.csv",
        ),
        Target(
            "past reviews",
            (REVIEW / "reviews" / "2026-Q2.json",),
            lambda f, rng: ["read_review", str(f.parents[1] / "REVIEW.yaml")],
            "reviews/2026-Q2.json",
        ),
        Target(
            "benchmark results",
            results,
            lambda f, rng: ["calibrate", str(f), "--out", str(f.with_name("profile.yaml"))],
        ),
        Target(
            "measured points",
            measured,
            lambda f, rng: rng.choice([["accuracy", str(f)], ["estimate", "--points", str(f)]]),
        ),
        Target(
            "profiles",
            (PROFILE,),
            lambda f, rng: ["validate", str(f.parents[1] / "spot-and-on-demand.yaml")],
            "profiles/one-request-a-second.yaml",
        ),
    )


def _reading_a_plan(file: Path, rng: Random) -> list[str]:
    verbs = (
        ["report", str(file), "--format", rng.choice(["json", "table", "md", "csv"])],
        ["check", str(file), "--policy", str(POLICY)],
        ["diff", str(file), str(REVIEW / "last-plan.json")],
        ["diff", str(REVIEW / "last-plan.json"), str(file)],
    )
    return list(rng.choice(verbs))


def attack_files(attack: Attack) -> list[Row]:
    kinds = targets(attack.place("fuzz"))
    each, rows = attack.times(FILES) // len(kinds) + 1, []
    for k, target in enumerate(kinds):
        row = Row(GROUP, f"{target.what}, spoiled, read in one process")
        jobs = [(str(attack.place("fuzz")), k, 10_000 * attack.seed + n) for n in range(each)]
        _run_all(attack, row, jobs)
        tell(f"{GROUP}: {row.tried} {target.what}, {len(row.failures)} failures")
        rows.append(row)
    row = Row(GROUP, "spoiled files through the real command: plan, what-if and review with --time-limit 5s")
    rng = Random(attack.seed)
    for n in range(attack.times(COMMANDS)):
        row.add(_through_the_command(attack, rng, row, n))
    return [*rows, row]


def _run_all(attack: Attack, row: Row, jobs: list[tuple[str, int, int]]) -> None:
    """In processes that are forked once; one that dies is a failure, and the rest goes on in new ones."""
    while jobs:
        with ProcessPoolExecutor(attack.jobs, initializer=_own_streams) as pool:
            futures = [pool.submit(_read, *job) for job in jobs]
            done = 0
            try:
                for future in futures:
                    problems, seconds, words = future.result()
                    row.add(problems)
                    row.measure(seconds, words)
                    done += 1
            except BrokenProcessPool:
                row.add([f"the process died at or after case {jobs[done]}"])
                done += 1
        jobs = jobs[done:]


def _own_streams() -> None:
    """Files for stdout and stderr, to be looked at; memory as on a small machine."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for number in (1, 2):
        with tempfile.TemporaryFile() as file:
            os.dup2(file.fileno(), number)


def _read(folder: str, kind: int, seed: int) -> tuple[list[str], float, str]:
    rng, target = Random(1000 * seed + kind), targets(Path(folder))[kind]
    source = rng.choice(target.sources)
    how, data = spoiled(source.read_bytes(), rng)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        file = _placed(Path(place), target.name or source.name, data)
        ran = _in_this_process(target.words(file, rng))
        place_of = f"{source.name} ({how}, case {kind}/{seed})"
        problems = [f"{place_of}: {problem}" for problem in ran.diagnostics(ALLOWED)]
        if problems:
            kept = Path(tempfile.gettempdir()) / f"attack-failed-{kind}-{seed}-{source.name}"
            kept.write_bytes(data)
            problems[0] += f" (kept as {kept})"
    return problems, ran.seconds, f"{ran.seconds:.1f} s: {place_of}"


def _placed(place: Path, name: str, data: bytes) -> Path:
    """The spoiled file among the good ones that belong to it."""
    shutil.copytree(REVIEW, place, dirs_exist_ok=True)
    shutil.copytree(ROOT / "examples" / "profiles", place / "profiles")
    shutil.copy(ROOT / "examples" / "spot-and-on-demand.yaml", place)
    (place / "with-csv.yaml").write_text(WITH_CSV, encoding="utf-8")
    (place / name).write_bytes(data)
    return place / name


def _in_this_process(words: list[str]) -> Ran:
    from planner import cli
    from planner.io.errors import InputError
    from planner.review.review_file import read_review

    def enough(number: int, frame: object) -> NoReturn:
        raise TooLong

    for number in (1, 2):
        os.ftruncate(number, 0)
        os.lseek(number, 0, os.SEEK_SET)
    signal.signal(signal.SIGALRM, enough)
    signal.alarm(LONGEST_S)
    started, error, code = time.monotonic(), "", 0
    try:
        if words[0] == "read_review":
            read_review(Path(words[1]))
        else:
            sys.argv = ["fleetplan", *words]
            cli.main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except InputError:
        code = 2
    except TooLong:
        return Ran(None, "", "", time.monotonic() - started)
    except BaseException as broken:
        code, error = 1, f"{type(broken).__name__}: {broken}"
    finally:
        signal.alarm(0)
    return Ran(code, _written(1), _written(2) + error, time.monotonic() - started)


def _written(number: int) -> str:
    (sys.stdout if number == 1 else sys.stderr).flush()
    os.lseek(number, 0, os.SEEK_SET)
    return os.read(number, 1 << 20).decode("utf-8", "replace")


def _through_the_command(attack: Attack, rng: Random, row: Row, n: int) -> list[str]:
    kinds = targets(attack.place("fuzz"))
    verb, target = rng.choice([("plan", kinds[0]), ("plan", kinds[0]), ("what-if", kinds[0]), ("review", kinds[4])])
    source = rng.choice(target.sources)
    how, data = spoiled(source.read_bytes(), rng)
    with tempfile.TemporaryDirectory(dir=attack.place("fuzz")) as place:
        file = _placed(Path(place), target.name, data)
        more = ["--scale", "demand=1:2:2"] if verb == "what-if" else []
        ran = fleetplan(verb, file, "--time-limit", "5s", "-q", *more, cwd=place)
    row.measure(ran.seconds, f"{ran.seconds:.1f} s: {verb} {source.name} ({how})")
    return [
        f"{verb} {source.name} ({how}, seed {attack.seed}, number {n}): {problem}"
        for problem in ran.diagnostics(ALLOWED)
    ]
