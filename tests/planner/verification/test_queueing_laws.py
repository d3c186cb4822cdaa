"""The simulator against queueing theory, and what it must conserve."""

from __future__ import annotations

import heapq
import math
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("numba", reason="the simulator is compiled by numba: install fleetplan[verify]")

from planner.verification import engine, steps
from planner.verification.step_times import step_times
from tests.support import machines
from tests.support.rows import for_each
from tests.support.simulated import constant_step, requests, served_by

STEP_S = 0.01


def poisson(rng: np.random.Generator, rate: float, count: int) -> np.ndarray:
    return np.cumsum(rng.exponential(1 / rate, count))


@pytest.mark.parametrize("load", [0.3, 0.8])
def test_one_sequence_at_a_time_is_an_m_d_1_queue(load: float) -> None:
    """Pollaczek and Khinchine: mean wait = load x service / 2 (1 - load), for identical requests."""
    prompt, output, count = 700, 5, 200_000
    times = step_times(machines.machine(machines.DENSE), 1, 8192, prompt + output, 0.0)
    alone = served_by(1, requests([0.0], prompt, output), times)
    service = float(alone.last_s[0]) - times.host_s
    arrival = poisson(np.random.default_rng(1), load / service, count)
    outcome = served_by(1, requests(arrival, prompt, output), times)
    wait = outcome.last_s - times.host_s - arrival - service
    assert wait.min() >= -1e-9
    assert wait.mean() == pytest.approx(load * service / (2 * (1 - load)), rel=0.03)
    assert outcome.busy_s.sum() / outcome.last_s[-1] == pytest.approx(load, rel=0.01)
    assert (wait < 1e-9).mean() == pytest.approx(1 - load, abs=0.01)


def test_random_routing_makes_each_of_several_replicas_an_m_d_1_queue() -> None:
    """Poisson streams stay Poisson when they are split at random; a router that only looks random shortens queues."""
    for replicas in (2, 3, 8):
        arrival = poisson(np.random.default_rng(replicas), 0.8 * replicas / STEP_S, 300_000)
        outcome = served_by(replicas, requests(arrival, 1, 1), constant_step(STEP_S, 1), router=engine.RANDOM)
        wait = (outcome.last_s - arrival - STEP_S).mean()
        assert wait == pytest.approx(0.8 * STEP_S / (2 * 0.2), rel=0.04), replicas


def test_many_sequences_with_steps_of_equal_length_are_servers_of_an_m_m_c_queue() -> None:
    """Answers of geometric length: Erlang's C, and the same requests one by one through c servers."""
    servers, tokens, load, count = 4, 150, 0.75, 40_000
    rng = np.random.default_rng(3)
    arrival = poisson(rng, load * servers / (tokens * STEP_S), count)
    output = rng.geometric(1 / tokens, count)
    outcome = served_by(1, requests(arrival, 1, output), constant_step(STEP_S, servers), servers)
    wait = outcome.first_s - arrival - STEP_S
    free, expected = [0.0] * servers, np.zeros(count)
    for i in range(count):
        start = max(arrival[i], heapq.heappop(free))
        expected[i] = start - arrival[i]
        heapq.heappush(free, start + output[i] * STEP_S)
    steps_apart = (wait.mean() - expected.mean()) / STEP_S
    assert 0.0 <= steps_apart < 5.0, "a request waits for the end of the step that runs, and for those before it"
    offered = load * servers
    top = offered**servers / math.factorial(servers) / (1 - load)
    erlang_c = top / (top + sum(offered**k / math.factorial(k) for k in range(servers)))
    assert wait.mean() == pytest.approx(erlang_c * tokens * STEP_S / (servers * (1 - load)), rel=0.07)


def test_little_law_holds_for_requests_that_decode() -> None:
    """Requests in flight, counted by the tokens that steps decode, are the rate times the time inside."""
    rng = np.random.default_rng(4)
    arrival, output = poisson(rng, 6.0, 20_000), rng.integers(1, 300, 20_000)
    outcome = served_by(2, requests(arrival, rng.integers(1, 900, 20_000), output), constant_step(STEP_S, 16), 16)
    span = float(outcome.last_s.max())
    in_flight = outcome.tokens[1] * STEP_S / span
    inside = float((outcome.last_s - outcome.first_s).mean())
    assert in_flight == pytest.approx(len(arrival) / span * inside, rel=1e-9)


@for_each("room", [1.05, 4.0, 1e6])
@for_each("name", [machines.DENSE, machines.SLIDING])
def test_requests_and_tokens_are_conserved(name: machines.Name, room: float) -> None:
    rng, count = np.random.default_rng(5), 3000
    prompt, output = rng.integers(1, 2000, count), rng.integers(1, 200, count)
    found = np.floor(prompt * 0.5 * (rng.random(count) < 0.3))
    times = step_times(machines.machine(name), 24, 1024, 2200.0, 0.0)
    times = replace(times, kv_room_bytes=room * 2200 * (times.kv_bytes_per_token + times.kv_window_bytes_per_token))
    asked = requests(np.sort(rng.uniform(0, 300.0, count)), prompt, output, found)
    outcome = served_by(3, asked, times, 24, 1024)
    assert (outcome.state == steps.SERVED).all()
    assert (outcome.first_s > asked.arrival_s).all() and (outcome.last_s >= outcome.first_s).all()
    assert ((outcome.last_s == outcome.first_s) == (output == 1)).all()
    computed_again = outcome.tokens[0] - (prompt - found).sum()
    again = int((output - 1).sum() - outcome.tokens[1])
    times_preempted = int(outcome.preempted.sum())
    if room > 100:
        assert computed_again == again == times_preempted == 0
    else:
        assert 0 < again <= times_preempted and computed_again > 0
        assert computed_again <= times_preempted * (prompt + output).max()


def test_the_same_seed_gives_the_same_outcome_and_only_the_random_router_asks_for_it() -> None:
    rng = np.random.default_rng(6)
    asked = requests(poisson(rng, 50.0, 2000), rng.integers(1, 500, 2000), rng.integers(1, 50, 2000))
    times = step_times(machines.machine(machines.DENSE), 8, 2048, 550.0, 0.0)
    for router in (engine.LEAST_REQUESTS, engine.ROUND_ROBIN, engine.RANDOM):
        once, again, other = (served_by(3, asked, times, 8, 2048, router, seed) for seed in (1, 1, 2))
        assert all(np.array_equal(a, b) for a, b in zip(once, again, strict=True))
        assert np.array_equal(once.last_s, other.last_s) == (router != engine.RANDOM)


def test_fewer_requests_first_waits_less_than_taking_turns_and_that_less_than_chance() -> None:
    rng = np.random.default_rng(7)
    asked = requests(poisson(rng, 0.9 * 4 / (20 * STEP_S), 20_000), 1, rng.geometric(1 / 20, 20_000))
    waits = [
        (served_by(4, asked, constant_step(STEP_S, 1), router=router).last_s - asked.arrival_s).mean()
        for router in (engine.LEAST_REQUESTS, engine.ROUND_ROBIN, engine.RANDOM)
    ]
    assert waits[0] < 0.6 * waits[1] < 0.6 * waits[2]
