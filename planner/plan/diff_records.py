"""What changed from one plan to another, as data. Versioned JSON: keys are added, never changed."""

from __future__ import annotations

from typing import Any, Literal

from planner.io.result import Result
from planner.io.validation import Strict

DIFF_FORMAT = "fleetplan-diff/1"
What = Literal["added", "removed", "changed"]


class Side(Strict):
    """One of the two plans."""

    name: str
    status: str
    cost_usd_per_month: float
    penalty_usd_per_month: float
    bound_usd_per_month: float
    gap_frac: float
    tokens_per_month: float
    usd_per_1m_tokens: float
    baseline: str
    baseline_usd_per_month: float
    case_hash: str
    fleetplan_version: str


class CostChange(Strict):
    """A part of the cost; all of them, equal ones too, so that they add up."""

    part: str
    before_usd_per_month: float
    after_usd_per_month: float
    change_usd_per_month: float


class Attribution(Strict):
    """The change of the cost in three parts, in whole cents, which add up to it.

    demand: more or fewer tokens, at the earlier cost of a token.
    prices: what was bought before, at the later prices; nothing is planned anew for it.
    choices: what is left: another fleet, other choices and other inputs, and where they meet.
    """

    demand_usd_per_month: float
    prices_usd_per_month: float
    choices_usd_per_month: float
    total_usd_per_month: float
    notes: tuple[str, ...]
    """what has no price any more, and so counts as unchanged in price"""


class FleetChange(Strict):
    what: What
    offer: str
    purchase: str
    gpu: str
    peak_before: int
    peak_after: int
    instance_hours_before: float
    instance_hours_after: float
    usd_before: float
    usd_after: float
    """a month"""


class ValueChange(Strict):
    """Something that was one thing and is another; None: it was not, or is not, there."""

    of: str
    """the workload, the limit, the offer or the part of the inputs"""
    key: str
    before: str | float | None
    after: str | float | None


class PriceChange(Strict):
    of: str
    key: str
    """a way to buy, or what of an API, with its unit"""
    before: float | None
    after: float | None
    date_before: str | None
    date_after: str | None
    used: bool
    """by either plan"""


class PlanDiff(Result, Strict):
    format: str = DIFF_FORMAT
    same: bool
    """nothing that is compared differs"""
    before: Side
    after: Side
    attribution: Attribution
    costs: tuple[CostChange, ...]
    fleet: tuple[FleetChange, ...]
    workloads: tuple[ValueChange, ...]
    prices: tuple[PriceChange, ...]
    limits: tuple[ValueChange, ...]
    inputs: tuple[ValueChange, ...]
    """the menu, the catalog's entries and the version"""

    def as_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")
