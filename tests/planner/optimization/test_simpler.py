"""The simple plan beside the cheapest one: found, priced, and taken where that is asked for."""

from __future__ import annotations

from functools import cache

import planner
from planner.checker import check_plan
from planner.optimization.simpler import cuts_of, simplified
from planner.plan.complications import parts_of
from planner.plan.plan import Plan
from planner.reports.phrases import simpler_plan
from solvers.search.fleet_solution import Options
from tests.support.shared_plans import CHAT, fleet_plan, plan_of
from tests.support.shown import first_screen

OVERFLOW = """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 400k, shape: business-hours}
    tokens: {input: 800, output: 200}
menu: {gpus: [l40s], quantizations: [fp8], providers: [aws], regions: [us-east-1], purchase: [on-demand]}
baseline: openai/gpt-4o-mini
"""


@cache
def planned(policy: str = "", text: str = OVERFLOW) -> Plan:
    return plan_of(planner.case_from_text(text + (f"policy: {{{policy}}}\n" if policy else "")))


def uses_an_api(plan: Plan) -> bool:
    return any(part.kind == "api" for part in parts_of(plan))


def test_what_an_api_saves_is_that_of_a_plan_without_it() -> None:
    cheapest = planned()
    assert uses_an_api(cheapest) and cheapest.simpler is not None
    (reduction,) = cheapest.simpler.reductions
    without = planned(text=OVERFLOW.replace("    tokens:", "    api: forbidden\n    tokens:"))
    more = without.cost_usd_per_month - cheapest.cost_usd_per_month
    assert reduction.saves_usd_per_month is not None
    assert abs(reduction.saves_usd_per_month - more) <= 0.0026 * without.cost_usd_per_month
    assert reduction.done == (reduction.saves_usd_per_month <= 0.02 * cheapest.cost_usd_per_month)


def test_what_may_cost_much_is_cut_and_what_may_cost_nothing_stays() -> None:
    wide, none = planned("simpler_within: 100%"), planned("simpler_within: 0%")
    assert wide.simpler is not None and none.simpler is not None
    assert [r.done for r in wide.simpler.reductions] == [True]
    assert [r.done for r in none.simpler.reductions] == [False]
    assert none.simpler.cost_usd_per_month == none.cost_usd_per_month
    assert wide.cost_usd_per_month == none.cost_usd_per_month, "the cheapest stays the plan"
    assert "'policy: {choose: simplest}' chooses it" in first_screen(wide)
    assert "over 0%" in first_screen(none) and "chooses it" not in first_screen(none)


def test_the_simplest_is_the_plan_where_that_is_asked_for() -> None:
    cheapest, simple = planned("simpler_within: 100%"), planned("simpler_within: 100%, choose: simplest")
    assert cheapest.simpler is not None and simple.simpler is not None
    assert not uses_an_api(simple) and simple.simpler.chosen and not cheapest.simpler.chosen
    assert abs(simple.cost_usd_per_month / cheapest.simpler.cost_usd_per_month - 1) <= 0.003
    assert check_plan(simple.as_json()) == []
    assert any("this is the simplest plan within 100% of the cheapest" in line for line in simpler_plan(simple))
    kept = planned("simpler_within: 0%, choose: simplest")
    assert uses_an_api(kept) and kept.simpler is not None and not kept.simpler.chosen


def test_a_plan_that_is_as_simple_as_can_be_costs_no_search() -> None:
    plan = planned(text=OVERFLOW.replace("    tokens:", "    api: forbidden\n    tokens:"))
    assert not list(cuts_of(plan)) and plan.simpler is None
    assert '"simpler"' not in plan.to_json() and "simpler" not in first_screen(plan)


def test_a_workload_that_an_api_serves_alone_keeps_it() -> None:
    plan = planned(text=OVERFLOW.replace("400k", "2k"))
    assert not plan.fleet and plan.simpler is None


def test_the_time_limit_holds_for_it() -> None:
    plan = planner.plan_fleet(planner.case_from_text(OVERFLOW), Options(time_limit_s=0.9))
    assert isinstance(plan, Plan)
    assert plan.simpler is not None or not plan.has("simpler") or not list(cuts_of(plan))


def test_a_savings_plan_keeps_only_the_rates_of_offers_that_are_left() -> None:
    """Simpler plans are made on a menu of what the plan uses, and a case knows no rate of an offer that it lacks."""
    signed = "savings_plans: [{name: p, provider: aws, discount: 27%}]\nbaseline"
    text = CHAT.replace("[l40s]", "[l40s, a10g]").replace("baseline", signed)
    plan = fleet_plan(planner.case_from_text(text))
    case = simplified(plan, [])
    (allowance,) = case.allowances or ()
    (whole,) = plan.case.allowances or ()
    assert set(allowance.rates or {}) == set(whole.rates or {}) & set(case.offers) < set(whole.rates or {})
