"""What users wait for, in CPU seconds of a command and all its processes, and as a ratio to a fixed calculation.

    python benchmarks/seconds.py --only quickstart,explain --also "plan /data/six.yaml --time-limit 60s" --json out.json

Each command runs twice with caches of its own: cold, with no module and no simulator compiled as on a new machine, and
warm. The fixed calculation is timed beside every run, so that ratios of machines and days that differ can be compared;
CPU seconds grow where other processes share the machine's caches.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
COMMANDS = {
    "--help": "--help",
    "--version": "--version",
    "validate": f"validate {EXAMPLES}/quickstart.yaml",
    "quickstart": f"plan {EXAMPLES}/quickstart.yaml --out plan.json",
    "report": "report {plan} --format table",
    "explain": "explain {plan}",
    "page": f"plan {EXAMPLES}/quickstart.yaml --html page.html",
    "two models": f"plan {EXAMPLES}/two-models.yaml",
    "agents": f"plan {EXAMPLES}/agents.yaml",
    "growth": f"plan {EXAMPLES}/growth.yaml",
    "review": f"review {EXAMPLES}/quarterly-review/REVIEW.yaml",
    "20 budgets": f"what-if {EXAMPLES}/quickstart.yaml --budget 1k:4k:20",
    "explore": f"explore {EXAMPLES}/quickstart.yaml --detail few --jobs 1 --out explore.html",
}
"""{plan} is the saved plan of the quickstart, and the page is its own"""


def cpu_s() -> float:
    """Of this process and those that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def fixed_s() -> float:
    """A calculation that stays the same: a loop in Python and products of matrices, about half a second."""
    began = cpu_s()
    total, matrix = 0, np.arange(90_000.0).reshape(300, 300) % 7
    for k in range(3_000_000):
        total += k * k % 7
    for _ in range(20):
        matrix = matrix @ matrix % 7
    return cpu_s() - began


def measured(command: list[str], caches: Path) -> tuple[float, float, int]:
    """CPU seconds of a command, these over the fixed calculation, and its exit code."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPYCACHEPREFIX": str(caches), "NUMBA_CACHE_DIR": str(caches), "PYTHONPATH": str(ROOT)}
    before, began = fixed_s(), cpu_s()
    run = subprocess.run(
        [sys.executable, "-m", "planner.cli", *command], env=environment, cwd=caches, capture_output=True
    )
    took = cpu_s() - began
    return took, took / min(before, fixed_s()), run.returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"some of {', '.join(COMMANDS)}, separated by commas")
    parser.add_argument("--also", action="append", default=[], help="another command, without 'fleetplan'")
    parser.add_argument("--json", type=Path, help="write the table to this file too")
    asked = parser.parse_args()
    names = [name.strip() for name in asked.only.split(",")] if asked.only else list(COMMANDS)
    commands = {name: COMMANDS[name] for name in names} | {command: command for command in asked.also}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.json"
        if any("{plan}" in command for command in commands.values()):
            measured(f"plan {EXAMPLES}/quickstart.yaml --out {plan} --no-verify".split(), Path(folder))
        print("| command | cold: CPU s | ratio | warm: CPU s | ratio |\n|---|---:|---:|---:|---:|")
        for name, command in commands.items():
            with tempfile.TemporaryDirectory() as caches:
                runs = [measured(command.format(plan=plan).split(), Path(caches)) for _ in ("cold", "warm")]
            figures = [f"{seconds:.2f} | {ratio:.1f}" for seconds, ratio, _ in runs]
            failed = "" if not any(code for _, _, code in runs) else f" (exit code {max(code for *_, code in runs)})"
            print(f"| {name}{failed} | {' | '.join(figures)} |", flush=True)
            rows.append(
                {"command": name, "runs": [dict(zip(("cpu_s", "ratio", "code"), r, strict=True)) for r in runs]}
            )
    if asked.json is not None:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
