"""Attack fleetplan as the world does, and say what came of it.

    python benchmarks/attack --quick
    python benchmarks/attack --only fuzz --seed 7
    python benchmarks/attack --markdown docs/evidence/reliability.md

Random cases are planned in ways that must agree, proofs are held against brute force, files are spoiled, runs are
killed, limited and put on odd machines. The checks are the script's own; exit code 1 if anything failed. With
--markdown the rows of other classes in that file stay, so that classes may be run one by one.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1]), str(HERE.parent)]

from tally import Attack, Row, tell  # noqa: E402

CLASSES = {
    "random": ("random_cases", "attack_random_cases"),
    "proofs": ("proofs", "attack_proofs"),
    "tampering": ("tampering", "attack_saved_plans"),
    "fuzz": ("fuzz", "attack_files"),
    "kills": ("kills", "attack_by_killing"),
    "limits": ("limits", "attack_time_limits"),
    "machines": ("machines", "attack_from_odd_machines"),
}
HEAD = """\
# Reliability

What `python benchmarks/attack --markdown docs/evidence/reliability.md` tried, and what came of it. It shares no check
with fleetplan unless a line says so: costs are added up again by hand from the saved plan, proofs are held against
brute force, and processes, files and exit codes are looked at from outside. `--quick` tries a tenth of it,
`--only CLASS` one class ({classes}). A failure stays in the table until a later run
of its class passes.

| class | what is tried | times | outcome | worst case seen |
|---|---|---|---|---|
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--share", type=float, default=1.0, help="this share of everything")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=CLASSES, action="append", help="this class; may be given again")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="cases at the same time")
    parser.add_argument("--case", type=Path, help="a demand file for the time limits, besides the generated ones")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table to this file")
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs pass on that they ignore it
    failed = 0
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        attack = Attack(given.seed, 0.1 if given.quick else given.share, given.jobs, Path(folder), given.case)
        for name in given.only or CLASSES:
            started = time.monotonic()
            tell(f"{name} begins")
            rows = _attack_of(name)(attack)
            tell(f"{name} took {time.monotonic() - started:.0f} s")
            lines = [_line(row) for row in rows]
            print("\n".join(lines), flush=True)
            failed += sum(len(row.failures) for row in rows)
            if given.markdown:
                _write(given.markdown, name, lines, attack, time.monotonic() - started)
    sys.exit(1 if failed else 0)


def _attack_of(name: str) -> Callable[[Attack], list[Row]]:
    module, function = CLASSES[name]
    found: Callable[[Attack], list[Row]] = getattr(import_module(module), function)
    return found


def _line(row: Row) -> str:
    worst = row.failures[0] if row.failures else row.worst
    cells = (row.group, row.what, f"{row.tried:,}", row.outcome, worst[:160] or "-")
    return "| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in cells) + " |"


def _write(file: Path, name: str, lines: list[str], attack: Attack, seconds: float) -> None:
    """Put the lines of one class in the place of its old ones."""
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    table, heading, further = before.partition("\n## ")  # sections that other scripts write
    old = table.splitlines()
    rows = {key: [line for line in old if line.startswith(f"| {key} |")] for key in CLASSES}
    runs = {key: [line for line in old if line.startswith(f"- {key}: ")] for key in CLASSES}
    rows[name] = lines
    size = {0.1: "a tenth of it", 1.0: "all of it"}.get(attack.share, f"{attack.share:.0%} of it")
    day = time.strftime("%Y-%m-%d", time.gmtime())
    runs[name] = [f"- {name}: {day}, {size}, seed {attack.seed}, {seconds / 60:.1f} minutes"]
    text = HEAD.format(classes=", ".join(f"`{key}`" for key in CLASSES))
    text += "".join(f"{line}\n" for key in CLASSES for line in rows[key])
    text += f"\nWith {_machine()}:\n\n" + "".join(f"{line}\n" for key in CLASSES for line in runs[key])
    text += heading + further
    file.write_text(text, encoding="utf-8")


def _machine() -> str:
    with (HERE.parents[1] / "pyproject.toml").open("rb") as project:
        version = tomllib.load(project)["project"]["version"]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"fleetplan {version}, Python {platform.python_version()} on {platform.system()}, {cores} cores that had other "
        "work to do as well"
    )


if __name__ == "__main__":
    main()
