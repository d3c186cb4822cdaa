"""Requests that the simulator serves in a CPU second, compilation excluded, and what else a verification takes.

python benchmarks/verify_speed.py [DEMAND.yaml ...]
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import planner
from planner.verification import engine, serving

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "quickstart.yaml"


def main() -> None:
    files = [Path(name) for name in sys.argv[1:]] or [EXAMPLE]
    print(f"{'file':<28} {'requests':>12} {'engine s':>9} {'all s':>7} {'requests/s: engine':>19} {'all':>9}")
    for file in files:
        plan = planner.plan_fleet(planner.load_case(file))
        serving.verify_plan(plan, replace(serving.AS_PLANNED, days=1, load=0.01))  # compiles
        inside, serve = [0.0], engine.serve

        def timed(*arguments: object) -> engine.Outcome:
            started = time.process_time()
            outcome = serve(*arguments)  # type: ignore[arg-type]
            inside[0] += time.process_time() - started
            return outcome

        engine.serve = timed
        started = time.process_time()
        found = serving.verify_plan(plan)
        took = time.process_time() - started
        engine.serve = serve
        speed = f"{found.requests / max(inside[0], 1e-9):>19,.0f} {found.requests / took:>9,.0f}"
        print(f"{file.name:<28} {found.requests:>12,} {inside[0]:>9.1f} {took:>7.1f} {speed}")


if __name__ == "__main__":
    main()
