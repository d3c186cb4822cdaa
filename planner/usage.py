"""Usage logs as forecasts: requests over time, from a CSV file, to the hours of a weekday and a weekend day."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from planner.complaints import Complaint, InputError, did_you_mean, listed

if TYPE_CHECKING:
    import pandas as pd

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
    table = usage_table(path)
    if "workload" in table.columns:
        table = table[table["workload"] == workload]
        if table.empty:
            raise _refused(path, f"has no rows for the workload '{workload}'", "Check the column 'workload'")
    table = checked_rows(path, table)
    hourly = table["requests"].groupby(table["time"].dt.floor("h")).sum()
    if len(hourly) < FEWEST_HOURS:
        raise _refused(path, f"covers {len(hourly)} hours", f"Give at least {FEWEST_HOURS}")
    if not hourly.any():
        raise _refused(path, "has no requests at all", "Remove the workload, or give its requests")
    return by_hour(hourly.index.day_of_week.to_numpy() >= 5, hourly.index.hour.to_numpy(), hourly.to_numpy() / 3600)


def usage_table(path: Path) -> pd.DataFrame:
    """A usage log as it stands, CSV or (by its name) Parquet, with the columns `time` and `requests` at least."""
    import pandas as pd

    parquet = path.suffix.lower() in (".parquet", ".pq")
    kind = "Parquet" if parquet else "CSV"
    try:
        table = pd.read_parquet(path) if parquet else pd.read_csv(path)
    except ImportError:
        raise _refused(path, "needs a reader of Parquet", "Install it: pip install 'fleetplan[parquet]'") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error).split("\n")[0]
        remedy = f"Give a {kind} file with the columns time, requests"
        raise _refused(path, f"cannot be read as {kind}: {reason}", remedy) from None
    for name in ("time", "requests"):
        if name not in table.columns:
            known = [str(c) for c in table.columns]
            raise _refused(path, f"has no column '{name}', only {listed(known[:8], 'and')}", did_you_mean(name, known))
    return table


def checked_rows(path: Path, table: pd.DataFrame, counts: tuple[str, ...] = ("requests",)) -> pd.DataFrame:
    """The rows with times in UTC and counts as numbers of 0 or more; the first row that has none is named."""
    import pandas as pd

    time = pd.to_datetime(table["time"], errors="coerce", utc=True)
    numbers = {name: pd.to_numeric(table[name], errors="coerce") for name in counts}
    for name, values in ({"time": time} | numbers).items():
        bad = values.isna() if name == "time" else values.isna() | (values < 0) | ~np.isfinite(values)
        if bad.any():
            row = int(np.flatnonzero(bad.to_numpy())[0])
            line = int(table.index[row]) + 2
            what = "requests" if name == "time" else name.replace("_", " ")
            raise InputError([Complaint(str(path), line, None, "", f"needs a time and a number of {what} of 0 or more",
                                        "Leave out hours that were not measured")])  # fmt: skip
    return table.assign(time=time, **numbers)


def _refused(path: Path, message: str, remedy: str = "") -> InputError:
    return InputError([Complaint(str(path), None, None, "", message, remedy)])


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
