"""Tables of step times against the planner's own functions."""

from __future__ import annotations

import numpy as np
import pytest

from planner.catalog.variant import TENSOR, Parallelism
from planner.performance.calibration.correction import Correction
from planner.performance.closed_loop import largest_in_flight
from planner.performance.latency import decode_step_s, prefill_added_s, prefill_s, prompt_attention_s
from planner.performance.machine import Lora, Machine
from planner.verification.step_times import step_times
from tests.support import machines
from tests.support.naive_engine import LEAST_REQUESTS, Naive, Request
from tests.support.rows import for_each

SEQUENCES, BUDGET = 96, 8192
LORA = Lora(adapters=8)
MEASURED = Correction(
    decode_level=1.1, decode_power=0.2, least_in_flight=4, most_in_flight=64, prefill_ratio=1.4, ttft_ratio=0.8,
    ttft_added_s=0.004,
)  # fmt: skip


def looked_up(machine: Machine, longest: float, correction: Correction | None = None) -> Naive:
    return Naive(
        step_times(machine, SEQUENCES, BUDGET, longest, 0.0, correction), SEQUENCES, BUDGET, LEAST_REQUESTS, [], []
    )


@for_each("correction", [None, MEASURED])
@for_each("lora", [None, LORA])
@for_each("engine", ["vllm", "sglang"])
@for_each("name", machines.MACHINES)
def test_a_step_is_off_by_less_than_a_thousandth(
    name: machines.Name, engine: str, lora: Lora | None, correction: Correction | None
) -> None:
    machine, rng = machines.machine(name, lora, TENSOR, engine), np.random.default_rng(1)
    prefill = correction.prefill_ratio if correction else 1.0
    for longest in (8192.0, 65_536.0):
        tables = looked_up(machine, 2 * longest, correction)
        for _ in range(60):
            batch, chunk = (int(np.ceil(most ** rng.random())) for most in (SEQUENCES, BUDGET))
            context, before = longest ** rng.random(), int(longest ** rng.random())
            step = float(decode_step_s(machine, batch, context))
            step *= float(correction.decode_ratio(batch)) if correction else 1.0
            added = prefill * float(prefill_added_s(machine, chunk, before + chunk, batch))
            alone = float(prefill_s(machine, chunk, before + chunk))
            alone = float(correction.lone_ttft_s(alone)) if correction else alone
            request = Request(0.0, before + chunk, 0, 1, True, computed=before, new=chunk)
            where = (longest, batch, context, chunk, before)
            assert tables.decode_s(batch, context) == pytest.approx(step, rel=1e-3), where
            mixed = tables.decode_s(batch, context) + tables.added_s(batch, chunk) + tables.attention_s(request)
            mixed += tables.times.prompt_beside_s
            assert mixed == pytest.approx(step + added, rel=1e-3), where
            lone = tables.alone_s(chunk, True) + tables.attention_s(request, alone=True) + tables.times.host_s
            assert lone == pytest.approx(alone, rel=1e-3), where
            pairs = prompt_attention_s(machine, np.array(float(chunk)), np.array(float(before + chunk)))
            assert tables.attention_s(request) == pytest.approx(prefill * float(pairs), rel=1e-9), where


def test_the_constant_of_a_prompt_delays_requests_where_passes_are_mixed_and_steps_where_they_are_not() -> None:
    for name, in_steps in (("vllm", False), ("sglang", True)):
        machine = machines.machine(machines.DENSE, None, TENSOR, name)
        begun = machine.engine.prefill_overhead_ms / 1e3
        t = step_times(machine, 8, BUDGET, 1e4, 0.0)
        assert (t.prompt_alone_s, t.prompt_beside_s, t.host_s) == pytest.approx(
            (begun, begun, 0.0) if in_steps else (0.0, 0.0, begun)
        )
        slower, faster = (
            step_times(machine, 8, BUDGET, 1e4, 0.0, Correction(ttft_added_s=added)) for added in (0.004, -1.0)
        )
        assert slower.prompt_alone_s + slower.host_s == pytest.approx(begun + 0.004)
        assert (faster.prompt_alone_s, faster.host_s) == (0.0, 0.0)


@for_each("lora", [None, LORA])
@for_each(
    ("name", "parallelism"),
    [*((name, TENSOR) for name in machines.MACHINES), *((name, "data") for name in machines.RANKS)],
)
def test_memory_holds_as_many_requests_as_the_planner_counts(
    name: machines.Name, parallelism: Parallelism, lora: Lora | None
) -> None:
    machine = machines.machine(name, lora, parallelism)
    ranks = machine.layout.attention_copies
    for prompt, output, found, resident in ((500, 100, 0, 0), (6000, 1000, 0, 0), (3000, 200, 1000, 4000)):
        t = step_times(machine, 8, BUDGET, 1e4, resident)
        held = prompt - found + machine.engine.reserved_output_frac * output
        window = t.kv_window_bytes_per_token * min(held, t.kv_window_tokens)
        fits = np.floor(t.kv_room_bytes / (held * t.kv_bytes_per_token + window))
        expected = largest_in_flight(machine, prompt, output, found, resident) / ranks
        assert min(fits, machine.engine.max_in_flight) == pytest.approx(float(expected), abs=1), (prompt, found)
