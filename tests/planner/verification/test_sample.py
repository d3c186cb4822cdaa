"""A sample of the busiest hours, served with every plan: cheap, the same words each time, and it decides nothing."""

from __future__ import annotations

from functools import cache
from importlib import util
from pathlib import Path

import pytest

import planner
from planner.checker import check_plan
from planner.judgement.concerns import concerns_of
from planner.plan.plan import Plan
from planner.reports.phrases import left_out, served_in_short
from planner.verification.quick_sample import REQUESTS, can_be_sampled, with_sample
from planner.verification.sampling import SAMPLED_HOURS
from planner.verification.serving import ServeOptions, verify_plan
from tests.support.command_line import Command
from tests.support.lever_plans import lever_plan
from tests.support.shared_plans import CHAT, plan_of
from tests.support.shown import first_screen

njit = pytest.importorskip("numba").njit


@cache
def planned(text: str = CHAT) -> Plan:
    return plan_of(planner.case_from_text(text))


def with_a_third_of_the_replicas(plan: Plan) -> Plan:
    """A plan that cannot hold."""
    (pool,) = plan.pools
    (d,) = pool.deployments
    few = d.model_copy(update={"replicas_by_slot": tuple(max(1, n // 3) for n in d.replicas_by_slot)})
    return plan.model_copy(update={"pools": (pool.model_copy(update={"deployments": (few,)}),)})


def test_a_plan_that_holds_keeps_its_sample() -> None:
    plan = planned()
    sampled = with_sample(plan)
    assert sampled.sampled is not None and not sampled.sampled.missed
    assert 1000 < sampled.sampled.requests < REQUESTS
    assert "sample served: kept" in first_screen(sampled).splitlines()[0]
    assert check_plan(sampled.as_json()) == []
    assert "fleetplan[verify]" not in first_screen(sampled)
    assert "not served" in first_screen(plan).splitlines()[0]
    assert "; needs fleetplan[verify])" in first_screen(plan)


def test_the_same_plan_gives_the_same_words() -> None:
    assert with_sample(planned()).to_json() == with_sample(planned()).to_json()


def test_a_plan_that_does_not_hold_says_what_it_missed() -> None:
    weak = with_sample(with_a_third_of_the_replicas(planned()))
    assert weak.sampled is not None and weak.sampled.missed
    assert served_in_short(weak).startswith("sample served: MISSED chat: ")
    (concern,) = (c for c in concerns_of(weak) if c.key == "missed-promise")
    assert "in a sample of the busiest hours" in concern.sentence
    assert concern.usd_per_month == weak.workloads[0].cost_usd_per_month


def test_only_minutes_of_the_busiest_hours_are_served() -> None:
    plan = planned()
    served = verify_plan(plan, ServeOptions(busiest=REQUESTS))
    by_hour = next(p for p in served.workloads[0].promises).at_percentile_by_hour_s
    hours = [h for h, s in enumerate(by_hour) if s is not None]
    assert 1 <= len(hours) <= SAMPLED_HOURS
    assert len({h // 24 for h in hours}) == len(hours), "each on a day of its own"
    load = plan.pools[0].deployments[0]
    busiest = max(x / n for x, n in zip(load.load_by_slot, load.replicas_by_slot, strict=True))
    of_hour = {s.hour: x / n for s, x, n in zip(plan.slots, load.load_by_slot, load.replicas_by_slot, strict=True)
               if s.day == "weekday" and s.month == plan.slots[-1].month}  # fmt: skip
    assert max(of_hour[h % 24] for h in hours if h < 120) >= 0.95 * busiest


def test_work_that_may_wait_is_not_sampled() -> None:
    plan = lever_plan("waiting")
    assert any(pool.deployments for pool in plan.pools)
    assert not can_be_sampled(plan)


@pytest.fixture
def fleetplan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLEETPLAN_VERIFY")
    Path("chat.yaml").write_text(CHAT, encoding="utf-8")
    return Command(monkeypatch, capsys)


def test_plan_serves_a_sample_unless_it_is_told_not_to(fleetplan: Command) -> None:
    with_sample(planned())  # compiled from here on
    ran = fleetplan("plan", "chat.yaml")
    assert ran.code == 0 and "sample served: kept" in ran.out.splitlines()[0]
    ran = fleetplan("plan", "chat.yaml", "--no-verify")
    assert ran.code == 0 and "   not served   " in ran.out.splitlines()[0]


def test_a_plan_waits_for_no_compiler(fleetplan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(*_: object) -> None:
        njit(lambda x: x + 1)(1)
        pytest.fail("compiled")

    monkeypatch.setattr("planner.verification.quick_sample.verify_plan", serve)
    ran = fleetplan("plan", "chat.yaml")
    assert ran.code == 0 and "   not served   " in ran.out.splitlines()[0]
    assert "fleetplan verify" in ran.out


def test_a_sample_that_misses_changes_no_exit_code(fleetplan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with_sample(planned())  # compiled from here on
    monkeypatch.setattr("planner.pipeline.plan_fleet", lambda *_: with_a_third_of_the_replicas(planned()))
    ran = fleetplan("plan", "chat.yaml")
    assert ran.code == 0 and "MISSED" in ran.out.splitlines()[0]


def test_without_numba_the_report_says_what_to_install(fleetplan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    found = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name, *more: None if name == "numba" else found(name, *more))
    ran = fleetplan("plan", "chat.yaml", "--verbose")
    assert ran.code == 0 and "   not served   " in ran.out.splitlines()[0]
    assert "needs fleetplan[verify]" in ran.out


def test_a_sample_is_left_out_where_time_is_short() -> None:
    plan = planner.plan_fleet(planner.case_from_text(CHAT), planner.Options(time_limit_s=4.0), sample=True)
    assert isinstance(plan, Plan) and plan.sampled is None and not plan.has("sampled")
    assert "whether the promises hold in a sample of requests" in left_out(plan)
