"""Savings plans and provisioned units over several quarters: by hand, in scenarios, until they lapse, and checked."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import date
from functools import cache
from typing import Any

import pytest

import planner
from planner.case.allowances import units_of_a_lot
from planner.case.case import Allowance
from planner.checker import check_plan
from planner.checker.policy import check_policy
from planner.checker.policy.schema import policy_from_text
from planner.levers import LEVERS, PlanLever
from planner.optimization.horizon import NoHorizonPlan, plan_horizon
from planner.plan.account.account import account_of
from planner.plan.horizon.horizon_diff import diff_horizons
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.horizon.horizon_view import ladder
from planner.reports.charts.horizon import rungs
from planner.reports.diff import diff_document
from planner.reports.horizon import horizon_document
from planner.reports.horizon_phrases import sign_now
from planner.reports.summary import horizon_summary
from planner.reports.tables.horizon_allowances import allowance_use, allowances
from planner.reports.text import as_text
from solvers.search.fleet_solution import Options
from tests.support.rows import for_each
from tests.support.tampering import rehashed

HOURS = 730.0
DOLLARS = """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 2M, shape: business-hours}
    tokens: {input: 800, output: 150}
    quality: {max_loss: 2%}
    api: forbidden
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand]}
prices: {aws/g6e.xlarge: {on_demand: $2/h}}
policy: {startup: 0s, max_instances: {aws/g6e.12xlarge: 0, aws/g6e.48xlarge: 0}}
baseline: openai/gpt-4o-mini
starts: 2027-01-01
horizon: 2 quarters
savings_plans: [{name: compute-1y, provider: aws, discount: 40%}]
"""
SCENARIOS = (
    DOLLARS.replace("2M", "6M")
    + """
scenarios:
  - {name: low, probability: 20%, changes: {workloads.chat.forecast.growth_per_month: -40%}}
  - {name: high, probability: 80%, changes: {workloads.chat.forecast.growth_per_month: 25%}}
"""
)
LAPSING = DOLLARS.replace("discount: 40%", "discount: 40%, held: $6/h, until: 2027-05-15").replace(
    "horizon: 2 quarters", "horizon: 3 quarters"
)
UNITS = """
workloads:
  - name: support
    models: [llama-3.3-70b]
    forecast: {requests_per_day: 100k, shape: flat, growth_per_month: 10%}
    tokens: {input: 1200, output: 300}
menu: {gpus: [h100], purchase: [on-demand], apis: [azure/gpt-4.1]}
provisioned:
  - {name: ptu-1y, api: azure/gpt-4.1, price: $0.3/h, term: 1y}
  - {name: ptu-hourly, api: azure/gpt-4.1, price: $0.31/h}
policy: {engineers: {count: 4, usd_per_year: 300k}}
baseline: azure/gpt-4.1
starts: 2027-01-01
horizon: 2 quarters
"""


@cache
def planned(text: str) -> HorizonPlan:
    return plan_horizon(planner.case_from_text(text), Options(solver="highs"), compare=False)


@for_each("text", [DOLLARS, SCENARIOS, LAPSING, UNITS])
def test_what_is_planned_is_true(text: str) -> None:
    plan = planned(text)
    assert check_plan(plan.as_json()) == []
    assert plan.gap_frac <= 1e-3
    assert check_plan(json.loads(plan.to_json())) == []


def test_a_savings_plan_by_hand() -> None:
    """Demand is the same in both quarters: the plan of one quarter, and what is paid for it until the horizon ends."""
    plan = planned(DOLLARS)
    (signed,) = plan.allowances or ()
    (line,) = plan.quarters[0].plan.fleet
    hours = account_of(plan.quarters[0].plan).hours
    usd = {
        n: HOURS * n * 1.2 + 2 * sum(h * max(0, k - n) for h, k in zip(hours, line.instances_by_slot, strict=True))
        for n in range(max(line.instances_by_slot) + 1)
    }
    best = min(usd, key=lambda n: usd[n])
    assert 0 < best < max(line.instances_by_slot)
    assert signed.units == pytest.approx(1.2 * best)
    assert (signed.first_day, signed.last_day) == (date(2027, 1, 1), date(2027, 12, 31))
    assert plan.counted_usd == pytest.approx(6 * usd[best])
    assert plan.scenarios[0].by_quarter_usd == pytest.approx((3 * usd[best],) * 2)
    assert signed.inside_usd == signed.beyond_usd == pytest.approx(6 * HOURS * 1.2 * best)
    for q in plan.quarters:
        (held,) = q.plan.allowances or ()
        assert held.held and held.units == signed.units
        assert q.plan.held_usd_per_month == pytest.approx(signed.usd_per_month)


def test_scenarios_share_what_is_signed_now() -> None:
    """More is signed later where demand grows, and what is signed now is paid where it falls."""
    plan = planned(SCENARIOS)
    (now,), later = plan.allowances_now, [a for a in plan.allowances or () if a.scenario is not None]
    assert {a.scenario for a in later} == {"high"}
    units = {q.scenario: sum(a.units for a in q.plan.allowances or ()) for q in plan.quarters}
    assert units[None] == units["low"] == now.units
    assert units["high"] == pytest.approx(now.units + sum(a.units for a in later))
    used = {q.scenario: (q.plan.allowances or ())[0].used_frac for q in plan.quarters}
    assert used["low"] < 0.75 < used["high"]


def test_what_is_held_serves_and_is_paid_until_it_lapses() -> None:
    plan = planned(LAPSING)
    first, second, third = (q.plan for q in plan.quarters)
    assert [a.units for a in first.allowances or ()] == [6.0]
    assert first.held_usd_per_month == pytest.approx(6 * HOURS)
    days = 45 / 91
    assert plan.held_usd == pytest.approx(3 * HOURS * 6 * (1 + days))
    now, later = plan.allowances or ()
    assert (now.quarter, later.quarter) == (1, 2) and now.scenario is not None
    assert [a.units for a in third.allowances or ()] == [now.units + later.units]
    lapsing, anew = second.allowances or ()  # while it is there, less is signed than when it has lapsed
    assert (lapsing.units, lapsing.usd_per_month) == (6.0, pytest.approx(HOURS * 6 * days))
    assert lapsing.covered_usd_per_month > 0 and anew.units == now.units
    assert second.held_usd_per_month == pytest.approx(HOURS * 6 * days + anew.usd_per_month)


def test_the_checker_cuts_a_quarter_where_what_is_held_lapses() -> None:
    data = copy.deepcopy(planned(LAPSING).as_json())
    part = data["quarters"][1]["plan"]["case"]["allowances"][0]
    assert part["in_months"] == [0] and not check_plan(data)
    part["in_months"] = [0, 1]
    assert any("what is held for a part of the quarter differs" in problem for problem in check_plan(data))


def test_units_without_a_term_are_each_quarters_own() -> None:
    """Those of a year cost less, and begin with fifteen; quarters may add by the hour."""
    plan = planned(UNITS)
    assert {a.name for a in plan.allowances or ()} == {"ptu-1y"}
    assert all(a.units >= 15 and a.units % 5 == 0 for a in plan.allowances or ())
    dear = planned(UNITS.replace("$0.3/h", "$0.35/h"))
    assert dear.allowances is None
    own = [(q.plan.allowances or ())[0] for q in dear.quarters]
    assert [a.name for a in own] == ["ptu-hourly"] * 2
    assert own[0].units < own[1].units and not own[0].held
    assert dear.counted_usd >= plan.bound_usd
    assert not check_plan(dear.as_json())


def test_no_more_is_in_force_than_allowed() -> None:
    free = planned(SCENARIOS)
    limit = (free.allowances_now[0].units + 1.0) / 2
    plan = planned(SCENARIOS.replace("discount: 40%", f"discount: 40%, max: ${limit:.2f}/h"))
    assert all(sum(a.units for a in q.plan.allowances or ()) <= limit + 1e-6 for q in plan.quarters)
    assert plan.counted_usd > free.counted_usd
    assert not check_plan(plan.as_json())


def test_three_years_are_signed_where_the_file_says_what_is_left_is_worth() -> None:
    text = DOLLARS.replace("discount: 40%", "discount: 60%, term: 3y")
    assert planned(text).allowances is None
    (assumed,) = [a for a in planned(text).case.assumptions if a.key == "savings_plans.compute-1y"]
    assert assumed.value == "not signed in 2 quarters"
    lapsing = planner.case_from_text(LAPSING.replace("discount: 40%", "discount: 60%, term: 3y"))
    values = [a.value for a in lapsing.assumptions if a.key == "savings_plans.compute-1y"]
    assert "not signed anew in 3 quarters" in values
    beyond = planner.case_from_text(
        LAPSING.replace("discount: 40%", "discount: 60%, term: 3y").replace("05-15", "12-31")
    )
    assert not any(a.key == "savings_plans.compute-1y" for a in beyond.assumptions)
    worth = planned(text + "unused_after_horizon: {worth: 90%}\n")
    (signed,) = worth.allowances or ()
    assert signed.counted_usd == pytest.approx(signed.usd_per_month * (6 + 0.1 * 30))
    assert not check_plan(worth.as_json())
    owing = planned(text + "unused_after_horizon: {worth: 90%}\n".replace("90%", "95%"))
    assert sum(a.units for a in owing.allowances or ()) >= signed.units
    limited = planned(text.replace("policy: {", f"policy: {{max_liability: ${signed.beyond_usd / 2:.0f}, "))
    assert 0 < sum(a.units for a in limited.allowances or ()) < signed.units
    assert not check_plan(limited.as_json())


def test_a_budget_counts_what_is_signed() -> None:
    free = planned(DOLLARS)
    quarter = free.scenarios[0].by_quarter_usd[0]
    kept = planned(DOLLARS.replace("policy: {", f"policy: {{budget: ${quarter * 1.001:.0f}/quarter, "))
    assert kept.counted_usd == pytest.approx(free.counted_usd)
    with pytest.raises(NoHorizonPlan):
        planned(DOLLARS.replace("policy: {", f"policy: {{budget: ${quarter * 0.98:.0f}/quarter, "))


def test_lots_are_round_parts_of_the_lowest_rate() -> None:
    one = Allowance(name="a", usd_per_h=1.0, rates={"g": 1.2, "h": 1.2}, source="")
    assert units_of_a_lot(one) == 1.2
    assert units_of_a_lot(one.model_copy(update={"rates": {"g": 1.2, "h": 4.0}})) == pytest.approx(0.2)
    assert units_of_a_lot(one.model_copy(update={"rates": {"g": 0.8, "h": 4.0}})) == pytest.approx(0.2)
    assert units_of_a_lot(one.model_copy(update={"step": 5.0})) == 5.0
    assert units_of_a_lot(one.model_copy(update={"step": 10.0, "fewest": 25.0})) == 5.0


def _signed(change: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    return lambda data: change(data["allowances"][0])


def _in_quarter(factor: float) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        plan = data["quarters"][1]["plan"]
        plan["case"]["allowances"][0]["held"] *= factor
        plan["allowances"][0]["units"] *= factor
        rehashed(plan)

    return change


def _as_if_for_sale(data: dict[str, Any]) -> None:
    """A quarter that signs for itself what is signed for several."""
    plan = data["quarters"][1]["plan"]
    plan["case"]["allowances"][0].pop("held")
    rehashed(plan)


@for_each(
    ("change", "words"),
    [
        (_signed(lambda a: a.update(units=2 * a["units"])), "what is held"),
        (_signed(lambda a: a.update(usd_per_month=0.9 * a["usd_per_month"])), "usd_per_month"),
        (_signed(lambda a: a.update(inside_usd=0.0)), "inside_usd"),
        (_signed(lambda a: a.update(beyond_usd=0.0)), "beyond_usd"),
        (_signed(lambda a: a.update(counted_usd=1.0)), "counted_usd"),
        (_signed(lambda a: a.update(last_day="2028-12-31")), "its last day"),
        (_signed(lambda a: a.update(first_day="2027-04-01")), "its first day"),
        (_signed(lambda a: a.update(term="3y")), "is not sold for several quarters"),
        (_signed(lambda a: a.update(name="other")), "is not sold for several quarters"),
        (_signed(lambda a: a.update(quarter=7)), "does not exist"),
        (_signed(lambda a: a.update(scenario="high")), "signed in every scenario, and nothing else is"),
        (lambda data: data["allowances"].append(data["allowances"][0]), "signed in 2 lines"),
        (lambda data: data.pop("allowances"), "are not those of the horizon that are there"),
        (_in_quarter(1.5), "what is held"),
        (_as_if_for_sale, "what is held"),
    ],
)
def test_a_changed_plan_is_refused(change: Callable[[dict[str, Any]], None], words: str) -> None:
    data = copy.deepcopy(planned(SCENARIOS).as_json())
    change(data)
    problems = check_plan(data)
    assert any(words in problem for problem in problems), problems


RULES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"most": 1.0}, "1 allowed"),
    ({"step": 0.7}, "sold in steps of 0.7"),
    ({"fewest": 99.0}, "no fewer than 99 are sold"),
    ({"held": 1.0}, "in which 1 are held"),
)


@for_each(("update", "words"), RULES)
def test_a_plan_against_the_rules_is_refused(update: dict[str, Any], words: str) -> None:
    """The case inside is another one."""
    data = copy.deepcopy(planned(SCENARIOS).as_json())
    data["case"]["allowances"][0] |= update
    rehashed(data)
    problems = check_plan(data)
    assert any(words in problem for problem in problems), problems


def test_reports_say_what_is_signed_used_and_lost() -> None:
    plan = planned(SCENARIOS)
    (now,) = plan.allowances_now
    assert f"of compute-1y for 1y; ${now.usd_per_month:,.0f} / month" in sign_now(plan)
    rows = allowances(plan).rows
    assert [row[0] for row in rows] == ["sign now"] + ["sign later"] * (len(rows) - 1)
    uses = allowance_use(plan).records
    assert len(uses) == len(plan.quarters)
    for use in uses:
        assert use.lost_usd_per_month == pytest.approx((1 - use.of.used_frac) * use.of.usd_per_month)
    text = as_text(horizon_document(plan))
    assert "What they cover, by quarter" in text and "$/month lost" in text
    assert "Savings plans and provisioned units" not in as_text(
        horizon_document(planned(UNITS.split("provisioned")[0] + UNITS.split("$0.31/h}")[1]))
    )


def test_reports_say_when_what_is_held_ends_and_what_that_quarter_loses() -> None:
    plan = planned(LAPSING)
    assert plan.allowances and not plan.allowances_now
    assert sign_now(plan) == "sign nothing now: no commitment that begins in the first quarter pays off or is allowed"
    lost = [use for use in allowance_use(plan).records if use.quarter == 1 and use.amount == "$6.00/h"]
    first = plan.quarters[0].plan.allowances or ()
    unused = 1 - first[0].used_frac  # the same hours of the day use it on the days that it is still there
    assert [use.lost_usd_per_month for use in lost] == [pytest.approx(unused * 6 * HOURS * 45 / 91)]
    held = [use for use in allowance_use(plan).records if use.of.held and use.amount == "$6.00/h"]
    assert 3 * sum(use.of.usd_per_month for use in held) == pytest.approx(plan.held_usd)
    ends = [(e.month, e.offer, e.purchase, e.origin, e.inside) for e in ladder(plan)]
    assert ends == [
        ("2027-05", "compute-1y", "1y", "held", True),
        ("2028-03", "compute-1y", "1y", "signed later", False),
        ("2028-06", "compute-1y", "1y", "signed later", False),
    ]
    assert [(r.last, r.origin) for r in rungs(plan)] == [
        (date(2027, 5, 15), "held"),
        (date(2028, 3, 31), "signed later"),
        (date(2028, 6, 30), "signed later"),
    ]
    summary = as_text(horizon_summary(plan))
    assert "later: $6.00/h of compute-1y is held until 2027-05-15; " in summary
    assert "of compute-1y is signed on 2027-04-01 for 1y" in summary


def test_a_diff_and_a_policy_count_them() -> None:
    plan, other = planned(DOLLARS), planned(DOLLARS.replace("discount: 40%", "discount: 50%"))
    diff = diff_horizons(plan, other)
    (change,) = diff.allowances or ()
    (a,), (b,) = plan.allowances or (), other.allowances or ()
    assert (change.units_before, change.units_after) == (a.units, b.units)
    assert "savings plans and provisioned units" in as_text(diff_document(diff))
    same = diff_horizons(plan, plan)
    assert same.same and same.allowances == ()
    check = check_policy(
        plan, policy_from_text("max_commitment_usd: 1000\nmax_liability_usd: 1000"), None, date(2026, 11, 19)
    )
    rules = {rule.rule: rule for rule in check.rules}
    for name in ("max_commitment_usd", "max_liability_usd"):
        assert not rules[name].passed
        assert rules[name].value == pytest.approx(a.beyond_usd)


@pytest.mark.parametrize("key", ["savings plans", "provisioned throughput"])
def test_without_them_nothing_is_signed_when_what_is_held_lapses(key: str) -> None:
    """What is held stays until its last day, within the second quarter or at the end of the first."""
    units = UNITS.replace("$0.3/h", "$0.3/h, held: 20, until: 2027-03-31")
    text = LAPSING if key == "savings plans" else units.replace("$0.31/h}", "$0.31/h, held: 25, until: 2027-03-31}")
    plan = planned(text)
    lever = next(lever for lever in LEVERS if isinstance(lever, PlanLever) and lever.key == key)
    without = plan_horizon(lever.change(plan.case), Options(solver="highs"), compare=False)
    assert without.allowances is None
    held = 2 if key == "savings plans" else 1
    assert [bool(q.plan.allowances) for q in without.quarters] == [n < held for n in range(len(without.quarters))]
    assert without.held_usd == pytest.approx(plan.held_usd)
    assert without.counted_usd > plan.counted_usd
    assert check_plan(json.loads(without.to_json())) == []
    switch = "savings_plans" if key == "savings plans" else "provisioned"
    barred = planner.case_from_text(text.replace("menu: {", f"menu: {{{switch}: false, "))
    assert barred.allowances == without.case.allowances


def test_nothing_is_signed_anew_that_may_not_be() -> None:
    data = copy.deepcopy(planned(LAPSING).as_json())
    data["case"]["allowances"][0]["most"] = 0.0
    rehashed(data)
    problems = check_plan(data)
    assert any("are in force, 0 allowed" in problem for problem in problems), problems
