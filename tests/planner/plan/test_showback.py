"""Showback by team: what workloads, held commitments and engineers come to, to the cent."""

from __future__ import annotations

import copy
from functools import cache

import pytest

import planner
from planner.checker import check_plan
from planner.plan.account import account_of
from planner.plan.account.held import held_usd_by_workload
from planner.plan.account.showback import showback_of
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
    assert rows["not used", None].held_usd_per_month == pytest.approx(730 * 0.333 * 41 / 90, abs=0.03)


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
