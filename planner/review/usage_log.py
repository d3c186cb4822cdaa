"""A usage log as hours: one row per workload, one column per hour, nothing where nothing was written down."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planner.complaints import Complaint, InputError
from planner.usage import FEWEST_HOURS, checked_rows, usage_table

COUNTS = ("requests", "input_tokens", "output_tokens")
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

    @property
    def hours(self) -> int:
        return int(self.requests.shape[1])


def read_log(path: Path, workload: str | None) -> UsageLog:
    """Read a log; `workload` is whose it is where it has no column that says so."""
    table = usage_table(path)
    if "workload" not in table.columns:
        if workload is None:
            message = "has no column 'workload', and the plan has several"
            raise InputError([Complaint(str(path), None, None, "", message, "Add the column")])
        table = table.assign(workload=workload)
    nameless = np.flatnonzero(table["workload"].isna().to_numpy())
    if len(nameless):
        line = int(table.index[nameless[0]]) + 2
        raise InputError([Complaint(str(path), line, None, "", "names no workload", "Fill in the column 'workload'")])
    counts = tuple(name for name in COUNTS if name in table.columns)
    table = checked_rows(path, table, counts).assign(workload=table["workload"].astype(str))
    _within_reason(path, table)
    repeated = table.duplicated(["workload", "time"], keep="last")
    said_otherwise = repeated & ~table.duplicated(["workload", "time", *counts], keep="last")
    names = tuple(sorted(table["workload"].unique()))
    row_of = {name: k for k, name in enumerate(names)}
    per_workload = [
        tuple(np.bincount(table["workload"][rows].map(row_of).to_numpy(dtype=int), minlength=len(names)).tolist())
        for rows in (repeated, said_otherwise)
    ]
    table = table[~repeated]
    w = table["workload"].map(row_of).to_numpy(dtype=int)
    hour = table["time"].dt.floor("h").dt.tz_localize(None).to_numpy().astype("datetime64[h]")
    first = hour.min()
    h = ((hour - first) / HOUR).astype(int)
    shape = (len(names), int(h.max()) + 1)
    rows = np.zeros(shape)
    np.add.at(rows, (w, h), 1)
    usual = np.array([np.bincount(row[row > 0].astype(int)).argmax() for row in rows])
    whole = rows >= usual[:, None]
    sums = {}
    for name in counts:
        total = np.zeros(shape)
        np.add.at(total, (w, h), table[name].to_numpy(dtype=float))
        sums[name] = np.where(whole, total, np.nan)
    return UsageLog(
        first=first,
        workloads=names,
        requests=sums["requests"],
        input_tokens=sums.get("input_tokens"),
        output_tokens=sums.get("output_tokens"),
        repeated=per_workload[0],
        contradicting=per_workload[1],
        partial=tuple(((rows > 0) & ~whole).sum(axis=1).tolist()),
    )


def _within_reason(path: Path, table: object) -> None:
    import pandas as pd

    assert isinstance(table, pd.DataFrame)

    def refuse(message: str, remedy: str) -> InputError:
        return InputError([Complaint(str(path), None, None, "", message, remedy)])

    if table.empty:
        raise refuse("has no rows", f"Give at least {FEWEST_HOURS} hours")
    hours = (table["time"].max() - table["time"].min()).total_seconds() / 3600
    if hours < FEWEST_HOURS - 1:
        raise refuse(f"covers {hours + 1:.0f} hours", f"Give at least {FEWEST_HOURS}")
    if hours > MOST_HOURS:
        raise refuse(f"covers {hours / 8766:.0f} years", "Check the times, or leave out what is older than five years")
    if table["workload"].nunique() > MOST_WORKLOADS:
        raise refuse(f"has {table['workload'].nunique()} workloads", f"Keep to {MOST_WORKLOADS}")
    if not table["requests"].any():
        raise refuse("has no requests at all", "Give the log of a quarter in which something came")
