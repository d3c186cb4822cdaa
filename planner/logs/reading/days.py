"""The days that a log is of. Rows that lie years away from all others have a slip in their time.

Counted, they would turn a month into decades of hours without requests, and be the latest or the only traffic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np

from planner.io.errors import InputError, input_error
from planner.io.formatting import counted

DAY_US = 86_400_000_000
LONGEST_GAP_D, LONGEST_SPAN_D = 400, 3653
"""more than a year, for counts by the year; ten years"""
FIRST_DATED_D = 10**14 // DAY_US


class Days:
    """Days of the rows that were read, each with its first row."""

    def __init__(self) -> None:
        self.rows: Counter[int] = Counter()
        self.first: dict[int, tuple[Path, int | None]] = {}

    def add(self, path: Path, time_us: np.ndarray, rows: np.ndarray | None = None) -> None:
        """Times of a file, with the numbers of their rows where it has any."""
        days, places, counts = np.unique(time_us // DAY_US, return_index=True, return_counts=True)
        for day, place, count in zip(days.tolist(), places.tolist(), counts.tolist(), strict=True):
            self.rows[int(day)] += count
            self.first.setdefault(int(day), (path, None if rows is None else int(rows[place])))

    def check(self) -> None:
        """Raise InputError where a log has a gap that no log has, or is longer than any is."""
        days = sorted(self.rows)
        for place, (before, after) in enumerate(pairwise(days), 1):
            if after - before > LONGEST_GAP_D:
                raise self._far_apart(days[:place], days[place:])
        if days and days[-1] - days[0] > LONGEST_SPAN_D:
            path, row = self.first[days[0]]
            message = f"begins on {_named(days[0])} and ends on {_named(days[-1])}, more than ten years later"
            raise input_error(path, message, _remedy(days), row)

    def _far_apart(self, before: Sequence[int], after: Sequence[int]) -> InputError:
        few, many = sorted((before, after), key=lambda days: sum(self.rows[day] for day in days))
        path, row = self.first[few[0]]
        some, others = (counted(sum(self.rows[day] for day in days), "row") for days in (few, many))
        message = (
            f"has {some} of {_span(few)}, {after[0] - before[-1]:,} days {'before' if few is before else 'after'} "
            f"the other {others} of {_span(many)}"
        )
        return input_error(path, message, _remedy(few), row)


def _remedy(days: Sequence[int]) -> str:
    if days[0] < FIRST_DATED_D:
        return "Correct the times, or say their unit: --time-unit ms"
    return "Correct the times or leave these rows out; if both are right, read one part of the log"


def _span(days: Sequence[int]) -> str:
    return _named(days[0]) if days[0] == days[-1] else f"{_named(days[0])} to {_named(days[-1])}"


def _named(day: int) -> str:
    return str(date(1970, 1, 1) + timedelta(days=day)) if day >= FIRST_DATED_D else f"day {day + 1}"
