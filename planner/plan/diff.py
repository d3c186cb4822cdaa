"""What changed between two plans, and why the cost did."""

from __future__ import annotations

from typing import overload

from planner.plan.attribution import attribution
from planner.plan.blocks import AnyPlan, block_of
from planner.plan.diff_changes import cost_changes, fleet_changes, input_changes, limit_changes, workload_changes
from planner.plan.diff_records import PlanDiff, Side
from planner.plan.horizon.horizon_diff import HorizonDiff, diff_horizons
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.plan import Plan
from planner.plan.price_changes import price_changes


@overload
def diff_plans(before: Plan, after: Plan) -> PlanDiff: ...
@overload
def diff_plans(before: HorizonPlan, after: HorizonPlan) -> HorizonDiff: ...
@overload
def diff_plans(before: AnyPlan, after: AnyPlan) -> PlanDiff | HorizonDiff: ...
def diff_plans(before: AnyPlan, after: AnyPlan) -> PlanDiff | HorizonDiff:
    """What changed from one plan to another; a plan of one quarter is compared with the first quarter of several."""
    if isinstance(before, HorizonPlan) and isinstance(after, HorizonPlan):
        return diff_horizons(before, after)
    return _diff_blocks(block_of(before), block_of(after))


def _diff_blocks(before: Plan, after: Plan) -> PlanDiff:
    costs = tuple(cost_changes(before, after))
    fleet = tuple(fleet_changes(before, after))
    workloads = tuple(workload_changes(before, after))
    prices = tuple(price_changes(before, after))
    limits = tuple(limit_changes(before, after))
    inputs = tuple(input_changes(before, after))
    sides = _side(before), _side(after)
    found = (fleet, workloads, prices, limits, inputs)
    return PlanDiff(
        same=not any(found) and sides[0] == sides[1] and not any(c.change_usd_per_month for c in costs),
        before=sides[0],
        after=sides[1],
        attribution=attribution(before, after),
        costs=costs,
        fleet=fleet,
        workloads=workloads,
        prices=prices,
        limits=limits,
        inputs=inputs,
    )


def _side(plan: Plan) -> Side:
    return Side(
        name=plan.name,
        status=plan.status,
        cost_usd_per_month=plan.cost_usd_per_month,
        penalty_usd_per_month=plan.penalty_usd_per_month,
        bound_usd_per_month=plan.bound_usd_per_month,
        gap_frac=plan.gap_frac,
        tokens_per_month=plan.tokens_per_month,
        usd_per_1m_tokens=plan.usd_per_1m_tokens,
        baseline=f"{plan.baseline.provider}/{plan.baseline.model}",
        baseline_usd_per_month=plan.baseline.cost_usd_per_month,
        case_hash=plan.case_hash,
        fleetplan_version=plan.fleetplan_version,
    )
