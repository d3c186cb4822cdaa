"""Statistics of traffic that decide how large a fleet is: rates by hour, growth and swings.

Swings are how far rates are off the mean of their hour, beyond what chance does to counts (Poisson noise): of counts c
in a group with mean m,  cv^2 = (sum (c - m)^2 - (n - 1) m) / ((n - 1) m^2),  weighted by the square of the load. They
are measured within hours (one or ten minutes) and from day to day (whole hours), and their squares add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from zoneinfo import ZoneInfo

import numpy as np

from planner.logs.odd_hours import KEPT, OddKind, odd_hours, usual_requests
from planner.logs.traffic import HOUR_S, MINUTE_S, Traffic

FEWEST_HOURS_BY_DAY, FEWEST_HOURS_TO_CLEAN, FEWEST_DAYS, FEWEST_WEEKS = 24, 48, 3, 4
LATEST_DAYS = 28
"""at the end of a longer log, from which rates are taken"""
SHARPEST = 0.02
"""largest standard error of a squared CV of swings that still says something"""
DAY_H, WEEK_H, DAYS_PER_MONTH = 24, 168, 730 / 24
SURE = 3.0
"""standard errors from which on growth is taken for real"""


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
    """the hour of each step of the traffic"""


@dataclass(frozen=True)
class Rates:
    """Requests per hour of a weekday and of a weekend day; all equal where the log is shorter than a day."""

    weekday: tuple[float, ...]
    weekend: tuple[float, ...]
    days: float
    latest_days: float
    """at the end of the log, from which the rates are"""
    flat: bool
    missing_hours: tuple[int, int]
    """weekday and weekend hours of the day that the log does not show"""


@dataclass(frozen=True)
class Swings:
    within_cv: float | None
    """within the hour; None where requests are too few, or counts too coarse"""
    within_s: int
    """the step at which it was measured"""
    ten_minutes_cv: float | None
    daily_cv: float | None
    """of an hour from day to day; None where the log is shorter than three days"""
    peak_ratio: float
    """the busiest step over the mean"""


def hours_of(traffic: Traffic, zone: str, holidays: frozenset[date]) -> Hours:
    """Sum steps by the local clock, and leave out what reviews leave out."""
    start = traffic.start_s + np.arange(len(traffic.requests), dtype=np.int64) * traffic.step_s
    local = (start + _offsets(start, zone if traffic.dated else "UTC")) // HOUR_S
    first = int(local[0])
    of_step = (local - first).astype(np.int64)
    size = int(of_step[-1]) + 1
    low, high = traffic.covered
    exposure_s = np.clip(np.minimum(start + traffic.step_s, high) - np.maximum(start, low), 0, None)
    known = np.isfinite(traffic.requests)
    seconds = np.bincount(of_step, np.where(known, exposure_s, 0.0), minlength=size)
    total = np.bincount(of_step, np.nan_to_num(traffic.requests), minlength=size)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(seconds >= HOUR_S - 1, total * HOUR_S / seconds, np.nan)
    odd: dict[OddKind, np.ndarray] = {}
    if np.isfinite(rate).sum() >= FEWEST_HOURS_TO_CLEAN:
        inside = np.flatnonzero(np.isfinite(rate))
        whole = slice(int(inside[0]), int(inside[-1]) + 1)
        usual, far = usual_requests(rate[None, whole])
        for kind, flags in odd_hours(rate[whole], usual[0], far[0]).items():
            wide = np.zeros(size, dtype=bool)
            wide[whole] = flags
            if wide.any():
                odd[kind] = wide
        for kind, flags in odd.items():
            if kind not in KEPT:
                rate = np.where(flags, np.nan, rate)
    days = (np.arange(size) + first) // DAY_H
    weekend = (days + 3) % 7 >= 5  # 1970-01-01 was a Thursday
    if holidays:
        weekend |= np.isin(days, [(day - date(1970, 1, 1)).days for day in holidays])
    return Hours(first, rate, odd, weekend, of_step)


def _offsets(seconds: np.ndarray, zone: str) -> np.ndarray:
    """Seconds by which local clocks are ahead of UTC, looked up once an hour."""
    from datetime import UTC, datetime

    if zone == "UTC":
        return np.zeros(len(seconds), dtype=np.int64)
    hours, place = np.unique(seconds // HOUR_S, return_inverse=True)
    clock = ZoneInfo(zone)
    ahead = [datetime.fromtimestamp(int(h) * HOUR_S, UTC).astimezone(clock).utcoffset() for h in hours.tolist()]
    return np.array([int(a.total_seconds()) if a else 0 for a in ahead], dtype=np.int64)[place]


def rates_of(traffic: Traffic, hours: Hours) -> Rates:
    known = np.isfinite(hours.rate)
    days = traffic.span_s / 86_400
    if known.sum() < FEWEST_HOURS_BY_DAY:
        launched = known.any() and "launch" in hours.odd
        mean = float(hours.rate[known].mean()) if launched else traffic.total / max(1.0, traffic.span_s) * HOUR_S
        return Rates((mean,) * 24, (mean,) * 24, days, days, True, (0, 0))
    last = int(np.flatnonzero(known)[-1])
    latest = known & (np.arange(len(known)) > last - LATEST_DAYS * DAY_H)
    of_day = (np.arange(len(known)) + hours.first) % DAY_H
    means = np.full((2, DAY_H), np.nan)
    for kind in (0, 1):
        for h in range(DAY_H):
            some = hours.rate[latest & (hours.weekend == bool(kind)) & (of_day == h)]
            means[kind, h] = some.mean() if len(some) else np.nan
    missing = np.isnan(means)
    filled = np.where(missing, means[::-1], means)
    filled = np.where(np.isnan(filled), np.nanmean(hours.rate[latest]), filled)
    weekday, weekend = filled.tolist()
    absent = (int(missing[0].sum()), int(missing[1].sum()))
    return Rates(tuple(weekday), tuple(weekend), days, float(latest.sum()) / DAY_H, False, absent)


def growth_of(hours: Hours) -> tuple[float | None, str]:
    """Growth of a month, from the means of whole weeks, or None; and on what that rests."""
    weeks = len(hours.rate) // WEEK_H
    if weeks < FEWEST_WEEKS:
        return None, f"the log is shorter than {FEWEST_WEEKS} weeks"
    rate = hours.rate[len(hours.rate) - weeks * WEEK_H :].reshape(weeks, WEEK_H)
    enough = np.isfinite(rate).sum(axis=1) >= WEEK_H / 2
    if enough.sum() < FEWEST_WEEKS:
        return None, "too many of its weeks have gaps"
    with np.errstate(invalid="ignore"):
        usual = np.array([np.nanmedian(column) if np.isfinite(column).any() else np.nan for column in rate.T])
        level = np.array([np.nansum(row) / usual[np.isfinite(row)].sum() for row in rate])
    x, y = np.flatnonzero(enough).astype(float), np.log(np.maximum(level[enough], 1e-9))
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    rest = y - y.mean() - slope * x
    error = float(np.sqrt(rest @ rest / max(1, len(x) - 2) / (x @ x)))
    growth = float(np.exp(slope * DAYS_PER_MONTH / 7) - 1)
    if abs(slope) <= SURE * error:
        return 0.0, f"none that stands out in {len(x)} weeks ({growth:+.1%} a month within {SURE:g} standard errors)"
    return float(np.clip(growth, -0.9, 9.0)), f"straight line through the logarithms of {len(x)} weeks"


def swings_of(traffic: Traffic, hours: Hours, rates: Rates) -> Swings:
    start = traffic.start_s + np.arange(len(traffic.requests), dtype=np.int64) * traffic.step_s
    low, high = traffic.covered
    whole = (start >= low) & (start + traffic.step_s <= high) & np.isfinite(traffic.requests)
    if not rates.flat:
        whole &= np.isfinite(hours.rate)[hours.of_step]
    group = np.zeros_like(hours.of_step) if rates.flat else hours.of_step
    within, used_s = None, 0
    for step_s in dict.fromkeys((traffic.step_s, 10 * MINUTE_S)):
        squared = _excess(traffic, whole, group, step_s)
        if squared is not None:
            within, used_s = float(np.sqrt(max(0.0, squared))), step_s
            break
    ten = _excess(traffic, whole, group, 10 * MINUTE_S)
    counts = traffic.requests[whole]
    peak = float(counts.max() / counts.mean()) if len(counts) and counts.mean() > 0 else 1.0
    return Swings(within, used_s, None if ten is None else float(np.sqrt(max(0.0, ten))), _daily(hours), peak)


def _excess(traffic: Traffic, whole: np.ndarray, group: np.ndarray, step_s: int) -> float | None:
    """Squared CV of counts around the mean of their group, beyond chance; None where it cannot be measured."""
    times = step_s // traffic.step_s
    if times < 1 or step_s >= HOUR_S:
        return None
    place = (traffic.start_s + np.arange(len(whole)) * traffic.step_s) // step_s
    place = place - place[0]
    full = np.bincount(place, whole, minlength=int(place[-1]) + 1) >= times
    counts = np.bincount(place, np.where(whole, traffic.requests, 0.0))[full]
    groups = np.zeros(len(full), dtype=np.int64)
    groups[place] = group
    groups = groups[full]
    if len(counts) < 4 or counts.mean() <= 0:
        return None
    size = np.bincount(groups)
    mean = np.bincount(groups, counts) / np.maximum(1, size)
    squares = np.bincount(groups, (counts - mean[groups]) ** 2)
    free = np.maximum(0, size - 1)
    if np.sqrt(2 / max(1, free.sum())) / counts.mean() > SHARPEST:
        return None
    return float((squares - free * mean).sum() / max(1e-300, (free * mean**2).sum()))


def _daily(hours: Hours) -> float | None:
    """CV of an hour from day to day, beyond chance."""
    place = ((np.arange(len(hours.rate)) + hours.first) % DAY_H) + DAY_H * hours.weekend
    known = np.isfinite(hours.rate)
    days = len(np.unique((np.flatnonzero(known) + hours.first) // DAY_H))
    if days < FEWEST_DAYS:
        return None
    rate, place = hours.rate[known], place[known]
    size = np.bincount(place, minlength=48)
    mean = np.bincount(place, rate, minlength=48) / np.maximum(1, size)
    squares = np.bincount(place, (rate - mean[place]) ** 2, minlength=48)
    free = np.maximum(0, size - 1)
    weight = float((free * mean**2).sum())
    if weight <= 0 or np.sqrt(2 / free.sum()) / rate.mean() > SHARPEST:
        return None
    return float(np.sqrt(max(0.0, float((squares - free * mean).sum()) / weight)))
