"""Hours of the clock of a log, in the time zone of its users, without those that are no demand.

Hours and rows that are not demand are found by one set of rules for forecasts, reviews and demand from logs:

duplicate    rows of one time, and of one model, team or whatever else the table has, with the same figures: one counts
conflicting  such rows with other figures: the last one counts. Where most times have several such rows, they are parts
             of one count and are added

launch    no rows or zeros from the start of the log on, for a day or longer: it begins where requests begin
ended     the same at the end, for a week or longer
gap       hours without a row, or with some of their rows missing (NaN)
outage    less than 5% of what is usual for that hour of the week, where at least 20 requests should have come
outlier   more than six robust deviations and more than twice off what is usual (and off what
          chance does to small counts), for less than a day
shift     the same for a day or longer: kept, for it may last

Usual is the median of that hour of the week, times the running median (a week wide) of how busy the time is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from math import gcd
from typing import TYPE_CHECKING, Literal
from zoneinfo import ZoneInfo

import numpy as np

from planner.io.formatting import counted
from planner.logs.reading.ledger import Ledger
from planner.logs.traffic import HOUR_S, MINUTE_S, Traffic

if TYPE_CHECKING:
    import pandas as pd

OddKind = Literal["launch", "ended", "gap", "outage", "outlier", "shift"]
WEEK = 168
LAUNCH_H, ENDED_H, SHIFT_H = 24, WEEK, 24
OUTAGE_FRAC, FEWEST_REQUESTS = 0.05, 20.0
ROBUST_Z, LEAST_FACTOR, LEAST_SPREAD = 6.0, 2.0, 0.05
KEPT: tuple[OddKind, ...] = ("shift",)
DUPLICATE, CONFLICTING = "duplicate rows", "conflicting rows for one time: the last one counts"
PARTS_FRAC = 0.5
"""of the times, with several rows and other figures, from which on these are parts of one count"""
DAY_H, FEWEST_HOURS_TO_CLEAN = 24, 48


def repeated_rows(table: pd.DataFrame, ledger: Ledger) -> np.ndarray:
    """Which rows of a table of counts are kept; what is not goes to the ledger."""
    kept: np.ndarray = np.ones(len(table), dtype=bool)
    several = table.series.duplicated(keep=False).to_numpy()
    if not several.any():
        return kept
    rows = table[several]
    # A row that was written again with its figure is not missing.
    blank = rows.requests.isna() & rows.requests.notna().groupby(rows.series).transform("any")
    rows = rows[~blank]
    again = rows.series.duplicated(keep="last")
    other = again & ~rows.duplicated(keep="last")
    times = len(table) - int(several.sum()) + int((~again).sum())
    kept[np.flatnonzero(several)[blank.to_numpy()]] = False
    if len(rows[other].drop_duplicates("series")) > PARTS_FRAC * times:
        ledger.note(f"{counted(again.sum(), 'row')} at the time of another row, added to it")
        return kept
    kept[np.flatnonzero(several)[~blank.to_numpy()][again.to_numpy()]] = False
    for reason, count in ((DUPLICATE, int(again.sum() - other.sum())), (CONFLICTING, int(other.sum()))):
        ledger.leave_out_together(reason, count, "by time and names")
    return kept


def odd_hours(row: np.ndarray, usual: np.ndarray, far: np.ndarray) -> dict[OddKind, np.ndarray]:
    """Flags by kind for the hours of one workload; without any request all of it has ended."""
    alive = np.flatnonzero(row > 0)
    if not len(alive):
        return {"ended": np.ones(len(row), dtype=bool)}
    begins, stops = int(alive[0]), int(alive[-1]) + 1
    before, after = np.zeros(len(row), dtype=bool), np.zeros(len(row), dtype=bool)
    before[:begins], after[stops:] = begins >= LAUNCH_H, len(row) - stops >= ENDED_H
    within = ~(before | after)
    gap = np.isnan(row) & within
    with np.errstate(invalid="ignore"):
        outage = _worth(~gap & within & (row <= OUTAGE_FRAC * usual) & (usual > 0), usual)
    odd = far & within & ~gap & ~outage
    shift = odd & _in_long_runs(odd, SHIFT_H)
    return {
        "launch": before,
        "ended": after,
        "gap": gap,
        "outage": outage,
        "outlier": odd & ~shift,
        "shift": shift,
    }


def usual_requests(requests: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What is usual for each hour, and whether it is far off that [workload, hour]."""
    import pandas as pd

    seen = np.where(requests > 0, requests, np.nan)
    profile = _by_hour_of_week(seen)
    with np.errstate(divide="ignore", invalid="ignore"):
        busy = seen / profile
        level = pd.DataFrame(busy.T).rolling(WEEK, center=True, min_periods=LAUNCH_H).median()
        usual = profile * level.ffill().bfill().to_numpy().T
        off = np.log(requests / usual)
    spread = np.maximum(LEAST_SPREAD, 1.4826 * _median(np.abs(np.where(np.isfinite(off), off, np.nan))))
    far = np.isfinite(off) & (np.abs(off) > ROBUST_Z * spread[:, None]) & (np.abs(off) > np.log(LEAST_FACTOR))
    with np.errstate(invalid="ignore"):
        far &= np.abs(requests - usual) > ROBUST_Z * np.sqrt(usual)
    return np.nan_to_num(usual), far


def _by_hour_of_week(seen: np.ndarray) -> np.ndarray:
    """The median of each hour of the week, as a share of its week's median, laid over all hours."""
    weeks = -(-seen.shape[1] // WEEK)
    padded = np.full((len(seen), weeks * WEEK), np.nan)
    padded[:, : seen.shape[1]] = seen
    folded = padded.reshape(len(seen), weeks, WEEK)
    with np.errstate(invalid="ignore"):
        profile = _median(folded / _median(folded)[..., None], axis=1)
    # An hour in which there was usually nothing has nothing to be compared with.
    counted = np.isfinite(folded).sum(axis=1)
    rows = np.minimum(weeks, np.maximum(1, np.isfinite(folded).any(axis=2).sum(axis=1)))[:, None]
    profile[counted < 0.5 * rows] = np.nan
    return np.tile(profile, weeks)[:, : seen.shape[1]]


def _median(values: np.ndarray, axis: int = -1) -> np.ndarray:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmedian(values, axis=axis))


def _worth(outage: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """Stretches in which enough should have come; where an hour has two or three requests, none is no outage."""
    marked = np.zeros(len(outage), dtype=bool)
    for start, stop in runs_of(outage):
        marked[start:stop] = usual[start:stop].sum() >= FEWEST_REQUESTS
    return marked


def _in_long_runs(flags: np.ndarray, least: int) -> np.ndarray:
    marked = np.zeros(len(flags), dtype=bool)
    for start, stop in runs_of(flags):
        marked[start:stop] = stop - start >= least
    return marked


def runs_of(flags: np.ndarray) -> list[tuple[int, int]]:
    """(first, one after the last) of each stretch that is flagged."""
    edges = np.flatnonzero(np.diff(np.r_[0, flags.astype(int), 0]))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


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
