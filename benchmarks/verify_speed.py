"""Requests that the simulator serves in a CPU second, compilation excluded, and what else a verification takes.

python benchmarks/verify_speed.py [DEMAND.yaml ...]
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import planner
from planner.verification import engine, serving

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "quickstart.yaml"


class Timed:
    """The engine, and the CPU seconds that it takes."""

    def __init__(self) -> None:
        self.run, self.seconds = engine.Simulation.run, 0.0

    def __call__(self, simulation: engine.Simulation, until_s: float = np.inf) -> None:
        started = time.process_time()
        self.run(simulation, until_s)
        self.seconds += time.process_time() - started


def main() -> None:
    files = [Path(name) for name in sys.argv[1:]] or [EXAMPLE]
    print(f"{'file':<28} {'requests':>12} {'engine s':>9} {'all s':>7} {'requests/s: engine':>19} {'all':>9}")
    timed = Timed()
    setattr(engine.Simulation, "run", lambda simulation, *until_s: timed(simulation, *until_s))  # noqa: B010
    for file in files:
        plan = planner.plan_fleet(planner.load_case(file))
        serving.verify_plan(plan, replace(serving.AS_PLANNED, days=1, load=0.01))  # compiles
        timed.seconds, started = 0.0, time.process_time()
        found = serving.verify_plan(plan, replace(serving.AS_PLANNED, most_requests=None))
        took = time.process_time() - started
        speed = f"{found.requests / max(timed.seconds, 1e-9):>19,.0f} {found.requests / took:>9,.0f}"
        print(f"{file.name:<28} {found.requests:>12,} {timed.seconds:>9.1f} {took:>7.1f} {speed}")


if __name__ == "__main__":
    main()
