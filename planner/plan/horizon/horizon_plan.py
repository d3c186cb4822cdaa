"""A plan of several blocks: what to sign now and later, and a plan for each quarter and scenario. Versioned JSON.

The first quarter is one plan for all scenarios together: they share commitments, models, deployments and caching, and
its months are those of every scenario, weighted. Each later quarter has a plan of its own in each scenario. These are
plans as any other: commitments stand in them as held, so their costs are what is paid besides.

    cost of a scenario = plans of its quarters + commitments as far as they lie in the horizon + what was held before
"""

from __future__ import annotations

from datetime import date
from typing import Any

from pydantic import Field

from planner.case.case import AllowanceTerm, Case, RiskMeasure
from planner.io.formatting import json_text
from planner.io.result import Result
from planner.io.validation import Strict
from planner.plan.plan import PLAN_FORMAT, Plan, Status
from planner.plan.study_records import Why

MONTHS_OF_A_QUARTER = 3


class SignedCommitment(Strict):
    """Commitments to one offer that begin together."""

    offer: str
    term: str
    instances: int = Field(gt=0)
    quarter: int = Field(ge=0)
    """that it begins with, from 0"""
    scenario: str | None
    """in which it is signed; None: it is signed now, whatever happens"""
    first_day: date
    last_day: date
    usd_per_h: float
    """for one instance; what is paid up front is spread over the term"""
    upfront_usd: float
    """cash at signing, for all instances"""
    inside_usd: float
    """as far as the term lies in the horizon, for all instances"""
    beyond_usd: float
    """the rest of the term, for all instances"""
    counted_usd: float
    """what the choice was made by: what lies inside, and of a term of more than a year what the rest is not worth"""


class SignedAllowance(Strict):
    """A savings plan, or provisioned units with a term, that is signed for several quarters."""

    name: str
    term: AllowanceTerm
    units: float = Field(gt=0)
    """dollars an hour of a savings plan"""
    quarter: int = Field(ge=0)
    """that it begins with, from 0"""
    scenario: str | None
    """in which it is signed; None: it is signed now, whatever happens"""
    first_day: date
    last_day: date
    usd_per_month: float
    """for all units, used or not"""
    inside_usd: float
    """as far as the term lies in the horizon"""
    beyond_usd: float
    """the rest of the term, all of it owed"""
    counted_usd: float
    """what the choice was made by: what lies inside, and of a term of more than a year what the rest is not worth"""


class QuarterPlan(Strict):
    quarter: int = Field(ge=0)
    scenario: str | None
    """None: the first quarter, all scenarios together"""
    plan: Plan


class ScenarioResult(Strict):
    """What a scenario costs, over the whole horizon."""

    name: str
    probability_frac: float
    by_quarter_usd: tuple[float, ...]
    """plans and commitments of each quarter; what was held before is not in it"""
    cost_usd: float
    """of these quarters, and of what was held before"""
    penalty_usd: float
    """of shed requests; not part of the cost"""
    counted_usd: float
    """what it comes to: cost and penalty, and what commitments are not worth after the horizon, without what was held
    before"""
    if_known_usd: float | None
    """the same of the plan that had known that this scenario comes; None: not worked out"""
    if_known_bound_usd: float | None
    """no plan that had known comes to less"""
    regret_usd: float | None
    """how much more this plan comes to"""
    baseline_by_quarter_usd: tuple[float, ...] | None = None
    """what the same requests would cost at their API baselines; None: of a plan that was made before this was known"""

    @property
    def baseline_usd(self) -> float | None:
        """Over the horizon."""
        return None if self.baseline_by_quarter_usd is None else sum(self.baseline_by_quarter_usd)

    @property
    def saves_usd(self) -> float | None:
        """By the whole cost, what was held before included: it is paid in any case."""
        return None if self.baseline_usd is None else self.baseline_usd - self.cost_usd


class MiddlePlan(Strict):
    """What signing for the middle scenario alone would lead to."""

    scenario: str
    counted_usd: float | None
    """what it comes to, as `counted_usd` of the plan is counted; None: not possible in some scenario"""
    bound_usd: float | None = None
    """what it is proved to come to at least; None: nothing is proved of it"""


class CurvePoint(Strict):
    instances: int
    expected_usd: float | None
    """None: no plan"""
    p90_usd: float | None
    worst_usd: float | None
    gap_frac: float | None


class CommitmentCurve(Strict):
    """Other numbers of the largest commitment that is signed now, everything else adapted."""

    offer: str
    term: str
    points: tuple[CurvePoint, ...]


class HorizonPlan(Result, Strict):
    format: str = PLAN_FORMAT
    name: str
    status: Status
    risk: RiskMeasure
    """what was minimized over the scenarios: the mean of what they come to, or the most that one of them comes to"""
    counted_usd: float
    """what was minimized, over the horizon: cost and penalties of the quarters, and commitments as counted, expected or
    in the worst case"""
    bound_usd: float
    """no plan has less of that"""
    gap_frac: float = Field(ge=0)
    expected_cost_usd: float
    """over the horizon: mean of the scenarios' costs"""
    worst_scenario: str
    """the one that comes to most"""
    held_usd: float
    """of which what was held before, and is paid in any case"""
    commitments: tuple[SignedCommitment, ...]
    allowances: tuple[SignedAllowance, ...] | None = None
    """absent where none is signed for several quarters"""
    quarters: tuple[QuarterPlan, ...]
    """the first quarter, then each scenario's later ones"""
    scenarios: tuple[ScenarioResult, ...]
    middle: MiddlePlan | None
    """None where there is one scenario, or it was not worked out"""
    curve: CommitmentCurve | None
    long_terms_would_save_usd: float | None
    """with the same deployments, if terms of more than a year could be bought that outlast the horizon; None: the menu
    has none, or they could be bought"""
    stopped: Why | None = None
    """what ended the comparisons with other plans early"""
    notes: tuple[str, ...]
    case_hash: str
    case: Case
    fleetplan_version: str

    @property
    def interrupted(self) -> bool:
        """Whether somebody stopped the work on it, early or late."""
        return self.status == "interrupted" or self.stopped == "interrupted"

    @property
    def signed_now(self) -> tuple[SignedCommitment, ...]:
        return tuple(c for c in self.commitments if c.scenario is None)

    @property
    def allowances_now(self) -> tuple[SignedAllowance, ...]:
        return tuple(a for a in self.allowances or () if a.scenario is None)

    @property
    def worst(self) -> ScenarioResult:
        return next(s for s in self.scenarios if s.name == self.worst_scenario)

    def plan_of(self, quarter: int, scenario: str) -> Plan:
        return next(q.plan for q in self.quarters if q.quarter == quarter and q.scenario in (None, scenario))

    def as_json(self) -> dict[str, Any]:
        """Every key is always there; what does not apply is null."""
        quarters = [{"quarter": q.quarter, "scenario": q.scenario, "plan": q.plan.as_json()} for q in self.quarters]
        rest = self.model_dump(mode="json", exclude={"case", "quarters"})
        if rest["allowances"] is None:
            del rest["allowances"]
        return rest | {"quarters": quarters, "case": self.case.as_json()}

    def to_json(self) -> str:
        return json_text(self.as_json())


def cost_as_minimized(horizon: HorizonPlan, risk: RiskMeasure) -> float:
    """Cost in the worst case or expected, with what was held before, without penalties."""
    return horizon.worst.cost_usd if risk == "worst-case" else horizon.expected_cost_usd
