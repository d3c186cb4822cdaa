"""What a full replica does by formula, against requests that are served one by one."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from planner.catalog.entries import shipped_catalog
from planner.catalog.variant import Variant
from planner.performance.machine import Machine
from planner.performance.machine_by_name import machine_for
from planner.performance.steady_state import steady_state
from planner.performance.throughput import Lengths, Limits, throughput
from planner.verification import engine
from planner.verification.step_times import step_times
from tests.support.rows import for_each

MACHINES = {
    "l40s": Variant("llama-3.1-8b", "fp8", "l40s", 1),
    "2 x h200": Variant("llama-3.3-70b", "fp8", "h200", 2),
}


def limited(machine: Machine, most: int) -> Machine:
    return replace(machine, engine=machine.engine.model_copy(update={"max_in_flight": most}))


def saturated(machine: Machine, prompt: int, answer: int, in_flight: int) -> float:
    """Answers a second from a queue that never ends; answers vary by half, so that they do not end together."""
    rng, count = np.random.default_rng(1), 12 * in_flight * max(1, 8 // answer)
    answers = rng.uniform(0.5, 1.5, count) * answer if answer > 1 else np.ones(count)
    answers = np.maximum(1, np.floor(answers + rng.random(count))).astype(np.int64)
    budget = machine.engine.chunk_tokens
    times = step_times(machine, in_flight, budget, prompt + 2.0 * answer, 0.0)
    requests = engine.Requests(
        np.zeros(count), np.full(count, float(prompt)), np.zeros(count), answers, np.ones(count, dtype=np.bool_)
    )
    capacity = engine.Capacity(np.zeros(1), np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
    ended = np.sort(engine.serve(requests, capacity, times, in_flight, budget, 0, 1).last_s)
    first, last = count // 4, 17 * count // 20
    return (last - first) / float(ended[last] - ended[first])


@for_each("name", MACHINES)
@for_each("engine_name", ["vllm", "sglang"])
def test_a_replica_carries_what_it_is_planned_with(name: str, engine_name: str) -> None:
    whole = machine_for(shipped_catalog(), MACHINES[name], engine_name)
    for prompt, answer, most in itertools.product((50, 250, 2000), (1, 4, 32, 256), (32, 128)):
        machine = limited(whole, most)
        lengths = Lengths(np.array([float(prompt)]), np.array([float(answer)]), np.zeros(1))
        planned = throughput(machine, lengths, Limits(np.inf, 0.0))
        served = saturated(machine, prompt, answer, int(planned.in_flight[0]))
        assert planned.requests_per_s[0] == pytest.approx(served, rel=0.08), (prompt, answer, most)


def test_prompts_that_begin_together_are_no_longer_hidden_in_reading_weights() -> None:
    machine = machine_for(shipped_catalog(), MACHINES["l40s"], "vllm")
    many = steady_state(machine, 128.0, 250.0, np.array([4.0, 16.0, 1000.0]))
    assert (np.diff(many.prefill_s) < 0).all(), "the longer answers are, the fewer prompts a step begins"
    assert (many.begun[:2] > 1).all()
    assert many.begun[2] < 1


def test_a_step_has_no_more_tokens_than_it_may() -> None:
    machine = machine_for(shipped_catalog(), MACHINES["l40s"], "vllm")
    small = replace(machine, engine=machine.engine.model_copy(update={"chunk_tokens": 1024}))
    for one in (machine, small):
        run = steady_state(one, 512.0, 2000.0, 4.0)
        assert run.begun / (1 - 1 / 512) * (2000 + 3) <= one.engine.chunk_tokens * (1 + 1e-9)
    assert (
        steady_state(small, 512.0, 2000.0, 4.0).requests_per_s
        < steady_state(machine, 512.0, 2000.0, 4.0).requests_per_s
    )
