"""What a review says in words: whether the quarter went as planned, what may go wrong, and what has to be decided."""

from __future__ import annotations

from collections.abc import Iterator

from planner.case.case import SAVINGS_PLAN, Case
from planner.case.demand.future.forecasting import LEAST_WEEKS
from planner.io.formatting import counted
from planner.plan.plan import Plan
from planner.review.commitments import Advice
from planner.review.records import (
    CapacityUse,
    Figures,
    Finding,
    Hindsight,
    NextPlan,
    ReviewItem,
    SavingsPlanCover,
    WorkloadForecast,
    WorkloadReview,
)

VOLUME_FRAC, SHAPE_FRAC, COST_FRAC, LENGTH_FRAC = 0.02, 0.05, 0.02, 0.02
"""as planned: volume, hours, cost and tokens per request no further off than this"""
POOR_FORECAST_FRAC = 0.25
POOR_PROOF_FRAC = 0.01
WORTH_FRAC = 0.05
"""of the cost: what a range must add before it is a risk worth a line"""
MUCH_LEFT_OUT_FRAC = 0.1
SIDE_BY_SIDE = 3
"""names in a sentence; the tables have all of them"""


def off_plan(workloads: tuple[WorkloadReview, ...], planned: Figures, actual: Figures) -> list[str]:
    """What did not go as planned, the largest first; nothing where all of it did."""
    found: list[tuple[float, str]] = []
    for w in workloads:
        if w.planned_requests_per_month is None:
            found.append((1.0, f"{w.name} was not in the plan"))
        elif w.actual_requests_per_month is None:
            found.append((1.0, f"{w.name} has no usable hours in the log"))
        elif w.off_frac is not None and abs(w.off_frac) > VOLUME_FRAC:
            found.append((abs(w.off_frac), f"{w.name} had {_signed(w.off_frac)} requests"))
        elif w.hourly_error_frac is not None and w.hourly_error_frac > SHAPE_FRAC:
            found.append((w.hourly_error_frac, f"{w.name} had other busy hours ({w.hourly_error_frac:.0%} off)"))
        longer = _longer(w)
        if longer is not None and abs(longer) > LENGTH_FRAC:
            found.append((abs(longer), f"requests of {w.name} had {_signed(longer)} tokens"))
    cost = actual.cost_usd_per_month / planned.cost_usd_per_month - 1 if planned.cost_usd_per_month else 0.0
    if abs(cost) > COST_FRAC:
        found.append((abs(cost), f"it cost {_signed(cost)}"))
    return [text for _, text in sorted(found, key=lambda x: (-x[0], x[1]))]


def _longer(w: WorkloadReview) -> float | None:
    if not w.planned_tokens_per_request or w.actual_tokens_per_request is None:
        return None
    return w.actual_tokens_per_request / w.planned_tokens_per_request - 1


def verdict_of(off: list[str]) -> str:
    if not off:
        return "The quarter went as planned."
    more = f", and {len(off) - SIDE_BY_SIDE} more" if len(off) > SIDE_BY_SIDE else ""
    return f"The quarter did not go as planned: {', '.join(off[:SIDE_BY_SIDE])}{more}."


def risks_of(
    plan: Plan,
    next_plan: NextPlan,
    forecasts: tuple[WorkloadForecast, ...],
    workloads: tuple[WorkloadReview, ...],
    capacity: tuple[CapacityUse, ...],
    findings: tuple[Finding, ...],
    known_hours: int,
) -> Iterator[ReviewItem]:
    cost = next_plan.approved_usd_per_month
    held = plan.held_usd_per_month - next_plan.overlap_usd_per_month
    p90 = next_plan.p90_approved_usd_per_month
    if p90 is not None and p90 > cost * (1 + WORTH_FRAC):
        yield _said("demand", f"if every workload is at its P90, the best fleet costs ${p90:,.0f} a month, "
                              f"{_signed(p90 / cost - 1)}")  # fmt: skip
    elif p90 is None and next_plan.p90_note:
        yield _said("demand", next_plan.p90_note)
    for f in forecasts:
        if f.error_frac is not None and f.error_frac > POOR_FORECAST_FRAC:
            yield _said(f.name, f"its forecast was {f.error_frac:.0%} off per hour when tested")
        elif f.tried_weeks == 0 and f.source in LEAST_WEEKS:
            yield _said(f.name, "its log is too short to test a forecast: the last week is used unchanged")
    for w in workloads:
        if w.planned_variation and w.actual_variation and w.actual_variation > 1.25 * w.planned_variation:
            yield _said(w.name, f"its days differ by {w.actual_variation:.0%} around their hourly mean, against "
                                f"{w.planned_variation:.0%} planned: 'variation' sets the margin")  # fmt: skip
    for c in capacity:
        if c.hours_over_per_month:
            over = f"in {counted(c.hours_over_per_month, 'hour')} a month on {c.deployment}"
            yield _said(", ".join(c.workloads), f"load exceeded the SLO safety margin {over}")
    left_out = {odd.workload: 0 for odd in findings}
    for odd in findings:
        left_out[odd.workload] += odd.count if odd.kind in ("gap", "outage", "outlier") else 0
    for name, hours in left_out.items():
        if hours > MUCH_LEFT_OUT_FRAC * known_hours:
            yield _said(name, f"{counted(hours, 'hour')} of its log left out, {hours / known_hours:.0%}")
    spot = next_plan.spot_at_p95_usd_per_month - next_plan.overlap_usd_per_month
    if spot > cost * (1 + WORTH_FRAC):
        yield _said("spot", f"at the 95th percentile of spot prices the plan costs ${spot:,.0f} a month")
    if plan.status != "optimal" and plan.gap_frac > POOR_PROOF_FRAC:
        yield _said(
            "proof", f"the next plan is proved within {plan.gap_frac:.1%} only: a longer search may find a cheaper one"
        )
    high = plan.if_throughput_is_off.high_usd_per_month
    if high is not None and high + held > (cost + plan.penalty_usd_per_month) * (1 + WORTH_FRAC):
        slower = "if replicas are slower by the error of the estimates"
        yield _said("throughput", f"{slower}, the fleet costs ${high + held:,.0f} a month")
    if next_plan.idle_usd_per_month > COST_FRAC * cost:
        yield _said("commitments", f"${next_plan.idle_usd_per_month:,.0f} a month of the next quarter is paid for "
                                   "commitments that the plan does not use")  # fmt: skip


def decisions_of(
    last: Plan,
    plan: Plan,
    commitments: Advice,
    workloads: tuple[WorkloadReview, ...],
    ended: tuple[str, ...],
    in_next: set[str],
    logged: set[str],
    hindsight: Hindsight | None,
    taken_as_bought: bool,
    savings_plans: tuple[SavingsPlanCover, ...],
) -> Iterator[ReviewItem]:
    overlap = commitments.overlap_usd_per_month
    before, after = last.total_usd_per_month, plan.total_usd_per_month - overlap
    moved = bool(before) and abs(after / before - 1) >= 0.0005
    change = f" ({_signed(after / before - 1)})" if moved else ""
    on_time = ", with expiring commitments used until they lapse and only then renewed or replaced" if overlap else ""
    same = not moved and not overlap and _but_for_what_is_held(plan.case) == _but_for_what_is_held(last.case)
    text = "keep the last plan: none of its inputs has changed" if same else (
        f"approve ${after:,.0f} a month for the next plan, ${before:,.0f} in the last{change}{on_time}"
    )  # fmt: skip
    yield _said("plan", text)
    for c in commitments.lines:
        if c.act in ("buy", "renew", "let lapse", "more than needed"):
            idle = "find other use for" if c.purchase == SAVINGS_PLAN else "sell, exchange or keep idle"
            do = {"more than needed": idle}.get(c.act, c.act)
            yield _said("commitments", f"{do} {c.instances} x {c.offer} {c.purchase} "
                                       f"(${c.usd_per_month:,.0f} a month): {c.said}")  # fmt: skip
    for plans in sorted({c.commitments for c in savings_plans if c.held_instances}):
        yield _said(
            "commitments", f"confirm that {', '.join(plans)} runs through the next quarter: the plan counts on it"
        )
    if taken_as_bought:
        yield _said("commitments", "list what is held, and until when, under 'committed': the last plan's reservations "
                                   "are assumed to have been signed when its quarter began")  # fmt: skip
    for w in workloads:
        if w.planned_requests_per_month is None and w.name not in in_next:
            yield _said(
                w.name, "it is in the log but not in the demand file: to plan it, add it with its model and SLO"
            )
    for name in ended:
        if name in in_next:
            yield _said(
                name, "it has no requests at the end of the log: remove it from the demand file, or repair the log"
            )
    for name in sorted(in_next - logged):
        yield _said(name, "it is not in the log: confirm its forecast")
    if hindsight is not None and hindsight.told_apart and hindsight.saves_usd_per_month > COST_FRAC * before:
        yield _said("hindsight", "the best fleet for actual demand would have cost "
                                 f"${hindsight.saves_usd_per_month:,.0f} a month less: "
                                 "see what was bought too early or kept too long")  # fmt: skip


def _but_for_what_is_held(case: Case) -> Case:
    dated = {"starts": None, "held": None, "held_besides_usd_per_month": None, "assumptions": ()}
    return case.model_copy(update=dated)


def _said(about: str, text: str) -> ReviewItem:
    return ReviewItem(about=about, text=text)


def _signed(frac: float) -> str:
    digits = 0 if abs(frac) >= 0.1 else 1
    return f"{'+' if frac > 0 else ''}{100 * frac:.{digits}f}%"
