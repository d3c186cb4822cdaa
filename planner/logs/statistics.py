"""Statistics of traffic that decide how large a fleet is: rates by hour, and swings.

Swings are how far rates are off the mean of their hour, beyond what chance does to counts: of counts c in a group with
mean m,  cv^2 = (sum (c - m)^2 - (n - 1) b m) / ((n - 1) m^2),  weighted by the square of the load, where b is the
burstiness of gaps (1, Poisson noise, where it is not measured), so that bursts do not count twice. They are measured
within hours (one or ten minutes) and from day to day (whole hours, around the growth), and their squares add up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.logs.growth import Growth
from planner.logs.hours import DAY_H, Hours
from planner.logs.traffic import HOUR_S, MINUTE_S, Traffic

FEWEST_HOURS_BY_DAY, FEWEST_DAYS = 24, 3
WITHIN_HOUR_VARIATION = 0.12
"""coefficient of variation of ten-minute rates around their hour in public ServeGen traces"""
LATEST_DAYS = 28
"""at the end of a longer log, from which rates are taken"""
SHARPEST = 0.02
"""largest standard error of a squared CV of swings that still says something"""


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

    @property
    def variation(self) -> float | None:
        """Within the hour and from day to day together; None where neither is known."""
        if self.within_cv is None and self.daily_cv is None:
            return None
        within = WITHIN_HOUR_VARIATION if self.within_cv is None else self.within_cv
        return float(np.hypot(within, self.daily_cv or 0.0))


def rates_of(traffic: Traffic, hours: Hours, growth: Growth) -> Rates:
    """Means of the latest days, carried to the end of the log by its growth."""
    known = np.isfinite(hours.rate)
    days = traffic.span_s / 86_400
    if known.sum() < FEWEST_HOURS_BY_DAY:
        launched = known.any() and "launch" in hours.odd
        mean = float(hours.rate[known].mean()) if launched else traffic.total / max(1.0, traffic.span_s) * HOUR_S
        return Rates((mean,) * 24, (mean,) * 24, days, days, True, (0, 0))
    latest = _latest(hours, growth)
    carried = hours.rate * growth.to_the_end(len(known))
    of_day = (np.arange(len(known)) + hours.first) % DAY_H
    means, absent = means_by_hour(hours.weekend[latest], of_day[latest], carried[latest])
    weekday, weekend = means.tolist()
    return Rates(tuple(weekday), tuple(weekend), days, float(latest.sum()) / DAY_H, False, absent)


def means_by_hour(weekend: np.ndarray, of_day: np.ndarray, rate: np.ndarray) -> tuple[np.ndarray, tuple[int, int]]:
    """Means [weekday or weekend day, hour], and of how many hours of each there are none.

    An hour that is missing is as that hour of the other kind of day, or as the mean of all.
    """
    place = of_day + DAY_H * weekend
    size = np.bincount(place, minlength=2 * DAY_H).reshape(2, DAY_H)
    sums = np.bincount(place, rate, minlength=2 * DAY_H).reshape(2, DAY_H)
    missing = size == 0
    means = np.where(missing, np.nan, sums / np.maximum(1, size))
    means = np.where(missing, means[::-1], means)
    return np.where(np.isnan(means), rate.mean(), means), (int(missing[0].sum()), int(missing[1].sum()))


def _latest(hours: Hours, growth: Growth) -> np.ndarray:
    """Known hours of the latest days, none of them before a level shift."""
    known = np.isfinite(hours.rate)
    place = np.arange(len(known))
    return np.asarray(known & (place > np.flatnonzero(known)[-1] - LATEST_DAYS * DAY_H) & (place >= growth.since))


def swings_of(traffic: Traffic, hours: Hours, rates: Rates, growth: Growth, burstiness: float) -> Swings:
    """Swings beyond the noise of counts, whose variance is burstiness times their mean."""
    start = traffic.start_s + np.arange(len(traffic.requests), dtype=np.int64) * traffic.step_s
    low, high = traffic.covered
    whole = (start >= low) & (start + traffic.step_s <= high) & np.isfinite(traffic.requests)
    if not rates.flat:
        whole &= np.isfinite(hours.rate)[hours.of_step]
    group = np.zeros_like(hours.of_step) if rates.flat else hours.of_step
    within, used_s = None, 0
    for step_s in dict.fromkeys((traffic.step_s, 10 * MINUTE_S)):
        squared = _excess(traffic, whole, group, step_s, burstiness)
        if squared is not None:
            within, used_s = float(np.sqrt(max(0.0, squared))), step_s
            break
    ten = _excess(traffic, whole, group, 10 * MINUTE_S, burstiness)
    counts = traffic.requests[whole]
    peak = float(counts.max() / counts.mean()) if len(counts) and counts.mean() > 0 else 1.0
    daily = _daily(hours, growth, burstiness)
    return Swings(within, used_s, None if ten is None else float(np.sqrt(max(0.0, ten))), daily, peak)


def _excess(traffic: Traffic, whole: np.ndarray, group: np.ndarray, step_s: int, burstiness: float) -> float | None:
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
    if burstiness * np.sqrt(2 / max(1, free.sum())) / counts.mean() > SHARPEST:
        return None
    return float((squares - free * burstiness * mean).sum() / max(1e-300, (free * mean**2).sum()))


def _daily(hours: Hours, growth: Growth, burstiness: float) -> float | None:
    """CV of an hour from day to day around the trend, beyond chance, over the days that rates are from."""
    if not np.isfinite(hours.rate).any():
        return None
    latest = _latest(hours, growth)
    if len(np.unique((np.flatnonzero(latest) + hours.first) // DAY_H)) < FEWEST_DAYS:
        return None
    factor = growth.to_the_end(len(latest))[latest]
    rate = hours.rate[latest] * factor
    place = (((np.arange(len(latest)) + hours.first) % DAY_H) + DAY_H * hours.weekend)[latest]
    size = np.bincount(place, minlength=48)
    mean = np.bincount(place, rate, minlength=48) / np.maximum(1, size)
    squares = np.bincount(place, (rate - mean[place]) ** 2, minlength=48)
    noise = burstiness * np.bincount(place, factor, minlength=48) / np.maximum(1, size) * mean
    free = np.maximum(0, size - 1)
    weight = float((free * mean**2).sum())
    if weight <= 0 or burstiness * np.sqrt(2 / free.sum()) / rate.mean() > SHARPEST:
        return None
    return float(np.sqrt(max(0.0, float((squares - free * noise).sum()) / weight)))
