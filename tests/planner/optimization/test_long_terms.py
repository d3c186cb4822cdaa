"""What terms of more than a year would save a plan of one quarter: priced here again, and never more than they can."""

from __future__ import annotations

from functools import cache

import pytest

import planner
from planner.checker import check_plan
from planner.plan.plan import Plan
from planner.reports.phrases import fleet_notes
from tests.support.rows import for_each

DEMAND = """\
name: one
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 3M, shape: consumer}
    tokens: {input: 900, output: 180}
    api: forbidden
menu: {gpus: [l40s], quantizations: [fp8], purchase: [PURCHASE], max_deployments: 1, regions: [us-east-1]}
prices: {aws/g6e.xlarge: {on_demand: $2/h, reserved_1y: $1.2/h, reserved_3y: $THREE/h}}
baseline: openai/gpt-4o-mini
"""
OPTIONS = planner.Options(gap_frac=0.001)
MONTH_H = 730.0


@cache
def planned(purchase: str = "on-demand, reserved-1y, reserved-3y", three: str = "0.8") -> Plan:
    text = DEMAND.replace("PURCHASE", purchase).replace("THREE", three)
    return planner.plan_fleet(planner.case_from_text(text), OPTIONS)


def on_demand_usd(plan: Plan, counts: list[int]) -> float:
    total = 0.0
    for t, slot in enumerate(plan.slots):
        before = counts[t - 1] if slot.hour else counts[t + 23]
        hours = (5 if slot.day == "weekday" else 2) / 7 * MONTH_H / 24
        total += 2.0 * hours * (counts[t] + max(0, counts[t] - before) * plan.case.start.instance_s / 3600)
    return total


@pytest.mark.parametrize("three", ["0.8", "1.3"])
def test_the_same_instances_priced_again(three: str) -> None:
    plan, price = planned(three=three), float(three) * MONTH_H
    lines = {line.purchase: line for line in plan.fleet}
    counts = list(lines["on-demand"].instances_by_slot)
    now = on_demand_usd(plan, counts)
    savings = {
        k: now - on_demand_usd(plan, [max(0, n - k) for n in counts]) - k * price for k in range(max(counts) + 1)
    }
    k = max(savings, key=lambda k: savings[k])
    reserved = lines["reserved-1y"].instances_by_slot[0] if price < 1.2 * MONTH_H else 0
    n, saved = k + reserved, savings[k] + reserved * (1.2 * MONTH_H - price)
    assert plan.long_terms is not None
    if not n:
        assert plan.long_terms == () and not any("not bought" in note for note in fleet_notes(plan))
        return
    (term,) = plan.long_terms
    assert (term.term, term.instances) == ("reserved-3y", n)
    assert term.saves_usd_per_month == pytest.approx(saved) and term.usd_per_month == pytest.approx(n * price)
    assert term.beyond_horizon_usd == pytest.approx(33 * n * price) and term.upfront_usd == 0
    assert term.months_to_pay == pytest.approx(36 * n * price / (saved + n * price))
    assert any(f"would save ${saved:,.0f} / month" in note for note in fleet_notes(plan))


def test_a_plan_that_may_buy_them_saves_at_least_that() -> None:
    plan = planned()
    assert plan.long_terms
    text = DEMAND.replace("PURCHASE", "on-demand, reserved-1y, reserved-3y").replace("THREE", "0.8")
    text += "starts: 2027-01-01\nunused_after_horizon: {worth: 100%}\n"
    free = planner.plan_fleet(planner.case_from_text(text), OPTIONS)
    estimate = plan.cost_usd_per_month - sum(t.saves_usd_per_month for t in plan.long_terms)
    assert free.bound_usd / 3 <= estimate * (1 + 1e-9)
    assert all(q.plan.long_terms is None for q in free.quarters)


def test_menus_without_long_terms_say_nothing() -> None:
    plan = planned("on-demand, reserved-1y")
    assert plan.long_terms is None and "long_terms" not in plan.as_json()


@for_each("key", ["instances", "saves_usd_per_month", "beyond_horizon_usd", "months_to_pay"])
def test_the_checker_works_it_out_again(key: str) -> None:
    data = planned().as_json()
    assert check_plan(data) == []
    (term,) = data["long_terms"]
    data["long_terms"] = [term | {key: term[key] + 1}]
    assert any("long" in problem for problem in check_plan(data))
    data["long_terms"] = []
    assert any("long_terms" in problem for problem in check_plan(data))
