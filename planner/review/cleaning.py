"""What is odd in a usage log: named, counted and left out, never taken for demand and never for none.

The rules, in this order, for each workload:

missing   rows without a time, or with a number that is blank, negative or infinite (said once for all of the log)
launch    no rows or zeros from the start of the log on, for a day or longer: it begins where requests begin
ended     the same at the end, for a week or longer: said, and planned as it was before
gap       hours without a row, or with some of their rows missing
outage    less than 5% of what is usual for that hour of the week, where at least 20 requests should have come
outlier   more than six robust deviations and more than twice off what is usual (and off what
          chance does to small counts), for less than a day
shift     the same for a day or longer: said, and kept, for it may last

Usual is the median of that hour of the week, times the running median (a week wide) of how busy the time is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.review.records import Finding, Kind
from planner.review.usage_log import HOUR, UsageLog

WEEK = 168
LAUNCH_H, ENDED_H, SHIFT_H = 24, WEEK, 24
OUTAGE_FRAC, FEWEST_REQUESTS = 0.05, 20.0
ROBUST_Z, LEAST_FACTOR, LEAST_SPREAD = 6.0, 2.0, 0.05
RUNS_NAMED = 3
WHAT: dict[Kind, str] = {
    "missing": "rows with a blank or negative cell: their hours are left out (only for lengths, if tokens are missing)",
    "repeated": "duplicate rows count once",
    "contradicting": "conflicting rows for one time: the last one counts",
    "launch": "it starts in the middle of the log; the hours before are neither demand nor gaps",
    "ended": "no requests at the end of the log: retired, or the log is incomplete; planned as before",
    "gap": "hours with missing or partial records: left out",
    "outage": "hours almost without requests that usually have demand: left out",
    "outlier": "hours far from the usual level: left out",
    "shift": "hours far from the usual level for a day or longer: kept",
}


@dataclass(frozen=True, eq=False)
class Cleaned:
    """A log in which every hour that is there is to be trusted."""

    log: UsageLog
    requests: np.ndarray
    """[workload, hour]; NaN where nothing is known"""
    findings: tuple[Finding, ...]
    ended: tuple[str, ...]
    """workloads without requests at the end of the log"""

    def of(self, workload: str) -> np.ndarray:
        return self.requests[self.log.workloads.index(workload)]


def cleaned(log: UsageLog) -> Cleaned:
    requests = log.requests.copy()
    findings = [
        Finding(workload=name, kind="missing", count=count, unit="rows", said=WHAT["missing"], when=cells)
        for name, count, cells in log.missing
    ]
    ended = []
    usual, odd = usual_requests(log)
    for k, name in enumerate(log.workloads):
        row = requests[k]
        findings += _rows(log, k)
        alive = np.flatnonzero(row > 0)
        if not len(alive):
            findings.append(_finding(log, name, "ended", np.ones(len(row), dtype=bool)))
            ended.append(name)
            row[:] = np.nan
            continue
        begins, stops = int(alive[0]), int(alive[-1]) + 1
        before, after = np.zeros(len(row), dtype=bool), np.zeros(len(row), dtype=bool)
        before[:begins], after[stops:] = begins >= LAUNCH_H, len(row) - stops >= ENDED_H
        within = ~(before | after)
        gap = np.isnan(row) & within
        outage = _worth(~gap & within & (row <= OUTAGE_FRAC * usual[k]) & (usual[k] > 0), usual[k])
        far = odd[k] & within & ~gap & ~outage
        shift = far & _in_long_runs(far, SHIFT_H)
        outlier = far & ~shift
        kinds: tuple[tuple[Kind, np.ndarray], ...] = (
            ("launch", before),
            ("ended", after),
            ("gap", gap),
            ("outage", outage),
            ("outlier", outlier),
            ("shift", shift),
        )
        findings += [_finding(log, name, kind, hours) for kind, hours in kinds if hours.any()]
        if after.any():
            ended.append(name)
        row[before | after | gap | outage | outlier] = np.nan
    return Cleaned(log, requests, tuple(findings), tuple(ended))


def usual_requests(log: UsageLog) -> tuple[np.ndarray, np.ndarray]:
    """What is usual for each hour, and whether it is far off that [workload, hour]."""
    import pandas as pd

    seen = np.where(log.requests > 0, log.requests, np.nan)
    profile = _by_hour_of_week(seen, log.first)
    with np.errstate(divide="ignore", invalid="ignore"):
        busy = seen / profile
        level = pd.DataFrame(busy.T).rolling(WEEK, center=True, min_periods=LAUNCH_H).median()
        usual = profile * level.ffill().bfill().to_numpy().T
        off = np.log(log.requests / usual)
    spread = np.maximum(LEAST_SPREAD, 1.4826 * _median(np.abs(np.where(np.isfinite(off), off, np.nan))))
    far = np.isfinite(off) & (np.abs(off) > ROBUST_Z * spread[:, None]) & (np.abs(off) > np.log(LEAST_FACTOR))
    with np.errstate(invalid="ignore"):
        far &= np.abs(log.requests - usual) > ROBUST_Z * np.sqrt(usual)
    return np.nan_to_num(usual), far


def _by_hour_of_week(seen: np.ndarray, first: np.datetime64) -> np.ndarray:
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
    found = np.zeros(len(outage), dtype=bool)
    for start, stop in runs_of(outage):
        found[start:stop] = usual[start:stop].sum() >= FEWEST_REQUESTS
    return found


def _in_long_runs(flags: np.ndarray, least: int) -> np.ndarray:
    found = np.zeros(len(flags), dtype=bool)
    for start, stop in runs_of(flags):
        found[start:stop] = stop - start >= least
    return found


def runs_of(flags: np.ndarray) -> list[tuple[int, int]]:
    """(first, one after the last) of each stretch that is flagged."""
    edges = np.flatnonzero(np.diff(np.r_[0, flags.astype(int), 0]))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _rows(log: UsageLog, k: int) -> list[Finding]:
    found = []
    counts: tuple[tuple[Kind, int], ...] = (
        ("repeated", log.repeated[k] - log.contradicting[k]),
        ("contradicting", log.contradicting[k]),
    )
    for kind, count in counts:
        if count:
            found.append(Finding(workload=log.workloads[k], kind=kind, count=count, unit="rows", said=WHAT[kind]))
    return found


def _finding(log: UsageLog, name: str, kind: Kind, hours: np.ndarray) -> Finding:
    found = runs_of(hours)
    longest = sorted(sorted(found, key=lambda r: (r[0] - r[1], r[0]))[:RUNS_NAMED])
    spans = [f"{_when(log, a)} for {b - a} h" for a, b in longest]
    more = f", and {len(found) - len(longest)} more" if len(found) > len(longest) else ""
    if kind == "launch":
        spans, more = [f"from {_when(log, found[0][1])} on"], ""
    return Finding(
        workload=name, kind=kind, count=int(hours.sum()), unit="hours", said=WHAT[kind], when=", ".join(spans) + more
    )


def _when(log: UsageLog, hour: int) -> str:
    return str(log.first + hour * HOUR).replace("T", " ") + ":00"
