"""Drafts: what a step brings and costs, by arithmetic of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from planner.catalog.drafts import EAGLE3, known_draft, known_drafts
from planner.catalog.entries import day_of, shipped_catalog
from planner.catalog.variant import Variant
from planner.performance.closed_loop import most_in_memory
from planner.performance.latency import decode_step_s
from planner.performance.machine import Machine
from planner.performance.machine_by_name import machine_for
from planner.performance.memory import parameters
from planner.performance.speculation import Speculation, acceptance, eagle_head, geometric, mtp_module
from planner.performance.steady_state import steady_state
from tests.support.rows import for_each

CHANCES = (0.8, 0.6, 0.3)


def machine(model: str = "llama-3.1-8b", gpus: int = 1, speculation: Speculation | None = None) -> Machine:
    plain = machine_for(shipped_catalog(), Variant(model, "fp16", "h200", gpus), "vllm")
    return replace(plain, speculation=speculation)


def eagle(model: str = "llama-3.1-8b", chances: tuple[float, ...] = CHANCES) -> Speculation:
    known = known_draft(model, EAGLE3)
    return Speculation(EAGLE3, chances, eagle_head(shipped_catalog().models[model], known.head if known else None))


def expected_steps(chances: tuple[float, ...], tokens: int) -> float:
    """By recursion over what a step brings: each chance that exactly so many drafts are accepted."""
    exactly = [a - b for a, b in pairwise([1.0, *chances, 0.0])]
    steps = [0.0] * (tokens + 1)
    for n in range(1, tokens + 1):
        steps[n] = 1 + sum(p * steps[max(0, n - 1 - j)] for j, p in enumerate(exactly))
    return steps[tokens]


@for_each("chances", [(0.5,), CHANCES, (0.9, 0.85, 0.8, 0.75, 0.7)])
@for_each("tokens", [30, 100, 500])
def test_steps_of_an_answer_are_those_of_chance(chances: tuple[float, ...], tokens: int) -> None:
    found = float(Speculation("ngram", chances).steps_of(np.array(float(tokens))))
    assert found == pytest.approx(expected_steps(chances, tokens), rel=0.01)


def test_an_answer_takes_no_more_steps_than_tokens() -> None:
    assert Speculation("ngram", (0.9, 0.9)).steps_of(np.array([0.0, 1.0])).tolist() == [
        0.0,
        pytest.approx(1.0, abs=0.4),
    ]
    assert float(Speculation("ngram", (0.0, 0.0)).steps_of(np.array(99.0))) == 99.0


def test_no_place_is_likelier_than_the_one_before() -> None:
    measured = {1: 1.79, 2: 2.27, 3: 2.49, 4: 2.54, 5: 2.55, 6: 2.55, 7: 2.54, 8: 2.58}
    chances = acceptance(measured)
    assert all(a >= b for a, b in pairwise(chances))
    assert 1 + sum(chances[:3]) == pytest.approx(2.49) and chances[7] == 0.0
    sparse = acceptance({3: 2.9, 5: 3.5, 7: 3.86})
    assert 1 + sum(sparse) == pytest.approx(3.86) and sparse[5] == sparse[6] == pytest.approx(0.18)
    assert sum(geometric(2.4, 3)) == pytest.approx(1.4)


def test_a_step_of_several_tokens_reads_weights_and_kv_once() -> None:
    """A product takes as long as one over so many more requests; attention reads as much as before."""
    plain = machine()
    for tokens in (2, 4, 8):
        few, crowd = (float(decode_step_s(plain, b, 1000.0, t)) for b, t in ((8, tokens), (8 * tokens, 1)))
        assert float(decode_step_s(plain, 8, 1000.0)) < few < crowd
    assert float(decode_step_s(plain, 8, 1000.0, 1)) == float(decode_step_s(plain, 8, 1000.0))


def test_drafts_pay_in_small_batches_and_not_in_large_ones() -> None:
    drafting = machine(speculation=eagle())

    def faster(batch: int) -> float:
        return eagle().accepted_tokens * float(
            decode_step_s(machine(), batch, 500.0) / decode_step_s(drafting, batch, 500.0)
        )

    assert faster(1) > 1.5 and faster(256) < 1.0
    assert all(faster(a) > faster(b) for a, b in pairwise((16, 32, 64, 128, 256)))


def test_tokens_come_as_fast_as_steps_and_acceptance_say() -> None:
    drafting = machine(speculation=eagle())
    steady = steady_state(drafting, np.array([1.0]), 500.0, 1001.0)
    step = float(decode_step_s(drafting, 1.0, 500.0 + 1001.0 / 2))
    steps = float(eagle().steps_of(np.array(1000.0)))
    assert float(steady.tpot_s[0]) == pytest.approx(step * steps / 1000)
    assert 1 / float(steady.requests_per_s[0]) == pytest.approx(float(steady.prefill_s[0]) + steps * step)


def test_heads_and_drafts_take_memory() -> None:
    head, plain, drafting = eagle().drafter, machine(), machine(speculation=eagle())
    assert head is not None
    assert drafting.extra.weight_bytes == pytest.approx(2 * 424.7e6, rel=1e-3)  # as published: 424.7M parameters
    assert drafting.extra.kv_factor == pytest.approx(1 + 1 / 32)  # one layer beside 32 of the same heads
    room = (plain.kv_room_bytes - 2 * 424.7e6) / (1 + 1 / 32)
    assert drafting.kv_room_bytes == pytest.approx(room, rel=1e-4)
    each = 2 * 32 * 8 * 128 * 2
    assert float(most_in_memory(drafting, 1000, 200)) == np.floor(drafting.kv_room_bytes / ((1000 + 100 + 3) * each))
    looked_up = machine(speculation=Speculation("ngram", CHANCES))
    assert looked_up.extra.weight_bytes == 0 and looked_up.kv_room_bytes == plain.kv_room_bytes


def test_a_state_is_kept_for_each_draft() -> None:
    model = "qwen3-next-80b-a3b"
    hybrid = machine(model, 4, Speculation("ngram", CHANCES))
    assert hybrid.extra.lookahead_tokens > 1000
    assert float(most_in_memory(hybrid, 1000, 200)) < float(most_in_memory(machine(model, 4), 1000, 200))


def test_a_module_of_mtp_is_one_more_layer() -> None:
    """DeepSeek V3: 14B with the output matrix and embedding, of which its own layer is 11.5B (config of V3)."""
    v3 = shipped_catalog().models["deepseek-v3"]
    module = parameters(mtp_module(v3))
    assert module.routed == pytest.approx(parameters(v3).routed / 58)
    assert (module.routed + module.dense) / 1e9 == pytest.approx(11.6, abs=0.5)


def test_known_drafts_are_of_models_and_have_sources() -> None:
    catalog = shipped_catalog()
    for model, methods in known_drafts().items():
        assert model in catalog.models
        for draft in methods.values():
            assert draft.source and (draft.date == "unknown" or day_of(draft.date))
            for lengths in draft.accepted.values():
                assert all(1 < tokens <= k + 1 for k, tokens in lengths.items())
                assert json.dumps(list(lengths)) == json.dumps(sorted(lengths))
