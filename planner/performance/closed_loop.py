"""A replica with a fixed number of requests in flight, as benchmarks run it: an answer starts a request.

With b of them inside the engine (steady_state.py) and the rest waiting,

    mean TTFT   = own prefill + steps ahead x step + prompts ahead x prefill + waiting for a place [Little's law]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.catalog.entries import Engine
from planner.performance.latency import prefill_s
from planner.performance.machine import Machine
from planner.performance.memory import largest_batch
from planner.performance.steady_state import Scaling, SteadyState, steady_state

HALF_A_STEP = 0.5
"""what is left of the step that runs when a request comes, on average"""


@dataclass(frozen=True, eq=False)
class ClosedLoop:
    in_flight: np.ndarray
    """requests inside the engine; 0 where not even one fits"""
    requests_per_s: np.ndarray
    tpot_s: np.ndarray
    ttft_s: np.ndarray


def largest_in_flight(
    machine: Machine,
    input_tokens: np.ndarray | float,
    output_tokens: np.ndarray | float,
    cached_tokens: np.ndarray | float = 0.0,
    resident_tokens: np.ndarray | float = 0.0,
) -> np.ndarray:
    """Requests that KV memory and the engine admit at once."""
    fits = most_in_memory(machine, input_tokens, output_tokens, cached_tokens, resident_tokens)
    admitted: np.ndarray = np.minimum(fits, machine.engine.max_in_flight * machine.layout.attention_copies)
    return admitted


def most_in_memory(
    machine: Machine,
    input_tokens: np.ndarray | float,
    output_tokens: np.ndarray | float,
    cached_tokens: np.ndarray | float = 0.0,
    resident_tokens: np.ndarray | float = 0.0,
) -> np.ndarray:
    """Requests that KV memory holds at once; every GPU holds all adapters."""
    engine = machine.engine
    prompt, output = np.asarray(input_tokens, dtype=float), np.asarray(output_tokens, dtype=float)
    held = prompt + output * engine.reserved_output_frac + machine.extra.lookahead_tokens
    return largest_batch(
        machine.model, machine.gpu, machine.gpus, machine.quantization, held, cached_tokens, resident_tokens,
        engine.usable_memory_frac, machine.reserved_bytes, machine.layout, machine.extra.kv_factor,
    )  # fmt: skip


def closed_loop(
    machine: Machine,
    concurrency: np.ndarray | float,
    input_tokens: np.ndarray | float,
    output_tokens: np.ndarray | float,
    scaling: Scaling | None = None,
) -> ClosedLoop:
    """Rates and mean latencies; a concurrency of infinity keeps the engine full."""
    wanted = np.asarray(concurrency, dtype=float)
    prompt = np.asarray(input_tokens, dtype=float)
    output = np.maximum(np.asarray(output_tokens, dtype=float), 1.0)
    in_flight = np.minimum(wanted, largest_in_flight(machine, prompt, output))
    b = np.maximum(in_flight, 1.0)
    steady = steady_state(machine, b, prompt, output).scaled(scaling)
    alone = prefill_s(machine, np.maximum(prompt, 1.0), prompt)
    if scaling is not None:
        alone = scaling.lone_ttft_s(alone)
    rate = steady.requests_per_s
    waiting = np.where(np.isfinite(wanted), (np.minimum(wanted, 1e9) - b) / rate, 0.0)
    own, queue = _own_and_queue_s(machine.engine, b, alone, steady)
    ttft = own + queue + np.maximum(waiting, 0.0)
    return ClosedLoop(
        in_flight=in_flight,
        requests_per_s=np.where(in_flight >= 1, rate, 0.0),
        tpot_s=steady.tpot_s,
        ttft_s=ttft,
    )


def _own_and_queue_s(
    engine: Engine, in_flight: np.ndarray, alone: np.ndarray, steady: SteadyState
) -> tuple[np.ndarray, np.ndarray]:
    """A request's prefill beside those in flight, and what it waits for before; a lone one waits for nothing."""
    others = in_flight - 1
    own = np.where(others > 0, np.minimum(steady.prefill_s + engine.prefill_overhead_ms / 1e3, alone), alone)
    ahead = engine.queue_frac * (others if engine.mixes_prefill else np.sqrt(others))
    queue = ahead * steady.prefill_s + engine.queued_prompts * (1 - 1 / in_flight) * alone
    steps = HALF_A_STEP if engine.queued_steps is None else engine.queued_steps
    return own, np.where(others > 0, queue + steps * steady.step_s, 0.0)
