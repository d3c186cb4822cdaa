"""Plans served: replicas over time, work that waits, what is admitted, and the same again for the same seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("numba", reason="the simulator is compiled by numba: install fleetplan[verify]")

from planner.candidates.replica import machine_for
from planner.performance.memory import TOKEN_STEP
from planner.plan.account.account import account_of
from planner.plan.plan import Plan
from planner.plan.serve_commands import engine_settings
from planner.verification import engine, serving, steps
from planner.verification.arrivals import HOURS, drawn_stream, slots_of_week
from planner.verification.serving import ServeOptions, verify_plan
from planner.verification.step_times import step_times
from planner.verification.traffic import released
from tests.support.lever_plans import lever_plan
from tests.support.rows import for_each
from tests.support.simulated import requests, served_by


def capacity_of(name: str, seed: int, **options: float) -> tuple[engine.Capacity, np.ndarray, np.ndarray, float]:
    """Replicas over time of a plan's first deployment; those planned and those on spot by the hour, and a start-up."""
    view = account_of(lever_plan(name))
    told = view.plan.pools[0].deployments[0]
    week = slots_of_week(view.plan, 0)
    chosen = replace(ServeOptions(), **options)
    planned = np.array(told.replicas_by_slot)[week]
    losses = serving._losses(told, chosen, np.random.default_rng(seed), planned, week)
    replicas = serving._capacity(view, told, week, chosen, losses, planned)
    return replicas, planned, planned - np.array(told.firm_replicas_by_slot)[week], serving._start_up_s(view, told)


def at(replicas: engine.Capacity, time_s: np.ndarray) -> np.ndarray:
    return replicas.replicas[np.searchsorted(replicas.time_s, time_s, side="right") - 1]


def test_replicas_follow_the_plan_by_the_hour_and_into_the_next_week() -> None:
    replicas, planned, _, _ = capacity_of("together", 1)
    half_past = 3600.0 * np.arange(2 * HOURS) + 1800
    assert at(replicas, half_past).tolist() == [*planned, *planned]
    assert (replicas.change == engine.DRAINED).all() and (np.diff(replicas.time_s) > 0).all()


@for_each("seed", range(8))
def test_a_failed_replica_is_missing_until_another_has_started(seed: int) -> None:
    replicas, planned, _, down_s = capacity_of("together", seed, failures=1)
    (k,) = np.flatnonzero(replicas.change == engine.FAILED)
    start = replicas.time_s[k]
    moments = np.arange(0.0, 3600.0 * HOURS, 30.0)
    missing = planned[(moments / 3600).astype(int)] - at(replicas, moments)
    down = (moments >= start) & (moments < start + down_s)
    assert set(missing[~down]) == {0}
    assert missing[down & (moments < 3600 * (start // 3600 + 1))].tolist().count(1) > 0
    assert (missing >= 0).all() and missing.max() == 1


@for_each("seed", range(8))
def test_a_reclaim_takes_a_zone_of_spot_and_sheds_until_it_is_back(seed: int) -> None:
    replicas, planned, spot, down_s = capacity_of("together", seed, reclaims=1)
    (k,) = np.flatnonzero(replicas.change == engine.RECLAIMED)
    start = replicas.time_s[k]
    hour = int(start / 3600)
    assert replicas.replicas[k] == planned[hour] - -(-spot[hour] // 2), "half of what is on spot: there are two zones"
    until = replicas.time_s[k + 1 :][replicas.change[k + 1 :] == engine.DRAINED][0]
    assert until == pytest.approx(start + down_s)
    assert replicas.replicas[np.searchsorted(replicas.time_s, until)] == planned[int(until / 3600)]


def test_reclaims_and_failures_add_up() -> None:
    for seed in range(30):
        replicas, planned, _, _ = capacity_of("together", seed, reclaims=3, failures=20)
        assert (replicas.replicas >= 0).all() and (np.diff(replicas.time_s) > 0).all()
        hour = (replicas.time_s / 3600).astype(int) % HOURS
        assert (replicas.replicas <= planned[hour]).all()
        drops = np.diff(replicas.replicas, prepend=0) < 0
        lost = (replicas.change == engine.FAILED) | (replicas.change == engine.RECLAIMED)
        assert drops[lost].all(), "a loss that loses nothing"
        assert replicas.replicas[-1] == planned[-1]


def test_the_plan_goes_on_while_a_replica_is_down() -> None:
    """One of two fails just before the plan asks for ten: nine run, where 0.1 had one until the other was back."""
    planned = np.array([2, 10, 10])
    hours = [(3600.0 * h, engine.DRAINED, 0) for h in range(3)]
    for change, still in ((engine.FAILED, engine.DRAINED), (engine.RECLAIMED, engine.SHEDDING)):
        replicas = serving._replicas_over_time(planned, sorted([*hours, (3500.0, change, -1), (3900.0, change, 1)]))
        assert replicas.time_s.tolist() == [0.0, 3500.0, 3600.0, 3900.0]
        assert replicas.replicas.tolist() == [2, 1, 9, 10]
        assert replicas.change.tolist() == [engine.DRAINED, change, still, engine.DRAINED]


def test_a_failure_during_a_reclaim_ends_neither() -> None:
    events = [(0.0, engine.DRAINED, 0), (10.0, engine.RECLAIMED, -3), (20.0, engine.FAILED, -1)]
    events += [(30.0, engine.RECLAIMED, 3), (40.0, engine.FAILED, 1)]
    replicas = serving._replicas_over_time(np.array([6]), events)
    assert replicas.replicas.tolist() == [6, 3, 2, 5, 6]
    reclaimed = engine.RECLAIMED
    assert replicas.change.tolist() == [engine.DRAINED, reclaimed, reclaimed, engine.DRAINED, engine.DRAINED]


def test_work_that_waits_is_let_in_in_the_hour_that_it_is_moved_to() -> None:
    view = account_of(lever_plan("waiting"))
    (s,) = view.served
    week = slots_of_week(view.plan, 0)
    rng = np.random.default_rng(1)
    arrival = np.sort(rng.uniform(0, 3600.0 * HOURS, 200_000))
    stream = drawn_stream(s.seen, np.zeros(HOURS), np.ones(60 * HOURS), range(HOURS), rng)
    stream = replace(stream, arrival_s=arrival)
    slot = week[(arrival / 3600).astype(int)]
    release = released(view, s, stream, slot, rng)
    assert (release >= arrival).all()
    later = np.floor(release / 3600) - np.floor(arrival / 3600)
    assert s.decided.moves
    for move in s.decided.moves:
        here = slot == move.from_slot
        hours = (view.plan.slots[move.to_slot].hour - view.plan.slots[move.from_slot].hour) % 24
        assert 0 < hours <= s.w.deadline_h
        share = move.requests_per_s / sum(s.kept[move.from_slot])
        assert (later[here] == hours).mean() == pytest.approx(share, abs=0.04)
        moved = release[here & (later == hours)] / 3600 % 1
        assert moved.mean() == pytest.approx(0.5, abs=4.5 * (12 * len(moved)) ** -0.5), "spread over the hour"
    assert (release[later == 0] == arrival[later == 0]).all()


@pytest.mark.parametrize("name", ["waiting", "together", "mixed"])
def test_the_engine_admits_whatever_context_and_memory_allow(name: str) -> None:
    plan = lever_plan(name)
    view = account_of(plan)
    for pool in plan.pools:
        traffic = view.traffic(pool)
        for each in pool.deployments:
            d, context = each.deployment, engine_settings(plan, pool, each.deployment).context_tokens
            plain = machine_for(plan.case, d.variant)
            times = step_times(replace(plain, lora=traffic.lora), 1, 8192, context, 0.0)
            room = times.kv_room_bytes / (times.kv_bytes_per_token + times.kv_window_bytes_per_token)
            assert context == plain.model.max_context_tokens or context <= room < context + TOKEN_STEP, d.key
            outcome = served_by(1, requests([0.0], context - 2, 2), times)
            assert outcome.state.tolist() == [steps.SERVED], d.key


@pytest.mark.parametrize("name", ["waiting", "together"])
def test_a_served_plan_accounts_for_every_request_and_comes_out_the_same_again(name: str) -> None:
    plan: Plan = lever_plan(name)
    options = ServeOptions(days=1, load=0.02, failures=1)
    once = verify_plan(plan, options)
    assert verify_plan(plan, options) == once
    assert verify_plan(plan, replace(options, seed=2)) != once
    for w in once.workloads:
        assert w.served + w.api + w.shed + w.refused + w.unfinished == w.requests > 0
        assert w.unfinished == w.refused == 0


def test_replicas_are_never_in_steps_for_longer_than_they_are_there() -> None:
    """Under too much load work is left over when a day ends: it is done in another time than that of these replicas."""
    served = verify_plan(lever_plan("together"), ServeOptions(days=1, load=3.0))
    assert not served.kept
    assert [d for d in served.deployments if not 0.9 < d.utilization_frac <= 1] == []


def test_time_in_steps_is_that_of_the_hours_served() -> None:
    busy_s = np.array([0.0] * 24 + [10.0, 20.0, *[0.0] * 20, 30.0, 40.0] + [500.0, 600.0])
    assert serving.busy_within(busy_s, range(24, 48)).sum() == 100
    assert serving.busy_within(busy_s[:26], range(24, 48)).tolist() == [10.0, 20.0, *[0.0] * 22]
