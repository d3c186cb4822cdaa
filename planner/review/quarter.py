"""The spine of a review: the log is cleaned, the quarter held against its plan, and the next one planned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from planner.case.apis import tokens_per_request
from planner.case.case import Case, Workload
from planner.case.demand.future.forecasting import Forecast, forecasts
from planner.case.slots import rates_rps, requests_per_month, slots_of
from planner.explanations.relaxations import Infeasible
from planner.io.result import Result
from planner.io.units import UTC
from planner.optimization.replan import OnProgress, Replanner
from planner.pipeline import plan_fleet, plan_to_compare
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.plan import Plan
from planner.review import actuals as observed
from planner.review import advice, bill_advice
from planner.review.ahead import plan_ahead
from planner.review.bills.reconciliation import reconcile
from planner.review.bridge import bridge
from planner.review.cleaning import Cleaned, cleaned
from planner.review.commitments import advise
from planner.review.period import Span
from planner.review.records import (
    Figures,
    Hindsight,
    NextPlan,
    Period,
    Review,
    WorkloadForecast,
    WorkloadReview,
    past_points,
    point_of,
)
from planner.review.review_file import ReviewInputs
from planner.review.usage_log import HOUR
from planner.review.utilization import capacity_used
from solvers.search.fleet_solution import Options

COST = "what it costs and buys"
BY_PLAN = "the planned fleet, with API calls by actual demand: no bill was given"


@dataclass(frozen=True, eq=False, repr=False)
class Reviewed(Result):
    review: Review
    next_plan: Plan
    horizon_plan: HorizonPlan | None = None
    """where the review file asks for several quarters or for scenarios, and there is one"""


def review_fleet(
    inputs: ReviewInputs, options: Options | None = None, on_progress: OnProgress = lambda progress: None
) -> Reviewed:
    """Review a quarter and plan the next; raises Infeasible where no fleet can serve what is forecast."""
    options, spec, last = options or Options(), inputs.spec, inputs.last
    replanner = Replanner(last.case, options, on_progress)
    replanner.know(last.case, last)
    clean = cleaned(inputs.log)
    span, bill = inputs.span, None
    paid = spec.bill_usd_per_month
    if inputs.bill is not None and spec.bill is not None:
        bill = reconcile(inputs.bill, last, spec.bill.team_tag, span.stop - span.first, inputs.prices)
        paid = bill.paid_usd_per_month + bill.not_on_the_bill_usd_per_month
    found = {w.name: observed.actuals(clean, w.name, span, w.growth_per_month_frac) for w in last.case.workloads}
    actual = {
        w.name: observed.with_actual_demand(w, c) for w in last.case.workloads if (c := found[w.name]) is not None
    }
    workloads = tuple(_workloads(last, clean, span, found, actual))
    planned, cost = _figures(last), _actual(last, actual, workloads, paid)
    hindsight, note = _hindsight(last, actual, cost, replanner)
    next_case, said = _next_case(inputs, clean, span, found)
    plan = replanner.plan(next_case, "the next plan", plan_fleet)
    p90, p90_note = _at_p90(plan.case, said, replanner)
    p90_overlap = advise(p90, inputs.held).overlap_usd_per_month if p90 is not None else 0.0
    ahead, horizon = plan_ahead(inputs, plan.case, clean, options, on_progress)
    commitments = advise(plan, inputs.held)
    capacity = tuple(capacity_used(last, actual))
    next_plan = NextPlan(
        figures=_figures(plan),
        status=plan.status,
        fleet=_fleet(plan),
        p90_cost_usd_per_month=p90.total_usd_per_month if p90 is not None else None,
        p90_note=p90_note,
        spot_at_p95_usd_per_month=plan.spot_at_p95_usd_per_month + plan.held_usd_per_month,
        held_usd_per_month=plan.held_usd_per_month,
        besides_usd_per_month=commitments.besides_usd_per_month,
        overlap_usd_per_month=commitments.overlap_usd_per_month,
        serving_until_lapse_usd_per_month=commitments.serving_until_lapse_usd_per_month,
        p90_overlap_usd_per_month=p90_overlap,
    )
    off = advice.off_plan(workloads, planned, cost)
    in_next, logged = {w.name for w in plan.case.workloads}, set(inputs.log.workloads)
    period = _period(inputs, span)
    review = Review(
        name=spec.name,
        as_planned=not off,
        verdict=advice.verdict_of(off),
        period=period,
        planned=planned,
        actual=cost,
        actual_basis=BY_PLAN if paid is None else "bill",
        bill=bill,
        findings=clean.findings,
        log_notes=tuple(inputs.log.ledger.notes),
        workloads=workloads,
        capacity=capacity,
        hindsight=hindsight,
        hindsight_note=note,
        forecasts=said,
        next=next_plan,
        ahead=ahead,
        commitments=commitments.lines,
        savings_plans=inputs.held.covers,
        bridge=bridge(last, plan),
        risks=(
            *bill_advice.risks_of(bill),
            *advice.risks_of(plan, next_plan, said, workloads, capacity, clean.findings, inputs.log.hours),
        ),
        decisions=(
            *advice.decisions_of(
                last,
                plan,
                commitments,
                workloads,
                clean.ended,
                in_next,
                logged,
                hindsight,
                inputs.held.assumed,
                inputs.held.covers,
            ),
            *bill_advice.decisions_of(bill),
        ),
        trend=(),
        fleetplan_version=version("fleetplan"),
    )
    past = past_points(inputs.history, spec.name, period.last_hour)
    return Reviewed(review.model_copy(update={"trend": (*past, point_of(review))}), plan, horizon)


def _figures(plan: Plan) -> Figures:
    """What a quarter costs by a plan, with what is held."""
    return Figures(
        cost_usd_per_month=plan.total_usd_per_month,
        tokens_per_month=plan.tokens_per_month,
        usd_per_1m_tokens=_usd_per_1m(plan),
        gap_frac=_gap_frac(plan),
        case_hash=plan.case_hash,
    )


def _usd_per_1m(plan: Plan) -> float:
    held = 1e6 * plan.held_usd_per_month / plan.tokens_per_month if plan.tokens_per_month else 0.0
    return plan.usd_per_1m_tokens + held


def _gap_frac(plan: Plan) -> float:
    """The proof's gap as a share of all that is paid: what is held is paid in any case."""
    besides = plan.objective_usd_per_month
    return plan.gap_frac * besides / (besides + plan.held_usd_per_month) if plan.held_usd_per_month else plan.gap_frac


def _fleet(plan: Plan) -> tuple[str, ...]:
    """At its busiest."""
    return tuple(f"{max(f.instances_by_slot)} x {f.offer} ({f.gpu}) {f.purchase}" for f in plan.fleet)


def _workloads(
    last: Plan,
    clean: Cleaned,
    span: Span,
    found: dict[str, observed.Actuals | None],
    actual: dict[str, Workload],
) -> Iterator[WorkloadReview]:
    slots = slots_of(last.case)
    for w in last.case.workloads:
        actuals, now = found[w.name], actual.get(w.name)
        planned = requests_per_month(w, slots)
        requests = requests_per_month(now, slots) if now is not None else None
        measured = actuals is not None and None not in (actuals.input_tokens, actuals.output_tokens)
        yield WorkloadReview(
            name=w.name,
            planned_requests_per_month=planned,
            actual_requests_per_month=requests,
            off_frac=requests / planned - 1 if requests is not None and planned > 0 else None,
            hourly_error_frac=observed.hourly_error(w, now.weekday_rps, now.weekend_rps) if now is not None else None,
            planned_tokens_per_request=tokens_per_request(w),
            actual_tokens_per_request=tokens_per_request(now) if now is not None and measured else None,
            planned_variation=w.rate_cv,
            actual_variation=actuals.hours.variation if actuals is not None else None,
            planned_by_hour_rps=_by_hour(w, last.case),
            actual_by_hour_rps=_by_hour(now, last.case) if now is not None else (),
            hours_left_out=_left_out(clean, w.name, span),
        )
    for name in clean.log.workloads:
        if name not in found and (actuals := observed.actuals(clean, name, span, 0.0)) is not None:
            rates = (*actuals.hours.weekday_rps, *actuals.hours.weekend_rps)
            per_month = 3600 * float(np.dot(rates, [s.hours_per_month for s in slots[:48]]))
            lengths = (actuals.input_tokens, actuals.output_tokens)
            yield WorkloadReview(
                name=name,
                planned_requests_per_month=None,
                actual_requests_per_month=per_month,
                off_frac=None,
                hourly_error_frac=None,
                planned_tokens_per_request=None,
                actual_tokens_per_request=None if None in lengths else sum(x or 0.0 for x in lengths),
                planned_variation=None,
                actual_variation=actuals.hours.variation,
                planned_by_hour_rps=(),
                actual_by_hour_rps=rates,
                hours_left_out=_left_out(clean, name, span),
            )


def _by_hour(w: Workload, case: Case) -> tuple[float, ...]:
    """The mean over the months [hour of a weekday, then of a weekend day]."""
    rates = rates_rps(w, slots_of(case)).reshape(-1, 48).mean(axis=0)
    return tuple(rates.tolist())


def _left_out(clean: Cleaned, name: str, span: Span) -> int:
    if name not in clean.log.workloads:
        return 0
    return int(np.isnan(clean.of(name)[span.first : span.stop]).sum())


def _actual(
    last: Plan, actual: dict[str, Workload], reviewed: tuple[WorkloadReview, ...], bill_usd_per_month: float | None
) -> Figures:
    """What the quarter cost, and its tokens. A workload that the log does not have counts as planned, one that the plan
    does not have by its own tokens, where the log says them."""
    slots = slots_of(last.case)
    unplanned = (w for w in reviewed if w.planned_requests_per_month is None)
    tokens = sum((w.actual_requests_per_month or 0.0) * (w.actual_tokens_per_request or 0.0) for w in unplanned)
    api = 0.0
    for planned, w in zip(last.workloads, last.case.workloads, strict=True):
        now = actual.get(w.name, w)
        more = requests_per_month(now, slots) / requests_per_month(w, slots)
        more *= tokens_per_request(now) / tokens_per_request(w)
        tokens += more * planned.tokens_per_month
        api += (more - 1) * planned.api_cost_usd_per_month
    cost = last.total_usd_per_month + api if bill_usd_per_month is None else bill_usd_per_month
    return Figures(
        cost_usd_per_month=cost, tokens_per_month=tokens, usd_per_1m_tokens=1e6 * cost / tokens if tokens else 0.0
    )


def _hindsight(
    last: Plan, actual: dict[str, Workload], cost: Figures, replanner: Replanner
) -> tuple[Hindsight | None, str]:
    case = _changed(last.case, actual)
    try:
        best = replanner.plan(case, "hindsight", plan_to_compare, COST)
    except Infeasible as error:
        return None, f"No fleet of the last plan's menu and limits can serve the actual demand: {error.reasons[0]}"
    saves = cost.cost_usd_per_month - best.total_usd_per_month
    unsure = best.objective_usd_per_month - best.bound_usd_per_month
    unsure = max(unsure, last.objective_usd_per_month - last.bound_usd_per_month)
    same = best.case_hash == last.case_hash
    note = "Actual demand was as planned, so the last plan is also the best in hindsight." if same else ""
    return Hindsight(
        cost_usd_per_month=best.total_usd_per_month,
        usd_per_1m_tokens=_usd_per_1m(best),
        bound_usd_per_month=best.bound_usd_per_month + best.held_usd_per_month,
        gap_frac=_gap_frac(best),
        fleet=_fleet(best),
        saves_usd_per_month=saves,
        told_apart=abs(saves) > unsure + 0.005,
    ), note  # fmt: skip


def _changed(case: Case, workloads: dict[str, Workload]) -> Case:
    """Return the case itself if nothing differs, so that it needs no plan of its own."""
    changed = tuple(workloads.get(w.name, w) for w in case.workloads)
    return case if changed == case.workloads else case.model_copy(update={"workloads": changed})


def _next_case(
    inputs: ReviewInputs, clean: Cleaned, span: Span, found: dict[str, observed.Actuals | None]
) -> tuple[Case, tuple[WorkloadForecast, ...]]:
    """The next case at P50, and what each workload's rates rest on."""
    case, log = inputs.next_case, inputs.log
    known = [w.name for w in case.workloads if w.name in log.workloads and np.isfinite(clean.of(w.name)).any()]
    wanted = known if inputs.spec.next.forecast == "actuals" else []
    expected = (
        dict(zip(wanted, forecasts(np.array([clean.of(name) for name in wanted])), strict=True)) if wanted else {}
    )
    changed = {}
    for w in case.workloads:
        if w.name in expected:
            changed[w.name] = observed.from_forecast(w, expected[w.name].requests, log)
            actuals = found.get(w.name) or observed.actuals(clean, w.name, span, 0.0)
            if actuals is not None:
                changed[w.name] = observed.with_lengths(changed[w.name], actuals)
    after = _changed(case, changed)
    return after, tuple(_forecast(w, after, expected.get(w.name), w.name in log.workloads) for w in after.workloads)


def _forecast(w: Workload, case: Case, forecast: Forecast | None, logged: bool) -> WorkloadForecast:
    mid = requests_per_month(w, slots_of(case))
    given = "given in the demand" if logged else "given in the demand, not in the log"
    low, high = (None, None) if forecast is None else (forecast.low_ratio, forecast.high_ratio)
    return WorkloadForecast(
        name=w.name,
        source=given if forecast is None else forecast.method,
        error_frac=forecast.error_frac if forecast else None,
        other_error_frac=forecast.other_error_frac if forecast else None,
        bias_frac=forecast.bias_frac if forecast else 0.0,
        tried_weeks=forecast.tried_weeks if forecast else 0,
        p10_requests_per_month=None if low is None else low * mid,
        p50_requests_per_month=mid,
        p90_requests_per_month=None if high is None else high * mid,
        growth_per_month_frac=w.growth_per_month_frac,
    )


def _at_p90(case: Case, said: tuple[WorkloadForecast, ...], replanner: Replanner) -> tuple[Plan | None, str]:
    factors = {f.name: (f.p90_requests_per_month or f.p50_requests_per_month) / f.p50_requests_per_month for f in said}
    if all(f.p90_requests_per_month is None for f in said):
        return None, ""
    high = _changed(case, {w.name: observed.scaled(w, factors[w.name]) for w in case.workloads if factors[w.name] > 1})
    try:
        return replanner.plan(high, "demand at P90", plan_to_compare, COST), ""
    except Infeasible as error:
        return None, f"if every workload is at its P90, no fleet keeps the limits: {error.reasons[0]}"


def _period(inputs: ReviewInputs, span: Span) -> Period:
    log = inputs.log
    hour = [str(log.first + k * HOUR) for k in (span.first, span.stop - 1, 0)]
    return Period(
        first_hour=hour[0],
        last_hour=hour[1],
        hours=span.stop - span.first,
        log_first_hour=hour[2],
        log_hours=log.hours,
        time_zone=inputs.last.case.time_zone or UTC,
    )
