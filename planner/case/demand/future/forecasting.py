"""Forecasts from hours: seasonal-naive, a trend that goes on, and damped Holt-Winters, tried on the last weeks.

Seasonal-naive says that each hour is as the last known one of that hour of the week. The trend is a straight line
through the levels of the last half year of weeks, by the median of all slopes between two of them, times the shape of a
week: growth goes on as it was. Holt-Winters smooths a level, a damped trend and a season that is added:

    forecast(t + h) = level + (d + d^2 + ... + d^h) trend + season of that hour
    level  <- a (y - season) + (1 - a) (level + d trend)
    trend  <- b (change of level) + (1 - b) d trend
    season <- g (y - level) + (1 - g) season

Its four constants are those, out of a grid, that were best a week ahead on all earlier weeks. Each method forecasts
from several earlier points, without later data; the most accurate one is used. By how much it was too low or too high
there corrects it, in part where trials were few, and how far weeks then lie on either side, wider the further ahead
than tried, gives P10 and P90. Hours that nobody knows teach nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from statistics import NormalDist

import numpy as np

from planner.logs.growth import levels, line

WEEK = 168
WEEKS_AHEAD = 13
ORIGINS = 6
"""earlier points from which each method is tried"""
ALPHA, BETA, GAMMA = (0.002, 0.01, 0.05), (0.0, 0.002, 0.02), (0.1, 0.3)
DAMPED_A_WEEK = (0.5, 0.9)
"""what is left of the trend a week later"""
GRID = np.array([(a, b, g, d ** (1 / WEEK)) for a, b, g, d in product(ALPHA, BETA, GAMMA, DAMPED_A_WEEK)]).T
NAIVE, TREND, SMOOTHED = "seasonal-naive", "weekly trend", "damped Holt-Winters"
LEAST_WEEKS = {NAIVE: 2, TREND: 8, SMOOTHED: 3}
"""of known hours, from which on a method is used"""
LOW, HIGH = 0.1, 0.9
Z_HIGH = NormalDist().inv_cdf(HIGH)
TREND_WEEKS, SHAPE_WEEKS = 26, 4
MOST_BIAS, TRIALS_AS_SURE = 0.25, 4.0
"""the most that a forecast is corrected by, and trials that count as much as believing that it needs no correction"""


@dataclass(frozen=True, eq=False)
class Forecast:
    """What comes in the hours after a series [hour]."""

    method: str
    requests: np.ndarray
    error_frac: float | None
    """mean absolute error an hour, as a share of the mean, when tried; None where the series is too short to try"""
    other_error_frac: float | None
    """of the best method that was not used"""
    bias_frac: float
    """by which the forecast was raised, since it was too low when tried (or lowered)"""
    tried_weeks: int
    """how far ahead it was tried"""
    low_ratio: float | None
    """P10 and P90, as a share of the forecast; None where it was not tried"""
    high_ratio: float | None


def forecasts(series: np.ndarray, hours: int = WEEKS_AHEAD * WEEK) -> list[Forecast]:
    """Forecasts of rows of hours that go on for `hours`; NaN is an hour that nobody knows."""
    y = np.asarray(series, dtype=float)
    weeks_known = np.isfinite(y).sum(axis=1) / WEEK
    tests = _tests(y.shape[1])
    ahead = tests[0][1] if tests else 0
    filter_ = HoltWinters(y)
    by_method = {
        NAIVE: seasonal_naive(y, hours), TREND: trend_ahead(y, hours), SMOOTHED: filter_.ahead(y.shape[1], hours)
    }  # fmt: skip
    errors, ratios = _tried(y, filter_, tests)
    chosen = []
    for k in range(len(y)):
        tried = bool(tests) and bool(np.isfinite(errors[NAIVE][k])) and weeks_known[k] >= LEAST_WEEKS[NAIVE]
        error = {
            name: float(errors[name][k])
            for name in (NAIVE, TREND, SMOOTHED)
            if tried and np.isfinite(errors[name][k]) and weeks_known[k] >= LEAST_WEEKS[name]
        }
        method = min(error, key=lambda name: error[name], default=NAIVE)
        bias, low, high = _spread(ratios[method][k], ahead // WEEK) if tried else (1.0, None, None)
        chosen.append(
            Forecast(
                method=method,
                requests=bias * by_method[method][k],
                error_frac=error.get(method),
                other_error_frac=min((e for name, e in error.items() if name != method), default=None),
                bias_frac=bias - 1,
                tried_weeks=ahead // WEEK if tried else 0,
                low_ratio=low,
                high_ratio=high,
            )
        )
    return chosen


def _spread(ratios: np.ndarray, tried_weeks: int) -> tuple[float, float | None, float | None]:
    """What corrects a forecast, and P10 and P90 around it, from weeks over their forecasts when it was tried.

    Weeks further ahead than tried differ more: as in a random walk, by the root of the weeks.
    """
    logs = np.log(ratios[np.isfinite(ratios) & (ratios > 0)])
    if not len(logs):
        return 1.0, None, None
    bias = float(np.median(logs)) * len(logs) / (len(logs) + TRIALS_AS_SURE)
    bias = float(np.clip(bias, -MOST_BIAS, MOST_BIAS))
    further = float(np.sqrt((WEEKS_AHEAD + 1) / (tried_weeks + 1)))
    apart = (logs - bias) * further
    usual = Z_HIGH * float(np.sqrt(np.mean(apart**2) * (len(logs) + 2) / len(logs)))  # few trials show too little
    low, high = np.quantile(apart, (LOW, HIGH)).tolist()
    return float(np.exp(bias)), float(np.exp(min(low, -usual))), float(np.exp(max(high, usual)))


def trend_ahead(y: np.ndarray, hours: int) -> np.ndarray:
    """The shape of the last weeks along a straight line through the levels of the last half year."""
    folded = _weeks(y)[:, -TREND_WEEKS:]
    forecast = seasonal_naive(y, hours)
    for k, row in enumerate(folded):
        known = np.isfinite(row)
        shape = seasonal_naive(row.reshape(1, -1), WEEK)[0]
        for _ in range(2):  # levels by the shape, then the shape by the levels
            level_of = levels(row, shape)
            fine = np.isfinite(level_of) & (known.sum(axis=1) >= WEEK // 2)
            if fine.sum() < 2 or not shape.mean() > 0:
                break
            leveled = row[fine][-SHAPE_WEEKS:] / np.maximum(level_of[fine][-SHAPE_WEEKS:, None], 1e-12)
            some = np.isfinite(leveled).any(axis=0)
            shape = np.where(
                some, np.nanmean(np.where(some, leveled, 0.0), axis=0), shape / max(level_of[fine][-1], 1e-12)
            )
        else:
            at = np.flatnonzero(fine)
            slope, level = line(at.astype(float), level_of[fine])
            t = len(row) - 0.5 + (np.arange(hours) + 0.5) / WEEK
            forecast[k] = np.maximum(0.0, level + slope * t) * shape[np.arange(hours) % WEEK]
    return forecast


def seasonal_naive(y: np.ndarray, hours: int) -> np.ndarray:
    """Each hour as the last known one of that hour of the week; where there is none, as the row's mean."""
    folded = _weeks(y)
    last = folded[:, -1].copy()
    for week in range(folded.shape[1] - 2, -1, -1):
        last = np.where(np.isnan(last), folded[:, week], last)
    known = np.isfinite(y)
    mean = np.where(known, y, 0.0).sum(axis=1) / np.maximum(1, known.sum(axis=1))
    last = np.where(np.isnan(last), mean[:, None], last)
    return np.tile(last, -(-hours // WEEK))[:, :hours]


def _weeks(y: np.ndarray) -> np.ndarray:
    """Hours by whole weeks that end where the rows end; hours before a row are unknown [row, week, hour]."""
    weeks = -(-y.shape[1] // WEEK)
    padded = np.full((len(y), weeks * WEEK), np.nan)
    padded[:, weeks * WEEK - y.shape[1] :] = y
    return padded.reshape(len(y), weeks, WEEK)


class HoltWinters:
    """All constants of the grid run over all rows at once; its state is kept at the end of every week."""

    def __init__(self, y: np.ndarray, grid: np.ndarray = GRID) -> None:
        self.y, self.grid = y, grid
        rows, total = y.shape
        alpha, beta, gamma, damping = grid
        level, season, self.begins = _start(y)
        g = grid.shape[1]
        l_now = np.repeat(level[:, None], g, axis=1)
        b_now = np.zeros((rows, g))
        s_now = np.repeat(season[:, :, None], g, axis=2)
        s_now = np.ascontiguousarray(s_now.transpose(1, 0, 2))
        self.states: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        kept = set(range(total, -1, -WEEK))
        one_a, one_b, one_g = 1 - alpha, 1 - beta, 1 - gamma
        for t in range(total + 1):
            if t in kept:
                self.states[t] = (l_now.copy(), b_now.copy(), s_now.copy())
            if t == total:
                break
            known = y[:, t]
            damped = damping * b_now
            before = l_now + damped
            s_old = s_now[t % WEEK]
            if np.isfinite(known).all():
                seen = known[:, None]
                level_new = alpha * (seen - s_old) + one_a * before
                b_now = beta * (level_new - l_now) + one_b * damped
                s_now[t % WEEK] = gamma * (seen - level_new) + one_g * s_old
                l_now = level_new
                continue
            mask = np.isfinite(known)[:, None]
            seen = np.where(mask, known[:, None], before + s_old)
            level_new = np.where(mask, alpha * (seen - s_old) + one_a * before, before)
            b_now = np.where(mask, beta * (level_new - l_now) + one_b * damped, damped)
            s_now[t % WEEK] = np.where(mask, gamma * (seen - level_new) + one_g * s_old, s_old)
            l_now = level_new
        self.weekly = self._week_ahead_errors()

    def ahead(self, t: int, hours: int) -> np.ndarray:
        """From the end of a week, with the constants that were best before it [row, hour]."""
        best = self._best(t)
        level, trend, season = self.states[t]
        rows = np.arange(len(self.y))
        d = self.grid[3][best]
        steps = np.cumsum(d[:, None] ** np.arange(1, hours + 1), axis=1)
        hour = (t + np.arange(hours)) % WEEK
        seasonal = season[:, rows, best][hour].T
        return np.maximum(0.0, level[rows, best][:, None] + steps * trend[rows, best][:, None] + seasonal)

    def _best(self, t: int) -> np.ndarray:
        earlier = [error for start, error in self.weekly.items() if start + WEEK <= t]
        if not earlier:
            return np.zeros(len(self.y), dtype=int)
        return np.argmin(np.sum(earlier, axis=0), axis=1)

    def _week_ahead_errors(self) -> dict[int, np.ndarray]:
        """Absolute error over the week after each point that is kept [row, constants]."""
        weekly = {}
        for t, (level, trend, season) in sorted(self.states.items()):
            if t + WEEK > self.y.shape[1]:
                continue
            actual = self.y[:, t : t + WEEK]
            steps = np.cumsum(self.grid[3][None, :] ** np.arange(1, WEEK + 1)[:, None], axis=0)
            hour = (t + np.arange(WEEK)) % WEEK
            expected = level[None] + steps[:, None, :] * trend[None] + season[hour]
            off = np.abs(np.maximum(0.0, expected) - actual.T[:, :, None])
            weekly[t] = np.nansum(off, axis=0)
        return weekly


def _start(y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Level and season [hour of the week] from the first two weeks of a row (one, where it is short), and their end."""
    level, season, begins = np.zeros(len(y)), np.zeros((len(y), WEEK)), np.full(len(y), y.shape[1])
    for k, row in enumerate(y):
        known = np.flatnonzero(np.isfinite(row))
        if not len(known):
            continue
        begins[k] = known[0] + (2 * WEEK if len(known) > 3 * WEEK else WEEK)
        chosen = known[known < begins[k]]
        level[k] = row[chosen].mean()
        for period in (24, WEEK):  # an hour of the week that is missing is as that hour of other days
            sums = np.bincount(chosen % period, weights=row[chosen] - level[k], minlength=period)
            counts = np.bincount(chosen % period, minlength=period)
            usual = np.where(counts > 0, sums / np.maximum(1, counts), np.nan)
            laid = np.tile(usual, WEEK // period)
            season[k] = np.where(np.isnan(laid), season[k], laid)
    return level, season, begins


def _tests(hours: int) -> list[tuple[int, int]]:
    """(where to stop, hours to forecast) of each trial: up to 13 weeks ahead, a quarter of what there is."""
    weeks = hours // WEEK
    if weeks < 2:
        return []
    ahead = max(1, min(WEEKS_AHEAD, weeks // 4))
    last = weeks - ahead
    first = max(1, last - ORIGINS + 1)
    return [(hours - (weeks - w) * WEEK, ahead * WEEK) for w in range(first, last + 1)]


def _tried(
    y: np.ndarray, filter_: HoltWinters, tests: list[tuple[int, int]]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """How far off each method was [row], and each tried week as a share of its forecast [row, week]."""
    off = {name: np.zeros(len(y)) for name in (NAIVE, TREND, SMOOTHED)}
    total = np.zeros(len(y))
    ratios: dict[str, list[np.ndarray]] = {name: [] for name in off}
    for start, hours in tests:
        actual = y[:, start : start + hours]
        # A row that had not begun, or has not been there long enough to start from, says nothing yet.
        ready = start >= filter_.begins
        known = np.isfinite(actual) & ready[:, None]
        total += np.where(known, actual, 0.0).sum(axis=1)
        earlier = y[:, :start]
        tries = {
            NAIVE: seasonal_naive(earlier, hours), TREND: trend_ahead(earlier, hours),
            SMOOTHED: filter_.ahead(start, hours),
        }  # fmt: skip
        for name, forecast in tries.items():
            off[name] += np.where(known, np.abs(forecast - actual), 0.0).sum(axis=1)
            requests, expected = (
                np.where(known, x, 0.0).reshape(len(y), -1, WEEK).sum(axis=2) for x in (actual, forecast)
            )
            enough = (known.reshape(len(y), -1, WEEK).sum(axis=2) >= WEEK // 2) & (expected > 0)
            ratios[name].append(np.where(enough, requests / np.where(expected > 0, expected, 1.0), np.nan))
    none = np.full((len(y), 1), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = {name: np.where(total > 0, off[name] / total, np.nan) for name in off}
    return errors, {name: np.concatenate(weeks, axis=1) if weeks else none for name, weeks in ratios.items()}
