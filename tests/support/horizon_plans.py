"""A plan of a horizon made by hand: quarters planned one by one, figures added up here, nothing optimized over time.

Two quarters, two scenarios (low stays, high doubles in the second quarter), what is held ends with the first quarter,
one commitment is signed now and one later in the high scenario.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cache

import planner
from planner.case.case import Case, Future, Holding, Scenario
from planner.case.quarters import quarter_case
from planner.plan.horizon.horizon_plan import (
    CommitmentCurve,
    CurvePoint,
    HorizonPlan,
    MiddlePlan,
    QuarterPlan,
    ScenarioResult,
    SignedCommitment,
)
from planner.plan.horizon.horizon_view import baseline_by_quarter
from planner.plan.plan import Plan
from tests.support.shared_plans import plan_of

DEMAND = """\
name: growth
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 3M}
    tokens: {input: 900, output: 180}
    api: forbidden
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand, reserved-1y], max_deployments: 1}
baseline: openai/gpt-4o-mini
"""
FLAT_DEMAND = """\
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 720k, shape: flat, variation: 0%, burstiness: 1}
    tokens: {input: 900, output: 180}
    api: forbidden
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand, reserved-1y], max_deployments: 1}
policy: {max_instances: {aws/g6e.12xlarge: 0, aws/g6e.48xlarge: 0}}
baseline: openai/gpt-4o-mini
"""
"""the same in every hour, on boxes of one size: figures can be worked out by hand"""
OFFER = "aws/g6e.xlarge@us-east-1"
STARTS = date(2027, 1, 1)
HELD_USD_PER_H, BOUND_SHARE = 1.25, 0.98
PROBABILITIES = {"low": 0.75, "high": 0.25}
FACTORS = {"low": (1.0,) * 6, "high": (1.0, 1.1, 1.2, 2.0, 2.0, 2.0)}
MONTH_H, QUARTER_H = 730.0, 3 * 730.0
IF_KNOWN = {"low": 0.97, "high": 0.95}
"""of what this plan comes to: plans that had known are not made here"""


@dataclass(frozen=True)
class Signing:
    instances: int
    quarter: int
    scenario: str | None


SIGNED = (Signing(2, 0, None), Signing(3, 1, "high"))


@cache
def horizon_case() -> Case:
    case = planner.case_from_text(DEMAND)
    scenarios = tuple(
        Scenario(name=name, probability_frac=p, month_factors={"chat": FACTORS[name]})
        for name, p in PROBABILITIES.items()
    )
    held = Holding(
        offer=OFFER, purchase="reserved-1y", instances=1, usd_per_h=HELD_USD_PER_H, last_day=date(2027, 3, 31)
    )
    future = Future(starts=STARTS, quarters=2, scenarios=scenarios)
    return case.model_copy(update={"future": future, "held": (held,)})


@cache
def horizon_plan() -> HorizonPlan:
    case = horizon_case()
    assert case.future is not None
    signed = tuple(commitment(case, s) for s in SIGNED)
    quarters = [QuarterPlan(quarter=0, scenario=None, plan=_planned(case, 0, None, signed))]
    for s in case.future.scenarios:
        quarters.append(QuarterPlan(quarter=1, scenario=s.name, plan=_planned(case, 1, s.name, signed)))
    return assembled(case, signed, tuple(quarters))


def commitment(case: Case, s: Signing) -> SignedCommitment:
    price = case.offers[OFFER].prices.reserved_1y
    assert price is not None
    inside_h = QUARTER_H * (2 - s.quarter)
    inside = s.instances * price.usd_per_h * inside_h
    first, last = ((date(2027, 1, 1), date(2027, 12, 31)), (date(2027, 4, 1), date(2028, 3, 31)))[s.quarter]
    return SignedCommitment(
        offer=OFFER, term="reserved-1y", instances=s.instances, quarter=s.quarter, scenario=s.scenario,
        first_day=first, last_day=last, usd_per_h=price.usd_per_h, upfront_usd=0.0, inside_usd=inside,
        beyond_usd=s.instances * price.usd_per_h * 8760 - inside, counted_usd=inside,
    )  # fmt: skip


def _planned(case: Case, quarter: int, scenario: str | None, signed: tuple[SignedCommitment, ...]) -> Plan:
    """The cheapest plan of a quarter, with what is committed there as held, and nothing more to commit to."""
    assert case.future is not None
    block = quarter_case(case, quarter, [s for s in case.future.scenarios if scenario in (None, s.name)])
    mine = [c for c in signed if c.quarter <= quarter and c.scenario in (None, scenario)]
    held = (*(block.held or ()), *(holding(c) for c in mine))
    block = block.model_copy(update={"held": held, "purchase": ("on-demand",)})
    return plan_of(block, planner.Options(gap_frac=0.0))


def holding(c: SignedCommitment) -> Holding:
    return Holding(
        offer=c.offer, purchase=c.term, instances=c.instances, usd_per_h=c.usd_per_h, first_day=c.first_day,
        last_day=c.last_day,
    )  # fmt: skip


def month_usd(plan: Plan, month: int) -> float:
    """Instances on demand in one month, starting included: nothing else costs money here."""
    total = 0.0
    for line in plan.fleet:
        n = line.instances_by_slot
        for t, slot in enumerate(plan.slots):
            if slot.month == month and line.purchase == "on-demand":
                hours = (5 if slot.day == "weekday" else 2) / 7 * MONTH_H / 24
                before = n[t - 1] if slot.hour else n[t + 23]
                total += hours * line.usd_per_h * (n[t] + max(0, n[t] - before) * plan.case.start.instance_s / 3600)
    return total


MONTHS_OF = {(0, "low"): {0: 1, 1: 2}, (0, "high"): {0: 1, 2: 1, 3: 1}, (1, "low"): {0: 3}, (1, "high"): {0: 3}}
"""(quarter, scenario) -> month of the plan -> months of the calendar: in January both scenarios are alike"""


def quarter_usd(quarters: tuple[QuarterPlan, ...], quarter: int, scenario: str) -> float:
    plan = next(q.plan for q in quarters if q.quarter == quarter and q.scenario in (None, scenario))
    return sum(times * month_usd(plan, month) for month, times in MONTHS_OF[quarter, scenario].items())


def assembled(case: Case, signed: tuple[SignedCommitment, ...], quarters: tuple[QuarterPlan, ...]) -> HorizonPlan:
    held_usd = HELD_USD_PER_H * QUARTER_H
    results = []
    for name, p in PROBABILITIES.items():
        by_quarter = []
        for q in (0, 1):
            committed = sum(
                c.instances * c.usd_per_h * QUARTER_H for c in signed if c.quarter <= q and c.scenario in (None, name)
            )
            by_quarter.append(quarter_usd(quarters, q, name) + committed)
        cost = sum(by_quarter) + held_usd
        results.append(
            ScenarioResult(
                name=name, probability_frac=p, by_quarter_usd=tuple(by_quarter), cost_usd=cost, penalty_usd=0.0,
                counted_usd=sum(by_quarter), if_known_usd=IF_KNOWN[name] * sum(by_quarter),
                if_known_bound_usd=0.9 * sum(by_quarter), regret_usd=(1 - IF_KNOWN[name]) * sum(by_quarter),
                baseline_by_quarter_usd=baseline_by_quarter(case, name, quarters),
            )
        )  # fmt: skip
    expected = sum(r.probability_frac * r.cost_usd for r in results)
    counted = expected - held_usd
    now = signed[0]
    worst = max(r.cost_usd for r in results)
    points = tuple(
        CurvePoint(instances=n, expected_usd=x and x * expected, p90_usd=x and x * worst, worst_usd=x and x * worst,
                   gap_frac=x and 1 - BOUND_SHARE)
        for n, x in ((0, None), (1, 1.1), (2, 1.0), (4, 1.05))
    )  # fmt: skip
    return HorizonPlan(
        name=case.name, status="within-gap", risk="expected", counted_usd=counted, bound_usd=BOUND_SHARE * counted,
        gap_frac=1 - BOUND_SHARE, expected_cost_usd=expected, worst_scenario="high", held_usd=held_usd,
        commitments=signed, quarters=quarters,
        scenarios=tuple(results),
        middle=MiddlePlan(scenario="low", counted_usd=counted + 2000.0, bound_usd=counted + 1234.0),
        curve=CommitmentCurve(offer=now.offer, term=now.term, points=points), long_terms_would_save_usd=None, notes=(),
        case_hash=case.hash(), case=case, fleetplan_version="0.1.0",
    )  # fmt: skip


@cache
def worst_case_plan() -> HorizonPlan:
    """The same plan, had the worst case been minimized: all that differs is what is counted and proved."""
    plan = horizon_plan()
    assert plan.case.future is not None
    case = plan.case.model_copy(update={"future": plan.case.future.model_copy(update={"risk": "worst-case"})})
    most = max(s.counted_usd for s in plan.scenarios)
    middle = MiddlePlan(scenario="low", counted_usd=most + 2000.0, bound_usd=most + 1234.0)
    figures = {"counted_usd": most, "bound_usd": BOUND_SHARE * most, "middle": middle}
    return plan.model_copy(update={"risk": "worst-case", "case": case, "case_hash": case.hash(), **figures})
