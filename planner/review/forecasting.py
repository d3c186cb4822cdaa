"""Forecasts from hours: seasonal-naive and damped Holt-Winters, both with a season of a week, tried on the last weeks.

Seasonal-naive says that each hour is as the last known one of that hour of the week. Holt-Winters smooths a level, a
damped trend and a season that is added:

    forecast(t + h) = level + (d + d^2 + ... + d^h) trend + season of that hour
    level  <- a (y - season) + (1 - a) (level + d trend)
    trend  <- b (change of level) + (1 - b) d trend
    season <- g (y - level) + (1 - g) season

Its four constants are those, out of a grid, that were best a week ahead on all earlier weeks. Each method forecasts
from several earlier points, without later data; the more accurate one is used. Hours that nobody knows teach
nothing. Everything is done for all workloads and all constants at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

WEEK = 168
WEEKS_AHEAD = 13
ORIGINS = 6
"""earlier points from which both methods are tried"""
ALPHA, BETA, GAMMA = (0.002, 0.01, 0.05), (0.0, 0.002, 0.02), (0.1, 0.3)
DAMPED_A_WEEK = (0.5, 0.9)
"""what is left of the trend a week later"""
GRID = np.array([(a, b, g, d ** (1 / WEEK)) for a, b, g, d in product(ALPHA, BETA, GAMMA, DAMPED_A_WEEK)]).T
NAIVE, SMOOTHED = "seasonal-naive", "damped Holt-Winters"
LOW, HIGH = 0.1, 0.9


@dataclass(frozen=True, eq=False)
class Forecast:
    """What comes in the hours after a series [hour]."""

    method: str
    requests: np.ndarray
    error_frac: float | None
    """mean absolute error an hour, as a share of the mean, when tried; None where the series is too short to try"""
    other_error_frac: float | None
    """of the method that was not used"""
    tried_weeks: int
    """how far ahead it was tried"""
    low_ratio: float | None
    """P10 and P90 of a week, as a share of its forecast; None where it was not tried"""
    high_ratio: float | None


def forecasts(series: np.ndarray, hours: int = WEEKS_AHEAD * WEEK) -> list[Forecast]:
    """Forecasts of rows of hours that go on for `hours`; NaN is an hour that nobody knows."""
    y = np.asarray(series, dtype=float)
    weeks_known = np.isfinite(y).sum(axis=1) / WEEK
    tests = _tests(y.shape[1])
    ahead = tests[0][1] if tests else 0
    filter_ = HoltWinters(y)
    smoothed = filter_.ahead(y.shape[1], hours)
    naive = seasonal_naive(y, hours)
    errors, ratios = _tried(y, filter_, tests)
    found = []
    for k in range(len(y)):
        error = {name: float(errors[name][k]) for name in (NAIVE, SMOOTHED)}
        tried = bool(tests) and np.isfinite(error[NAIVE]) and weeks_known[k] >= 2
        usable = tried and np.isfinite(error[SMOOTHED]) and weeks_known[k] >= 3
        method = SMOOTHED if usable and error[SMOOTHED] < error[NAIVE] else NAIVE
        other = NAIVE if method == SMOOTHED else SMOOTHED
        spread = ratios[method][k]
        spread = spread[np.isfinite(spread)]
        low, high = np.quantile(spread, (LOW, HIGH)).tolist() if tried and len(spread) else (None, None)
        found.append(
            Forecast(
                method=method,
                requests=(smoothed if method == SMOOTHED else naive)[k],
                error_frac=error[method] if tried else None,
                other_error_frac=error[other] if usable or (tried and other == NAIVE) else None,
                tried_weeks=ahead // WEEK if tried else 0,
                low_ratio=None if low is None else min(1.0, low),
                high_ratio=None if high is None else max(1.0, high),
            )
        )
    return found


def seasonal_naive(y: np.ndarray, hours: int) -> np.ndarray:
    """Each hour as the last known one of that hour of the week; where there is none, as the row's mean."""
    weeks = -(-y.shape[1] // WEEK)
    padded = np.full((len(y), weeks * WEEK), np.nan)
    padded[:, weeks * WEEK - y.shape[1] :] = y
    folded = padded.reshape(len(y), weeks, WEEK)
    last = folded[:, -1].copy()
    for week in range(weeks - 2, -1, -1):
        last = np.where(np.isnan(last), folded[:, week], last)
    known = np.isfinite(y)
    mean = np.where(known, y, 0.0).sum(axis=1) / np.maximum(1, known.sum(axis=1))
    last = np.where(np.isnan(last), mean[:, None], last)
    return np.tile(last, -(-hours // WEEK))[:, :hours]


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
        found = {}
        for t, (level, trend, season) in sorted(self.states.items()):
            if t + WEEK > self.y.shape[1]:
                continue
            actual = self.y[:, t : t + WEEK]
            steps = np.cumsum(self.grid[3][None, :] ** np.arange(1, WEEK + 1)[:, None], axis=0)
            hour = (t + np.arange(WEEK)) % WEEK
            said = level[None] + steps[:, None, :] * trend[None] + season[hour]
            off = np.abs(np.maximum(0.0, said) - actual.T[:, :, None])
            found[t] = np.nansum(off, axis=0)
        return found


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
    off = {name: np.zeros(len(y)) for name in (NAIVE, SMOOTHED)}
    total = np.zeros(len(y))
    ratios: dict[str, list[np.ndarray]] = {NAIVE: [], SMOOTHED: []}
    for start, hours in tests:
        actual = y[:, start : start + hours]
        # A row that had not begun, or has not been there long enough to start from, says nothing yet.
        ready = start >= filter_.begins
        known = np.isfinite(actual) & ready[:, None]
        total += np.where(known, actual, 0.0).sum(axis=1)
        for name, said in ((NAIVE, seasonal_naive(y[:, :start], hours)), (SMOOTHED, filter_.ahead(start, hours))):
            off[name] += np.where(known, np.abs(said - actual), 0.0).sum(axis=1)
            came, expected = (np.where(known, x, 0.0).reshape(len(y), -1, WEEK).sum(axis=2) for x in (actual, said))
            enough = (known.reshape(len(y), -1, WEEK).sum(axis=2) >= WEEK // 2) & (expected > 0)
            ratios[name].append(np.where(enough, came / np.where(expected > 0, expected, 1.0), np.nan))
    none = np.full((len(y), 1), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = {name: np.where(total > 0, off[name] / total, np.nan) for name in off}
    return errors, {name: np.concatenate(found, axis=1) if found else none for name, found in ratios.items()}
