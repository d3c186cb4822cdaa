"""Steps that are drawn for answers: those of a step-by-step simulation, and the plan's own formula."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from planner.catalog.entries import shipped_catalog
from planner.catalog.variant import Variant
from planner.performance.latency import decode_step_s
from planner.performance.machine import Machine
from planner.performance.machine_by_name import machine_for
from planner.performance.speculation import Speculation, eagle_head
from planner.performance.steady_state import steady_state
from planner.verification import engine
from planner.verification.acceptance import drawn_passes
from planner.verification.step_times import StepTimes, step_times
from planner.verification.steps import SERVED
from tests.support.rows import for_each

CHANCES = (0.8, 0.6, 0.3)


def one_by_one(output: int, chances: tuple[float, ...], rng: np.random.Generator) -> int:
    """Each draft is looked at after the one before: with the chance that it is accepted if that was."""
    tokens, passes = 1, 1
    while tokens < output:
        before = 1.0
        brought = 1
        for chance in chances:
            if rng.random() >= chance / before:
                break
            brought, before = brought + 1, chance
        tokens, passes = tokens + brought, passes + 1
    return passes


@for_each("output", [2, 7, 40, 300])
def test_draws_are_those_of_one_step_after_the_other(output: int) -> None:
    rng, count = np.random.default_rng(7), 3000
    drawn = drawn_passes(np.full(count, output), CHANCES, rng)
    slow = np.array([one_by_one(output, CHANCES, rng) for _ in range(count)])
    close = 4 * slow.std() / np.sqrt(count) + 1e-9
    assert abs(drawn.mean() - slow.mean()) < 2 * close
    assert drawn.std() == pytest.approx(slow.std(), rel=0.1, abs=0.02)
    assert drawn.min() >= 1 + (output - 1) / (len(CHANCES) + 1) and drawn.max() <= output


def test_draws_have_the_mean_and_spread_that_plans_count_on() -> None:
    speculation, decoded = Speculation("ngram", CHANCES), np.array(399.0)
    drawn = drawn_passes(np.full(20_000, 400), CHANCES, np.random.default_rng(3)) - 1
    assert drawn.mean() == pytest.approx(float(speculation.steps_of(decoded)), rel=0.003)
    assert drawn.std() == pytest.approx(float(speculation.steps_sd(decoded)), rel=0.03)


def test_certain_and_useless_drafts() -> None:
    rng = np.random.default_rng(1)
    assert drawn_passes(np.array([1, 2, 9, 10]), (1.0, 1.0), rng).tolist() == [1, 2, 4, 4]
    assert drawn_passes(np.array([1, 2, 9]), (0.0, 0.0), rng).tolist() == [1, 2, 9]
    assert all(a <= b for a, b in pairwise(drawn_passes(np.array([1, 10, 100, 1000]), CHANCES, rng).tolist()))


def times_of(sequences: int = 64) -> tuple[Machine, StepTimes]:
    head = eagle_head(shipped_catalog().models["llama-3.1-8b"], None)
    plain = machine_for(shipped_catalog(), Variant("llama-3.1-8b", "fp16", "h100", 1), "vllm")
    drafting = replace(plain, speculation=Speculation("eagle3", CHANCES, head))
    return drafting, step_times(drafting, sequences, 2048, 8000.0, 0.0)


def served(times: StepTimes, arrival_s: np.ndarray, prompt: float, output: int, sequences: int = 64) -> engine.Outcome:
    count = len(arrival_s)
    asked = engine.Requests(
        arrival_s, np.full(count, prompt), np.zeros(count), np.full(count, output), np.ones(count, dtype=np.bool_)
    )
    capacity = engine.Capacity(np.zeros(1), np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
    return engine.serve(asked, capacity, times, sequences, 2048, engine.LEAST_REQUESTS, 5)


def test_a_lone_answer_takes_its_steps() -> None:
    drafting, times = times_of()
    outcome = served(times, np.zeros(1), 500.0, 401)
    (passes,) = drawn_passes(np.array([401]), CHANCES, np.random.default_rng(5)).tolist()
    step_s = float(decode_step_s(drafting, 1.0, 500.0 + 200.0))
    assert float(outcome.last_s[0] - outcome.first_s[0]) == pytest.approx((passes - 1) * step_s, rel=5e-3)
    assert drafting.speculation is not None
    assert passes - 1 == pytest.approx(float(drafting.speculation.steps_of(np.array(400.0))), rel=0.15)


def test_clients_see_the_time_of_a_token_that_plans_count_on() -> None:
    drafting, times = times_of()
    rng, count, rate = np.random.default_rng(2), 1500, 8.0
    outcome = served(times, np.cumsum(rng.exponential(1 / rate, count)), 500.0, 201)
    assert (outcome.state == SERVED).all()
    tpot = (outcome.last_s - outcome.first_s) / 200
    in_flight = rate * float((outcome.last_s - outcome.first_s).mean())
    expected = float(steady_state(drafting, np.array([in_flight + 1]), 500.0, 201.0).tpot_s[0])
    assert float(tpot.mean()) == pytest.approx(expected, rel=0.08)


def test_memory_is_given_back_after_preemptions() -> None:
    """With room for a few requests only, those that are sent back are computed again and answered in the end."""
    _, times = times_of()
    tight = replace(times, kv_room_bytes=6 * 700 * times.kv_bytes_per_token)
    outcome = served(tight, np.arange(40) * 0.01, 200.0, 600)
    assert (outcome.state == SERVED).all() and outcome.preempted.sum() > 0
    assert (outcome.last_s > outcome.first_s).all()
