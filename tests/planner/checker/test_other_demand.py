"""The same plan at other demand: commitments stay, the rest follows."""

from __future__ import annotations

import pytest

import planner
from planner.plan.account.other_demand import other_demand
from planner.plan.plan import Plan
from tests.planner.reports.tables.test_focus import HELD
from tests.support.lever_plans import DEMANDS, lever_plan
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan

OVERFLOW = """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 300k}
    quality: {max_loss: 2%}
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand]}
policy: {vendors: {fixed_usd_per_month: {api: 1, provider: 70}}}
baseline: openai/gpt-4o-mini
"""


def planned(text: str) -> Plan:
    return fleet_plan(planner.case_from_text(text))


@pytest.mark.parametrize("text", [HELD, OVERFLOW])
def test_what_is_held_and_fixed_costs_are_there_at_any_demand(text: str) -> None:
    plan = planned(text)
    assert plan.costs.vendors_usd_per_month
    low, same, more = other_demand(plan, (0.001, 1.0, 1.2))
    assert same.cost_usd_per_month == pytest.approx(plan.cost_usd_per_month, rel=1e-9)
    assert low.cost_usd_per_month >= plan.costs.vendors_usd_per_month
    assert low.cost_usd_per_month < same.cost_usd_per_month < more.cost_usd_per_month


def test_where_an_api_takes_overflow_a_little_more_demand_costs_a_little_more() -> None:
    """Nobody buys a replica for a thousandth of the load that the API takes: more demand costs no more than there."""
    plan = planned(OVERFLOW)
    assert 0 < plan.workloads[0].api_share_frac < 1
    all_api = plan.baseline.cost_usd_per_month
    multiples = [0.5, 0.8, 0.999, 1.0, 1.001, 1.01, 1.2, 1.5, 3.0]
    costs = [p.cost_usd_per_month for p in other_demand(plan, tuple(multiples))]
    assert costs == sorted(costs)
    cost = plan.cost_usd_per_month
    for multiple, usd in zip(multiples, costs, strict=True):
        if multiple > 1:
            assert usd <= cost + (multiple - 1) * all_api * (1 + 1e-9)


def fixed_usd(plan: Plan) -> float:
    return plan.costs.reserved_usd_per_month + plan.costs.engineers_usd_per_month


@for_each("name", DEMANDS)
def test_at_its_own_demand_a_plan_costs_what_it_says(name: str) -> None:
    """Replicas, boxes, spot and starts are worked out again from the rules and come to the same bill."""
    plan = lever_plan(name)
    (point,) = other_demand(plan, (1.0,))
    assert point.cost_usd_per_month == pytest.approx(plan.cost_usd_per_month)
    assert point.usd_per_1m_tokens == pytest.approx(plan.usd_per_1m_tokens)
    assert point.beyond == ()


@for_each("name", DEMANDS)
def test_more_demand_costs_more_and_what_is_signed_is_always_paid(name: str) -> None:
    plan = lever_plan(name)
    costs = [p.cost_usd_per_month for p in other_demand(plan, (0.1, 0.5, 2.0, 10.0))]
    assert costs == sorted(costs)
    assert costs[0] >= fixed_usd(plan) * (1 - 1e-9)
    assert costs[-1] > 2 * plan.cost_usd_per_month - fixed_usd(plan)


def test_twice_the_demand_needs_twice_the_boxes_by_hand() -> None:
    """At ten times the demand, margins hardly count: the bill by the hour is near ten times as high."""
    plan = lever_plan("together")
    assert not plan.commitments
    (point,) = other_demand(plan, (10.0,))
    caches = plan.costs.caching_usd_per_month
    by_the_hour = plan.cost_usd_per_month - caches
    assert 7 * by_the_hour < point.cost_usd_per_month - caches < 10 * by_the_hour


def test_a_quota_that_more_demand_breaks_is_named() -> None:
    plan = lever_plan("shedding")
    *_, high = other_demand(plan)
    assert high.beyond
    assert high.beyond[0].endswith("x l4, 6 allowed")
