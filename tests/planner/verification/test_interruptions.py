"""Signals strike between two calls of compiled code, never inside one."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("numba", reason="the simulator is compiled by numba: install fleetplan[verify]")

from tests.support.places import ROOT

pytestmark = pytest.mark.process

COMPILED = ROOT / "planner" / "verification" / "compiled.py"
INSIDE, ENTRY = {"inner", "inlined"}, "entry"


def decorators(function: ast.FunctionDef) -> set[str]:
    return {d.id for d in function.decorator_list if isinstance(d, ast.Name)}


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def sources() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted((ROOT / "planner").rglob("*.py"))}


def test_numba_is_asked_in_one_place() -> None:
    asking = [path for path in (ROOT / "planner").rglob("*.py") if "import njit" in path.read_text()]
    assert asking == [COMPILED]


def test_python_calls_compiled_functions_through_entries_alone() -> None:
    trees = sources()
    inside = {f.name for tree in trees.values() for f in functions(tree) if decorators(f) & INSIDE}
    assert inside
    offenders = []
    for path, tree in trees.items():
        compiled = [f for f in functions(tree) if decorators(f) & {*INSIDE, ENTRY}]
        hidden = {id(node) for f in compiled for node in ast.walk(f)}
        own = inside & {f.name for f in compiled} | {
            name.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names
            if (node.module or "").startswith("planner.verification") and name.name in inside
        }  # fmt: skip
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and id(node) not in hidden)
        offenders += [f"{path}: {c.func.id}" for c in calls if isinstance(c.func, ast.Name) and c.func.id in own]
    assert not offenders


STRUCK = """
import signal
import numpy as np
from planner.verification import engine
from tests.support.simulated import capacity, constant_step, requests

rng = np.random.default_rng(1)
asked = requests(np.sort(rng.uniform(0, 2e4, 40_000)), rng.integers(1, 900, 40_000), rng.integers(1, 200, 40_000))
given = capacity((0.0, 3, engine.DRAINED), (9e3, 1, engine.FAILED), (1.2e4, 4, engine.DRAINED))
whole = engine.serve(asked, given, constant_step(0.02, 32), 32, 2048, 0, 1)

signal.signal(signal.SIGALRM, signal.default_int_handler)
struck = engine.Simulation(given, constant_step(0.02, 32), 32, 2048, 0, 1, len(whole.busy_s))
struck.add(asked)
came = 0
while True:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002 if came < 30 else 0)
        struck.run()
        signal.setitimer(signal.ITIMER_REAL, 0)
        break
    except KeyboardInterrupt:
        came += 1
assert all(np.array_equal(a, b) for a, b in zip(whole, struck.outcome))
print("the same")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no timers that send signals")
def test_an_interrupted_simulation_goes_on_as_if_nothing_had_happened() -> None:
    """In a process of its own: a signal inside of a compiled call would end it."""
    done = subprocess.run([sys.executable, "-c", STRUCK], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "the same\n"), done.stderr
