"""Where users wait: CPU seconds of commands that they sit in front of, each the median of some runs.

python benchmarks/waits.py --runs 3
python benchmarks/waits.py --only quickstart --file demand.yaml=60 --file small.yaml=20

A plan of an example, its page and its study have no time limit; a file that is given is planned within so many seconds,
and its gap is told. CPU seconds are those of all processes of a command: other jobs on the machine change them little,
while what a time limit leaves of a gap is true for an idle machine alone. For gaps of larger fleets see typical.py,
scale.py and horizon.py, for sweeps of budgets budget_sweep.py.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLEETPLAN = [sys.executable, "-P", "-m", "planner.cli"]
PLAN = "plan.json"
EXAMPLES = {
    "quickstart, plan": ("plan", "quickstart.yaml"),
    "quickstart, page": ("plan", "quickstart.yaml", "--html", "page.html"),
    "quickstart, study": ("plan", "quickstart.yaml", "--study"),
    "quickstart with a deadline, plan": ("plan", "levers/deferrable-batch.yaml"),
    "two-models, study": ("plan", "two-models.yaml", "--study"),
}


@dataclass(frozen=True)
class Run:
    cpu_s: float
    wall_s: float
    code: int
    gap_frac: float | None


def run(arguments: list[str]) -> Run:
    """Run the command in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*FLEETPLAN, *arguments, "--quiet", "--out", PLAN]
        started, environment = time.monotonic(), os.environ | {"PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - started
        out = Path(folder) / PLAN
        gap_frac = json.loads(out.read_text(encoding="utf-8"))["gap_frac"] if out.exists() else None
    return Run(used.ru_utime + used.ru_stime, wall_s, os.waitstatus_to_exitcode(status), gap_frac)


def commands(given: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    for name, (verb, example, *rest) in EXAMPLES.items():
        if given.only in name:
            yield name, [verb, str(ROOT / "examples" / example), *rest]
    for file in given.file:
        path, _, limit_s = file.rpartition("=")
        yield f"{Path(path).name}, {limit_s} s", ["plan", str(Path(path).resolve()), "--time-limit", f"{limit_s}s"]


def median(values: list[float]) -> float:
    return statistics.median(values) if values else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--only", default="", help="examples whose name has this in it")
    parser.add_argument("--file", action="append", default=[], metavar="FILE=SECONDS", help="may be given again")
    given = parser.parse_args()
    print(f"{'what':40} {'CPU s':>8} {'wall s':>8} {'gap':>8} {'exit':>5}")
    for name, arguments in commands(given):
        runs = [run(arguments) for _ in range(given.runs)]
        gap = median([r.gap_frac for r in runs if r.gap_frac is not None])
        cpu_s, wall_s = median([r.cpu_s for r in runs]), median([r.wall_s for r in runs])
        print(f"{name:40} {cpu_s:8.1f} {wall_s:8.1f} {gap:8.2%} {max(r.code for r in runs):5}", flush=True)


if __name__ == "__main__":
    main()
