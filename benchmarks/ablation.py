"""What each heuristic and each bounding device is worth: cases planned with all of them, and without one at a time.

    python benchmarks/ablation.py --cases 5:0,5:1,20:0 --seconds 45 --only "rolling windows" --results results.json

A case is `workloads:seed` of benchmarks/scale.py, or a demand file, which is planned by the command. solvers/devices.py
lists what can be left out, and worker processes go without it too. Costs and bounds are
compared with those of the whole search on the same case within the same seconds: use a machine that has nothing else to
do, and take a difference as small as that between two runs of the whole search (the row "again") for none. Results are
added to a file after each run, so that a measurement can be broken off and continued.
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
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from solvers.devices import DEVICES, WITHOUT  # noqa: E402

WHOLE, AGAIN = "the whole search", "again"
RUNS = (WHOLE, AGAIN, *DEVICES)


def environment(device: str) -> dict[str, str]:
    """That of a run without a device."""
    path = f"{ROOT}{os.pathsep}{ROOT / 'benchmarks'}"
    return os.environ | {"PYTHONPATH": path, WITHOUT: device if device in DEVICES else ""}


def measured(device: str, case: str, seconds: float) -> dict[str, Any]:
    if case.endswith(".yaml"):
        return planned(device, case, seconds)
    workloads, seed = case.split(":")
    command = [sys.executable, "-P", str(ROOT / "benchmarks" / "scale.py"), "--workloads", workloads, "--seed", seed]
    command += ["--time-limit", f"{seconds:g}", "--no-textbook", "--format", "json"]
    run = subprocess.run(command, env=environment(device), capture_output=True)
    if run.returncode:
        return {"error": run.stderr.decode()[-300:]}
    found = json.loads(run.stdout)
    return {key: found[key] for key in ("cost", "bound", "gap_frac", "seconds", "outcome")}


def planned(device: str, demand: str, seconds: float) -> dict[str, Any]:
    """A demand file, planned by the command."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "plan.json"
        command = [sys.executable, "-P", "-m", "planner.cli", "plan", demand, "--quiet", "--out", str(out)]
        started = time.monotonic()
        run = subprocess.run(
            [*command, "--time-limit", f"{seconds:g}s"], env=environment(device), capture_output=True
        )  # fmt: skip
        took = time.monotonic() - started
        if not out.exists():
            return {"error": run.stderr.decode()[-300:] or "no plan"}
        plan = json.loads(out.read_text(encoding="utf-8"))
    cost = plan["cost_usd_per_month"] + plan["penalty_usd_per_month"]
    return {"cost": cost, "bound": cost * (1 - plan["gap_frac"]), "gap_frac": plan["gap_frac"], "seconds": took}


def table(results: dict[str, dict[str, Any]], cases: list[str]) -> str:
    """Percent of the cost by which plans are more expensive, bounds lower and proofs longer without each device."""
    sizes = list(dict.fromkeys(_size(case) for case in cases))
    head = " | ".join(f"{n}: plan | bound | seconds" for n in sizes)
    lines = [f"| without | {head} |", "|---|" + "---:|---:|---:|" * len(sizes)]
    whole = results[WHOLE]
    for device in (name for name in RUNS if name in results and name != WHOLE):
        cells = []
        for n in sizes:
            pairs = [(whole[c], results[device][c]) for c in cases if _size(c) == n and c in results[device]]
            pairs = [(a, b) for a, b in pairs if "error" not in a and "error" not in b]
            plan = [b["cost"] / a["cost"] - 1 for a, b in pairs]
            bound = [(a["bound"] - b["bound"]) / a["cost"] for a, b in pairs]
            took = [b["seconds"] / a["seconds"] - 1 for a, b in pairs]
            cells += [_mean(plan), _mean(bound), _mean(took, "+.0%")]
        lines.append(f"| {device} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _size(case: str) -> str:
    return "demand files" if case.endswith(".yaml") else f"{case.split(':')[0]} workloads"


def _mean(values: list[float], form: str = "+.2%") -> str:
    return format(statistics.mean(values), form) if values else "failed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="5:0,5:1,5:2,20:0,20:1,20:2", help="comma-separated")
    parser.add_argument("--seconds", type=float, default=45.0, help="of one plan")
    parser.add_argument("--only", default="", help="devices to switch off, comma-separated; all by default")
    parser.add_argument("--results", type=Path, default=Path("ablation.json"), help="file that results are added to")
    given = parser.parse_args()
    cases = given.cases.split(",")
    devices = [WHOLE, *(name.strip() for name in given.only.split(","))] if given.only else list(RUNS)
    unknown = set(devices).difference(RUNS)
    if unknown:
        raise SystemExit(f"no such device: {', '.join(sorted(unknown))}; there are {', '.join(RUNS[1:])}")
    results = json.loads(given.results.read_text()) if given.results.exists() else {}
    for case in cases:
        for device in devices:
            if case in results.setdefault(device, {}):
                continue
            results[device][case] = found = measured(device, case, given.seconds)
            print(f"{case} without {device}: {found}", file=sys.stderr, flush=True)
            given.results.write_text(json.dumps(results, indent=1))
    print(table(results, cases))


if __name__ == "__main__":
    main()
