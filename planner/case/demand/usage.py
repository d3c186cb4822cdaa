"""Usage logs as forecasts: requests over time, from a CSV file, to the hours of a weekday and a weekend day."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from planner.case.demand.usage_rows import read_usage_rows
from planner.case.demand.workload_schema import MOST_REQUESTS_PER_DAY
from planner.io.errors import input_error

WITHIN_HOUR_VARIATION = 0.12
"""coefficient of variation of ten-minute rates around their hour in public ServeGen traces"""
FEWEST_HOURS = 24
FEWEST_DAYS = 3
REGULAR_FRAC = 0.9
"""of the hours with the same number of rows, from which on a log is regular"""


@dataclass(frozen=True)
class Hours:
    """Mean requests/s by hour, and how far single days differ from that."""

    weekday_rps: tuple[float, ...]
    weekend_rps: tuple[float, ...]
    variation: float | None
    """None where there are too few days to tell"""
    notes: tuple[str, ...]


def read_usage(path: Path, workload: str) -> Hours:
    """Requests by hour from a CSV with columns `time` and `requests` (and `workload`, where it holds several)."""
    rows = read_usage_rows(path, workload, workload, ("requests",))
    notes = [f"{cells.rows} rows of the log are left out: {cells}" for cells in rows.left_out.values()]
    if not len(rows.time) and not notes:
        raise input_error(path, f"has no rows for the workload '{workload}'", "Check the column 'workload'")
    hour, per_row = np.unique(rows.time.astype("datetime64[h]"), return_inverse=True)
    requests = np.bincount(per_row, rows.counts["requests"], minlength=len(hour))
    whole = ~np.isin(hour, rows.hours_left_out[1])
    if any(cells.counts["time"] for cells in rows.left_out.values()):
        # The hour of a row without a time is one with fewer rows than usual, where rows come regularly.
        in_hour = np.bincount(per_row, minlength=len(hour))
        usual = np.bincount(in_hour).argmax()
        whole &= (in_hour >= usual) | (np.mean(in_hour == usual) < REGULAR_FRAC)
    hour, requests = hour[whole], requests[whole]
    if len(hour) < FEWEST_HOURS:
        said = f"; {notes[0]}" if notes else ""
        raise input_error(path, f"covers {len(hour)} hours{said}", f"Give at least {FEWEST_HOURS}")
    if not requests.any():
        raise input_error(path, "has no requests at all", "Remove the workload, or give its requests")
    check_busiest(path, requests)
    days = hour.astype("datetime64[D]").astype(int)
    weekend = (days + 3) % 7 >= 5  # 1970-01-01 was a Thursday
    found = by_hour(weekend, hour.astype(int) % 24, requests / 3600)
    if rows.unused:
        columns = " and ".join(rows.unused)
        notes.append(f"{columns} of the log are not used: `fleetplan demand` takes lengths from them")
    return replace(found, notes=(*notes, *found.notes))


def check_busiest(path: Path, requests: np.ndarray) -> None:
    """Refuse what is a slip of the pen, by hour, as demand files do."""
    if 24 * np.nanmax(requests) > MOST_REQUESTS_PER_DAY:
        message = "has an hour at a rate of more than 10 billion requests a day"
        raise input_error(path, message, "Check the column 'requests'")


def by_hour(weekend: np.ndarray, hour: np.ndarray, rps: np.ndarray) -> Hours:
    """Means over the hours that are there; a kind of day or an hour that is missing is taken from what there is."""
    notes: list[str] = []
    means = np.full((2, 24), np.nan)
    for kind in (0, 1):
        for h in range(24):
            found = rps[(weekend == bool(kind)) & (hour == h)]
            if len(found):
                means[kind, h] = found.mean()
    for kind, name, other in ((0, "weekday", "weekend"), (1, "weekend", "weekday")):
        missing = np.isnan(means[kind])
        if missing.any():
            notes.append(f"{int(missing.sum())} {name} hours are missing and taken from {other} days")
            means[kind] = np.where(missing, means[1 - kind], means[kind])
    overall = float(rps.mean())
    means = np.where(np.isnan(means), overall, means)
    return Hours(
        tuple(means[0].tolist()), tuple(means[1].tolist()), _variation(weekend, hour, rps, means), tuple(notes)
    )


def _variation(weekend: np.ndarray, hour: np.ndarray, rps: np.ndarray, means: np.ndarray) -> float | None:
    """Coefficient of variation around the mean of its own hour, weighted by load; None where days are too few."""
    squares, weights = 0.0, 0.0
    for kind in (0, 1):
        for h in range(24):
            found = rps[(weekend == bool(kind)) & (hour == h)]
            mean = means[kind, h]
            if len(found) >= 2 and mean > 0:
                squares += mean * float(((found - mean) ** 2).sum()) / (len(found) - 1) / mean**2
                weights += mean
    days = len(np.unique(np.cumsum(np.r_[0, np.diff(hour) < 0])))
    if days < FEWEST_DAYS or not weights:
        return None
    return float(np.hypot(np.sqrt(squares / weights), WITHIN_HOUR_VARIATION))
