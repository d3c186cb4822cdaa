"""A usage log as hours: one row per workload, one column per hour, nothing where nothing was written down."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planner.case.demand.usage import FEWEST_HOURS, check_busiest
from planner.io.errors import input_error
from planner.io.formatting import counted
from planner.io.units import UTC
from planner.logs.hours import Clock
from planner.logs.reading.ledger import Ledger
from planner.logs.usage import read_usage_file

MOST_WORKLOADS, MOST_HOURS = 500, 5 * 8784
HOUR = np.timedelta64(1, "h")


@dataclass(frozen=True, eq=False)
class UsageLog:
    """Sums by hour [workload, hour]; NaN: nothing was written down for it, or not all of it."""

    first: np.datetime64
    """the hour, by the clock of the plan's time zone, of the first column"""
    workloads: tuple[str, ...]
    requests: np.ndarray
    input_tokens: np.ndarray | None
    """of all requests of the hour; None where the log does not say"""
    output_tokens: np.ndarray | None
    ledger: Ledger
    """rows that were left out, and remarks"""

    @property
    def hours(self) -> int:
        return int(self.requests.shape[1])


def read_log(
    path: Path, workload: str | None, zone: str | None = None, columns: dict[str, str] | None = None
) -> UsageLog:
    """Read a log; `workload` is whose it is where it has no column that says so."""
    usage = read_usage_file(path, columns=columns)
    names = list(usage.traffic)
    if names == [""]:
        if workload is None:
            message = "has no column 'workload', but the plan has several workloads"
            raise input_error(path, message, "Add the column")
        names = [workload]
    if len(names) > MOST_WORKLOADS:
        raise input_error(path, f"has {len(names)} workloads", f"Keep to {MOST_WORKLOADS}")
    if not all(traffic.dated for traffic in usage.traffic.values()):
        raise input_error(path, "has times without dates", "Write 2026-09-07T12:00:00Z, or seconds since 1970")
    clocks = [Clock(traffic, zone or UTC) for traffic in usage.traffic.values()]
    first = min(clock.first for clock in clocks)
    hours = max(clock.first + clock.size for clock in clocks) - first
    _within_reason(path, hours)
    sums: dict[str, np.ndarray | None] = {}
    for name in ("requests", "prompt_by_step", "output_by_step"):
        table = np.full((len(names), hours), np.nan)
        for row, clock, traffic in zip(table, clocks, usage.traffic.values(), strict=True):
            if (steps := getattr(traffic, name)) is not None:
                row[clock.first - first : clock.first - first + clock.size] = clock.by_hour(steps)
        sums[name] = table if np.isfinite(table).any() else None
    requests = sums["requests"]
    if requests is None or not np.nansum(requests):
        raise input_error(path, "has no requests at all", "Give the log of a quarter that has requests")
    check_busiest(path, requests)
    begins = np.datetime64(first, "h")
    return UsageLog(begins, tuple(names), requests, sums["prompt_by_step"], sums["output_by_step"], usage.ledger)


def _within_reason(path: Path, hours: int) -> None:
    if hours < FEWEST_HOURS:
        raise input_error(path, f"covers {counted(hours, 'hour')}", f"Give at least {FEWEST_HOURS}")
    if hours > MOST_HOURS:
        remedy = "Check the times, or leave out what is older than five years"
        raise input_error(path, f"covers {hours / 8766:.0f} years", remedy)
