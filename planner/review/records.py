"""A review as data. Versioned JSON: keys are added, never changed; the same inputs give the same bytes."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any, Literal

from planner.io.formatting import json_text
from planner.io.input_files import read_json_text
from planner.io.result import Result
from planner.io.validation import Strict, saved
from planner.review.bills.records import BillReview

REVIEW_FORMAT = "fleetplan-review/1"
Kind = Literal["missing", "repeated", "contradicting", "launch", "ended", "gap", "outage", "outlier", "shift"]
Act = Literal["buy", "renew", "let lapse", "keep", "more than needed"]


class Period(Strict):
    """The hours under review, in UTC."""

    first_hour: str
    last_hour: str
    hours: int
    log_first_hour: str
    """of the whole log, which may begin earlier"""
    log_hours: int
    time_zone: str = "UTC"
    """whose hours these are"""


class Finding(Strict):
    """An anomaly in the log, and what was done about it."""

    workload: str
    kind: Kind
    count: int
    unit: Literal["hours", "rows"]
    said: str
    when: str = ""


class Figures(Strict):
    """What a plan, or a quarter, costs, with what is held."""

    cost_usd_per_month: float
    tokens_per_month: float
    usd_per_1m_tokens: float
    gap_frac: float | None = None
    """proved, for plans"""
    case_hash: str | None = None


class WorkloadReview(Strict):
    """A workload's forecast against its actual demand, on the hours of a weekday and a weekend day."""

    name: str
    planned_requests_per_month: float | None
    """None where the last plan did not have it"""
    actual_requests_per_month: float | None
    """None where the log has no hour of it that counts"""
    off_frac: float | None
    """actual / planned - 1"""
    hourly_error_frac: float | None
    """mean absolute difference of the hours, as a share of the planned mean"""
    planned_tokens_per_request: float | None
    actual_tokens_per_request: float | None
    """None where the log does not say"""
    planned_variation: float | None
    actual_variation: float | None
    """of the rate around its hourly mean; None where there are too few days"""
    planned_by_hour_rps: tuple[float, ...]
    """24 hours of a weekday, then of a weekend day, the mean over the months"""
    actual_by_hour_rps: tuple[float, ...]
    hours_left_out: int


class CapacityUse(Strict):
    """A pool of replicas as planned and as used. Load is taken to follow tokens."""

    workloads: tuple[str, ...]
    gpu: str
    deployment: str
    peak_gpus: int
    planned_frac: float
    """load of the replicas that run, mean over the hours"""
    used_frac: float
    hours_over_per_month: float
    """in which the mean load was above what the staffing rule allows on the planned replicas"""
    worst_hour_frac: float
    """the most load that one hour had, of what keeps the SLOs"""


class Hindsight(Strict):
    """Best fleet for the actual demand, at the prices of the last plan."""

    cost_usd_per_month: float
    usd_per_1m_tokens: float
    bound_usd_per_month: float
    gap_frac: float
    fleet: tuple[str, ...]
    saves_usd_per_month: float
    """against what the quarter cost; below zero where the quarter was cheaper, since it served less well"""
    told_apart: bool
    """whether that is more than the proof gap"""


class WorkloadForecast(Strict):
    """What is planned for next."""

    name: str
    source: str
    """the method, or that the demand file gives it"""
    error_frac: float | None
    other_error_frac: float | None
    bias_frac: float = 0.0
    """by which the forecast was raised, since it was too low when tried (or lowered)"""
    tried_weeks: int
    p10_requests_per_month: float | None
    p50_requests_per_month: float
    p90_requests_per_month: float | None
    growth_per_month_frac: float


class NextPlan(Strict):
    figures: Figures
    status: str
    fleet: tuple[str, ...]
    p90_cost_usd_per_month: float | None
    """of the best fleet for the P90 of every workload at once"""
    p90_note: str
    spot_at_p95_usd_per_month: float
    held_usd_per_month: float | None = None
    """part of the cost: what is paid in any case for what is held; None in reviews whose plan was made without it"""
    besides_usd_per_month: float
    """commitment overhead, part of the cost: paid for what is held and not used, idle in every hour or there for a part
    of the quarter; where `held_usd_per_month` is None, paid on top of the cost"""
    overlap_usd_per_month: float = 0.0
    """part of the cost: not paid where what lapses within the quarter serves until then, and what takes its place
    begins then, not on the first day"""
    serving_until_lapse_usd_per_month: float = 0.0
    """part of `besides_usd_per_month`: paid for what lapses within the quarter and serves until then"""
    p90_overlap_usd_per_month: float = 0.0
    """the overlap in the plan for P90"""

    @property
    def cost_usd_per_month(self) -> float:
        """Cost of the next quarter, with what is held, if everything new starts on its first day."""
        besides = self.besides_usd_per_month if self.held_usd_per_month is None else 0.0
        return self.figures.cost_usd_per_month + besides

    @property
    def approved_usd_per_month(self) -> float:
        """What must be approved: expiring commitments are used until they lapse, and only then renewed or replaced."""
        return self.cost_usd_per_month - self.overlap_usd_per_month

    @property
    def approved_usd_per_1m(self) -> float:
        cost = self.figures.cost_usd_per_month
        share = (cost - self.overlap_usd_per_month) / cost if cost else 1.0
        return self.figures.usd_per_1m_tokens * share

    @property
    def p90_approved_usd_per_month(self) -> float | None:
        cost = self.p90_cost_usd_per_month
        return None if cost is None else cost - self.p90_overlap_usd_per_month

    @property
    def idle_usd_per_month(self) -> float:
        """Paid for what serves on no day of the quarter."""
        return self.besides_usd_per_month - self.serving_until_lapse_usd_per_month


class SignedAhead(Strict):
    """A commitment to sign now, for several quarters whatever comes."""

    offer: str
    term: str
    instances: int
    last_day: date
    usd_per_month: float
    owed_after_usd: float
    """still to be paid when the horizon ends"""


class AllowanceAhead(Strict):
    """A savings plan, or provisioned units, to sign now for several quarters whatever comes."""

    name: str
    term: str
    units: float
    """dollars an hour of a savings plan"""
    of_api: bool
    last_day: date
    usd_per_month: float
    owed_after_usd: float


class ScenarioAhead(Strict):
    name: str
    probability_frac: float
    cost_usd: float
    """over the horizon, with what is held"""
    regret_usd: float | None


class Ahead(Strict):
    """Several quarters from the next one on, with the percentiles of the forecast as scenarios."""

    first_day: date
    quarters: int
    expected_cost_usd: float | None = None
    gap_frac: float | None = None
    sign_now: tuple[SignedAhead, ...] = ()
    allowances: tuple[AllowanceAhead, ...] | None = None
    """absent where none is signed"""
    scenarios: tuple[ScenarioAhead, ...] = ()
    note: str = ""
    """why there is no plan"""


class SavingsPlanCover(Strict):
    """What savings plans on the bill cover of one offer; the next plan counts it as held."""

    commitments: tuple[str, ...]
    """by name"""
    offer: str
    covered_instances: float
    """which the dollars pay for in every hour, used or not"""
    held_instances: int
    """whole ones that the next plan has, besides what is listed as held"""
    usd_per_month: float
    """used or not"""


class CommitmentAdvice(Strict):
    """What to do about reserved instances of one offer and term."""

    act: Act
    offer: str
    purchase: str
    instances: int
    lapses: str | None
    """of instances that are held"""
    usd_per_month: float
    said: str


class Bridge(Strict):
    """The change from the last plan's cost to the next one's in four parts, in whole cents, which add up to it. Both
    costs have what is held in them.

    volume: more or fewer tokens, at the average cost of a token.
    mix: workloads with more or less expensive tokens became a larger share of them.
    price: what was bought before, at the new prices; commitments that are still held, at those signed.
    efficiency: what is left: another fleet and other choices, economies of scale, other inputs.
    """

    from_usd_per_month: float
    volume_usd_per_month: float
    mix_usd_per_month: float
    price_usd_per_month: float
    efficiency_usd_per_month: float
    to_usd_per_month: float
    notes: tuple[str, ...]


class ReviewItem(Strict):
    """A risk, or a decision that somebody has to make."""

    about: str
    text: str


class TrendPoint(Strict):
    """One review of many."""

    name: str
    last_hour: str
    planned_usd_per_month: float
    actual_usd_per_month: float
    hindsight_usd_per_month: float | None
    next_usd_per_month: float
    """to approve"""
    actual_usd_per_1m_tokens: float
    actual_tokens_per_month: float
    forecast_off_frac: float
    """requests that came against those planned for"""
    hours_left_out: int


class Review(Result, Strict):
    format: str = REVIEW_FORMAT
    name: str
    as_planned: bool
    verdict: str
    period: Period
    planned: Figures
    actual: Figures
    actual_basis: str
    """bill, or how the cost was found without one"""
    bill: BillReview | None = None
    """where the bill is a FOCUS export"""
    findings: tuple[Finding, ...]
    log_notes: tuple[str, ...] = ()
    """how the log was read: columns not used, times without a zone"""
    workloads: tuple[WorkloadReview, ...]
    capacity: tuple[CapacityUse, ...]
    hindsight: Hindsight | None
    hindsight_note: str
    forecasts: tuple[WorkloadForecast, ...]
    next: NextPlan
    ahead: Ahead | None = None
    """where the review file asks for several quarters or for scenarios"""
    commitments: tuple[CommitmentAdvice, ...]
    savings_plans: tuple[SavingsPlanCover, ...] = ()
    bridge: Bridge
    risks: tuple[ReviewItem, ...]
    decisions: tuple[ReviewItem, ...]
    trend: tuple[TrendPoint, ...]
    """past reviews, oldest first, and this one"""
    fleetplan_version: str

    def as_json(self) -> dict[str, Any]:
        data = self.model_dump(mode="json", exclude={"ahead"} if self.ahead is None else None)
        if self.ahead is not None and self.ahead.allowances is None:
            del data["ahead"]["allowances"]
        return data

    def to_json(self) -> str:
        """One value a line, so that a diff of two reviews can be read."""
        return json_text(self.as_json())


def read_saved_review(path: Path) -> Review:
    """Read a review that was saved; raises InputError where it is none."""
    return saved(Review, read_json_text(path), path, "a review", "Remove it from the folder")


def point_of(review: Review) -> TrendPoint:
    both = [w for w in review.workloads if w.planned_requests_per_month and w.actual_requests_per_month is not None]
    planned = sum(w.planned_requests_per_month or 0.0 for w in both)
    actual = sum(w.actual_requests_per_month or 0.0 for w in both)
    return TrendPoint(
        name=review.name,
        last_hour=review.period.last_hour,
        planned_usd_per_month=review.planned.cost_usd_per_month,
        actual_usd_per_month=review.actual.cost_usd_per_month,
        hindsight_usd_per_month=review.hindsight.cost_usd_per_month if review.hindsight else None,
        next_usd_per_month=review.next.approved_usd_per_month,
        actual_usd_per_1m_tokens=review.actual.usd_per_1m_tokens,
        actual_tokens_per_month=review.actual.tokens_per_month,
        forecast_off_frac=actual / planned - 1 if planned else 0.0,
        hours_left_out=sum(w.hours_left_out for w in review.workloads),
    )


def past_points(folder: Path | None, name: str, last_hour: str) -> list[TrendPoint]:
    """Reviews of earlier periods, oldest first. This one and later ones are left out, so that one made again is the
    same."""
    if folder is None:
        return []
    found = [read_saved_review(file) for file in sorted(folder.glob("*.json"))]
    earlier = [r for r in found if r.name != name and r.period.last_hour < last_hour]
    return sorted((point_of(r) for r in earlier), key=lambda p: (p.last_hour, p.name))
