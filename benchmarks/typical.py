"""Typical files, planned by the command as users run it: seconds, gap and memory of each.

python benchmarks/typical.py --case ../cases/six-workloads/demand.yaml

The case is a demand file of several workloads; it is planned whole within a minute, and ten subsets of two and three of
its workloads within half a minute each. Then come all examples, with no limit. Other demand files may follow by name.
The proof of a gap takes what the machine has: use one that has nothing else to do.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
WHOLE_S, SUBSET_S = 60.0, 30.0
SUBSETS = ((0, 1), (2, 3), (4, 5), (0, 3), (1, 5), (0, 1, 2), (3, 4, 5), (0, 2, 4), (1, 3, 5), (2, 4, 5))
"""of the workloads of the case, by their place"""
FLEETPLAN = [sys.executable, "-P", "-m", "planner.cli"]


@dataclass(frozen=True)
class Run:
    name: str
    limit_s: float | None
    seconds: float
    cpu_s: float
    """of all its processes"""
    code: int
    gap_frac: float | None
    peak_mib: float
    """of the largest of its processes"""
    left_out: int


def planned(demand: Path, name: str, limit_s: float | None) -> Run:
    """Plan a file with the command, from the outside."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "plan.json"
        limit = ["--time-limit", f"{limit_s:g}s"] if limit_s is not None else []
        command = [*FLEETPLAN, "plan", str(demand), "--quiet", "--out", str(out), *limit]
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": str(ROOT)})
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.monotonic() - started
        plan = json.loads(out.read_text(encoding="utf-8")) if out.exists() else None
    return Run(
        name=name,
        limit_s=limit_s,
        seconds=seconds,
        cpu_s=used.ru_utime + used.ru_stime,
        code=os.waitstatus_to_exitcode(status),
        gap_frac=plan["gap_frac"] if plan else None,
        peak_mib=used.ru_maxrss / 1024,
        left_out=len(plan["left_out"] or ()) if plan else 0,
    )


def subsets(case: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """Demand files of some of the workloads of a case, beside the logs that they name."""
    demand = yaml.safe_load(case.read_text(encoding="utf-8"))
    for log in case.parent.glob("*.csv"):
        shutil.copy(log, folder)
    for places in SUBSETS:
        if max(places) < len(demand["workloads"]):
            some = [demand["workloads"][k] for k in places]
            name = " + ".join(w["name"] for w in some)
            file = folder / f"{'-'.join(map(str, places))}.yaml"
            file.write_text(yaml.safe_dump(demand | {"workloads": some, "name": name}), encoding="utf-8")
            yield name, file


def runs(given: argparse.Namespace) -> Iterator[Run]:
    if given.case is not None:
        yield planned(given.case, given.case.parent.name, WHOLE_S)
        with tempfile.TemporaryDirectory() as folder:
            for name, file in subsets(given.case, Path(folder)):
                yield planned(file, name, SUBSET_S)
    for file in given.files:
        yield planned(file, file.stem, SUBSET_S)
    for example in () if given.no_examples else sorted((ROOT / "examples").glob("*.yaml")):
        yield planned(example, f"examples/{example.stem}", None)


def line(run: Run) -> str:
    limit = f"{run.limit_s:.0f}" if run.limit_s is not None else "-"
    gap = f"{run.gap_frac:.2%}" if run.gap_frac is not None else "-"
    took = f"{run.seconds:8.1f} {run.cpu_s:8.1f}"
    return f"{run.name:44} {limit:>8} {took} {gap:>8} {run.peak_mib:9.0f} {run.left_out:9} {run.code:5}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="more demand files, half a minute each")
    parser.add_argument("--case", type=Path, default=None, help="a demand file of several workloads")
    parser.add_argument("--no-examples", action="store_true")
    given = parser.parse_args()
    print(
        f"{'file':44} {'limit s':>8} {'seconds':>8} {'CPU s':>8} {'gap':>8} {'peak MiB':>9} {'left out':>9} {'exit':>5}"
    )
    done = []
    for run in runs(given):
        done.append(run)
        print(line(run), flush=True)
    gaps = [run.gap_frac for run in done if run.limit_s == SUBSET_S and run.gap_frac is not None]
    if gaps:
        median = statistics.median(gaps)
        print(f"{len(gaps)} files in {SUBSET_S:.0f} s: median gap {median:.2%}, largest {max(gaps):.2%}")
    over = [run.seconds / run.limit_s for run in done if run.limit_s is not None]
    if over:
        print(f"longest run: {max(over):.2f} of its limit")


if __name__ == "__main__":
    main()
