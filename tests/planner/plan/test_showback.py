"""Showback by team: what workloads, held commitments and engineers come to, to the cent."""

from __future__ import annotations

import copy
from fractions import Fraction
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner.checker import check_plan
from planner.plan.account.account import account_of
from planner.plan.account.showback import HELD, held_usd_by_workload, in_cents, showback_of
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.horizon.horizon_showback import horizon_showback
from planner.plan.plan import Plan
from planner.reports.formats import as_csv, as_markdown
from planner.reports.plan import plan_document
from planner.reports.tables.plan import showback
from planner.reports.text import as_text
from tests.support.shared_plans import fleet_plan

TEXT = """
workloads:
  - {name: chat, team: support, models: [llama-3.1-8b], forecast: {requests_per_day: 700k, shape: business-hours}}
  - {name: mail, team: support, models: [llama-3.1-8b], forecast: {requests_per_day: 90k}}
  - {name: notes, team: "=sales", models: [llama-3.1-8b], forecast: {requests_per_day: 300k}}
  - {name: trial, models: [llama-3.1-8b], forecast: {requests_per_day: 3k}}
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand], apis: []}
policy: {engineers: {count: 1, usd_per_year: 100001}}
starts: 2027-01-01
have:
  - {offer: aws/g6e.xlarge, purchase: reserved-1y, instances: 1, price: $1.20/h, until: 2027-06-30}
  - {offer: aws/g6e.12xlarge, purchase: reserved-1y, instances: 1, price: $0.333/h, until: 2027-02-10}
baseline: openai/gpt-4o-mini
"""
"""the second of what is held lapses within the quarter, so that nobody can use it"""
NOISE = Fraction(1, 10**4)


@cache
def planned() -> Plan:
    return fleet_plan(planner.case_from_text(TEXT))


def test_rows_add_up_to_the_whole_bill_to_the_cent() -> None:
    plan = planned()
    rows = plan.showback or ()
    assert round(sum(100 * row.usd_per_month for row in rows)) == round(100 * plan.total_usd_per_month)
    for row in rows:
        parts = (row.instances_usd_per_month, row.apis_usd_per_month, row.caching_usd_per_month)
        each = (*parts, row.held_usd_per_month, row.other_usd_per_month)
        assert round(100 * row.usd_per_month) == sum(round(100 * part) for part in each)


def test_what_teams_bear_of_what_is_held_adds_up_to_it() -> None:
    rows = planned().showback or ()
    assert sum(round(100 * row.held_usd_per_month) for row in rows) == round(100 * planned().held_usd_per_month)


AMOUNTS = st.floats(0, 1e6) | st.sampled_from([0.0, 0.005, 0.015, 1 / 3, 2 / 3, 1e-9])


@given(st.lists(st.lists(AMOUNTS, min_size=5, max_size=5), min_size=1, max_size=8))
def test_rows_and_columns_of_cents_add_up(rows: list[list[float]]) -> None:
    """To the rounded whole; what is held to its own rounded sum; and no cell is a cent or more from what it is."""
    cents = in_cents(rows, HELD)
    sums = [
        sum(Fraction(100 * amount).limit_denominator(10**6) for amount in column) for column in zip(*rows, strict=True)
    ]
    assert abs(sum(map(sum, cents)) - sum(sums)) <= Fraction(1, 2) + NOISE
    for k, column in enumerate(zip(*cents, strict=True)):
        assert abs(sum(column) - sums[k]) <= (Fraction(1, 2) if k == HELD else 1) + NOISE
    for row, whole in zip(rows, cents, strict=True):
        for amount, cell in zip(row, whole, strict=True):
            assert abs(cell - 100 * amount) < 1 + NOISE
            assert cell == 0 or amount > 0


def test_each_team_bears_its_workloads_and_its_share_of_what_is_held() -> None:
    plan = planned()
    held = held_usd_by_workload(account_of(plan))
    cost = {w.name: w.cost_usd_per_month + held[w.name] for w in plan.workloads}
    rows = {(row.kind, row.team): row for row in plan.showback or ()}
    assert rows["team", "support"].workloads == ("chat", "mail")
    assert rows["team", "support"].usd_per_month == pytest.approx(cost["chat"] + cost["mail"], abs=0.03)
    assert rows["team", "=sales"].usd_per_month == pytest.approx(cost["notes"], abs=0.03)
    assert rows["no team", None].usd_per_month == pytest.approx(cost["trial"], abs=0.03)
    assert rows["shared", None].usd_per_month == pytest.approx(100001 / 12, abs=0.03)
    assert ("not used", None) not in rows and plan.held_usd_per_month > 730 * 0.333 * 41 / 90  # which lapses
    assert sum(held.values()) == pytest.approx(plan.held_usd_per_month)


def test_it_is_in_every_report() -> None:
    document = plan_document(planned(), verbose=True)
    assert "Showback by team" in as_text(document) and "Showback by team" in as_markdown(document)
    table = as_csv(document, "showback")
    assert table.startswith("team,kind,workloads,") and "'=sales" in table
    whole = showback(planned()).people_rows[-1]
    assert whole[0] == "in all" and f"{planned().total_usd_per_month:,.2f}" == f"{whole[-2]:,.2f}"


def test_a_plan_without_teams_has_no_showback() -> None:
    plan = planned()
    assert "showback" in plan.as_json()
    case = plan.case.model_copy(
        update={"workloads": tuple(w.model_copy(update={"team": None}) for w in plan.case.workloads)}
    )
    account = type(account_of(plan))(case, account_of(plan).decided, plan)
    assert showback_of(account, plan.workloads) is None
    assert "showback" not in plan.model_copy(update={"showback": None}).as_json()


def test_the_checker_works_it_out_again() -> None:
    data = copy.deepcopy(planned().as_json())
    assert not check_plan(data)
    data["showback"][0]["usd_per_month"] += 1.0
    assert any("showback" in problem for problem in check_plan(data))


HORIZON = """
starts: 2027-01-01
horizon: 2 quarters
scenarios:
  - {name: low, probability: 40%, changes: {workloads.chat.forecast.growth_per_month: "-3%"}}
  - {name: high, probability: 60%, changes: {workloads.chat.forecast.growth_per_month: "8%"}}
workloads:
  - {name: chat, team: support, models: [llama-3.1-8b], forecast: {requests_per_day: 700k, shape: business-hours}}
  - {name: notes, models: [llama-3.1-8b], forecast: {requests_per_day: 300k}, until: 2027-03-31}
menu:
  gpus: [l40s]
  quantizations: [fp8]
  purchase: [on-demand, reserved-1y]
  apis: []
  providers: [aws]
  regions: [us-east-1]
policy: {engineers: {count: 1, usd_per_year: 100001}}
have:
  - {offer: aws/g6e.xlarge, purchase: reserved-1y, instances: 1, price: $1.20/h, until: 2027-05-15}
baseline: openai/gpt-4o-mini
"""


def test_teams_of_a_horizon_bear_its_expected_cost_to_the_cent() -> None:
    """By scenario and its probability; what lapses within a quarter is borne by those who use it on its days."""
    horizon = planner.plan_fleet(planner.case_from_text(HORIZON))
    assert isinstance(horizon, HorizonPlan)
    rows = {(row.kind, row.team): row for row in horizon_showback(horizon)}
    assert list(rows) == [("team", "support"), ("no team", None), ("shared", None)]
    assert sum(round(100 * row.usd) for row in rows.values()) == round(100 * horizon.expected_cost_usd)
    assert rows["shared", None].other_usd == pytest.approx(6 * 100001 / 12, abs=0.01)
    held = 1.20 * 3 * 730 * (1 + 45 / 91)
    assert horizon.held_usd == pytest.approx(held, abs=0.01)
    assert rows["team", "support"].committed_usd + rows["no team", None].committed_usd >= held - 0.01
    assert rows["no team", None].workloads == ("notes",)
    quarters = {(q.quarter, q.scenario): q.plan for q in horizon.quarters}
    weights = {(0, None): 3, (1, "low"): 3 * 0.4, (1, "high"): 3 * 0.6}
    support = sum(
        weight * row.usd_per_month
        for which, weight in weights.items()
        for row in quarters[which].showback or ()
        if row.team == "support"
    )
    assert rows["team", "support"].usd == pytest.approx(support, abs=0.1)
    assert "Showback by team, of the expected cost" in as_text(plan_document(horizon))
