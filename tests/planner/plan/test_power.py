"""Power, energy and carbon of a plan, by hand, and what a file may say of them."""

from __future__ import annotations

import numpy as np
import pytest

from planner.candidates.power import replica_power
from planner.case.demand.load import case_from_text
from planner.checker import check_plan
from planner.io.errors import InputError
from planner.performance.power import PowerLaw
from planner.plan.account.account import account_of
from planner.plan.plan import Plan
from planner.reports import phrases
from planner.reports.plan import plan_document
from planner.reports.text import as_text
from tests.support.shared_plans import CHAT, fleet_plan

L40S_W, IDLE, HOST = 350, 0.115, 0.5
PUE, GRID = 1.147, 384.95


@pytest.fixture(scope="module")
def plan() -> Plan:
    return fleet_plan(case_from_text(CHAT))


def test_power_is_boxes_idle_gpus_and_replicas_by_their_load(plan: Plan) -> None:
    """Each hour by hand: host and idle GPUs by their share of 350 W, replicas between one request and a full load."""
    account, power = account_of(plan), plan.power
    assert power is not None
    (pool,) = plan.pools
    (d,) = pool.deployments
    drawn = replica_power(PowerLaw(0.325, 0.42, 0.863, 0.97), account.replica(pool, 0))
    assert 0.3 < drawn.lone < drawn.full <= 0.97
    kw = np.zeros(len(plan.slots))
    for line in plan.fleet:
        gpus = np.array(line.instances_by_slot) * line.gpus_per_instance
        kw += gpus * (IDLE + HOST) * L40S_W / 1000
    replicas, busy = np.array(d.replicas_by_slot), np.array(d.load_by_slot)
    kw += (replicas * (drawn.lone - IDLE) + busy * (drawn.full - drawn.lone)) * L40S_W / 1000
    hours = np.array([s.hours_per_month for s in plan.slots])
    assert power.peak_kw == pytest.approx(PUE * kw.max())
    assert power.peak_slot == int(np.argmax(kw))
    assert power.kwh_per_month == pytest.approx(PUE * float(hours @ kw))
    assert power.co2_kg_per_month == pytest.approx(PUE * float(hours @ kw) * GRID / 1000)
    assert power.joules_per_token == pytest.approx(power.kwh_per_month * 3.6e6 / plan.tokens_per_month)
    assert power.not_known == ()


def test_limits_count_gpus_in_use_at_the_most_that_they_draw(plan: Plan) -> None:
    power = plan.power
    assert power is not None
    boxes = max(sum(line.instances_by_slot[t] for line in plan.fleet) for t in range(len(plan.slots)))
    used = max(plan.pools[0].deployments[0].replicas_by_slot)
    assert boxes == used  # one GPU each
    assert power.rated_kw == pytest.approx(PUE * used * (0.97 + HOST) * 0.35)
    assert power.rated_kw > power.peak_kw
    assert power.rated_co2_kg_per_month > power.co2_kg_per_month


def test_a_plan_with_other_power_is_refused(plan: Plan) -> None:
    data = plan.as_json()
    data["power"]["places"][0]["co2_kg_per_month"] *= 0.9
    assert any("co2_kg_per_month" in problem for problem in check_plan(data))


def test_sites_are_the_users_own(plan: Plan) -> None:
    own = fleet_plan(case_from_text(CHAT + "sites: {us-east-1: {pue: 2.0, grid_g_per_kwh: 10}}\n")).power
    assert own is not None
    assert plan.power is not None
    assert own.kwh_per_month == pytest.approx(plan.power.kwh_per_month * 2.0 / PUE)
    assert own.co2_kg_per_month == pytest.approx(own.kwh_per_month * 10 / 1000)


def test_a_site_where_nothing_stands_is_an_error_with_its_line() -> None:
    with pytest.raises(InputError) as error:
        case_from_text(CHAT + "sites: {us-esat-1: {pue: 2.0}}\n")
    (found,) = error.value.diagnostics
    assert found.line == len(CHAT.splitlines()) + 1
    assert "us-east-1" in found.remedy


def test_a_gpu_without_a_thermal_design_power_is_named() -> None:
    power = fleet_plan(case_from_text(CHAT.replace("[l40s]", "[a10g]").replace("[fp8]", "[fp16]"))).power
    assert power is not None
    assert (power.not_known, power.places, power.peak_kw) == (("a10g",), (), 0.0)
    assert power.joules_per_token is None  # not zero


def test_a_line_of_power_says_what_is_not_in_it(plan: Plan) -> None:
    assert plan.power is not None
    partly = plan.model_copy(update={"power": plan.power.model_copy(update={"not_known": ("a10g",)})})
    assert "without" not in (phrases.power(plan) or "") and "without a10g" in (phrases.power(partly) or "")


@pytest.mark.parametrize("general_first", [True, False])
def test_a_site_with_its_provider_is_the_one_that_counts(general_first: bool) -> None:
    given = ["us-east-1: {pue: 1.2, grid_g_per_kwh: 10}", "aws us-east-1: {pue: 1.5}"]
    sites = ", ".join(given if general_first else given[::-1])
    power = case_from_text(CHAT + f"sites: {{{sites}}}\n").power
    assert power is not None
    assert (power.sites["aws us-east-1"].pue, power.sites["aws us-east-1"].grid_g_per_kwh) == (1.5, 10)


def test_the_report_has_a_line_of_power_that_is_not_on_the_first_screen(plan: Plan) -> None:
    assert "power:" not in as_text(plan_document(plan))
    assert "kg CO2e a month" in as_text(plan_document(plan, verbose=True))
