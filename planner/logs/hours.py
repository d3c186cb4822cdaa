"""Hours of the clock of a log, in the time zone of its users, without those that are no demand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from math import gcd
from zoneinfo import ZoneInfo

import numpy as np

from planner.logs.odd_hours import KEPT, OddKind, odd_hours, usual_requests
from planner.logs.traffic import HOUR_S, MINUTE_S, Traffic

DAY_H, FEWEST_HOURS_TO_CLEAN = 24, 48


@dataclass(frozen=True, eq=False)
class Hours:
    """Hours of the clock in the time zone of the users [hour], one after the other."""

    first: int
    """number of the first hour since 1970, by the local clock"""
    rate: np.ndarray
    """requests in the hour; NaN where it is unknown, not whole or left out"""
    odd: dict[OddKind, np.ndarray]
    weekend: np.ndarray
    of_step: np.ndarray
    """the hour of each step of the traffic, or in which it begins"""
    split: bool = False
    """whether steps lie in two hours of the clock and are split between them"""


class Clock:
    """Steps of traffic by the hours of a clock; a step that lies in two hours is split between them evenly."""

    def __init__(self, traffic: Traffic, zone: str) -> None:
        start = traffic.start_s + np.arange(len(traffic.requests), dtype=np.int64) * traffic.step_s
        start = start // MINUTE_S * MINUTE_S
        ahead = _offsets(start, zone if traffic.dated else "UTC")
        fine_s = int(np.gcd.reduce(np.unique((start + ahead) % HOUR_S), initial=gcd(traffic.step_s, HOUR_S)))
        self.parts = traffic.step_s // fine_s if traffic.step_s <= HOUR_S else 1
        """of a step, none of which lies in two hours"""
        start = np.repeat(start, self.parts) + fine_s * np.tile(np.arange(self.parts), len(start))
        local = (start + np.repeat(ahead, self.parts)) // HOUR_S
        self.first = int(local[0])
        self.hour = (local - self.first).astype(np.int64)
        self.size = int(self.hour[-1]) + 1
        low, high = traffic.covered
        length_s = traffic.step_s / self.parts
        self.exposure_s = np.clip(np.minimum(start + length_s, high) - np.maximum(start, low), 0, None)

    def by_hour(self, values: np.ndarray) -> np.ndarray:
        """Sums of hours that are known as a whole; NaN for others."""
        fine = np.repeat(values / self.parts, self.parts)
        seconds = np.bincount(self.hour, np.where(np.isfinite(fine), self.exposure_s, 0.0), minlength=self.size)
        total = np.bincount(self.hour, np.nan_to_num(fine), minlength=self.size)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(seconds >= HOUR_S - 1, total * HOUR_S / seconds, np.nan)


def hours_of(traffic: Traffic, zone: str, holidays: frozenset[date]) -> Hours:
    """Sum steps by the local clock, and leave out what reviews leave out."""
    clock = Clock(traffic, zone)
    first, size = clock.first, clock.size
    rate = clock.by_hour(traffic.requests)
    odd: dict[OddKind, np.ndarray] = {}
    exists = np.bincount(clock.hour, minlength=size) > 0  # clocks that go forward leave an hour out
    if np.isfinite(rate).sum() >= FEWEST_HOURS_TO_CLEAN:
        inside = np.flatnonzero(np.isfinite(rate))
        whole = slice(int(inside[0]), int(inside[-1]) + 1)
        usual, far = usual_requests(rate[None, whole])
        for kind, flags in odd_hours(rate[whole], usual[0], far[0]).items():
            wide = np.zeros(size, dtype=bool)
            wide[whole] = flags
            wide &= exists
            if wide.any():
                odd[kind] = wide
        for kind, flags in odd.items():
            if kind not in KEPT:
                rate = np.where(flags, np.nan, rate)
    days = (np.arange(size) + first) // DAY_H
    weekend = (days + 3) % 7 >= 5  # 1970-01-01 was a Thursday
    if holidays:
        weekend |= np.isin(days, [(day - date(1970, 1, 1)).days for day in holidays])
    return Hours(first, rate, odd, weekend, clock.hour[:: clock.parts], clock.parts > 1)


def _offsets(seconds: np.ndarray, zone: str) -> np.ndarray:
    """Seconds by which local clocks are ahead of UTC, looked up once an hour."""
    if zone == "UTC":
        return np.zeros(len(seconds), dtype=np.int64)
    hours, place = np.unique(seconds // HOUR_S, return_inverse=True)
    clock = ZoneInfo(zone)
    ahead = [datetime.fromtimestamp(int(h) * HOUR_S, UTC).astimezone(clock).utcoffset() for h in hours.tolist()]
    return np.array([int(a.total_seconds()) if a else 0 for a in ahead], dtype=np.int64)[place]
