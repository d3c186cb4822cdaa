"""What must fit on the GPUs of a replica: weights, activations, KV cache of the requests in flight."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planner.catalog.entries import Gpu, Model, Quantization
from planner.catalog.variant import PARALLELISMS, TENSOR, Parallelism

GB = 1e9
HBM_GB = 0.995 * 2**30
"""what a GB of HBM comes to: binary units less what the driver keeps"""
USABLE_FRAC = 0.90
"""share of the memory that engines allocate (vLLM's gpu_memory_utilization default)"""
ACTIVATION_GB = 2.0
"""workspace, activations and CUDA graphs per GPU: an allowance, not a measurement"""
TOKEN_STEP = 256
"""a longest request that memory limits is a whole multiple of this"""
EMBEDDING_BITS = 16
"""embeddings and the output head stay in 16 bit under the usual quantizations"""


INDEX_FRAC = 0.115
"""what the indexer of sparse attention reads of a token, over what attention reads of one that it picks"""


@dataclass(frozen=True)
class Layout:
    """How the GPUs of a replica share a model: everything split over all of them, unless it says otherwise."""

    attention_copies: int = 1
    """attention data parallel: attention and shared experts stand so many times, each for a share of the requests"""
    expert_groups: int = 1
    """expert parallel: whole experts on each group of GPUs, instead of a slice of every expert on each GPU"""
    stages: int = 1
    """a pipeline as seen by one stage: the layers stand on so many sets of GPUs, each busy with another batch"""
    boxes: int = 1
    """the same as seen by all: a stage in each box, GPUs counted over all of them; what else is said is of one box"""

    @property
    def one_box(self) -> Layout:
        """As seen by one stage."""
        return replace(self, stages=self.boxes, boxes=1)


SPLIT = Layout()


def layers_excess(model: Model, boxes: int) -> float:
    """Layers of the largest stage over the mean."""
    return boxes * -(-model.layers // boxes) / model.layers


def does_not_split(model: Model, gpus: int, layout: Layout) -> str | None:
    """What of a model cannot be shared by so many GPUs in this way."""
    if model.query_heads % (gpus // layout.boxes // layout.attention_copies):
        return f"{model.query_heads} attention heads"
    if model.moe is not None and model.moe.experts % layout.expert_groups:
        return f"{model.moe.experts} experts"
    return None


def layout_of(parallelism: Parallelism, gpus: int, boxes: int = 1) -> Layout:
    """How so many GPUs share a mixture of experts, the same number in each box."""
    each = gpus // boxes
    return Layout(each if parallelism == "data" else 1, each if parallelism != TENSOR else 1, boxes=boxes)


def parallelism_of(layout: Layout, gpus: int) -> Parallelism | None:
    """The way that a layout is; None where it is a mix of several."""
    return next((way for way in PARALLELISMS if layout == layout_of(way, gpus)), None)


@dataclass(frozen=True)
class Parameters:
    """The weights of a model by how a step uses them."""

    embedding: float
    """looked up, never multiplied"""
    head: float
    """multiplied once for each token that is sampled; the embedding itself where the two are tied"""
    dense: float
    """attention, routers, shared experts: every token passes through"""
    routed: float
    """all experts that a router chooses from"""
    chosen_frac: float
    """share of them that one token passes through"""


def parameters(model: Model) -> Parameters:
    vocabulary = float(model.vocab * model.hidden)
    embedding = 0.0 if model.tied_embeddings else vocabulary
    total, active = model.parameters_b * 1e9, model.active_parameters_b * 1e9
    chosen = model.moe.experts_per_token / model.moe.experts if model.moe else 1.0
    routed = (total - active) / (1 - chosen) if chosen < 1 else 0.0
    dense = max(total - embedding - vocabulary - routed, 0.0)
    return Parameters(embedding, vocabulary, dense, routed, chosen)


def dense_bits(model: Model, quantization: Quantization) -> float:
    """Bits of the weights outside the experts."""
    moe = model.moe
    if moe is not None and (quantization.experts_only or moe.quantized_alone) and quantization.weight_bits < 8:
        return moe.other_bits or 16.0
    return quantization.weight_bits


def weight_bytes(model: Model, quantization: Quantization, layout: Layout = SPLIT) -> float:
    """Bytes of all weights of a stage, every expert included."""
    p = parameters(model)
    vocabulary_bits = max(quantization.weight_bits, EMBEDDING_BITS)
    bits = (p.embedding + p.head) * vocabulary_bits + p.dense * dense_bits(model, quantization)
    return (bits * layout.attention_copies + p.routed * quantization.weight_bits) / 8 / layout.stages


def stage_bytes(model: Model, quantization: Quantization, layout: Layout) -> float:
    """Bytes of the weights in the box with the most layers, which has the output matrix or the embedding besides."""
    p = parameters(model)
    ends = max(p.embedding, p.head) * max(quantization.weight_bits, EMBEDDING_BITS) / 8 * layout.attention_copies
    both = (p.embedding + p.head) * max(quantization.weight_bits, EMBEDDING_BITS) / 8 * layout.attention_copies
    in_layers = weight_bytes(model, quantization, layout) - both
    return in_layers * layers_excess(model, layout.boxes) / layout.boxes + ends


def kv_bytes_per_token(model: Model, quantization: Quantization) -> float:
    """KV-cache bytes of one token in all layers that keep one, without sliding windows.

    Where entries stand for several tokens, its share of them.
    """
    if model.compressed is not None:
        c = model.compressed
        entries = c.picked_layers / c.picked_ratio + c.read_layers / c.read_ratio
        return entries * _latent_bytes(model, quantization) + _index_bytes(model)
    layers = model.linear.full_attention_layers if model.linear else model.layers
    if model.mla is not None:
        return layers * _latent_bytes(model, quantization) + _index_bytes(model)
    if model.sliding is not None:
        full = full_kv_bytes_per_token(model, quantization)
        windowed = model.layers - model.sliding.full_attention_layers
        return full + 2 * windowed * model.kv_heads * model.head_dim * quantization.kv_bits / 8
    return 2 * layers * model.kv_heads * model.head_dim * quantization.kv_bits / 8 + _index_bytes(model)


def full_kv_bytes_per_token(model: Model, quantization: Quantization) -> float:
    """The part of it in layers without a window, whose heads may have a shape of their own."""
    assert model.sliding is not None
    heads, dim = model.sliding.full_kv_heads or model.kv_heads, model.sliding.full_head_dim or model.head_dim
    return 2 * model.sliding.full_attention_layers * heads * dim * quantization.kv_bits / 8


def _latent_bytes(model: Model, quantization: Quantization) -> float:
    """What latent attention keeps of a token in a layer, keys and values in one."""
    assert model.mla is not None
    return (model.mla.kv_lora_rank + model.mla.rope_dim) * quantization.kv_bits / 8


def _index_bytes(model: Model) -> float:
    """What the indexers of sparse attention keep of a token in all layers."""
    return (model.sparse.index_layers or model.layers) * model.sparse.index_bytes if model.sparse else 0.0


def state_bytes(model: Model) -> float:
    """What linear attention keeps of a request, however long it is."""
    return (model.layers - model.linear.full_attention_layers) * model.linear.state_bytes if model.linear else 0.0


@dataclass(frozen=True)
class Sight:
    """Tokens that a query sees, as a mean over the layers: full x tokens + windowed x min(tokens, window).

    Layers whose heads are wider than the others count for more.
    """

    full: float = 1.0
    windowed: float = 0.0
    window: float = 0.0


def sight(model: Model) -> Sight:
    if model.sliding is not None:
        full = model.sliding.full_attention_layers / model.layers
        wider = (model.sliding.full_head_dim or model.head_dim) / model.head_dim
        return Sight(full * wider, 1 - full, model.sliding.window_tokens)
    attending = model.linear.full_attention_layers / model.layers if model.linear else 1.0
    if model.sparse is None:
        return Sight(attending)
    top, per_key = model.sparse.top_tokens, model.sparse.tokens_per_key or 1
    if model.compressed is not None:
        c = model.compressed
        picked, read = c.picked_layers / model.layers, c.read_layers / model.layers
        # The last tokens count with the picked entries: exact once there are as many as are picked.
        one_by_one = c.window_tokens / top
        return Sight(INDEX_FRAC * picked / per_key + read / c.read_ratio, one_by_one + picked / c.picked_ratio, top)
    full = (model.sparse.full_attention_layers or 0) / model.layers
    return Sight(INDEX_FRAC * (attending - full) / per_key + full, attending - full, top)


def attended_layers(model: Model, tokens: np.ndarray | float) -> np.ndarray:
    """Tokens seen by a query at the end of the context, summed over layers; some see a window only."""
    tokens = np.asarray(tokens, dtype=float)
    s = sight(model)
    if not s.windowed:
        return model.layers * s.full * tokens
    attended: np.ndarray = model.layers * (s.full * tokens + s.windowed * np.minimum(tokens, s.window))
    return attended


@dataclass(frozen=True)
class KvGrowth:
    """Bytes that a request holds: per_token x tokens + per_window_token x min(tokens, window)."""

    per_token: float
    per_window_token: float
    window: float


def kv_growth(model: Model, quantization: Quantization, copies: float = 1.0) -> KvGrowth:
    """Sliding-window layers keep their window, linear ones a state.

    Bytes are those of one of the copies; a state is split over them, and so is a window with more heads than there are
    copies of the other layers' heads.
    """
    each = kv_bytes_per_token(model, quantization)
    if model.sliding is not None:
        full = full_kv_bytes_per_token(model, quantization)
        windowed = max(1.0, copies * _fewest_kv_heads(model) / model.kv_heads) / copies
        return KvGrowth(full, (each - full) * windowed, model.sliding.window_tokens)
    if model.compressed is not None:
        return KvGrowth(each, model.layers * _latent_bytes(model, quantization), model.compressed.window_tokens)
    if model.linear is not None:
        return KvGrowth(each, state_bytes(model) / copies, 1.0)
    return KvGrowth(each, 0.0, 0.0)


def kv_bytes(model: Model, quantization: Quantization, tokens: np.ndarray | float, copies: float = 1.0) -> np.ndarray:
    """KV-cache bytes of a sequence."""
    tokens = np.asarray(tokens, dtype=float)
    g = kv_growth(model, quantization, copies)
    held: np.ndarray = g.per_token * tokens
    return held + g.per_window_token * np.minimum(tokens, g.window) if g.window else held


def kv_read_bytes(model: Model, quantization: Quantization, tokens: np.ndarray | float, copies: float) -> np.ndarray:
    """Bytes that a decode step moves for a sequence on all GPUs; a state is read and written."""
    tokens = np.asarray(tokens, dtype=float)
    if model.compressed is not None:
        return _compressed_read_bytes(model, quantization, tokens) * copies
    if model.sparse is not None:
        cache = _sparse_read_bytes(model, quantization, tokens)
    elif model.linear is not None:
        cache = kv_bytes_per_token(model, quantization) * tokens
    else:
        return kv_bytes(model, quantization, tokens, copies) * copies
    read: np.ndarray = cache * copies
    return read + 2 * state_bytes(model) if model.linear else read


def _sparse_read_bytes(model: Model, quantization: Quantization, tokens: np.ndarray) -> np.ndarray:
    """All keys of the indexers, and of the cache what they pick; layers without an indexer read everything."""
    assert model.sparse is not None
    layers = model.linear.full_attention_layers if model.linear else model.layers
    index, full = _index_bytes(model), (model.sparse.full_attention_layers or 0) / layers
    each = kv_bytes_per_token(model, quantization) - index
    picked = np.minimum(tokens, model.sparse.top_tokens)
    read: np.ndarray = each * (picked + full * (tokens - picked)) + index * tokens
    return read


def _compressed_read_bytes(model: Model, quantization: Quantization, tokens: np.ndarray) -> np.ndarray:
    """The last tokens of every layer, the entries that are picked or read, and all keys of the indexers."""
    assert model.compressed is not None and model.sparse is not None
    c, picked = model.compressed, np.minimum(tokens, model.sparse.top_tokens)
    entries = c.picked_layers * picked / c.picked_ratio + c.read_layers * tokens / c.read_ratio
    last = model.layers * np.minimum(tokens, c.window_tokens)
    read: np.ndarray = (entries + last) * _latent_bytes(model, quantization) + _index_bytes(model) * tokens
    return read


def kv_copies(model: Model, gpus_per_replica: int, layout: Layout = SPLIT) -> float:
    """How often the KV cache is stored across a replica: heads that cannot be split are repeated."""
    together = gpus_per_replica // layout.boxes // layout.attention_copies
    if model.mla is not None:
        return float(together)
    return max(1.0, together / _fewest_kv_heads(model))


def _fewest_kv_heads(model: Model) -> int:
    """KV heads of the layers that are the first to be repeated."""
    return min(model.kv_heads, (model.sliding and model.sliding.full_kv_heads) or model.kv_heads)


def memory_bytes(gpu: Gpu) -> float:
    return gpu.vram_gb * (HBM_GB if gpu.memory == "hbm" else GB)


def kv_room_bytes(
    model: Model,
    gpu: Gpu,
    gpus_per_replica: int,
    quantization: Quantization,
    usable_frac: float = USABLE_FRAC,
    layout: Layout = SPLIT,
) -> float:
    """Memory left for KV cache on a whole replica; negative if the weights do not fit.

    Of several boxes, the one with the most layers and the wider end of the vocabulary holds the fewest requests, and
    the others no more than it.
    """
    if layout.boxes > 1:
        each, excess = gpus_per_replica // layout.boxes, layers_excess(model, layout.boxes)
        usable = (memory_bytes(gpu) * usable_frac - ACTIVATION_GB * GB) * each
        room = usable - stage_bytes(model, quantization, layout)
        return layout.boxes * room / excess / kv_copies(model, gpus_per_replica, layout)
    usable = (memory_bytes(gpu) * usable_frac - ACTIVATION_GB * GB) * gpus_per_replica
    room = usable - weight_bytes(model, quantization, layout)
    return room / kv_copies(model, gpus_per_replica, layout)


def longest_request(
    model: Model,
    gpu: Gpu,
    gpus_per_replica: int,
    quantization: Quantization,
    usable_frac: float = USABLE_FRAC,
    reserved_bytes: float = 0.0,
    layout: Layout = SPLIT,
    kv_factor: float = 1.0,
) -> int:
    """Tokens of the longest request that an engine admits: the model's context, or what of it fits into KV memory.

    The engine checks lengths and reserves nothing. Reserved bytes are counted over all GPUs of the replica; with what
    drafts, a token takes so many times the memory.
    """
    room = kv_room_bytes(model, gpu, gpus_per_replica, quantization, usable_frac, layout)
    room = (room - reserved_bytes / kv_copies(model, gpus_per_replica, layout)) / layout.attention_copies / kv_factor
    if float(kv_bytes(model, quantization, model.max_context_tokens)) <= room:
        return model.max_context_tokens
    lengths = TOKEN_STEP * np.arange(1, model.max_context_tokens // TOKEN_STEP + 1)
    return int(lengths[kv_bytes(model, quantization, lengths) <= room].max(initial=TOKEN_STEP))


def largest_batch(
    model: Model,
    gpu: Gpu,
    gpus_per_replica: int,
    quantization: Quantization,
    context_tokens: np.ndarray | float,
    found_tokens: np.ndarray | float = 0.0,
    resident_tokens: np.ndarray | float = 0.0,
    usable_frac: float = USABLE_FRAC,
    reserved_bytes: float = 0.0,
    layout: Layout = SPLIT,
    kv_factor: float = 1.0,
) -> np.ndarray:
    """Requests of this context whose KV cache fits at once, on all copies of attention together.

    Of its context a request finds a part, which it shares with others; what may be found is resident all the time, at
    full length in every layer. Reserved bytes are counted over all GPUs of the replica. Every copy of attention has
    memory of its own, in which whole requests must fit beside what is resident.
    """
    copies, ranks = kv_copies(model, gpus_per_replica, layout), layout.attention_copies
    room = kv_room_bytes(model, gpu, gpus_per_replica, quantization, usable_frac, layout) - reserved_bytes / copies
    room = room / ranks / kv_factor
    resident = np.asarray(resident_tokens, dtype=float) * kv_bytes_per_token(model, quantization)
    own_tokens = np.asarray(context_tokens, dtype=float) - found_tokens
    own = kv_bytes(model, quantization, np.maximum(own_tokens, 1.0), copies)
    batch: np.ndarray = ranks * np.maximum(0, np.floor((room - resident) / own))
    return batch
