"""Kinds of traffic: what is known of workloads that are alike, for what a demand file does not say."""

from __future__ import annotations

from functools import cache

from pydantic import Field

from planner.catalog.entries import Sourced, shipped_entries

CHAT = "chat"
"""the kind of workloads that name none"""


class TrafficKind(Sourced):
    burstiness: float = Field(gt=0)
    """squared CV of the gaps between requests, each over the mean gap of its minute"""


@cache
def traffic_kinds() -> dict[str, TrafficKind]:
    entries = shipped_entries("traffic_kinds")
    return {name: TrafficKind.model_validate(entry, strict=False) for name, entry in entries.items()}
