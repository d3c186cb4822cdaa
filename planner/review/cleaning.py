"""What is odd in a usage log: named, counted and left out, never taken for demand and never for none.

missing   rows without a time, or with a number that is blank, negative or infinite (said once for all of the log)
launch, ended, gap, outage, outlier, shift: by the rules of planner/logs/odd_hours.py
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.logs.odd_hours import KEPT, odd_hours, runs_of, usual_requests
from planner.review.records import Finding, Kind
from planner.review.usage_log import HOUR, UsageLog

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
    usual, far = usual_requests(log.requests)
    for k, name in enumerate(log.workloads):
        row = requests[k]
        findings += _rows(log, k)
        kinds = odd_hours(row, usual[k], far[k])
        findings += [_finding(log, name, kind, hours) for kind, hours in kinds.items() if hours.any()]
        if kinds["ended"].any():
            ended.append(name)
        for kind, hours in kinds.items():
            if kind not in KEPT:
                row[hours] = np.nan
    return Cleaned(log, requests, tuple(findings), tuple(ended))


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
