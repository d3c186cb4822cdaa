"""What is held goes on being paid: it is in the headline, in what is saved and in what workloads bear."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest

import planner
from planner.plan.account.account import account_of
from planner.plan.account.showback import held_usd_by_workload
from planner.plan.plan import Plan
from planner.reports.formats import RENDERERS
from planner.reports.plan import plan_document
from planner.reports.tables.answers import here_usd, to_sign, what_moves_it
from planner.reports.text import as_text
from tests.support.shared_plans import fleet_plan

HOURS = 730.0
TWO = """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 500k}
    tokens: {input: 800, output: 150}
  - name: mail
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 100k}
    tokens: {input: 800, output: 150}
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand], apis: [], tenancy: [dedicated]}
starts: 2027-01-01
have:
  - {offer: aws/g6e.xlarge, purchase: reserved-1y, instances: 12, price: $1.20/h, until: 2027-06-30}
baseline: openai/gpt-4o-mini
"""
"""far more than what is needed"""
DOLLARS = """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 2M, shape: business-hours}
    tokens: {input: 800, output: 150}
    api: forbidden
menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand]}
prices: {aws/g6e.xlarge: {on_demand: $2/h}}
savings_plans: [{name: compute-1y, provider: aws, discount: 40%, held: $99/h}]
policy: {startup: 0s, max_instances: {aws/g6e.xlarge: 40}}
baseline: openai/gpt-4o-mini
"""


@cache
def planned(text: str) -> Plan:
    return fleet_plan(planner.case_from_text(text))


def test_nobody_saves_everything_where_the_held_bill_goes_on() -> None:
    plan, held = planned(TWO), 12 * 1.2 * HOURS
    assert (plan.cost_usd_per_month, plan.held_usd_per_month) == pytest.approx((0.0, held))
    b = plan.baseline
    assert b.savings_usd_per_month == pytest.approx(b.cost_usd_per_month - held)
    assert b.savings_frac == pytest.approx(1 - held / b.cost_usd_per_month)
    assert b.savings_frac < 0


def test_the_first_screen_has_the_whole_bill() -> None:
    plan = planned(TWO)
    lines = as_text(plan_document(plan)).splitlines()
    assert lines[1].strip().startswith("$10,512 / month") and "more ($" in lines[1]
    assert not any("100%" in line for line in lines[:5])
    (said,) = (line for line in lines if "in any case for what is held" in line)
    moved = plan.baseline.cost_usd_per_month + plan.held_usd_per_month
    assert said.strip().startswith("$10,512 / month is paid in any case") and f"${moved:,.0f} / month" in said


def test_its_tables_add_up_to_the_whole_bill() -> None:
    plan = planned(TWO)
    *parts, whole = [row["cost_usd_per_month"] for row in to_sign(plan).records]
    assert whole == pytest.approx(sum(parts)) == pytest.approx(plan.total_usd_per_month)
    for row in what_moves_it(plan).records:
        assert row.low_usd_per_month >= plan.held_usd_per_month - 1e-6
    assert "$10,512" in RENDERERS["markdown"](plan_document(plan))


def test_each_workload_bears_the_share_that_it_uses() -> None:
    """By hand: GPU-hours of replicas, which are all on one offer."""
    plan = planned(TWO)
    borne, account = held_usd_by_workload(account_of(plan)), account_of(plan)
    hours = {p.workloads: account.a_month(d.replicas_by_slot) for p in plan.pools for d in p.deployments}
    assert len(hours) == 2, "one deployment for each of them"
    for (name,), mine in hours.items():
        assert borne[name] == pytest.approx(plan.held_usd_per_month * mine / sum(hours.values()))
    assert here_usd(plan, ("chat", "mail")) == pytest.approx(plan.total_usd_per_month)


def test_dollars_above_what_instances_can_use_are_held_all_the_same() -> None:
    plan = planned(DOLLARS)
    (held,) = plan.allowances or ()
    assert held.units == pytest.approx(99) and held.used_frac < 0.5
    assert held_usd_by_workload(account_of(plan)) == pytest.approx({"chat": 99 * HOURS})


def test_more_held_saves_less() -> None:
    """The same fleet under rising commitments."""
    plan = planned(TWO)
    case = plan.case
    saved = []
    for more in (0.0, 500.0, 5000.0):
        account = type(account_of(plan))(
            case.model_copy(update={"held_besides_usd_per_month": more or None}), account_of(plan).decided, plan
        )
        saved.append(account.money.baseline.savings_usd_per_month)
    assert all(b < a for a, b in pairwise(saved))
