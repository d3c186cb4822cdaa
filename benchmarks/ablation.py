"""What each heuristic and each bounding device is worth: cases planned with all of them, and without one at a time.

    python benchmarks/ablation.py --cases 5:0,5:1,20:0 --seconds 45 --only "rolling windows" --results results.json

A case is `workloads:seed` of benchmarks/scale.py, or a demand file, which is planned by the command. Each device is
switched off in a copy of the source, so that the worker process of a search goes without it too. Costs and bounds are
compared with those of the whole search on the same case within the same seconds: use a machine that has nothing else to
do, and take a difference as small as that between two runs of the whole search (the row "again") for none. Results are
added to a file after each run, so that a measurement can be broken off and continued.
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
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("planner", "problems", "solvers", "benchmarks")
WHOLE = "the whole search"
Edit = tuple[str, str, str]
"""a file, text that it holds once, and what stands there instead"""
POLISHING, WORKER = "solvers/heuristics/polishing.py", "solvers/search/worker_main.py"
DESTROY_REPAIR, LOCAL_SEARCH = "solvers/heuristics/destroy_repair.py", "solvers/heuristics/local_search.py"
SEARCH, SEPARATION, PRICING = "solvers/search/search.py", "solvers/cuts/separation.py", "solvers/pricing/"
WITHOUT: dict[str, tuple[Edit, ...]] = {
    WHOLE: (),
    "again": (),
    "polishing": ((POLISHING, "    counted = counts_by_slot(", "    return plan\n    counted = counts_by_slot("),),
    "diving": ((WORKER, " if task.fleet.rounded else None\n", " if False else None\n"),),
    "rolling windows": (("solvers/heuristics/counts_by_slot.py", "together.lp.objective < below", "False"),),
    "hill climbing": ((POLISHING, "if alternatives and climb", "if False and climb"),),
    "scattering": ((DESTROY_REPAIR, "    return plan if back is None else", "    return plan if True else"),),
    "destroy and repair": ((DESTROY_REPAIR, "    best = now = plan\n", "    return plan\n    best = now = plan\n"),),
    "rounding program": (("solvers/heuristics/rounding.py", "    model, v = master(fleet)\n", "    return None\n"),),
    "fewer offers": ((LOCAL_SEARCH, "    for g in sorted(plan.purchases, key", "    for g in sorted((), key"),),
    "dominated offers": ((SEARCH, "fleet = without_dominated_offers(", "fleet = ("),),
    "smoothing of duals": ((PRICING + "column_generation.py", "SMOOTHING = ", "SMOOTHING = 0 * "),),
    "lazy rows": ((PRICING + "lazy_rows.py", "FEW_ROWS = 2_000", "FEW_ROWS = 10**9"),),
    "branching": ((SEARCH, "            self._branch(generation)\n", "            pass\n"),),
    "cuts: own boxes": ((SEPARATION, "own |= {(kind, w, g, t) for t in short}", "pass"),),
    "cuts: rounding up": ((SEPARATION, "rounded |= _rounded(fleet, on, g, has, quiet)", "pass"),),
    "cuts: beyond commitments": ((SEPARATION, "rounded |= _beyond_commitments(", "_beyond_commitments("),),
}


def edited(device: str) -> dict[str, str]:
    """The files that lack a device, by their place below the root."""
    sources: dict[str, str] = {}
    for file, text, instead in WITHOUT[device]:
        source = sources.get(file) or (ROOT / file).read_text(encoding="utf-8")
        if source.count(text) != 1:
            raise SystemExit(f"{file} does not hold {text!r} once: {device} is no longer switched off that way")
        sources[file] = source.replace(text, instead)
    return sources


def copied(device: str, folder: Path) -> Path:
    """The source without a device."""
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file, source in edited(device).items():
        (folder / file).write_text(source, encoding="utf-8")
    return folder


def measured(folder: Path, case: str, seconds: float) -> dict[str, Any]:
    if case.endswith(".yaml"):
        return planned(folder, case, seconds)
    workloads, seed = case.split(":")
    command = [sys.executable, "-P", str(folder / "benchmarks" / "scale.py"), "--workloads", workloads, "--seed", seed]
    command += ["--time-limit", f"{seconds:g}", "--no-textbook", "--format", "json"]
    run = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{folder / 'benchmarks'}"}, capture_output=True
    )
    if run.returncode:
        return {"error": run.stderr.decode()[-300:]}
    found = json.loads(run.stdout)
    return {key: found[key] for key in ("cost", "bound", "gap_frac", "seconds", "outcome")}


def planned(folder: Path, demand: str, seconds: float) -> dict[str, Any]:
    """A demand file, planned by the command."""
    out = folder / "plan.json"
    out.unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", "planner.cli", "plan", demand, "--quiet", "--out", str(out)]
    started = time.monotonic()
    subprocess.run(
        [*command, "--time-limit", f"{seconds:g}s"],
        env=os.environ | {"PYTHONPATH": str(folder)}, capture_output=True,
    )  # fmt: skip
    took = time.monotonic() - started
    if not out.exists():
        return {"error": "no plan"}
    plan = json.loads(out.read_text(encoding="utf-8"))
    cost = plan["cost_usd_per_month"] + plan["penalty_usd_per_month"]
    return {"cost": cost, "bound": cost * (1 - plan["gap_frac"]), "gap_frac": plan["gap_frac"], "seconds": took}


def table(results: dict[str, dict[str, Any]], cases: list[str]) -> str:
    """Percent of the cost by which plans are more expensive, bounds lower and proofs longer without each device."""
    sizes = list(dict.fromkeys(_size(case) for case in cases))
    head = " | ".join(f"{n}: plan | bound | seconds" for n in sizes)
    lines = [f"| without | {head} |", "|---|" + "---:|---:|---:|" * len(sizes)]
    whole = results[WHOLE]
    for device in (name for name in WITHOUT if name in results and name != WHOLE):
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
    devices = [WHOLE, *(name.strip() for name in given.only.split(","))] if given.only else list(WITHOUT)
    results = json.loads(given.results.read_text()) if given.results.exists() else {}
    with tempfile.TemporaryDirectory() as work:
        folders = {device: copied(device, Path(work) / str(k)) for k, device in enumerate(devices)}
        for case in cases:
            for device in devices:
                if case in results.setdefault(device, {}):
                    continue
                results[device][case] = found = measured(folders[device], case, given.seconds)
                print(f"{case} without {device}: {found}", file=sys.stderr, flush=True)
                given.results.write_text(json.dumps(results, indent=1))
    print(table(results, cases))


if __name__ == "__main__":
    main()
