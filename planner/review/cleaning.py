"""What is odd in a usage log: named, counted and left out, never taken for demand and never for none.

Hours and rows are odd by the rules of planner/logs/hours.py; rows that cannot be read are missing. Rows are counted
for all of the log, hours for each workload.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.logs.hours import CONFLICTING, DUPLICATE, KEPT, odd_hours, runs_of, usual_requests
from planner.logs.reading.ledger import DUPLICATE_IDS
from planner.review.records import Finding, Kind
from planner.review.usage_log import HOUR, UsageLog

RUNS_NAMED = 3
ALL = "(all)"
"""stands for the workload where something is said of the whole log"""
ROW_KINDS: dict[str, Kind] = {DUPLICATE: "repeated", DUPLICATE_IDS: "repeated", CONFLICTING: "contradicting"}
WHAT: dict[Kind, str] = {
    "missing": "rows that cannot be used: their hours are left out",
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
    findings = _rows(log)
    ended = []
    usual, far = usual_requests(log.requests)
    for k, name in enumerate(log.workloads):
        row = requests[k]
        kinds = odd_hours(row, usual[k], far[k])
        findings += [_finding(log, name, kind, hours) for kind, hours in kinds.items() if hours.any()]
        if kinds["ended"].any():
            ended.append(name)
        for kind, hours in kinds.items():
            if kind not in KEPT:
                row[hours] = np.nan
    return Cleaned(log, requests, tuple(findings), tuple(ended))


def _rows(log: UsageLog) -> list[Finding]:
    found = []
    for reason, count in log.ledger.left_out.most_common():
        kind = ROW_KINDS.get(reason, "missing")
        said = WHAT[kind] if reason in ROW_KINDS else f"{reason}: {WHAT[kind]}"
        rows = log.ledger.which(reason)
        found.append(Finding(workload=ALL, kind=kind, count=count, unit="rows", said=said, when=rows))
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
