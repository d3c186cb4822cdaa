"""Growth: levels of weeks and the line through them, where the log bears it out.

A level is requests over what is usual for those hours of the week. The line is the one of Theil and Sen, which a few
odd weeks do not move; reviews share it. Growth in a demand file compounds from month to month, so its line goes through
logarithms of levels; a review forecasts one quarter along a straight line, which is better where growth is linear or
weeks are odd. Quarters that grew by -20% to 60% were forecast so far off (medians, 60 of each kind, weeks that vary by
3%):

                              linear growth   compound growth   linear, two weeks doubled
    straight line                  1.4%             3.7%                2.7%
    line of logarithms             4.1%             1.7%                5.2%
    least squares of logarithms    3.7%             1.5%               16.9%

How sure it is comes from least squares. There is no growth where one step between two levels fits the days better than
the line (a launch, a customer who moved), or where the second half of the log, by itself, has another trend: then rates
are those since.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from planner.logs.hours import DAY_H, Hours

WEEK_H, MONTH_H, FEWEST_WEEKS, FEWEST_DAYS_BESIDE = 168, 730, 4, 7
FIRST_DATED_H = 10**8 // 3600
SURE = 3.0
"""standard errors from which on growth is taken for real"""
QUIET_FRAC, LEAST_LEVEL = 0.2, 0.01
SHIFT_FRAC = 0.35
"""of the squares of daily levels, which a step leaves at most where no line stands out"""


def levels(rate: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """Known requests over the usual ones of the same hours [row]; NaN where there are none."""
    known = np.isfinite(rate) & np.isfinite(usual)
    expected = np.where(known, usual, 0.0).sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(expected > 0, np.where(known, rate, 0.0).sum(axis=-1) / expected, np.nan)


def line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Slope and level at 0: medians over all pairs and points."""
    i, j = np.triu_indices(len(x), 1)
    slope = float(np.median((y[j] - y[i]) / (x[j] - x[i])))
    return slope, float(np.median(y - slope * x))


@dataclass(frozen=True)
class Growth:
    per_month: float | None
    """None where it cannot be measured"""
    basis: str
    since: int = 0
    """hour of the log from which on its level is that of today"""

    def to_the_end(self, hours: int) -> np.ndarray:
        """Factors that carry each hour of a log of so many to its end."""
        slope = np.log1p(self.per_month or 0.0) / MONTH_H
        return np.asarray(np.exp(slope * (hours - np.arange(hours) - 0.5)))


@dataclass(frozen=True)
class _Line:
    slope: float
    error: float
    rest: float
    """sum of squares that it leaves"""

    @classmethod
    def through(cls, x: np.ndarray, y: np.ndarray) -> _Line:
        x = x - x.mean()
        slope = float(x @ y / (x @ x))
        rest = y - y.mean() - slope * x
        squares = float(rest @ rest)
        return cls(slope, float(np.sqrt(squares / max(1, len(x) - 2) / (x @ x))), squares)


def growth_of(hours: Hours) -> Growth:
    """Growth of a month, and on what that rests."""
    weeks = len(hours.rate) // WEEK_H
    if weeks < FEWEST_WEEKS:
        return Growth(None, f"the log is shorter than {FEWEST_WEEKS} weeks")
    left = len(hours.rate) - weeks * WEEK_H
    rate = hours.rate[left:].reshape(weeks, WEEK_H)
    enough = np.isfinite(rate).sum(axis=1) >= WEEK_H / 2
    if enough.sum() < FEWEST_WEEKS:
        return Growth(None, "too many of its weeks have gaps")
    usual = np.array([np.nanmedian(column) if np.isfinite(column).any() else np.nan for column in rate.T])
    week = np.flatnonzero(enough).astype(float)
    weekly = _log_levels(rate, usual)[enough]
    fitted = _Line.through(week, weekly)
    slope = line(week, weekly)[0]
    growth = _monthly(slope / WEEK_H)
    by_day = rate.reshape(-1, DAY_H)
    day, level = _days(by_day, np.tile(usual, weeks).reshape(-1, DAY_H))
    if len(day) < 2 * FEWEST_DAYS_BESIDE:
        return Growth(None, "too many of its days have gaps")
    daily = _Line.through(day.astype(float), level)
    stands_out = abs(fitted.slope) > SURE * fitted.error and abs(daily.slope) > SURE * daily.error
    step, rest = _best_step(level)
    # A step may be put anywhere, and so fits chance better than a line: it has to be better by what that is worth.
    most = daily.rest * len(day) ** (-2 / len(day))
    if rest < (most if stands_out else min(most, SHIFT_FRAC * len(level) * float(level.var()))):
        since = left + int(day[step]) * DAY_H
        dated = hours.first > FIRST_DATED_H
        when = (
            date(1970, 1, 1) + timedelta(hours=hours.first + since) if dated else f"day {since // DAY_H + 1} of the log"
        )
        change = float(np.exp(level[step:].mean() - level[:step].mean()))
        return Growth(0.0, f"a level shift about {when} (x {change:.3g}); rates are those since then", since)
    if not stands_out:
        basis = f"none that stands out in {len(week)} weeks ({growth:+.1%} a month within {SURE:g} standard errors)"
        return Growth(0.0, basis)
    later = day >= len(by_day) / 2
    if later.sum() < FEWEST_DAYS_BESIDE:
        return Growth(
            0.0, f"the log as a whole has {growth:+.1%} a month, but too few days of its second half are known"
        )
    second = _Line.through(day[later].astype(float), level[later])
    if abs(second.slope - fitted.slope / 7) > SURE * float(np.hypot(second.error, fitted.error / 7)):
        basis = (
            f"the log as a whole has {growth:+.1%} a month, its second half {_monthly(second.slope / DAY_H):+.1%}: "
            "no steady trend; rates are those of the second half"
        )
        return Growth(0.0, basis, left + len(by_day) // 2 * DAY_H)
    basis = f"straight line through the logarithms of {len(week)} weeks; rates are carried to the end of the log"
    return Growth(growth, basis)


def _monthly(slope_per_hour: float) -> float:
    return float(np.clip(np.expm1(min(9.0, slope_per_hour * MONTH_H)), -0.9, 9.0))


def _log_levels(rate: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """Logarithms of levels [row]; 0 where there is none."""
    logarithms: np.ndarray = np.log(np.maximum(np.nan_to_num(levels(rate, usual), nan=1.0), 1e-9))
    return logarithms


def _days(rate: np.ndarray, usual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Days known for the most part that are no quiet ones, and their levels: of a few requests a level says nothing."""
    expected = np.nansum(np.where(np.isfinite(rate), usual, 0.0), axis=1)
    busy = np.isfinite(rate).sum(axis=1) >= DAY_H / 2
    busy &= expected > QUIET_FRAC * expected.mean()
    return np.flatnonzero(busy), np.maximum(_log_levels(rate, usual)[busy], np.log(LEAST_LEVEL))


def _best_step(level: np.ndarray) -> tuple[int, float]:
    """Where one step between two levels leaves the least squares, and how much."""
    best = (0, float("inf"))
    for k in range(FEWEST_DAYS_BESIDE, len(level) - FEWEST_DAYS_BESIDE + 1):
        rest = float(len(level[:k]) * level[:k].var() + len(level[k:]) * level[k:].var())
        best = min(best, (k, rest), key=lambda candidate: candidate[1])
    return best
