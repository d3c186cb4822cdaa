"""Time of the two things a replica does: prefill a prompt, and one decode step of a batch.

    step    = weights + attention + all-reduces + layers x overhead + requests x overhead     [s]
    weights = max(reading them, arithmetic)    for dense layers, experts and head each

A smooth maximum stands for the overlap of reading and arithmetic; latency per layer and per request is what
makes small shapes and small batches slower than the datasheet. The constants are in planner/data:
efficiency.yaml (GPU) and engines.yaml (engine). Everything broadcasts over numpy arrays.

Data-parallel ranks run their passes together, so that dense layers, head and attention take as long as on the busiest
rank (planner/performance/ranks.py), while all GPUs share the experts over the tokens of all ranks. With equal ranks the
formulas are those of a replica without ranks, and a rank that is busier counts as if all were: in the functions below,
`busiest` is what it has times the ranks there are.

A replica that spans several boxes is a pipeline: a box has a stage of its layers, and each of s boxes is busy with
another part of the requests. A request meets the same layers as on one box, with B / s others, and a hop after each:

    round = f x step of one box with B / s requests + (s - 1) x (head + overheads) + s x hop            [s]

f is what the largest stage has over the mean, since all wait for it, and the head and the engine's own work of each
part keep one box busy while the others wait. Prompts of several chunks fill the boxes one chunk behind another.

A step that verifies drafts has several tokens of each request: all products are over so many, KV is read once, and
what drafts takes its passes first (planner/performance/speculation.py).
"""

from __future__ import annotations

import numpy as np

from planner.performance.machine import Machine
from planner.performance.memory import attended_layers, dense_bits, kv_read_bytes, layers_excess, state_bytes
from planner.performance.ranks import busiest_requests, context_excess, largest_normal, prompt_excess

ATTENTION_HALF_TOKENS = 1000.0
"""prompt at which attention reaches half of its rate (H200 kernels: 23% at 512 tokens, 66% at 2048)"""
EXPERT_TILE_TOKENS = 16.0
"""grouped products pad the tokens of each expert to whole tiles: on average by half of this"""
SLICE_COLUMNS = 50.0
"""columns that products over a slice of an expert lose once arithmetic counts (H200 kernels, 2,048 tokens: slices of
192 to 768 columns take 32 to 3% longer than whole experts; up to 512 tokens, where reading counts, as long)"""
SPARSE_LAYER_US = 50.0
"""kernels that an indexer adds to a layer: without it the TPOT of GLM-5 is a third too low; 0 and 50 were tried"""
DRAFTED_STEP_S, DRAFT_PASS_S, DRAFTED_TOKEN_S = 1.2e-3, 0.2e-3, 15e-6
"""what an engine takes besides for a step with drafts, for each pass that makes some, and for each token of each
request that is drafted: the first two from speed-ups of SGLang, the last from the batch at which vLLM's schedules stop
to draft (benchmarks/speculation_accuracy.py)"""
HOP_S = 2e-4
"""of a hop from box to box beside the bytes, as engines send the shapes of tensors over the hosts' network first: an
allowance, not a measurement"""
SENT_STATES, STATE_BYTES = 2, 2
"""states of a token that a stage hands on (its own and the residual), each GPU a slice of them; bytes of a figure"""
Array = np.ndarray


def prefill_s(
    machine: Machine,
    tokens: Array | float,
    context_tokens: Array | float | None = None,
    prompts: Array | float = 1.0,
) -> Array:
    """Seconds to prefill prompts of so many new tokens; attention spans the context (if None, themselves)."""
    tokens = np.asarray(tokens, dtype=float)
    prompts = np.asarray(prompts, dtype=float)
    context = tokens if context_tokens is None else np.asarray(context_tokens, dtype=float)
    if machine.boxes > 1:
        return _prefill_through_boxes_s(machine, tokens, context, prompts)
    copies = machine.layout.attention_copies
    uneven = copies / np.minimum(copies, prompts)  # few prompts leave copies of attention without work
    return _prefill_s(machine, tokens, context, prompts, uneven)


def _prefill_through_boxes_s(machine: Machine, tokens: Array, context: Array, prompts: Array) -> Array:
    """A chunk passes all boxes; the next one follows it a box behind."""
    s, excess = machine.boxes, layers_excess(machine.model, machine.boxes)
    chunk = machine.step_tokens / s
    chunks = np.maximum(1.0, tokens * prompts / chunk)
    passes = (chunks + s - 1) / s
    behind = prefill_s(machine.one_box, tokens, context, prompts) * excess * passes / chunks
    through: Array = behind + passes * s * _hop_s(machine, np.minimum(tokens * prompts, chunk))
    return through


def prompts_round_s(machine: Machine, tokens: Array | float) -> Array:
    """A round of all boxes over so many prompt tokens and no decodes, while others follow right behind."""
    tokens = np.asarray(tokens, dtype=float)
    chunks = np.maximum(1.0, tokens * machine.boxes / machine.step_tokens)
    round_s: Array = prefill_s(machine, tokens) * chunks / (chunks + machine.boxes - 1)
    return round_s


def prompts_behind_s(machine: Machine, tokens: Array | float) -> Array:
    """What the last chunk of a prompt still has before it when the first box is done with it."""
    last = np.minimum(np.asarray(tokens, dtype=float), machine.step_tokens / machine.boxes)
    behind: Array = prefill_s(machine, last) * (1 - 1 / machine.boxes)
    return behind


def _hop_s(machine: Machine, tokens: Array | float) -> Array:
    """What so many tokens take from one box to the next."""
    assert machine.link_gb_per_s is not None
    sent = SENT_STATES * STATE_BYTES * machine.model.hidden * np.asarray(tokens, dtype=float)
    hop: Array = HOP_S + sent / (machine.one_box.gpus * machine.link_gb_per_s * 1e9)
    return hop


def _prefill_s(machine: Machine, tokens: Array, context: Array, prompts: Array, uneven: Array) -> Array:
    """The same where the busiest rank has so many times its share of the prompts."""
    in_all = tokens * prompts
    chunks = np.maximum(1.0, uneven * in_all / (machine.layout.attention_copies * machine.engine.chunk_tokens))
    chunk = in_all / chunks
    products = chunks * _products_s(machine, chunk, chunk, prompts / chunks)
    fixed = chunks * _latency_s(machine) + machine.engine.prefill_overhead_ms / 1e3
    attention = prompts * prompt_attention_s(machine, tokens, context)
    attention = attention + (uneven - 1) * (attention + machine.dense_token_s * in_all)
    busy = products + attention + _collectives_s(machine, in_all, chunks)
    return _host_bound(machine, busy + fixed, chunks)


def prefill_added_s(
    machine: Machine,
    tokens: Array | float,
    context_tokens: Array | float,
    decoding: Array | float,
    prompts: Array | float = 0.0,
) -> Array:
    """Seconds that one more prompt adds to steps of so many decodes, in each of which so many prompts begin.

    Engines that mix prompt chunks into decode steps read the weights once for both, and for all prompts that begin in
    one; others prefill those in a pass of their own. The more prompts begin, the more evenly ranks share them.
    """
    tokens = np.asarray(tokens, dtype=float)
    context = np.asarray(context_tokens, dtype=float)
    decoding = np.asarray(decoding, dtype=float)
    if machine.boxes > 1:
        s, excess = machine.boxes, layers_excess(machine.model, machine.boxes)
        a_box = prefill_added_s(machine.one_box, tokens, context, decoding / s, np.asarray(prompts, dtype=float) / s)
        added_in_all: Array = a_box * excess / s + (_hop_s(machine, tokens) - HOP_S)
        return added_in_all
    together = np.sqrt(1.0 + np.asarray(prompts, dtype=float) ** 2)
    copies, budget = machine.layout.attention_copies, machine.engine.chunk_tokens
    uneven = np.asarray(1.0)
    if machine.ranks > 1:
        uneven = prompt_excess(np.maximum(1.0, tokens / budget) * np.asarray(prompts, dtype=float), machine.ranks)
    chunks = np.maximum(1.0, uneven * together * tokens / (copies * budget))
    alone = _prefill_s(machine, tokens, context, together, uneven) / together
    if not machine.engine.mixes_prefill:
        return np.broadcast_to(alone, np.broadcast_shapes(alone.shape, decoding.shape))
    running = busiest_requests(decoding, machine.ranks) * machine.verified_tokens
    decoding = decoding * machine.verified_tokens
    chunk = tokens * together / chunks
    mixed = _products_s(machine, chunk + decoding, uneven * chunk + running, running + uneven * together)
    products = chunks * (mixed - _products_s(machine, decoding, running, running)) / together
    reduces = _collectives_s(machine, tokens, (chunks - 1.0) / together)
    attention = uneven * prompt_attention_s(machine, tokens, context)
    host = machine.engine.prefill_overhead_ms / 1e3 / together
    added: Array = np.minimum(products + attention + reduces, alone - host)
    return added


def fastest_step_s(machine: Machine, batch: Array | float, context_tokens: Array | float) -> Array:
    """The shortest possible step: weights and KV cache read once, at the bandwidth of the datasheet."""
    batch = np.asarray(batch, dtype=float)
    p, quantization, model = machine.parameters, machine.quantization, machine.model
    touched = touched_experts_frac(p.chosen_frac, batch)
    weights = p.dense * dense_bits(model, quantization) + p.routed * touched * quantization.weight_bits
    read = weights / 8 + batch * kv_read_bytes(model, quantization, context_tokens, 1.0)
    step: Array = read / machine.bandwidth
    return step


def fastest_prefill_s(machine: Machine, tokens: Array | float) -> Array:
    """The shortest possible prefill: the matrix products of so many tokens, at the datasheet's rate."""
    p, rates = machine.parameters, machine.gpu.dense_tflops
    peak = rates.get(machine.quantization.compute, rates["fp16"]) * 1e12 * machine.gpus
    return 2 * (p.dense + p.routed * p.chosen_frac) * np.asarray(tokens, dtype=float) / peak


def decode_step_s(
    machine: Machine, batch: Array | float, context_tokens: Array | float, tokens: int | None = None
) -> Array:
    """Seconds of one decode step: so many more tokens of each request in flight are computed.

    None: as the machine decodes, which is one token, or the drafts that it makes and verifies.
    """
    batch = np.asarray(batch, dtype=float)
    context = np.asarray(context_tokens, dtype=float)
    if machine.boxes > 1:
        return _round_s(machine, batch, context, 1 if tokens is None else tokens)
    drafts = draft_s(machine, batch, context) if tokens is None else 0.0
    tokens = machine.verified_tokens if tokens is None else tokens
    running = busiest_requests(batch, machine.ranks)
    attention = decode_attention_s(machine, running, context, tokens)
    if machine.ranks > 1:
        attention = attention * context_excess(batch, machine.ranks)
    busy = _products_s(machine, batch * tokens, running * tokens, running * tokens) + attention
    busy = busy + _collectives_s(machine, batch * tokens, 1.0) + lora_s(machine, running) + _latency_s(machine)
    fixed = machine.engine.step_overhead_ms / 1e3 + batch * machine.engine.sequence_overhead_us / 1e6
    return _host_bound(machine, busy, 1.0) + fixed + drafts


def _round_s(machine: Machine, batch: Array, context: Array, tokens: int) -> Array:
    """A decode step of all requests in flight, each box busy with its part of them."""
    s, one, engine = machine.boxes, machine.one_box, machine.engine
    part = np.where(batch > 0, np.maximum(batch / s, 1.0), 0.0)
    head = _larger(one.head_read_s, one.head_token_s * part * tokens)
    waits = head + engine.step_overhead_ms / 1e3 + part * engine.sequence_overhead_us / 1e6
    passing = decode_step_s(one, part, context, tokens) * layers_excess(machine.model, s)
    through: Array = passing + (s - 1) * waits + s * _hop_s(machine, part * tokens)
    return through


def draft_s(machine: Machine, batch: Array | float, context_tokens: Array | float) -> Array | float:
    """Seconds that drafts take of a step beside their verification: passes that make them, and the engine's work."""
    speculation = machine.speculation
    if speculation is None:
        return 0.0
    batch = np.asarray(batch, dtype=float)
    seconds: Array = DRAFTED_STEP_S + batch * speculation.tokens * DRAFTED_TOKEN_S
    if machine.drafter is None:
        return seconds
    first = draft_pass_s(machine.drafter, batch, context_tokens, speculation.accepted_tokens)
    another = draft_pass_s(machine.drafter, batch, context_tokens)
    passes: Array = seconds + speculation.tokens * DRAFT_PASS_S + first + (speculation.tokens - 1) * another
    return passes


def draft_pass_s(
    drafter: Machine, batch: Array | float, context_tokens: Array | float, tokens: Array | float = 1.0
) -> Array:
    """One pass of what drafts, over so many tokens of each request; the first has what the last step brought."""
    batch, context = np.asarray(batch, dtype=float), np.asarray(context_tokens, dtype=float)
    running = busiest_requests(batch, drafter.ranks)
    products = _products_s(drafter, batch * tokens, running * tokens, running)
    attention = decode_attention_s(drafter, running, context, tokens)
    seconds: Array = products + attention + _collectives_s(drafter, batch * tokens, 1.0) + _latency_s(drafter)
    return seconds


def _larger(a: Array | float, b: Array | float) -> Array:
    """Smooth maximum: the 4-norm, as reading and arithmetic overlap almost fully."""
    a2, b2 = np.square(a), np.square(b)
    norm: Array = np.sqrt(np.sqrt(a2 * a2 + b2 * b2))
    return norm


def _host_bound(machine: Machine, busy: Array, passes: Array | float) -> Array:
    """A pass over the layers takes at least the time the host needs to launch them."""
    host = machine.engine.host_layer_us * machine.efficiency.host_factor
    return _larger(busy, passes * machine.model.layers * host / 1e6) if host else busy


def _products_s(machine: Machine, tokens: Array, busiest: Array, sampled: Array) -> Array:
    """Matrix products of a pass over so many tokens; some of those of the busiest rank are sampled from."""
    products = rank_products_s(machine, busiest, sampled)
    if machine.model.moe is not None:
        products = products + experts_s(machine, tokens)
    return products


def rank_products_s(machine: Machine, busiest: Array, sampled: Array) -> Array:
    """The part of them that every rank has by itself: dense layers and head."""
    dense = _larger(machine.dense_read_s, machine.dense_token_s * busiest)
    head = _larger(machine.head_read_s, machine.head_token_s * sampled)
    products: Array = dense + head
    return products


def touched_experts_frac(chosen_frac: float, tokens: Array | float) -> Array:
    """Share of a layer's experts that somebody among so many tokens chose.

    Their popularity is taken as exponentially distributed, from which this follows; if all were equally popular it
    would be 1 - (1 - chosen_frac) ^ tokens, which a batch of middling size does not reach.
    """
    chosen = chosen_frac * np.maximum(tokens, 1.0)
    touched: Array = chosen / (1 + chosen)
    return touched


def experts_s(machine: Machine, tokens: Array) -> Array:
    """Reading the experts that were chosen, or their arithmetic.

    Slices of an expert are read as fast as whole ones, and their products are less efficient. Of groups with whole
    experts the busiest decides: by chance, more of its experts were chosen. The variance of their number is the mean of
    p (1 - p) over experts that are chosen with probability p, t (1 - t) / (1 + t) where t is the mean of p.
    """
    moe, chosen_frac = machine.model.moe, machine.parameters.chosen_frac
    assert moe is not None
    touched = touched_experts_frac(chosen_frac, tokens)
    padded = tokens + touched / chosen_frac * EXPERT_TILE_TOKENS / 2
    groups = machine.layout.expert_groups
    lost = 1 + SLICE_COLUMNS * machine.gpus / groups / moe.expert_ffn
    spread = largest_normal(groups) * np.sqrt(groups / moe.experts)
    read = machine.experts_read_s * touched * (1 + spread * np.sqrt((1 - touched) / (touched * (1 + touched))))
    return _larger(read, lost * (1 + spread) * machine.experts_token_s * padded)


def _latency_s(machine: Machine) -> float:
    """Kernel latencies of one pass over all layers."""
    model, engine = machine.model, machine.engine
    per_layer = machine.efficiency.layer_overhead_us * engine.layer_overhead_factor
    experts = (model.layers - model.moe.dense_layers) * machine.moe_kernels.layer_us if model.moe else 0.0
    if machine.lora:
        per_layer += machine.lora.layer_overhead_us
    if model.sparse:
        per_layer += SPARSE_LAYER_US
    return (model.layers * per_layer + experts) / 1e6


def shared_pass_s(machine: Machine, tokens: Array) -> Array:
    """The part of a pass over so many tokens that all ranks have together: experts, collectives, latencies."""
    shared = _collectives_s(machine, tokens, 1.0) + _latency_s(machine)
    return shared + experts_s(machine, tokens) if machine.model.moe is not None else shared


def waiting_s(machine: Machine, tokens: Array | float) -> Array:
    """The part of a pass over so many tokens in which kernels neither read nor compute: network, and their start."""
    tokens = np.asarray(tokens, dtype=float)
    if machine.boxes > 1:
        part = tokens / machine.boxes
        waiting: Array = waiting_s(machine.one_box, part) + machine.boxes * _hop_s(machine, part)
        return waiting
    return _collectives_s(machine, tokens, 1.0) + _latency_s(machine)


def prompt_attention_s(machine: Machine, tokens: Array, context: Array) -> Array:
    """Causal attention of the new tokens of one prompt: slower per pair in short prompts."""
    model = machine.model
    seen = attended_layers(model, np.maximum(context - tokens / 2, 0.0))
    value_dim = model.mla.value_dim if model.mla else model.head_dim
    pairs = tokens * (seen + model.layers * ATTENTION_HALF_TOKENS / 2)
    return 2 * model.query_heads * (model.head_dim + value_dim) * pairs / machine.attention_flops


def decode_attention_s(machine: Machine, batch: Array, context: Array, tokens: Array | float = 1.0) -> Array:
    """Reading the KV cache once, or the arithmetic where many heads share it (MLA) or a request has several tokens.

    Layers with a state keep one for each token, as some may be refused.
    """
    model = machine.model
    read = batch * kv_read_bytes(model, machine.quantization, context, machine.kv_copies) / machine.kv_bandwidth
    if model.linear is not None:
        read = read + batch * (np.asarray(tokens) - 1) * state_bytes(model) / machine.kv_bandwidth
    per_pair = 2 * model.head_dim if model.mla is None else 2 * model.mla.kv_lora_rank + model.mla.rope_dim
    flops = 2 * model.query_heads * per_pair * batch * tokens * attended_layers(model, context)
    return _larger(read, flops / machine.attention_flops)


def lora_s(machine: Machine, batch: Array) -> Array | float:
    """Reading the adapters that the batch uses, requests spread evenly over them, by each copy of attention."""
    if machine.lora is None:
        return 0.0
    copies = machine.layout.attention_copies
    used = 1 - (1 - 1 / machine.lora.adapters) ** (batch / copies)
    return copies * machine.lora.bytes * used / (machine.bandwidth * machine.efficiency.rates["fp16"].weight_read_frac)


def _collectives_s(machine: Machine, tokens: Array, passes: Array | float) -> Array:
    """Two all-reduces per layer over the activations of the tokens, each pass paying their latency.

    Copies of attention reduce among their own GPUs; their tokens are gathered for the experts, and the results
    scattered, which together moves as much as one all-reduce over all GPUs.
    """
    model, copies = machine.model, machine.layout.attention_copies
    gathered = model.layers - model.moe.dense_layers if model.moe and copies > 1 else 0
    seconds: Array = (2 * model.layers - gathered) * _all_reduce_s(
        machine, machine.gpus // copies, tokens / copies, passes
    )
    return seconds + gathered * _all_reduce_s(machine, machine.gpus, tokens, passes) if gathered else seconds


def _all_reduce_s(machine: Machine, gpus: int, tokens: Array, passes: Array | float) -> Array:
    if gpus == 1:
        return np.zeros_like(tokens)
    eff = machine.efficiency
    bytes_moved = 2 * (gpus - 1) / gpus * tokens * machine.model.hidden * 2
    rate = machine.gpu.interconnect.gb_per_s / 2 * 1e9 * eff.link_frac
    latency = eff.all_reduce_latency_us / 1e6 * (1 + np.log2(gpus)) / 2
    seconds: Array = passes * latency + bytes_moved / rate
    return seconds
