"""Replicas by the hour as windows of the clock that end before midnight, for schedulers that know no cron."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from planner.export.hours import DAY_MINUTES, Hours

WEEK = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
KIND = ("weekday",) * 5 + ("weekend",) * 2
LAST_MIN = DAY_MINUTES - 1
"""23:59, when a window ends at the latest; this minute itself belongs to none"""


@dataclass(frozen=True)
class Window:
    """Minutes of some days of the week with equally many replicas."""

    days: tuple[str, ...]
    start_min: int
    end_min: int
    """first minute after it"""
    replicas: int

    @property
    def start(self) -> str:
        return _clock(self.start_min)

    @property
    def end(self) -> str:
        return _clock(self.end_min)


def windows(hours: Hours, lead_min: int) -> list[Window]:
    """Of all days: a window with more replicas than the one before starts early, so that they are up in time."""
    by_span: dict[tuple[int, int, int], list[str]] = {}
    for number, day in enumerate(WEEK):
        counts = [wanted(hours, number, minute, lead_min) for minute in range(LAST_MIN)]
        starts = [0, *(m for m in range(1, LAST_MIN) if counts[m] != counts[m - 1]), LAST_MIN]
        for start, end in pairwise(starts):
            by_span.setdefault((start, end, counts[start]), []).append(day)
    ordered = sorted(by_span.items(), key=lambda item: (WEEK.index(item[1][0]), item[0]))
    return [Window(tuple(days), start, end, n) for (start, end, n), days in ordered]


def wanted(hours: Hours, day: int, minute: int, lead_min: int) -> int:
    """The most replicas that the plan has between a minute and a start later."""
    last = minute + min(lead_min, 7 * DAY_MINUTES)
    hourly = range(minute // 60, last // 60 + 1)
    return max(_planned(hours, day + hour // 24, hour % 24) for hour in hourly)


def at_midnight(hours: Hours, lead_min: int) -> int:
    """The most replicas that any day needs in its last minute."""
    return max(wanted(hours, day, LAST_MIN, lead_min) for day in range(7))


def _planned(hours: Hours, day: int, hour: int) -> int:
    kind = KIND[day % 7]
    return hours[kind if kind in hours else next(iter(hours))][hour]


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"
