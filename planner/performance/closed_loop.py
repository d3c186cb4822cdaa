"""A replica with a fixed number of requests in flight, as benchmarks run it: an answer starts a request.

With b of them inside the engine and the rest waiting,

    requests/s  = b / (b x prefill + output x step(b))
    mean TPOT   = step(b) + c x (b - 1) x prefill / output     (waiting for a share c of others' prefills)
    mean TTFT   = own prefill + half a step + prompts ahead x prefill + waiting for a place [Little's law]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from planner.performance.latency import Machine, decode_step_s, prefill_added_s, prefill_s
from planner.performance.memory import largest_batch


class Scaling(Protocol):
    """What measurements of a deployment make of the predicted times."""

    @property
    def prefill_ratio(self) -> float: ...

    @property
    def ttft_ratio(self) -> float: ...

    @property
    def ttft_added_s(self) -> float: ...

    def lone_ttft_s(self, prefill_s: np.ndarray) -> np.ndarray: ...

    def decode_ratio(self, batch: np.ndarray) -> np.ndarray: ...


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
    """Requests that KV memory and the engine admit at once; every GPU holds all adapters."""
    engine = machine.engine
    prompt, output = np.asarray(input_tokens, dtype=float), np.asarray(output_tokens, dtype=float)
    held = prompt + output * engine.reserved_output_frac
    fits = largest_batch(
        machine.model, machine.gpu, machine.gpus, machine.quantization, held, cached_tokens, resident_tokens,
        engine.usable_memory_frac, machine.lora.bytes * machine.gpus if machine.lora else 0.0, machine.layout,
    )  # fmt: skip
    admitted: np.ndarray = np.minimum(fits, engine.max_in_flight * machine.layout.attention_copies)
    return admitted


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
    new = np.maximum(prompt, 1.0)
    in_flight = np.minimum(wanted, largest_in_flight(machine, prompt, output))
    b = np.maximum(in_flight, 1.0)
    step = decode_step_s(machine, b, prompt + output / 2)
    alone = prefill_s(machine, new, prompt)
    added = np.where(b > 1, prefill_added_s(machine, new, prompt, b, output), alone)
    if scaling is not None:
        step, alone = step * scaling.decode_ratio(b), scaling.lone_ttft_s(alone)
        added = np.where(b > 1, added * scaling.prefill_ratio, alone)
    rate = b / (b * added + output * step)
    waiting = np.where(np.isfinite(wanted), (np.minimum(wanted, 1e9) - b) / rate, 0.0)
    others = (b - 1) * added
    queue = machine.engine.queue_frac * others + machine.engine.queued_prompts * (1 - 1 / b) * alone
    ttft = alone + np.where(b > 1, step / 2, 0.0) + np.maximum(waiting, 0.0) + queue
    return ClosedLoop(
        in_flight=in_flight,
        requests_per_s=np.where(in_flight >= 1, rate, 0.0),
        tpot_s=step + machine.engine.interruption_frac * others / output,
        ttft_s=ttft,
    )
