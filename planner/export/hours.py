"""Replicas by the hour as blocks of equal hours, and as the schedules of cron that hold them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import groupby
from zoneinfo import ZoneInfo

Hours = dict[str, tuple[int, ...]]
"""replicas by the hour of the day, for each kind of day"""
EVERY_DAY = "every day"
DAYS = {"weekday": (1, 2, 3, 4, 5), "weekend": (6, 0), EVERY_DAY: (0, 1, 2, 3, 4, 5, 6)}
"""days of the week as cron counts them, in their order"""
DAY_MINUTES = 24 * 60


@dataclass(frozen=True)
class Block:
    """Hours of a kind of day with equally many replicas."""

    day: str
    start_h: int
    end_h: int
    """first hour after it"""
    replicas: int
    rises: bool
    """whether the hour before it may have fewer"""


def peak(hours: Hours) -> int:
    return max(max(counts) for counts in hours.values())


def fewest(hours: Hours) -> int:
    return min(min(counts) for counts in hours.values())


def blocks(hours: Hours) -> list[Block]:
    """In the order of the day; weekdays and weekends together where they are alike."""
    if len(set(hours.values())) == 1:
        return list(_blocks(EVERY_DAY, next(iter(hours.values())), hours))
    return [block for day, counts in hours.items() for block in _blocks(day, counts, hours)]


def _blocks(day: str, counts: tuple[int, ...], hours: Hours) -> Iterator[Block]:
    start_h = 0
    for replicas, group in groupby(counts):
        end_h = start_h + len(list(group))
        before = counts[start_h - 1] if start_h else min(other[-1] for other in hours.values())
        yield Block(day, start_h, end_h, replicas, before < replicas)
        start_h = end_h


@dataclass(frozen=True)
class Skipped:
    """Minutes of the day that the clock leaves out in the night in which summer time begins."""

    first_min: int
    after_min: int


@cache
def skipped(time_zone: str, year: int) -> Skipped | None:
    zone, before = ZoneInfo(time_zone), timedelta.max
    at = datetime(year, 1, 1, tzinfo=UTC)
    while at.year == year:
        offset = at.astimezone(zone).utcoffset() or timedelta()
        if offset > before:
            local = at + before
            first_min = 60 * local.hour + local.minute
            return Skipped(first_min, first_min + int((offset - before).total_seconds() // 60))
        before, at = offset, at + timedelta(minutes=30)
    return None


def cron(block: Block, lead_min: int, without: Skipped | None = None) -> tuple[str, str]:
    """Start and end of a block; where it has more replicas than before it starts early, so that they are up in time.

    The schedules of one trigger must not overlap, so a block of whole days is one span, and others start at most as
    early as the day before leaves room for. KEDA passes over a time that the clock leaves out: a block that ended
    then would not have begun the evening before. So what falls on the first of these minutes is a minute earlier.
    """
    whole_days = block.end_h - block.start_h == 24
    days = DAYS[block.day]
    spare_min = DAY_MINUTES - 60 * (block.end_h - block.start_h) - 1
    early_min = min(lead_min, DAY_MINUTES if whole_days else spare_min) if block.rises else 0
    first, last = (days[:1], days[-1:]) if whole_days else (days, days)
    return _at(60 * block.start_h - early_min, first, without), _at(60 * block.end_h, last, without)


def _at(minute: int, days: tuple[int, ...], without: Skipped | None) -> str:
    minute -= without is not None and minute % DAY_MINUTES == without.first_min
    shift, minute_of_day = divmod(minute, DAY_MINUTES)
    return f"{minute_of_day % 60} {minute_of_day // 60} * * {_days([(day + shift) % 7 for day in days])}"


def _days(days: list[int]) -> str:
    if len(days) == 7:
        return "*"
    ordered = sorted(days)
    if len(days) > 2 and ordered[-1] - ordered[0] == len(days) - 1:
        return f"{ordered[0]}-{ordered[-1]}"
    return ",".join(str(day) for day in ordered)
