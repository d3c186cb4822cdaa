"""Controllers of replicas as data: which law reads which signal how often, within which windows, steps and bounds."""

from __future__ import annotations

from functools import cache
from typing import Literal, get_args

from pydantic import Field

from planner.catalog.entries import Sourced, shipped_entries
from planner.io.validation import Strict

Law = Literal["none", "proportional", "slo", "panic"]
Signal = Literal["in-flight", "running", "waiting", "kv", "tokens", "slo", "rate"]
LAWS: tuple[Law, ...] = get_args(Law)
SIGNALS: tuple[Signal, ...] = get_args(Signal)
DEFAULT = "keda"


class Controller(Strict):
    """What scales the replicas of a deployment; times in seconds."""

    name: str
    law: Law
    signal: Signal = "in-flight"
    target: float = Field(default=1.0, gt=0)
    """of a replica"""
    of_plan: bool = False
    """whether the target is a share of what a replica of the plan has in its busiest hour"""
    up_at: float = Field(default=0.55, gt=0)
    down_at: float = Field(default=0.40, gt=0)
    """of the SLO ratio: above and below which it changes the count"""
    ttft_buckets_s: tuple[float, ...] = Field(default=(), strict=False)
    tpot_buckets_s: tuple[float, ...] = Field(default=(), strict=False)
    """upper bounds of the histograms that latencies are read from, as Prometheus does; none: as they are"""
    latencies_at_end: bool = False
    """whether a TTFT is known when the answer ends, not at its first token"""
    period_s: float = Field(default=15.0, ge=1)
    window_s: float = Field(default=0.0, ge=0)
    """over which the signal is averaged; 0: as it is"""
    tolerance_frac: float = Field(default=0.1, ge=0, lt=1)
    up_window_s: float = Field(default=0.0, ge=0)
    down_window_s: float = Field(default=300.0, ge=0)
    """stabilization: the lowest, and the highest, count that was asked for in so long"""
    up_pods: int | None = Field(default=None, ge=0)
    up_frac: float | None = Field(default=None, ge=0)
    up_period_s: float = Field(default=15.0, ge=0)
    """most replicas that are added in a period: the larger of the two; None of both: any"""
    down_pods: int | None = Field(default=None, ge=0)
    down_frac: float | None = Field(default=None, ge=0, le=1)
    down_period_s: float = Field(default=60.0, ge=0)
    cooldown_s: float = Field(default=0.0, ge=0)
    """after replicas were taken away, before more are"""
    panic_window_s: float = Field(default=0.0, ge=0)
    panic_threshold: float = Field(default=2.0, gt=0)
    up_rate: float | None = Field(default=None, ge=1)
    down_rate: float | None = Field(default=None, ge=1)
    """most and fewest replicas asked for at a time, over and under those that are ready"""
    schedule: bool = False
    """whether the plan's hours are a floor"""
    lead_s: float | None = Field(default=None, ge=0)
    """by which that floor rises early; None: by the start-up time"""
    more_lead_s: float = Field(default=0.0, ge=0)
    """by which it rises earlier still"""
    floor_share: float = Field(default=1.0, ge=0, le=1)
    """of the planned replicas that are kept in that floor, in whole ones"""
    buffer: int = Field(default=0, ge=0)
    """replicas more than planned in every hour of that floor"""
    fewest: int | None = Field(default=None, ge=0)
    """floor without a schedule; None: the fewest of the plan"""
    most_ratio: float = Field(default=1.0, ge=1)
    """ceiling, over the replicas of the plan's busiest hour"""

    @property
    def can_be_tuned(self) -> bool:
        """Whether its target is in proportion to the plan, so that another share of it may be tried."""
        return self.law == "proportional" and self.of_plan

    @property
    def has_floor(self) -> bool:
        return self.schedule or self.law == "none"


class _Shipped(Controller, Sourced):
    name: str = ""


@cache
def controllers() -> dict[str, Controller]:
    """Those of planner/data/controllers.yaml, by name."""
    shipped = {name: _Shipped(name=name, **entry) for name, entry in shipped_entries("controllers").items()}
    own = Controller.model_fields
    return {name: Controller(**{k: v for k, v in dict(c).items() if k in own}) for name, c in shipped.items()}


def sources() -> dict[str, str]:
    return {name: entry["source"] for name, entry in shipped_entries("controllers").items()}
