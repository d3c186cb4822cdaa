"""Step times of a replica as tables, filled by the planner's own functions and looked up by the simulator.

    step(b, context, c) = decode(b, context) + added(b, c) + attention(c, position)             [s]

b requests decode, c prompt tokens are prefilled in the same step. `decode` and `added` are tables over grids fine
enough that a linear look-up between them is off by less than a thousandth; attention over a prompt is linear in what it
sees.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.performance.latency import (
    Machine,
    decode_step_s,
    prefill_added_s,
    prefill_s,
    prompt_attention_s,
)
from planner.performance.memory import attended_layers, kv_bytes_per_token, kv_room_bytes
from planner.performance.throughput import Scaling

CONTEXTS = 129
"""points of the grid of mean contexts"""
CHUNK_STEP, BATCH_STEP = 32, 4
"""tokens of a chunk and requests in flight between two points of a grid"""


@dataclass(frozen=True, eq=False)
class StepTimes:
    """What the simulator knows of one replica's speed and memory."""

    decode_s: np.ndarray
    """[requests that decode, mean context / context_step]"""
    context_step: float
    added_s: np.ndarray
    """without attention [requests that decode / BATCH_STEP, prompt tokens / CHUNK_STEP]"""
    alone_s: np.ndarray
    """a step without decodes, without attention [prompt tokens / CHUNK_STEP]"""
    attention_s_per_pair: float
    """for a new token and a token and layer that it sees"""
    seen_layers: np.ndarray
    """tokens seen, summed over layers, and what short prompts pay beyond them [position / context_step]"""
    kv_bytes_per_token: float
    """that grow with every token"""
    kv_window_bytes_per_token: float
    """of layers that keep a window only"""
    window_tokens: float
    kv_room_bytes: float


def step_times(
    machine: Machine,
    sequences: int,
    budget: int,
    longest: float,
    resident_tokens: float,
    scaling: Scaling | None = None,
) -> StepTimes:
    """Tables for up to so many requests in flight, prompt tokens in a step, and tokens of a request."""
    context_step = max(1.0, float(longest) / (CONTEXTS - 1))
    contexts = context_step * np.arange(CONTEXTS)
    batch = np.arange(sequences + 1, dtype=float)[:, None]
    decode = decode_step_s(machine, batch, contexts[None, :])
    chunks = np.maximum(1.0, CHUNK_STEP * np.arange(-(-budget // CHUNK_STEP) + 1, dtype=float))
    batches = np.maximum(1.0, BATCH_STEP * np.arange(-(-sequences // BATCH_STEP) + 1, dtype=float))[:, None]
    attention = prompt_attention_s(machine, chunks, chunks)
    added = prefill_added_s(machine, chunks[None, :], chunks[None, :], batches) - attention[None, :]
    alone = prefill_s(machine, chunks, chunks) - attention
    per_pair, seen = _attention(machine, contexts)
    if scaling is not None:
        decode = decode * scaling.decode_ratio(np.maximum(batch, 1.0))
        added, alone = added * scaling.prefill_ratio, alone * scaling.ttft_ratio
    model, copies = machine.model, machine.kv_copies
    room = kv_room_bytes(model, machine.gpu, machine.gpus, machine.quantization, machine.engine.usable_memory_frac)
    room -= (machine.lora.bytes * machine.gpus if machine.lora else 0.0) / copies
    each = kv_bytes_per_token(model, machine.quantization)
    full_frac = 1.0 if model.sliding is None else model.sliding.full_attention_layers / model.layers
    return StepTimes(
        decode_s=np.ascontiguousarray(decode),
        context_step=context_step,
        added_s=np.ascontiguousarray(np.maximum(added, 0.0)),
        alone_s=np.ascontiguousarray(alone),
        attention_s_per_pair=per_pair,
        seen_layers=seen,
        kv_bytes_per_token=each * full_frac,
        kv_window_bytes_per_token=each * (1 - full_frac),
        window_tokens=float(model.sliding.window_tokens) if model.sliding else 0.0,
        kv_room_bytes=room - resident_tokens * each,
    )


def _attention(machine: Machine, positions: np.ndarray) -> tuple[float, np.ndarray]:
    """Seconds for a token and what it sees, and what a token at each position sees, by the planner's own function."""
    seen = attended_layers(machine.model, positions)
    one, two = prompt_attention_s(machine, np.ones(2), np.array([1.5, 2.5])).tolist()
    layers = float(attended_layers(machine.model, 2.0) - attended_layers(machine.model, 1.0))
    per_pair = (two - one) / layers
    short = one / per_pair - float(attended_layers(machine.model, 1.0))
    return per_pair, np.ascontiguousarray(seen + short)
