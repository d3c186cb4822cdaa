"""Time limits on an idle and on a busy machine: how long the command takes beyond them, and whether its plan holds."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from scale import generated_text
from tally import Attack, Row, fleetplan, tell

import planner
from tests.support.command_line import HARD

GROUP = "limits"
LIMITS_S = (2, 5, 10, 20)
OVER_FRAC, OVER_S = 0.10, 5.0
"""what is allowed beyond a limit, whichever is more: Python itself takes a moment to start"""
BUSY_LOOPS = 4


def attack_time_limits(attack: Attack) -> list[Row]:
    files = {"six generated workloads": generated_text(6, attack.seed), "seven workloads of the tests": HARD}
    paths = [_written(attack, name, text) for name, text in files.items()]
    if attack.case is not None:
        paths.append(attack.case)
    rows = []
    for loops in (0, BUSY_LOOPS):
        where = f"beside {loops} busy loops" if loops else "with nothing of this script beside it"
        late = Row(GROUP, f"--time-limit of 2, 5, 10 and 20 s {where}: at most 10% or 5 s over, exit 0 or 4")
        held = Row(GROUP, f"the plans of these {where} pass fleetplan's checker, and exit 0 has one")
        with _busy(loops):
            for limit_s in LIMITS_S if attack.share == 1 else LIMITS_S[:2]:
                for path in paths:
                    _limited(attack, late, held, path, limit_s)
        rows += [late, held]
    return rows


def _limited(attack: Attack, late: Row, held: Row, path: Path, limit_s: int) -> None:
    out, place = attack.place("limits") / "plan.json", f"{path.stem}, {limit_s} s"
    out.unlink(missing_ok=True)
    ran = fleetplan("plan", path, "--time-limit", f"{limit_s}s", "--out", out, "-q")
    over = ran.seconds - limit_s
    problems = ran.diagnostics([0, 4])
    if over > max(OVER_S, OVER_FRAC * limit_s):
        start = fleetplan("validate", path)
        problems.append(f"{over:.1f} s over; to start and read this file alone takes {start.seconds:.1f} s there")
    late.add([f"{place}: {problem}" for problem in problems])
    late.measure(over, f"{place}: {over:+.1f} s, exit {ran.code}")
    tell(f"{GROUP}: {place}: {over:+.1f} s, exit {ran.code}, load {os.getloadavg()[0]:.1f}")
    problems = []
    if ran.code == 0 and not out.exists():
        problems = ["exit 0 without a plan"]
    elif out.exists():
        plan = json.loads(out.read_text(encoding="utf-8"))
        problems = planner.check_plan(plan)[:2]
        held.measure(plan["gap_frac"], f"{place}: {plan['status']}, gap {plan['gap_frac']:.1%}")
    held.add([f"{place}: {problem}" for problem in problems])


def _written(attack: Attack, name: str, text: str) -> Path:
    path = attack.place("limits") / f"{name.replace(' ', '-')}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@contextlib.contextmanager
def _busy(loops: int) -> Iterator[None]:
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
