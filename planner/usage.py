"""Usage logs as forecasts: requests over time, from a CSV file, to the hours of a weekday and a weekend day."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planner.complaints import Complaint, InputError, did_you_mean, listed

WITHIN_HOUR_VARIATION = 0.12
"""coefficient of variation of ten-minute rates around their hour in public ServeGen traces"""
FEWEST_HOURS = 24
FEWEST_DAYS = 3


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
    import pandas as pd

    def refuse(message: str, remedy: str = "") -> InputError:
        return InputError([Complaint(str(path), None, None, "", message, remedy)])

    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error).split("\n")[0]
        raise refuse(f"cannot be read as CSV: {reason}", "Give a CSV file with the columns time, requests") from None
    for name in ("time", "requests"):
        if name not in table.columns:
            known = [str(c) for c in table.columns]
            raise refuse(f"has no column '{name}', only {listed(known[:8], 'and')}", did_you_mean(name, known))
    if "workload" in table.columns:
        table = table[table["workload"] == workload]
        if table.empty:
            raise refuse(f"has no rows for the workload '{workload}'", "Check the column 'workload'")
    time = pd.to_datetime(table["time"], errors="coerce", utc=True)
    requests = pd.to_numeric(table["requests"], errors="coerce")
    bad = time.isna() | requests.isna() | (requests < 0) | ~np.isfinite(requests)
    if bad.any():
        row = int(np.flatnonzero(bad.to_numpy())[0])
        line = int(table.index[row]) + 2
        raise InputError([Complaint(str(path), line, None, "", "needs a time and a number of requests of 0 or more",
                                    "Leave out hours that were not measured")])  # fmt: skip
    hourly = requests.groupby(time.dt.floor("h")).sum()
    if len(hourly) < FEWEST_HOURS:
        raise refuse(f"covers {len(hourly)} hours", f"Give at least {FEWEST_HOURS}")
    if not hourly.any():
        raise refuse("has no requests at all", "Remove the workload, or give its requests")
    return by_hour(hourly.index.day_of_week.to_numpy() >= 5, hourly.index.hour.to_numpy(), hourly.to_numpy() / 3600)


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
