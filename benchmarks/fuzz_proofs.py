"""Hold proofs against an enumeration: many replicas, mixes of three, deadlines.

    python benchmarks/fuzz_proofs.py --cases 300 --seed 1
    python benchmarks/fuzz_proofs.py --only mixes --cases 40 --seed 7
    python benchmarks/fuzz_proofs.py --cases 300 --markdown docs/evidence/reliability.md

Random tiny fleets (tests/oracle/large_cases.py), as many of each class, whose optimum is found by trying every count
with arithmetic of its own (tests/oracle/exhaustive.py). Each is searched with CBC or HiGHS to a gap of zero and once
more without branching; no bound on the way may be above the optimum, and what is called optimal must be. Then menus
with less on them are searched: the wider one may cost no more where it is proved, or started from the narrower plan.
Each case has a process of its own, so that a crash or a search without end is one failure. With --markdown the table in
that file is replaced. Exit code 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from solvers.search.fleet_solution import Options  # noqa: E402
from tests.oracle.large_cases import CLASSES, narrower  # noqa: E402
from tests.oracle.verdicts import SAME, judged  # noqa: E402

NODES = 200
"""a search that has more to do is not proved"""
LIMIT_S = 600
"""a case that takes longer counts as one that never ends"""
BEGIN, END = "<!-- proofs: begin -->", "<!-- proofs: end -->"
HEAD = (
    "class", "what is tried", "cases", "proved", "not proved", "wrong proofs", "bounds above the optimum",
    "told on the way", "broken rules", "narrower menus", "wider one dearer, cold", "dearer, proved or started from it",
    "worst of what is not proved",
)  # fmt: skip
WRONG = ("wrong_proofs", "bounds_above", "told_above", "broken_rules", "dearer_cold", "dearer")
BEYOND_THE_TESTS = 100_000
"""seeds from here on are in no test"""


@dataclass(frozen=True)
class Judged:
    """What the table needs to know of one case."""

    name: str
    seed: int
    proved: bool = False
    above_frac: float = 0.0
    gap_frac: float = 0.0
    wrong_proofs: list[str] = field(default_factory=list)
    bounds_above: list[str] = field(default_factory=list)
    told_above: list[str] = field(default_factory=list)
    broken_rules: list[str] = field(default_factory=list)
    menus: int = 0
    dearer_cold: list[str] = field(default_factory=list)
    dearer: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        return [words for kind in WRONG if kind != "dearer_cold" for words in getattr(self, kind)]


def judge(name: str, seed: int) -> Judged:
    case = CLASSES[name][1](seed)
    solver: Any = ("cbc", "highs")[seed % 2]
    whole, cut_short = Options(solver, 0.0, node_limit=NODES), Options(solver, 0.0, node_limit=0)
    try:
        found = judged(case, whole, narrower(case, seed), cut_short)
    except Exception as error:
        return Judged(name, seed, broken_rules=[f"{type(error).__name__}: {error}"])
    return Judged(
        name, seed, found.proved, found.above_frac,
        0.0 if found.proved or found.found.best is None else found.found.gap_frac,
        found.wrong_proofs, found.bounds_above, found.told_above, found.broken_rules, found.menus, found.dearer_cold,
        found.dearer,
    )  # fmt: skip


def judge_apart(name: str, seed: int) -> Judged:
    """The same in a process of its own, which is ended where it does not end by itself."""
    here, there = Pipe(duplex=False)
    process = Process(target=_send, args=(there, name, seed))
    process.start()
    there.close()
    try:
        if here.poll(LIMIT_S):
            found: Judged = here.recv()
            return found
        return Judged(name, seed, broken_rules=[f"no end within {LIMIT_S} s"])
    except EOFError:
        return Judged(name, seed, broken_rules=["the process died"])
    finally:
        process.terminate()
        process.join()


def _send(to: Connection, name: str, seed: int) -> None:
    to.send(judge(name, seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=300, help="cases of all classes together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=CLASSES, action="append", help="this class; may be given again")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="cases at the same time")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table to this file, between its marks")
    given = parser.parse_args()
    names = given.only or list(CLASSES)
    asked = [(names[k % len(names)], BEYOND_THE_TESTS * given.seed + k // len(names)) for k in range(given.cases)]
    found, started = [], time.monotonic()
    with ThreadPoolExecutor(given.jobs) as pool:
        for one in pool.map(judge_apart, *zip(*asked, strict=True)):
            found.append(one)
            for words in (*one.problems, *(f"cold: {words}" for words in one.dearer_cold)):
                tell(f"{one.name} {one.seed}: {words}")
            if len(found) % 25 == 0:
                tell(f"{len(found)} of {given.cases}, {time.monotonic() - started:.0f} s")
    table = table_of(found)
    print(table)
    if given.markdown:
        write(given.markdown, table, given.seed, (time.monotonic() - started) / 60)
    sys.exit(1 if any(one.problems for one in found) else 0)


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def table_of(found: list[Judged]) -> str:
    lines = [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    for name, (what, _) in CLASSES.items():
        cases = [one for one in found if one.name == name]
        if cases:
            wrong = [sum(len(getattr(one, kind)) for one in cases) for kind in WRONG]
            proved, menus = sum(one.proved for one in cases), sum(one.menus for one in cases)
            counts = [len(cases), proved, len(cases) - proved, *wrong[:-2], menus, *wrong[-2:]]
            lines.append(f"| {name} | {what} | {' | '.join(map(str, counts))} | {_worst(cases)} |")
    return "\n".join(lines) + "\n"


def _worst(cases: list[Judged]) -> str:
    above, gap = max(cases, key=lambda one: one.above_frac), max(cases, key=lambda one: one.gap_frac)
    parts = [f"{gap.gap_frac:.1%} gap (seed {gap.seed})"] if gap.gap_frac else []
    parts += [f"{above.above_frac:.3%} above the optimum (seed {above.seed})"] if above.above_frac > SAME else []
    return ", ".join(parts) or "-"


def write(file: Path, table: str, seed: int, minutes: float) -> None:
    """Put the table in the place of the old one."""
    day = time.strftime("%Y-%m-%d", time.gmtime())
    block = f"{BEGIN}\n{table}\n{day}, seed {seed}, {minutes:.0f} minutes.\n{END}"
    old = file.read_text(encoding="utf-8")
    new, times = re.subn(f"{BEGIN}.*?{END}", lambda match: block, old, flags=re.DOTALL)
    if not times:
        sys.exit(f"{file}: has no place for the table. Add the lines {BEGIN} and {END}.")
    file.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
