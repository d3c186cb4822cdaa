"""A usage log as hours: one row per workload, one column per hour, nothing where nothing was written down."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planner.case.demand.usage import FEWEST_HOURS, check_busiest
from planner.case.demand.usage_rows import UsageRows, read_usage_rows
from planner.io.errors import input_error

MOST_WORKLOADS, MOST_HOURS = 500, 5 * 8784
HOUR = np.timedelta64(1, "h")


@dataclass(frozen=True, eq=False)
class UsageLog:
    """Sums by hour [workload, hour]; NaN: nothing was written down for it, or not all of it."""

    first: np.datetime64
    """the hour, in UTC, of the first column"""
    workloads: tuple[str, ...]
    requests: np.ndarray
    input_tokens: np.ndarray | None
    """of all requests of the hour; None where the log does not say"""
    output_tokens: np.ndarray | None
    repeated: tuple[int, ...]
    """rows that stood there twice, by workload; one of them counts"""
    contradicting: tuple[int, ...]
    """of these, those that said something else; the last one counts"""
    partial: tuple[int, ...]
    """hours of which some rows are missing, by workload, where the log is finer than an hour"""
    missing: tuple[tuple[str, int, str], ...] = ()
    """workload, rows that were left out because a cell of theirs says nothing, and which cells"""

    @property
    def hours(self) -> int:
        return int(self.requests.shape[1])


def read_log(path: Path, workload: str | None) -> UsageLog:
    """Read a log; `workload` is whose it is where it has no column that says so."""
    rows = read_usage_rows(path, workload or "")
    if rows.workloads == ("",):
        message = "has no column 'workload', and the plan has several"
        raise input_error(path, message, "Add the column")
    _within_reason(path, rows)
    last, otherwise = _repeated(rows)
    w = rows.workload
    repeated, contradicting = (np.bincount(w[flags], minlength=len(rows.workloads)) for flags in (~last, otherwise))
    hour = rows.time.astype("datetime64[h]")
    first = hour.min()
    w, h = w[last], ((hour[last] - first) / HOUR).astype(int)
    shape = (len(rows.workloads), int((hour.max() - first) / HOUR) + 1)
    per_hour = np.zeros(shape)
    np.add.at(per_hour, (w, h), 1)
    usual = np.array([np.bincount(row[row > 0].astype(int)).argmax() if row.any() else 1 for row in per_hour])
    whole = per_hour >= usual[:, None]
    at = ((rows.hours_left_out[1] - first) / HOUR).astype(int)
    inside = (at >= 0) & (at < shape[1])
    whole[rows.hours_left_out[0][inside], at[inside]] = False
    sums = {}
    for name, values in rows.counts.items():
        total = np.zeros(shape)
        np.add.at(total, (w, h), values[last])
        sums[name] = np.where(whole, total, np.nan)
    return UsageLog(
        first=first,
        workloads=rows.workloads,
        requests=sums["requests"],
        input_tokens=sums.get("input_tokens"),
        output_tokens=sums.get("output_tokens"),
        repeated=tuple(repeated.tolist()),
        contradicting=tuple(contradicting.tolist()),
        partial=tuple(((per_hour > 0) & ~whole).sum(axis=1).tolist()),
        missing=tuple((name, cells.rows, str(cells)) for name, cells in sorted(rows.left_out.items())),
    )


def _repeated(rows: UsageRows) -> tuple[np.ndarray, np.ndarray]:
    """Whether a row is the last of its workload and time, and whether it is not and says something else than that."""
    import pandas as pd

    table = pd.DataFrame({"workload": rows.workload, "time": rows.time}, copy=False)
    again = table.duplicated(keep="last").to_numpy()
    if not again.any():
        return ~again, again
    alike = table.assign(**rows.counts).duplicated(keep="last").to_numpy()
    return ~again, again & ~alike


def _within_reason(path: Path, rows: UsageRows) -> None:
    if not len(rows.time):
        raise input_error(path, "has no rows", f"Give at least {FEWEST_HOURS} hours")
    hours = (rows.time.max() - rows.time.min()) / HOUR
    if hours < FEWEST_HOURS - 1:
        raise input_error(path, f"covers {hours + 1:.0f} hours", f"Give at least {FEWEST_HOURS}")
    if hours > MOST_HOURS:
        remedy = "Check the times, or leave out what is older than five years"
        raise input_error(path, f"covers {hours / 8766:.0f} years", remedy)
    if len(rows.workloads) > MOST_WORKLOADS:
        raise input_error(path, f"has {len(rows.workloads)} workloads", f"Keep to {MOST_WORKLOADS}")
    if not rows.counts["requests"].any():
        raise input_error(path, "has no requests at all", "Give the log of a quarter that has requests")
    check_busiest(path, rows.counts["requests"])
