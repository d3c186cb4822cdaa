"""Step times of a replica as tables, filled by the planner's own functions and looked up by the simulator.

    step(b, context, c) = decode(b, seen(context)) + added(b, c) + attention(c, seen(position))             [s]

b requests decode, c prompt tokens are prefilled in the same step. A step that decodes nothing takes alone(c) instead
of the first two. `decode`, `added` and `alone` are looked up between points: linearly in what a token sees, mean over
the layers, and in the square root of c, so that small chunks, which read few experts, are as exact as large ones.

The engine's constant for a prompt is time of the host (HTTP, tokenizer, queues) where a pass has prompts and decodes:
it is part of every TTFT and of no rate in what it was fitted to, so it delays each request and keeps no GPU busy. Where
prompts take a pass of their own, it is part of each pass that begins some.

A step of a replica over several boxes is a round through all of them, each busy with another part of the requests.

Data-parallel ranks take a step together (RankTimes), over the tokens of all of them and those of the busiest:

    step = max over ranks (rank's products and attention) + experts, collectives and overheads of all       [s]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from planner.performance.latency import (
    decode_attention_s,
    decode_step_s,
    lora_s,
    prefill_added_s,
    prefill_s,
    prompt_attention_s,
    prompts_round_s,
    rank_products_s,
    shared_pass_s,
)
from planner.performance.machine import Machine
from planner.performance.memory import attended_layers, kv_bytes_per_token, kv_growth, sight
from planner.performance.steady_state import Scaling

CONTEXTS = 129
"""points of the grid of what a token sees"""
ROOT_STEPS = 8
"""points of the grid of chunks to each step of their square root"""


class RankTimes(NamedTuple):
    """Parts of a step of a replica whose ranks have requests, memory and a token budget each."""

    number: int
    products_s: np.ndarray
    """dense layers of a rank, and reading its head [root_steps x square root of its tokens]"""
    requests_s: np.ndarray
    """besides, for sampling and adapters [requests of a rank that are in the step]"""
    attention_s: np.ndarray
    """of one request that decodes [tokens seen / seen_step]"""
    shared_s: np.ndarray
    """a pass of all ranks: experts, collectives, latencies [root_steps x square root of their tokens]"""
    overhead_s: float
    """of a step that decodes"""
    request_s: float
    """for each request that decodes, on whichever rank"""
    decode_ratio: np.ndarray
    """measured over predicted [requests that decode, of all ranks]"""
    prefill_ratio: float
    alone_ratio: float
    """the same of prompts, in steps that decode and in others"""
    mixed: bool
    """whether a pass has prompts and decodes; else prompts take a pass of their own"""


@dataclass(frozen=True, eq=False)
class StepTimes:
    """What the simulator knows of one replica's speed and memory."""

    decode_s: np.ndarray
    """[requests that decode, tokens seen / seen_step]"""
    seen_step: float
    added_s: np.ndarray
    """without attention [requests that decode, root_steps x square root of prompt tokens]"""
    alone_s: np.ndarray
    """a step without decodes, without attention [root_steps x square root of prompt tokens]"""
    root_steps: float
    prompt_alone_s: float
    """beyond that, where a step without decodes begins prompts"""
    prompt_beside_s: float
    """the same in a step with decodes"""
    host_s: float
    """by which every request is answered later than its steps end"""
    attention_s: float
    """for a new token and a token that it sees in all layers"""
    attention_alone_s: float
    """the same in a step without decodes"""
    attention_short_tokens: float
    """seen besides: what short prompts pay"""
    full_frac: float
    """share of the layers that see everything; the others see a window"""
    kv_bytes_per_token: float
    """that grow with every token"""
    kv_window_bytes_per_token: float
    """of layers that keep a window only"""
    window_tokens: float
    """that are seen"""
    kv_window_tokens: float
    """that are kept: another number where attention picks tokens, or an entry stands for several"""
    kv_room_bytes: float
    verified: int = 1
    """tokens of a request that decodes in a step: more than one where drafts are verified"""
    gain: float = 1.0
    """tokens that a step brings to it on average"""
    chances: tuple[float, ...] = ()
    """of the drafts of a step, that so many are accepted"""
    cached_bytes_per_token: float = 0.0
    """of a block that stays for other requests: at full length in every layer"""
    ranks: RankTimes | None = None
    """of a replica of several ranks: parts of their steps in place of the first tables; memory is that of a rank"""


def step_times(
    machine: Machine,
    sequences: int,
    budget: int,
    longest: float,
    resident_tokens: float,
    scaling: Scaling | None = None,
) -> StepTimes:
    """Tables for up to so many requests in flight, prompt tokens in a step, and tokens of a request.

    Of data-parallel ranks each has so many.
    """
    model, copies = machine.model, machine.kv_copies
    seeing, growth = sight(model), kv_growth(model, machine.quantization, copies)
    window = max(seeing.window, growth.window)
    in_all = seeing.full + seeing.windowed
    full_frac = seeing.full / in_all
    seen = np.linspace(0.0, max(1.0, float(attended_layers(model, longest)) / (model.layers * in_all)), CONTEXTS)
    beyond = (seen - window) / full_frac if full_frac else 0.0
    contexts = np.where(seen <= window, seen, window + beyond)
    ranks = machine.layout.attention_copies
    batch = np.arange((sequences if ranks == 1 else 0) + 1, dtype=float)[:, None]
    decode = decode_step_s(machine, batch, contexts[None, :])
    chunks = _by_root(budget)
    attention = prompt_attention_s(machine, chunks, chunks)
    added = prefill_added_s(machine, chunks[None, :], chunks[None, :], np.maximum(batch, 1.0)) - attention[None, :]
    begun = machine.engine.prefill_overhead_ms / 1e3
    in_step = 0.0 if machine.engine.mixes_prefill else begun
    by_themselves = prefill_s(machine, chunks, chunks) if machine.boxes == 1 else prompts_round_s(machine, chunks)
    alone, added = by_themselves - attention - begun, added - in_step
    pair, short = _attention(machine)
    prefill_ratio, ttft_ratio, ttft_added_s = 1.0, 1.0, 0.0
    if scaling is not None:
        decode = decode * scaling.decode_ratio(np.maximum(batch, 1.0))
        prefill_ratio, ttft_ratio = scaling.prefill_ratio, scaling.ttft_ratio
        ttft_added_s = scaling.ttft_added_s
    delay = max(0.0, begun * ttft_ratio + ttft_added_s)
    prompt_alone = min(in_step * ttft_ratio, delay)
    room = machine.kv_room_bytes
    looked_ahead = sequences * machine.extra.lookahead_tokens
    each = kv_bytes_per_token(model, machine.quantization)
    return StepTimes(
        decode_s=np.ascontiguousarray(decode),
        seen_step=float(seen[1]),
        added_s=np.ascontiguousarray(np.maximum(added, 0.0) * prefill_ratio),
        alone_s=np.ascontiguousarray(np.maximum(alone, 0.0) * ttft_ratio if machine.boxes > 1 else alone * ttft_ratio),
        root_steps=float(ROOT_STEPS),
        prompt_alone_s=prompt_alone,
        prompt_beside_s=in_step * prefill_ratio,
        host_s=delay - prompt_alone,
        attention_s=ranks * pair * prefill_ratio,
        attention_alone_s=ranks * pair * ttft_ratio,
        attention_short_tokens=short,
        full_frac=full_frac,
        kv_bytes_per_token=growth.per_token,
        kv_window_bytes_per_token=growth.per_window_token,
        window_tokens=float(window),
        kv_window_tokens=float(growth.window),
        kv_room_bytes=room / ranks - (resident_tokens + looked_ahead) * each,
        verified=machine.verified_tokens,
        gain=machine.accepted_tokens,
        chances=machine.speculation.accepted if machine.speculation else (),
        cached_bytes_per_token=each,
        ranks=_rank_times(machine, sequences, budget, contexts, scaling) if ranks > 1 else None,
    )


def _rank_times(
    machine: Machine, sequences: int, budget: int, contexts: np.ndarray, scaling: Scaling | None
) -> RankTimes:
    """The planner's functions count what a rank has times the ranks there are."""
    engine, count = machine.engine, machine.layout.attention_copies
    inside, none = count * np.arange(sequences + 1.0), np.zeros(1)
    sampled = rank_products_s(machine, none, inside) - rank_products_s(machine, none, none)
    in_all = np.maximum(1.0, np.arange(count * sequences + 1.0))
    return RankTimes(
        number=count,
        products_s=rank_products_s(machine, count * _by_root(budget), none),
        requests_s=sampled + lora_s(machine, inside),
        attention_s=decode_attention_s(machine, np.array(float(count)), contexts),
        shared_s=shared_pass_s(machine, _by_root(count * budget)),
        overhead_s=engine.step_overhead_ms / 1e3,
        request_s=engine.sequence_overhead_us / 1e6,
        decode_ratio=np.ones_like(in_all) if scaling is None else scaling.decode_ratio(in_all) * np.ones_like(in_all),
        prefill_ratio=1.0 if scaling is None else scaling.prefill_ratio,
        alone_ratio=1.0 if scaling is None else scaling.ttft_ratio,
        mixed=engine.mixes_prefill,
    )


def _by_root(most: int) -> np.ndarray:
    """Tokens at which tables are filled, evenly in their square root."""
    tokens: np.ndarray = np.maximum(1.0, (np.arange(int(np.ceil(ROOT_STEPS * most**0.5)) + 1) / ROOT_STEPS) ** 2)
    return tokens


def _attention(machine: Machine) -> tuple[float, float]:
    """Seconds for a token and one that it sees, and tokens that it pays for besides, by the planner's own function."""
    one, two = prompt_attention_s(machine, np.ones(2), np.array([1.5, 2.5])).tolist()
    return two - one, one / (two - one) - 1.0
