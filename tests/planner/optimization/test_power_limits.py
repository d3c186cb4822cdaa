"""Limits on power, from the demand file to a plan that is checked."""

from __future__ import annotations

import pytest

import planner
from planner.case.changes import has_quotas, without_quotas
from planner.case.demand.load import case_from_text
from planner.checker import check_plan
from planner.explanations.limits import every_limit
from planner.io.errors import InputError
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.plan import Plan
from planner.reports.phrases import limits_reached
from tests.support.shared_plans import CHAT, fleet_plan
from tests.support.tampering import rehashed

OPEN = CHAT.replace("    api: forbidden\n", "").replace("menu: {", "menu: {max_deployments: 1, ")
L40S_KW = 1.147 * (0.97 + 0.5) * 0.35
"""a box of one L40S in us-east-1 whose GPU is in use"""


def limited(limit: str) -> Plan:
    return fleet_plan(case_from_text(OPEN + f"policy: {{{limit}}}\n"))


def most_at_once(plan: Plan) -> int:
    return max(sum(line.instances_by_slot[t] for line in plan.fleet) for t in range(len(plan.slots)))


def test_power_that_may_be_drawn_limits_the_boxes_of_every_hour() -> None:
    free, plan = fleet_plan(case_from_text(OPEN)), limited(f"power_kw: {4.5 * L40S_KW}")
    assert most_at_once(free) > 4
    assert most_at_once(plan) == 4
    assert plan.power is not None
    assert plan.power.rated_kw == pytest.approx(4 * L40S_KW)
    assert plan.cost_usd_per_month > free.cost_usd_per_month
    assert plan.status == "optimal"
    assert plan.cost_usd_per_month == pytest.approx(plan.bound_usd_per_month)
    (reached,) = (b for b in plan.binding if b.limit == "power_kw")
    assert reached.hours_per_month > 0
    assert any(line.startswith("power_kw 2.656 (") for line in limits_reached(plan))


def test_a_plan_that_exceeds_its_limit_is_refused() -> None:
    """The plan of a wider limit, in a case that does not allow it; with the hash of that case."""
    data = limited("power_kw: 1000000").as_json()
    assert not check_plan(data)
    data["case"]["limits"]["power_kw"] = 1.0
    rehashed(data)
    assert any("kW are drawn, 1.000 allowed" in problem for problem in check_plan(data))


def test_the_limit_can_be_relaxed_and_taken_away() -> None:
    case = case_from_text(OPEN + "policy: {power_kw: 3}\n")
    (step,) = (limit.one_more for limit in every_limit(case) if limit.key == "policy.power_kw")
    assert step is not None
    assert step.label.startswith("allow 3.3 kW")
    assert has_quotas(case)
    assert not has_quotas(without_quotas(case))


def test_a_limit_that_cannot_be_is_an_error_with_its_place() -> None:
    with pytest.raises(InputError) as error:
        case_from_text(OPEN + "policy: {power_kw: 0}\n")
    assert "power_kw: must be more than 0" in str(error.value)
    assert f":{len(OPEN.splitlines()) + 1}:" in str(error.value)


def test_gpus_whose_power_is_not_known_are_off_the_menu_where_it_is_limited() -> None:
    both = OPEN.replace("[l40s]", "[l40s, a10g]")
    case = case_from_text(both + "policy: {power_kw: 3}\n")
    assert set(case.gpus) == {"l40s"}
    assert any(a.key == "menu.gpus" and "a10g" in a.value for a in case.assumptions)
    with pytest.raises(InputError, match="the power of the a10g is not known"):
        case_from_text(OPEN.replace("[l40s]", "[a10g]") + "policy: {power_kw: 3}\n")
    own = "catalog: {gpus: {a10g: {tdp_w: 300}}}\n"
    assert set(case_from_text(both + own + "policy: {power_kw: 3}\n").gpus) == {"l40s", "a10g"}


def test_limits_hold_in_every_quarter_and_scenario() -> None:
    """What is signed draws in every hour; the second quarter of one scenario has more demand."""
    small = OPEN.replace("1500k", "400k").replace("[on-demand]", "[on-demand, reserved-1y]")
    future = "starts: 2027-01-01\nhorizon: 2 quarters\nscenarios:\n  - {name: low, probability: 50%}\n"
    more = "  - {name: high, probability: 50%, changes: {workloads.chat.forecast.requests_per_day: 600k}}\n"
    most = 2.5 * L40S_KW
    case = case_from_text(small + future + more + f"policy: {{power_kw: {most}}}\n")
    plan = planner.plan_fleet(case, planner.Options(gap_frac=0.01))
    assert isinstance(plan, HorizonPlan)
    drawn = [q.plan.power.rated_kw for q in plan.quarters if q.plan.power is not None]
    assert len(drawn) == 3
    assert max(drawn) == pytest.approx(2 * L40S_KW)
    data = plan.as_json()
    assert not check_plan(data)
    data["case"]["limits"]["power_kw"] = 1.0
    rehashed(data)
    for quarter in data["quarters"]:
        quarter["plan"]["case"]["limits"]["power_kw"] = 1.0
        rehashed(quarter["plan"])
    assert any("kW are drawn, 1.000 allowed" in problem for problem in check_plan(data))
