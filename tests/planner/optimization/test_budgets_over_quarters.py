"""Budgets for a quarter or a year: figures by hand, the checker, and growth by the year."""

from __future__ import annotations

import copy
from functools import cache

import pytest

import planner
from planner.case.case import case_from_json
from planner.checker import check_plan
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.reports.horizon import horizon_document
from planner.reports.phrases import limits_reached
from planner.reports.text import as_text
from tests.support.horizon_plans import FLAT_DEMAND
from tests.support.shared_plans import CHAT, fleet_plan

QUARTER_H = 2190.0
FALLS = """\
prices:
  aws/g6e.xlarge: {on_demand: $2/h, reserved_1y: $1.20/h, steps: [{from: 2027-04-01, on_demand: $0.30/h}]}
"""
"""two instances: cheapest on demand, at $8,760 in the first quarter and $1,314 in the second; committed, $5,256
in each"""
TWO = "starts: 2027-01-01\nhorizon: 2 quarters\n" + FLAT_DEMAND + FALLS


@cache
def planned(budget: str) -> HorizonPlan:
    text = TWO.replace("policy: {", f"policy: {{budget: {budget}, ") if budget else TWO
    return planner.plan_fleet(planner.case_from_text(text), planner.Options(gap_frac=1e-3))


def test_a_budget_for_each_quarter_is_reason_to_sign() -> None:
    free, tight = planned(""), planned("$6k/quarter")
    assert free.commitments == ()
    assert free.scenarios[0].by_quarter_usd == pytest.approx((8760, 1314))
    (signed,) = tight.commitments
    assert (signed.quarter, signed.instances) == (0, 2)
    assert tight.scenarios[0].by_quarter_usd == pytest.approx((5256, 5256))
    assert tight.status == "optimal"


def test_a_year_lets_quarters_differ_and_half_of_it_has_half() -> None:
    assert planned("$20.2k/year").scenarios[0].by_quarter_usd == pytest.approx((8760, 1314))
    for budget in ("$20k/year", "$5k/quarter"):
        with pytest.raises(planner.Infeasible) as none:
            planned(budget)
        assert none.value.proved and "budget" in " ".join(none.value.reasons)
        assert none.value.beyond is not None  # the plan that breaks only the budget, as one for what it spends
        (remedy,), case = none.value.remedies, none.value.beyond.case
        assert remedy.change(planner.case_from_text(TWO)).limits.budget_usd == case.limits.budget_usd
        assert not check_plan(none.value.beyond.as_json())
        text = f"to ${case.limits.budget_usd:,.0f} a {case.limits.budget_period}"
        assert text in " ".join(none.value.reasons)
        enough = 5256 if "quarter" in budget else 20148
        assert case.limits.budget_usd == pytest.approx(enough, abs=1)


def test_the_checker_adds_quarters_up_itself() -> None:
    horizon = planned("$6k/quarter")
    assert not check_plan(horizon.as_json())
    data = copy.deepcopy(horizon.as_json())
    data["case"]["limits"]["budget_usd"] = 5255.0
    data["case_hash"] = case_from_json(data["case"]).hash()
    problems = check_plan(data)
    assert "as forecast: quarter 1 cost $5,256.00, the budget is $5,255.00" in " ".join(problems)
    data["case"]["limits"] |= {"budget_usd": 20000.0, "budget_months": 12}
    data["case_hash"] = case_from_json(data["case"]).hash()
    assert "quarters 1 to 2 cost $10,512.00, the budget is $10,000.00" in " ".join(check_plan(data))


def test_the_report_says_what_is_left_of_it() -> None:
    text = as_text(horizon_document(planned("$6k/quarter")))
    assert "budget of $6,000 a quarter: quarter 1 $5,256, quarter 2 $5,256" in text


def test_a_plan_of_one_quarter_may_spend_its_share() -> None:
    """Growth makes three months of it, of which the last costs more than the mean."""
    grows = CHAT.replace("shape:", "growth: 30%/month, shape:")
    free = fleet_plan(planner.case_from_text(grows))
    spent = 3 * free.cost_usd_per_month
    kept = fleet_plan(planner.case_from_text(grows + f"policy: {{budget: ${spent + 1:.2f}/quarter}}\n"))
    assert kept.cost_usd_per_month == pytest.approx(free.cost_usd_per_month)
    assert next(iter(limits_reached(kept))) == f"the budget of ${spent + 1:,.0f} a quarter"
    for text in (f"${spent * 0.9:.2f}/quarter", f"${4 * spent * 0.9:.2f}/year"):
        with pytest.raises(planner.Infeasible):
            fleet_plan(planner.case_from_text(grows + f"policy: {{budget: {text}}}\n"))
    data = copy.deepcopy(kept.as_json())
    data["case"]["limits"]["budget_usd"] = 0.99 * spent
    data["case_hash"] = case_from_json(data["case"]).hash()
    assert any("on average, the budget of" in problem for problem in check_plan(data))


def test_growth_by_the_year_compounds_and_is_said() -> None:
    case = planner.case_from_text(TWO.replace("horizon", "growth: 40%/year\nhorizon"))
    factors = case.future.scenarios[0].month_factors["chat"] if case.future else ()
    assert factors[3] == pytest.approx(1.4 ** (3 / 12))
    (said,) = (a for a in case.assumptions if a.key.endswith("forecast.growth"))
    assert said.value == "+2.84% a month" and "x1, x1.09, x1.18, x1.29, x1.4 of the first month" in said.why


def test_a_month_is_a_budget_as_ever() -> None:
    case = planner.case_from_text(CHAT + "policy: {budget: $9k/month}\n")
    assert (case.limits.budget_usd_per_month, case.limits.budget_usd) == (9000.0, None)


def test_the_same_requests_at_the_api_by_hand() -> None:
    """720k requests a day of 900 tokens in and 180 out at $0.15 and $0.60 per million, 365 / 12 days a month."""
    horizon = planned("")
    (s,) = horizon.scenarios
    a_month = 720e3 * 365 / 12 * (900 * 0.15 + 180 * 0.60) / 1e6
    assert s.baseline_by_quarter_usd == pytest.approx((3 * a_month,) * 2)
    assert s.saves_usd == pytest.approx(6 * a_month - s.cost_usd)
    text = as_text(horizon_document(horizon))
    assert f"${6 * a_month:,.0f} expected; this plan costs" in text and "The same requests at the API baseline" in text
