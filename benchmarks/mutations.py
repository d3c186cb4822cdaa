"""What the tests notice: random changes of product lines, and which depth of the suite fails by each.

    python benchmarks/mutations.py --changes 60 --seed 1 --folder /tmp/mutations

The changes are spread over all rooms. One run of all tests in a copy of the project, with a probe before each line
that will be changed, says which tests reach which line, through child processes too. Then each change is made alone,
and the tests that reach it run, cheapest first and those of `usual` before those of `deep`, until one fails. A change
that cannot be noticed, since both do the same, counts as not noticed: read the list. Results are kept in the folder
after each step, so that the same command continues what was broken off. Functions that numba compiles are left out.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.costs import COSTS, USUAL_S  # noqa: E402

PACKAGES = ("planner", "problems", "solvers")
SLOWEST_S = {"usual": 300.0, "deep": 400.0}
"""of a change, after which its tests are given up as not noticing it"""
PROBE = '''"""Notes which test reaches which line, once a process."""
import os
SEEN = set()
def hit(number):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rsplit(" (", 1)[0]
    if test and (number, test) not in SEEN:
        SEEN.add((number, test))
        with open(os.environ["FLEETPLAN_PROBES"], "a") as file:
            file.write(f"{number} {test}\\n")
'''
SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div,
    ast.And: ast.Or, ast.Or: ast.And, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


@dataclass(frozen=True)
class Change:
    file: str
    line: int
    before: str
    after: str
    start: int
    end: int
    probe: int
    """before which line its probe stands"""

    @property
    def room(self) -> str:
        parts = Path(self.file).parts
        return "/".join(parts[:2]) if len(parts) > 2 else f"{parts[0]}/*.py"


def changes_of(file: Path) -> Iterator[Change]:
    """All that can be changed in the functions of a file."""
    data = file.read_bytes()
    if b"numba" in data or b"compiled" in data:
        return
    text = data.decode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines()

    def walk(node: ast.AST, statement: int | None) -> Iterator[Change]:
        if isinstance(node, ast.JoinedStr):
            return
        if isinstance(node, ast.stmt) and statement is not None:
            head = lines[node.lineno - 1].lstrip()
            if node.col_offset == len(lines[node.lineno - 1]) - len(head) and not head.startswith(("elif", "@")):
                statement = node.lineno
        if statement and isinstance(node, ast.expr) and (changed := _changed(node)) is not None:
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            before = data[start:end].decode()
            yield Change(file.relative_to(ROOT).as_posix(), node.lineno, before, changed, start, end, statement)
        inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for field, value in ast.iter_fields(node):
            body = field == "body" and inside
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not (inside and field in ("decorator_list", "args", "returns")):
                    yield from walk(child, child.lineno if body and isinstance(child, ast.stmt) else statement)

    yield from walk(ast.parse(text), None)


def _changed(node: ast.expr) -> str | None:
    """The expression with its operator swapped or its number one larger; in brackets, since it may stand in another."""
    new: ast.expr | None = None
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPS:
        new = ast.Compare(node.left, [SWAPS[type(node.ops[0])]()], node.comparators)
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPS and not _is_text(node):
        new = ast.BinOp(node.left, SWAPS[type(node.op)](), node.right)
    elif isinstance(node, ast.BoolOp):
        new = ast.BoolOp(SWAPS[type(node.op)](), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        new = node.operand
    elif isinstance(node, ast.IfExp):
        new = ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        new = ast.Constant(node.value + 1)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        new = ast.Constant(not node.value)
    return None if new is None else f"({ast.unparse(new)})"


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(side, ast.JoinedStr | ast.List | ast.Tuple)
               or (isinstance(side, ast.Constant) and isinstance(side.value, str))
               for side in (node.left, node.right))  # fmt: skip


def drawn(number: int, seed: int) -> list[Change]:
    """One of each room, and the others in proportion to what there is to change."""
    rooms: defaultdict[str, list[Change]] = defaultdict(list)
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            for change in changes_of(file):
                rooms[change.room].append(change)
    chance = random.Random(seed)
    chosen = [chance.choice(rooms[room]) for room in sorted(rooms)]
    rest = [change for room in sorted(rooms) for change in rooms[room] if change not in set(chosen)]
    return chosen + chance.sample(rest, max(0, number - len(chosen)))


def copied(folder: Path) -> Path:
    """The project's files, as they are in this working tree."""
    target = folder / "project"
    shutil.rmtree(target, ignore_errors=True)
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    for name in names.stdout.splitlines():
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    subprocess.run("git init -q && git add -A && git -c user.name=x -c user.email=x@x commit -qm x",
                   cwd=target, shell=True, check=True)  # fmt: skip
    return target


def pytest(project: Path, *arguments: str, seconds: float | None = None, **more: str) -> int | None:
    """Its exit code; None: it took longer than that."""
    env = os.environ | {"PYTHONPATH": str(project)} | more
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    with open(project.parent / "pytest.log", "a") as log:
        process = subprocess.Popen(command, cwd=project, env=env, stdout=log, stderr=log, start_new_session=True)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            return None


def reached(changes: list[Change], folder: Path, workers: str) -> dict[int, list[str]]:
    """Which tests reach which change, by one run of all of them."""
    hits = folder / "hits.txt"
    if not hits.exists():
        project, notes = copied(folder), folder / "hits.part"
        notes.unlink(missing_ok=True)
        (project / "problems" / "_probe.py").write_text(PROBE)
        by_file: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for number, change in enumerate(changes):
            by_file[change.file].append((change.probe, number))
        for file, probes in by_file.items():
            lines = (project / file).read_text().splitlines(keepends=True)
            for line, number in sorted(probes, reverse=True):
                text = lines[line - 1]
                indent = text[: len(text) - len(text.lstrip())]
                lines.insert(line - 1, f'{indent}__import__("problems._probe")._probe.hit({number})\n')
            (project / file).write_text("".join(lines))
        few = project / "tests" / "support" / "costs.py"  # a few rows of a test reach what all of them reach
        few.write_text(few.read_text().replace('in ("deep", "all") or', 'in ("deep",) or'))
        pytest(project, "-n", workers, "--depth", "all", FLEETPLAN_PROBES=str(notes))
        notes.rename(hits)
    found: defaultdict[int, set[str]] = defaultdict(set)
    for line in hits.read_text().splitlines():
        number, test = line.split(" ", 1)
        found[int(number)].add(test.split("[")[0])
    return {number: sorted(tests, key=lambda t: COSTS.get(t, 0.0)) for number, tests in found.items()}


def noticed(change: Change, tests: list[str], project: Path) -> str:
    """At which depth a test fails: `usual`, `deep`, or none does."""
    if not tests:
        return "not reached"
    path = project / change.file
    whole = path.read_bytes()
    path.write_bytes(whole[: change.start] + change.after.encode() + whole[change.end :])
    try:
        for depth in ("usual", "deep"):
            some = tests if depth == "usual" else [t for t in tests if COSTS.get(t, 0.0) > USUAL_S] or tests
            code = pytest(project, "-x", "--depth", depth, *some, seconds=SLOWEST_S[depth])
            if code in (1, 2):
                return depth
    finally:
        path.write_bytes(whole)
    return "by no test"


def table(rows: list[dict[str, Any]]) -> str:
    counts = Counter(row["noticed"] for row in rows)
    both = counts["usual"] + counts["deep"]
    lines = ["| noticed | changes |", "|---|---|"]
    lines += [f"| {what} | {counts[what]} |" for what in ("usual", "deep", "by no test", "not reached")]
    share = f"{counts['usual'] / both:.0%}" if both else "none"
    return "\n".join([*lines, "", f"of what either notices, `usual` notices {share}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--workers", default="auto")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    changes = drawn(asked.changes, asked.seed)
    tests = reached(changes, asked.folder, asked.workers)
    results = asked.folder / "results.json"
    rows: list[dict[str, Any]] = json.loads(results.read_text()) if results.exists() else []
    project = copied(asked.folder)
    for number, change in list(enumerate(changes))[len(rows) :]:
        began = time.time()
        what = noticed(change, tests.get(number, []), project)
        rows.append({"room": change.room, "place": f"{change.file}:{change.line}", "before": change.before,
                     "after": change.after, "noticed": what, "tests": len(tests.get(number, []))})  # fmt: skip
        results.write_text(json.dumps(rows, indent=1))
        print(f"{number:3} {what:12} {time.time() - began:4.0f} s  {change.file}:{change.line}  "
              f"{change.before}  ->  {change.after}", flush=True)  # fmt: skip
    print(table(rows))


if __name__ == "__main__":
    main()
