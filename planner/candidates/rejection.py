"""What was considered and cannot be used."""

from __future__ import annotations

from dataclasses import dataclass

DOMINATED = "beaten"
"""the value of a candidate that another one dominates; that one is its limit"""


@dataclass(frozen=True)
class Rejection:
    """Why something on the menu cannot serve a workload."""

    workload: str
    candidate: str
    reason: str
    limit: str
    value: str

    def __str__(self) -> str:
        return f"{self.candidate}: {self.reason} ({self.value} against {self.limit})"
