"""Logs as forecasts: any log that `fleetplan demand` reads, to the hours of a weekday and a weekend day."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from planner.case.demand.spread_schema import MOST_TAIL
from planner.case.demand.workload_schema import MOST_REQUESTS_PER_DAY
from planner.io.errors import input_error, listed, shown
from planner.io.formatting import counted
from planner.io.units import UTC
from planner.logs.lengths import Marginals, Side
from planner.logs.measure import Workload, hour_notes, measured_workload, split_note
from planner.logs.statistics import FEWEST_DAYS, WITHIN_HOUR_VARIATION, means_by_hour
from planner.logs.usage import Usage
from planner.performance.length_spread import LengthSpread, least_mean

TYPICAL = {"prompt": (0.883, 3.536), "output": (0.611, 2.136)}
"""p50 and p95 over the mean in Azure's conversation trace of 2023, where a log has means only"""
FEWEST_HOURS = 24
NAMES_SHOWN = 5


def side_text(side: Side) -> str:
    parts = [f"mean {side.mean:,.1f}"]
    parts += [f"p{100 * q:g} {tokens:,.0f}" for q, tokens in side.percentiles.items() if q in (0.5, 0.95, 0.999)]
    return ", ".join(parts)


def spread_of(side: Side, name: str) -> tuple[LengthSpread, str]:
    """Lengths as they are written, and on what they rest."""
    if not side.percentiles:
        p50, p95 = (max(1.0, side.mean * ratio) for ratio in TYPICAL[name])
        basis = "only the mean is known; spread as in Azure's conversation trace of 2023"
    else:
        p50 = max(1.0, side.percentiles[0.5])
        p95 = min(max(p50, side.percentiles[0.95]), 200 * p50)
        basis = f"{side_text(side)}, from histograms (between their bounds on a logarithmic scale)"
    p50, p95, mean = round(p50, 1), round(p95, 1), round(side.mean, 1)
    if p95 == p50:
        return LengthSpread(p50=p50, p95=p95), basis
    if not least_mean(LengthSpread(p50=p50, p95=p95)) <= mean <= MOST_TAIL * p95:
        return LengthSpread(p50=p50, p95=p95), f"{basis}; no spread through both has the mean {side.mean:,.1f}"
    return LengthSpread(p50=p50, p95=p95, mean=mean), basis


@dataclass(frozen=True, eq=False)
class LoggedHours:
    """What a log has of a workload, hour by hour."""

    requests: np.ndarray
    """NaN where nothing is known, or is to be trusted"""
    first_hour: int | None
    """number of the first hour since 1970, by the local clock; None where the log has no dates"""
    mean_per_hour: float
    """of the rates at its end, which workloads are planned with"""


@dataclass(frozen=True)
class Hours:
    """Mean requests/s by hour, and how far single days differ from that."""

    weekday_rps: tuple[float, ...]
    weekend_rps: tuple[float, ...]
    variation: float | None = None
    """None where there are too few days to tell"""
    notes: tuple[str, ...] = ()
    lengths: Marginals | None = None
    """what a log tells of prompts and answers"""
    logged: LoggedHours | None = field(default=None, compare=False)
    log_days: float | None = None
    """None where the hours are from no log"""


def usage_hours(usage: Usage, path: Path, workload: str, zone: str | None = None) -> Hours:
    """Rates of a workload at the end of its log, by the clock of a time zone: those that `fleetplan demand` writes.

    A log that names no workloads is all of this one.
    """
    traffic = usage.traffic.get(workload) or usage.traffic.get("")
    if traffic is None:
        names = [shown(name) for name in usage.names[:NAMES_SHOWN]]
        more = [f"{len(usage.names) - NAMES_SHOWN} more"] if len(usage.names) > NAMES_SHOWN else []
        message = f"has no rows for the workload {shown(workload)}, only for {listed([*names, *more], 'and')}"
        raise input_error(path, message, "Check the column 'workload'")
    if not traffic.total:
        raise input_error(path, "has no requests at all", "Remove the workload, or give its requests")
    w = measured_workload(traffic, zone or UTC)
    known = int(np.isfinite(w.hours.rate).sum())
    if w.rates.flat:
        why = "".join(f"; {remark}" for remark in [*usage.ledger.left_out_lines(), *hour_notes(w)][:1])
        remedy = f"Give at least {FEWEST_HOURS}; `fleetplan demand` takes shorter logs"
        raise input_error(path, f"covers {counted(known, 'whole hour')}{why}", remedy)
    check_busiest(path, w.hours.rate)
    weekday, weekend = (tuple(x / 3600 for x in rates) for rates in (w.rates.weekday, w.rates.weekend))
    lengths = traffic.lengths if isinstance(traffic.lengths, Marginals) else None
    mean = (5 * sum(w.rates.weekday) + 2 * sum(w.rates.weekend)) / 168
    logged = LoggedHours(w.hours.rate, w.hours.first if traffic.dated else None, mean)
    return Hours(
        weekday, weekend, w.swings.variation, tuple(_notes(usage, w, zone or UTC)), lengths, logged, w.rates.days
    )


def _notes(usage: Usage, w: Workload, zone: str) -> list[str]:
    notes = [*usage.remarks, *hour_notes(w)]
    if not w.traffic.dated:
        notes.append("the log has no dates: it is taken to begin on a Monday at 0h")
    if w.hours.split:
        notes.append(split_note(zone))
    if w.growth.per_month:
        notes.append(f"the log grew by {w.growth.per_month:+.1%} a month: rates are those of its end; growth_per_month "
                     "or scenarios from the forecast carry it on")  # fmt: skip
    elif w.growth.since:
        notes.append(f"growth of the log: {w.growth.basis}")
    return notes


def check_busiest(path: Path, requests: np.ndarray) -> None:
    """Refuse what is a slip of the pen, by hour, as demand files do."""
    if 24 * np.nanmax(requests) > MOST_REQUESTS_PER_DAY:
        message = "has an hour at a rate of more than 10 billion requests a day"
        raise input_error(path, message, "Check the column 'requests'")


def by_hour(weekend: np.ndarray, hour: np.ndarray, rps: np.ndarray) -> Hours:
    """Means over the hours that are there; a kind of day or an hour that is missing is taken from what there is."""
    means, missing = means_by_hour(weekend, hour, rps)
    notes = [
        f"{counted(count, f'{name} hour')} {'is' if count == 1 else 'are'} missing and taken from {other} days"
        for count, name, other in zip(missing, ("weekday", "weekend"), ("weekend", "weekday"), strict=True)
        if count
    ]
    return Hours(
        tuple(means[0].tolist()), tuple(means[1].tolist()), _variation(weekend, hour, rps, means), tuple(notes)
    )


def _variation(weekend: np.ndarray, hour: np.ndarray, rps: np.ndarray, means: np.ndarray) -> float | None:
    """Coefficient of variation around the mean of its own hour, weighted by load; None where days are too few."""
    squares, weights = 0.0, 0.0
    for kind in (0, 1):
        for h in range(24):
            of_hour = rps[(weekend == bool(kind)) & (hour == h)]
            mean = means[kind, h]
            if len(of_hour) >= 2 and mean > 0:
                squares += mean * float(((of_hour - mean) ** 2).sum()) / (len(of_hour) - 1) / mean**2
                weights += mean
    days = len(np.unique(np.cumsum(np.r_[0, np.diff(hour) < 0])))
    if days < FEWEST_DAYS or not weights:
        return None
    return float(np.hypot(np.sqrt(squares / weights), WITHIN_HOUR_VARIATION))
