"""Plans behind controllers: floors and bills by hand, demand that differs, and what a user sees."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("numba", reason="verify needs numba: pip install fleetplan[verify]")

import planner
from planner.case.controller import Controller, controllers
from planner.checker import check_plan
from planner.io.errors import InputError
from planner.plan.account.account import account_of
from planner.plan.operated import Operation
from planner.plan.saved import plan_from_json
from planner.reports.tables.operation import in_short
from planner.verbs.autoscalers import controller_named, forecast_error_of
from planner.verification.arrivals import HOURS, slots_of_week
from planner.verification.billing import Prices, prices_of
from planner.verification.differs import Differs, differs_from
from planner.verification.fluid import Flowed, Trials
from planner.verification.operation import Setting, of_plan, setting_of
from planner.verification.sampling import Measured
from planner.verification.scaling import rule_of
from planner.verification.serving import ServeOptions, verify_plan
from planner.verification.tuning import Tried, _front, _spread, _worthwhile, tuned
from tests.support.operated_plans import CHAT, operated_plan, small_plan
from tests.support.rows import for_each
from tests.support.shown import first_screen


def of(name: str, **change: object) -> Controller:
    return controllers()[name].model_copy(update=change)


def setting(c: Controller, planned: list[int], machine_s: float = 300.0, each_has: int = 1, most: int = 9) -> Setting:
    week = np.tile(np.array(planned), 7)
    return Setting(c, rule_of(c, 10.0, min(planned), most), week, machine_s, 60.0, each_has, alone=True)


DAY = [1] * 8 + [3] * 10 + [2] * 6


def test_a_floor_rises_a_start_early_and_falls_on_the_hour() -> None:
    floors = setting(of("schedule"), DAY).floors()
    per_h = 240  # ticks of 15 s
    assert len(floors) == HOURS * per_h
    assert floors[: 8 * per_h - 24].tolist() == [1] * (8 * per_h - 24), "360 s are 24 ticks"
    assert floors[8 * per_h - 24] == 3 == floors[18 * per_h - 1]
    assert floors[18 * per_h] == 2, "what falls does not fall early"


def test_leads_of_hours_see_every_hour_ahead() -> None:
    floors = setting(of("schedule", lead_s=2.5 * 3600), DAY).floors()
    assert floors[int(5.5 * 240) - 1] == 1 and floors[int(5.5 * 240)] == 3
    assert setting(of("schedule", lead_s=0.0), DAY).floors()[8 * 240 - 1] == 1


def test_a_buffer_is_added_where_something_runs_and_the_ceiling_holds() -> None:
    c = of("keda", buffer=2, lead_s=0.0)
    floors = setting(c, [0] * 8 + [3] * 16, most=4).floors()
    assert set(floors[: 8 * 240].tolist()) == {0} and set(floors[8 * 240 : 24 * 240].tolist()) == {4}
    assert set(setting(of("hpa"), DAY).floors().tolist()) == {1}, "no schedule: the fewest"


def test_a_share_of_the_plan_is_a_lower_floor_in_whole_replicas() -> None:
    floors = setting(of("keda", floor_share=0.75, lead_s=0.0), [1] * 8 + [5] * 8 + [4] * 8).floors()
    assert floors[:: 8 * 240][:3].tolist() == [1, 4, 3], "3.75 are four"
    none = setting(of("keda", floor_share=0.0, lead_s=0.0), [2] * 8 + [5] * 16).floors()
    assert set(none.tolist()) == {2}, "the fewest of the plan stay"


def test_hours_of_a_sample_stand_for_hours_where_money_is_counted() -> None:
    """Two busy hours, one served; four quiet ones, one served: one stands for two and the other for four."""
    strata = np.full(HOURS, -1)
    strata[:6] = [0, 0, 1, 1, 1, 1]
    weights = np.zeros(HOURS)
    weights[[0, 2]] = [1.7, 6.0]  # by requests
    hours = Measured(weights, strata, sampled=True).hours
    assert hours[[0, 2]].tolist() == [2.0, 4.0] and hours.sum() == 6
    assert (Measured(weights, strata, sampled=False).hours == weights).all()


def test_replicas_share_instances() -> None:
    assert setting(of("keda"), DAY, each_has=4).instances(np.array([0, 1, 4, 5])).tolist() == [0, 1, 1, 2]
    together = replace(setting(of("keda"), DAY, each_has=4), alone=False)
    assert together.instances(np.array([1, 6])).tolist() == [0.25, 1.5], "others stand beside them"


def test_a_bill_by_hand() -> None:
    """Two committed, one more by the hour at $2, anything beyond at $3; 730 h a month over 168 h of a week."""
    every = np.ones(HOURS)
    prices = Prices(2 * every, every, 2.0 * every, 3.0, every * 730 / HOURS)
    assert prices.usd(np.full(HOURS * 4, 2.0)) @ every == 0
    assert prices.usd(np.repeat([3.0, 5.0], HOURS * 2))[[0, -1]].tolist() == [2, 2 + 2 * 3]
    half = np.tile([2.0, 3.0], HOURS * 2)
    assert prices.a_month(prices.usd(half), every) == pytest.approx(730 * 0.5 * 2)
    assert prices.a_month(prices.usd(half), (np.arange(HOURS) < 5) * 1.0) == pytest.approx(730), "hours of a sample"


def test_targets_are_those_of_the_busiest_hour() -> None:
    plan, view = small_plan(), account_of(small_plan())
    (pool,) = plan.pools
    (d,) = pool.deployments
    busiest = max(x / n for x, n in zip(d.load_by_slot, d.replicas_by_slot, strict=True))
    assert of_plan(view, pool, d, "in-flight") == round(d.deployment.requests_in_flight * busiest)
    week = slots_of_week(plan, 0)
    found = setting_of(view, pool, d, week, of("keda", target=0.5, most_ratio=1.5, buffer=1))
    assert found.rule.target == 0.5 * of_plan(view, pool, d, "in-flight")
    assert found.rule.most == math.ceil(1.5 * max(d.replicas_by_slot)) + 1
    assert setting_of(view, pool, d, week, of("llm-d-epp")).rule.target == 16


def test_prices_are_those_of_the_plan() -> None:
    plan, view = small_plan(), account_of(small_plan())
    (pool,) = plan.pools
    (d,) = pool.deployments
    week = slots_of_week(plan, 0)
    s = setting_of(view, pool, d, week, of("schedule"))
    prices = prices_of(view, d, s, week)
    planned = np.repeat(s.instances(s.planned), s.ticks_per_h)
    (line,) = plan.fleet
    running = line.cost_usd_per_month - line.starting_usd_per_month
    assert prices.a_month(prices.usd(planned), np.ones(HOURS)) == pytest.approx(running)


# -- demand that differs --------------------------------------------------------------------------------------------


def test_days_differ_by_the_error_both_ways() -> None:
    view, week = account_of(small_plan()), slots_of_week(small_plan(), 0)
    factors = Differs(0.15).factors(view, week, seed=1).reshape(7, 24)
    assert (factors == factors[:, :1]).all() and sorted(set(factors[:, 0].round(2))) == [0.85, 1.15]
    assert 3 <= (factors[:, 0] > 1).sum() <= 4
    assert set(Differs(0.2, 1).factors(view, week, 1)) == {1.2} and set(Differs(0.2, -1).factors(view, week, 1)) == {
        0.8
    }
    spiked = Differs(spike=2.0).factors(view, week, 1)
    assert sorted(set(spiked)) == [1.0, 2.0] and (spiked == 2).sum() == 1


@for_each(
    ("error", "spike", "words"),
    [("lots", None, "--forecast-error"), ("120%", None, "below 100%"), (None, "99x", "--spike"), (None, "big", "2x")],
)
def test_what_is_no_error_and_no_spike_is_refused(error: str | None, spike: str | None, words: str) -> None:
    with pytest.raises(InputError) as caught:
        differs_from(error, spike)
    assert words in str(caught.value)


def test_signs_and_words() -> None:
    assert differs_from(None, None) is None
    assert differs_from("+20%", None) == Differs(0.2, 1) and differs_from("-20%", "2x") == Differs(0.2, -1, 2.0)
    assert str(Differs(0.15)) == "15% more or less from day to day"
    assert str(Differs(0.2, 1, 2.0)) == "20% more on every day, 2 times as much in the busiest hour"


# -- served ---------------------------------------------------------------------------------------------------------


@cache
def served(name: str, error: float = 0.0) -> Operation:
    differs = Differs(error, 1) if error else None
    operation = verify_plan(
        small_plan(), ServeOptions(days=1, controller=controllers()[name], differs=differs)
    ).operation
    assert operation is not None
    return operation


def test_the_schedule_costs_what_the_plan_costs_and_its_engines_starts() -> None:
    """Instances are billed from their order on, so a schedule pays the engine's part of each start besides."""
    o = served("schedule")
    (d,) = o.deployments
    assert o.kept and 0 <= o.lag_frac < 0.02
    assert d.mean_replicas == pytest.approx(d.planned_mean_replicas, rel=0.02)
    assert d.ups >= 1 and d.downs >= 1
    assert sum(d.billed) >= sum(d.ready) > sum(d.demand) > 0
    assert o.above_bound_frac >= o.lag_frac - 1e-9


def test_where_more_comes_than_planned_a_controller_keeps_more_than_the_hours() -> None:
    fixed, reacting = served("schedule", 0.3), served("keda", 0.3)
    late = [sum(1 - a.within_frac for a in o.attained) for o in (fixed, reacting)]
    assert late[1] <= late[0]
    assert reacting.deployments[0].mean_replicas >= fixed.deployments[0].mean_replicas
    assert fixed.differs == "30% more on every day" and "at most" not in in_short(fixed)


def test_flows_say_what_serving_every_request_says_of_the_cost() -> None:
    trials = Trials(small_plan())
    week = verify_plan(small_plan(), ServeOptions(controller=controllers()["keda"], most_requests=300_000)).operation
    assert week is not None
    flowed = trials.trial(controllers()["keda"], ((1, None),))
    assert flowed.usd_per_month == pytest.approx(week.usd_per_month, rel=0.05)


def test_a_sample_costs_what_the_whole_week_costs() -> None:
    """A few hours say nothing of a week's bill by themselves: flows of all hours say it, corrected by those served."""
    plan, c = small_plan(), of("keda", target=0.6, most_ratio=1.5)
    whole = verify_plan(plan, ServeOptions(controller=c, most_requests=None)).operation
    trials = Trials(plan)
    few = verify_plan(plan, ServeOptions(controller=c, most_requests=150_000))
    a_day = verify_plan(plan, ServeOptions(controller=c, days=1))
    assert whole is not None and few.hours, "it is a sample"
    for run, days in ((few, 7), (a_day, 1)):
        found = trials.corrected(run, c, 1, None, days)
        assert found is not None and found.usd_per_month == pytest.approx(whole.usd_per_month, rel=0.05)
        assert found.planned_usd_per_month == whole.planned_usd_per_month == plan.cost_usd_per_month


def reviewed(monkeypatch: pytest.MonkeyPatch, tried: float | None, by_hour: float | None) -> None:
    """Saved reviews have these errors; no other figure of them is read."""
    review = SimpleNamespace(
        forecasts=(SimpleNamespace(error_frac=tried), SimpleNamespace(error_frac=None)),
        workloads=(SimpleNamespace(hourly_error_frac=by_hour),),
    )
    monkeypatch.setattr("planner.review.records.read_saved_review", lambda path: review)


def test_a_review_says_the_error_of_its_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    reviewed(monkeypatch, -0.137, 0.3)
    assert forecast_error_of("review.json") == "13.7%"
    reviewed(monkeypatch, None, 0.3)
    assert forecast_error_of("review.json") == "30%", "nothing was tried: by the hour"
    reviewed(monkeypatch, None, None)
    with pytest.raises(InputError, match="how far its forecast was off"):
        forecast_error_of("review.json")
    assert forecast_error_of("+20%") == "+20%" and forecast_error_of(None) is None


def test_what_is_no_review_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"format": "fleetplan-plan/6"}')
    for name in ("other.json", "none.json"):
        with pytest.raises(InputError):
            forecast_error_of(str(tmp_path / name))


def test_a_front_rises_in_cost_and_safety() -> None:
    def tried(usd: float, worst: float) -> Tried:
        return Flowed(usd, worst, worst > 0), controllers()["keda"]

    front = _front([tried(3, 0.2), tried(1, -0.1), tried(2, -0.2), tried(4, 0.1), tried(5, 0.3)])
    assert [(x.usd_per_month, x.worst) for x, _ in front] == [(1, -0.1), (3, 0.2), (5, 0.3)]
    assert _worthwhile(front, -1, 2) == [0, 1] and _worthwhile(front, 0, 1) == []
    assert [x.usd_per_month for x, _ in _spread(front, 2)] == [1, 5]


def test_what_is_tuned_keeps_promises_or_says_what_it_misses() -> None:
    o = tuned(small_plan(), controllers()["keda"], 0.1, requests=50_000)
    assert o.tuned is not None and o.tuned.settings > 100
    assert {run.differs for run in o.tuned.differing} == {"10% more on every day", "10% less on every day"}
    assert o.kept == all(a.kept for run in o.tuned.differing for a in run.attained) and o.kept
    plan = small_plan().model_copy(update={"operation": o})
    assert check_plan(plan.as_json()) == []
    again = plan_from_json(plan.to_json())
    assert again == plan and controller_named("plan", plan) == o.controller


# -- what a user sees -----------------------------------------------------------------------------------------------


def test_a_tuned_plan_says_the_price_of_lag_first() -> None:
    screen = first_screen(operated_plan())
    assert "in operation behind keda: keeps every promise with forecasts right or 20% off" in screen
    assert "lag costs +" in screen and "above any controller" in screen
    missed = first_screen(operated_plan(kept=False))
    assert "MISSES chat: TTFT 91.3% of 95% (20% more on every day)" in " ".join(missed.split())


def test_the_section_says_what_the_bound_is_proved_for() -> None:
    for kind in ("html", "markdown"):
        text = planner.report(operated_plan(), to=kind)
        assert "In operation" in text and "staffing rule in whole hours" in text, kind
        assert "What scales first, by marginal cost" in text
    assert "In operation" not in planner.report(small_plan(), to="markdown")


def test_the_checker_lists_it_as_a_remark() -> None:
    plan = operated_plan()
    assert check_plan(plan.as_json()) == []
    data = json.loads(small_plan().to_json())
    assert "operation" not in data, "plans without one are written as before"


def test_a_demand_file_names_its_controller() -> None:
    case = planner.case_from_text(CHAT + "policy: {autoscaler: llm-d-slo}\n")
    assert case.autoscaler == controllers()["llm-d-slo"]
    own = (
        "policy: {autoscaler: {kind: keda, target_share: 70%, ceiling: 2, down_window: 10min, lead: 8min, buffer: 1}}\n"
    )
    c = planner.case_from_text(CHAT + own).autoscaler
    assert c is not None and (c.target, c.of_plan, c.most_ratio, c.buffer) == (0.7, True, 2, 1)
    assert (c.down_window_s, c.lead_s) == (600, 480)
    plan = small_plan().model_copy(update={"case": small_plan().case.model_copy(update={"autoscaler": c})})
    assert controller_named("plan", plan) == c


@for_each(
    ("given", "words"),
    [
        ("kedda", "did you mean 'keda'"), ("{kind: keda, target: 3, target_share: 50%}", "besides target"),
        ("{kind: keda, ceiling: 0.5}", "is not from 1 to 10"), ("{kind: keda, period: 7s}", "does not divide an hour"),
        ("{kind: hpa, signal: queue}", "signal"), ("{kind: hpa, lead: 3d}", "is above a day"),
        ("{signal: kv}", "kind"),
    ],
)  # fmt: skip
def test_what_no_controller_has_is_refused_at_its_line(given: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        planner.case_from_text(CHAT + f"policy: {{autoscaler: {given}}}\n")
    assert words.lower() in str(caught.value).lower() and all(d.line for d in caught.value.diagnostics)


def test_unknown_controllers_of_the_command_are_refused() -> None:
    for name, words in (("kedaa", "keda"), ("plan", "policy: {autoscaler: keda}")):
        with pytest.raises(InputError) as caught:
            controller_named(name, small_plan())
        assert words in str(caught.value)
