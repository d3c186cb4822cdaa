"""What was considered and cannot be used."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from planner.catalog.variant import Variant


class RejectionKind(StrEnum):
    UNABLE = "unable"
    """it breaks a limit"""
    TOO_MUCH_OF_A_POOL = "too much of a pool"
    """one of the workloads that share it would be too much of its load"""
    DOMINATED = "dominated"
    """it could serve, but another candidate, its limit, never does worse"""


@dataclass(frozen=True)
class Rejection:
    """Why something on the menu cannot serve a workload."""

    workload: str
    candidate: str
    reason: str
    limit: str
    value: str
    kind: RejectionKind = RejectionKind.UNABLE
    variant: Variant | None = None
    """None where the reason is against something else, such as a choice of caching"""

    def __str__(self) -> str:
        return f"{self.candidate}: {self.reason} ({self.value} against {self.limit})"
