"""What must fit on the GPUs of a replica: weights, activations, KV cache of the requests in flight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.catalog.entries import Gpu, Model, Quantization

GB = 1e9
HBM_GB = 0.995 * 2**30
"""what a GB of HBM comes to: binary units less what the driver keeps"""
USABLE_FRAC = 0.90
"""share of the memory that engines allocate (vLLM's gpu_memory_utilization default)"""
ACTIVATION_GB = 2.0
"""workspace, activations and CUDA graphs per GPU: an allowance, not a measurement"""
EMBEDDING_BITS = 16
"""embeddings and the output head stay in 16 bit under the usual quantizations"""


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
    return 16.0 if quantization.experts_only and model.moe is not None else quantization.weight_bits


def weight_bytes(model: Model, quantization: Quantization) -> float:
    """Bytes of all weights, every expert included."""
    p = parameters(model)
    vocabulary_bits = max(quantization.weight_bits, EMBEDDING_BITS)
    bits = (p.embedding + p.head) * vocabulary_bits
    return (bits + p.dense * dense_bits(model, quantization) + p.routed * quantization.weight_bits) / 8


def kv_bytes_per_token(model: Model, quantization: Quantization) -> float:
    """KV-cache bytes of one token in a layer stack without sliding windows."""
    if model.mla is not None:
        return model.layers * (model.mla.kv_lora_rank + model.mla.rope_dim) * quantization.kv_bits / 8
    return 2 * model.layers * model.kv_heads * model.head_dim * quantization.kv_bits / 8


def attended_layers(model: Model, tokens: np.ndarray | float) -> np.ndarray:
    """Tokens seen by a query at the end of the context, summed over layers; some see a window only."""
    tokens = np.asarray(tokens, dtype=float)
    if model.sliding is None:
        return model.layers * tokens
    full = model.sliding.full_attention_layers
    attended: np.ndarray = full * tokens + (model.layers - full) * np.minimum(tokens, model.sliding.window_tokens)
    return attended


def kv_bytes(model: Model, quantization: Quantization, tokens: np.ndarray | float) -> np.ndarray:
    """KV-cache bytes of a sequence: sliding-window layers keep only their window."""
    return kv_bytes_per_token(model, quantization) / model.layers * attended_layers(model, tokens)


def kv_copies(model: Model, gpus_per_replica: int) -> float:
    """How often the KV cache is stored across a replica: heads that cannot be split are repeated."""
    if model.mla is not None:
        return float(gpus_per_replica)
    return max(1.0, gpus_per_replica / model.kv_heads)


def memory_bytes(gpu: Gpu) -> float:
    return gpu.vram_gb * (HBM_GB if gpu.memory == "hbm" else GB)


def kv_room_bytes(
    model: Model,
    gpu: Gpu,
    gpus_per_replica: int,
    quantization: Quantization,
    usable_frac: float = USABLE_FRAC,
) -> float:
    """Memory left for KV cache on a whole replica; negative if the weights do not fit."""
    usable = (memory_bytes(gpu) * usable_frac - ACTIVATION_GB * GB) * gpus_per_replica
    room = usable - weight_bytes(model, quantization)
    return room / kv_copies(model, gpus_per_replica)


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
) -> np.ndarray:
    """Requests of this context whose KV cache fits at once.

    Of its context a request finds a part, which it shares with others; what may be found is resident all the time, at
    full length in every layer. Reserved bytes are counted over all GPUs of the replica.
    """
    room = kv_room_bytes(model, gpu, gpus_per_replica, quantization, usable_frac)
    room -= reserved_bytes / kv_copies(model, gpus_per_replica)
    resident = np.asarray(resident_tokens, dtype=float) * kv_bytes_per_token(model, quantization)
    own_tokens = np.asarray(context_tokens, dtype=float) - found_tokens
    own = kv_bytes(model, quantization, np.maximum(own_tokens, 1.0))
    batch: np.ndarray = np.maximum(0, np.floor((room - resident) / own))
    return batch
