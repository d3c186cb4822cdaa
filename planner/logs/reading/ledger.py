"""What was read from logs and what was left out of it: counted by reason, with the first rows of each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from planner.io.errors import shortened

ROWS_NAMED = 3
DUPLICATE_IDS = "duplicate ids: the last one counts"
IN_TWO_FILES = "the same request in files that overlap: the last one counts"


@dataclass
class Ledger:
    """Counts and remarks of one reading; nothing that a log holds disappears without an entry here."""

    rows: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    tokens_left_out: dict[str, tuple[int, int]] = field(default_factory=dict)
    """prompt and output tokens of requests that were left out although they are whole, by reason"""
    first_rows: dict[str, list[tuple[Path, int]]] = field(default_factory=dict)
    """file and number of the first ones, by reason"""
    known_by: dict[str, str] = field(default_factory=dict)
    """what rows have in common that are not named one by one, by reason"""
    notes: list[str] = field(default_factory=list)
    formats: Counter[str] = field(default_factory=Counter)
    """files by their format"""
    cut_short: set[Path] = field(default_factory=set)
    """files whose packed data end in the middle"""
    no_logs: list[Path] = field(default_factory=list)
    """files of a folder that were left out"""

    def leave_out(self, reason: str, path: Path, rows: np.ndarray) -> None:
        """Count rows of a file that say nothing, and keep the numbers of the first ones."""
        if not len(rows):
            return
        self.left_out[reason] += len(rows)
        named = self.first_rows.setdefault(reason, [])
        named += [(path, row) for row in rows[: ROWS_NAMED - len(named)].tolist()]

    def leave_out_together(self, reason: str, count: int, what: str) -> None:
        """Count rows that are known by what they have in common and not by their numbers."""
        if count:
            self.left_out[reason] += count
            self.known_by[reason] = what

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def left_out_lines(self) -> list[str]:
        """One sentence per reason, the most frequent first."""
        return [
            f"{count:,} row{'s' * (count > 1)} left out: {reason} ({self.which(reason)})"
            for reason, count in self.left_out.most_common()
        ]

    def which(self, reason: str) -> str:
        """The first rows that were left out for a reason, or what they have in common."""
        if reason in self.known_by:
            return self.known_by[reason]
        first = [f"{shortened(path.name, 40)} row {row}" for path, row in self.first_rows[reason]]
        return ", ".join(first) + (", ..." if self.left_out[reason] > len(first) else "")
