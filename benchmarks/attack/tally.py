"""What was tried and what came of it: the rows of the table."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FLEETPLAN = [sys.executable, "-P", "-c", "from planner.cli import main; main()"]
"""what the installed script does, which looks for nothing in the working folder"""
HANGS_S = 240.0
"""far longer than anything here takes on a busy machine"""


@dataclass
class Row:
    """One line of the table: times tried, failures in words, and the worst that was seen."""

    group: str
    what: str
    tried: int = 0
    failures: list[str] = field(default_factory=list)
    worst: str = ""
    worst_value: float = -1.0

    def add(self, failures: Iterable[str] = ()) -> None:
        found = list(failures)
        self.tried += 1
        if found:
            self.failures.append("; ".join(found))
            tell(f"FAILED {self.group}: {self.what}: {self.failures[-1]}")

    def measure(self, value: float, words: str) -> None:
        """Keep the words of the largest value."""
        if value > self.worst_value:
            self.worst_value, self.worst = value, words

    @property
    def outcome(self) -> str:
        return f"**{len(self.failures)} failed**" if self.failures else "pass"


@dataclass(frozen=True)
class Attack:
    """How much is tried, with which random numbers."""

    seed: int
    share: float
    """1, or a tenth with --quick"""
    jobs: int
    folder: Path
    """for files; removed at the end"""
    case: Path | None = None
    """a demand file of the user's own, for the time limits"""

    def times(self, full: int) -> int:
        return max(2, round(full * self.share))

    def place(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


@dataclass(frozen=True)
class Ran:
    code: int | None
    """None where it had to be ended"""
    out: str
    err: str
    seconds: float

    def diagnostics(self, allowed: Iterable[int]) -> list[str]:
        """What no run may do."""
        found = []
        if self.code is None:
            found.append(f"did not end in {self.seconds:.0f} s")
        elif self.code not in set(allowed):
            found.append(f"exit {self.code}: {self.err.strip()[-200:]}")
        if "Traceback" in self.err or "Traceback" in self.out:
            found.append(f"a traceback: {self.err.strip()[-200:]}")
        return found


def environment(**changed: str | None) -> dict[str, str]:
    """That of this process, with fleetplan from this checkout; None removes a variable."""
    merged: dict[str, str | None] = {**os.environ, "PYTHONPATH": str(ROOT), **changed}
    return {name: value for name, value in merged.items() if value is not None}


def fleetplan(*words: str | Path, timeout_s: float = HANGS_S, **how: Any) -> Ran:
    """The real command, in a process of its own."""
    started = time.monotonic()
    settings: dict[str, Any] = {"env": environment(), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | how
    try:
        done = subprocess.run([*FLEETPLAN, *map(str, words)], timeout=timeout_s, check=False, **settings)
    except subprocess.TimeoutExpired as late:
        return Ran(None, _text(late.stdout), _text(late.stderr), time.monotonic() - started)
    return Ran(done.returncode, _text(done.stdout), _text(done.stderr), time.monotonic() - started)


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


def tell(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)
