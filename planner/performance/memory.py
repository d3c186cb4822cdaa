"""What must fit on the GPUs of a replica: weights, activations, and the KV cache of the requests in flight."""

from __future__ import annotations

import numpy as np

from planner.catalog import Gpu, Model, Quantization

GB = 1e9
USABLE_FRAC = 0.90
"""share of the memory that engines allocate (vLLM's gpu_memory_utilization default)"""
ACTIVATION_GB = 2.0
"""workspace, activations and CUDA graphs per GPU: an allowance, not a measurement"""
EMBEDDING_BITS = 16
"""embeddings and the output head stay in 16 bit under the usual quantizations"""


def weight_bytes(model: Model, quantization: Quantization) -> float:
    """Bytes of all weights, every expert included."""
    embedding_parameters = min(2 * model.vocab * model.hidden, 0.5 * model.parameters_b * 1e9)
    body = model.parameters_b * 1e9 - embedding_parameters
    embedding_bits = max(quantization.weight_bits, EMBEDDING_BITS)
    return (body * quantization.weight_bits + embedding_parameters * embedding_bits) / 8


def kv_bytes_per_token(model: Model, quantization: Quantization) -> float:
    """KV-cache bytes of one token in a layer stack without sliding windows."""
    if model.mla is not None:
        return model.layers * (model.mla.kv_lora_rank + model.mla.rope_dim) * quantization.kv_bits / 8
    return 2 * model.layers * model.kv_heads * model.head_dim * quantization.kv_bits / 8


def kv_bytes(model: Model, quantization: Quantization, tokens: np.ndarray | float) -> np.ndarray:
    """KV-cache bytes of a sequence: sliding-window layers keep only their window."""
    tokens = np.asarray(tokens, dtype=float)
    per_token = kv_bytes_per_token(model, quantization)
    if model.sliding is None:
        return per_token * tokens
    full_frac = model.sliding.full_attention_layers / model.layers
    windowed = np.minimum(tokens, model.sliding.window_tokens)
    return per_token * (full_frac * tokens + (1 - full_frac) * windowed)


def kv_copies(model: Model, gpus_per_replica: int) -> float:
    """How often the KV cache is stored across a replica: heads that cannot be split are repeated."""
    if model.mla is not None:
        return float(gpus_per_replica)
    return max(1.0, gpus_per_replica / model.kv_heads)


def kv_room_bytes(model: Model, gpu: Gpu, gpus_per_replica: int, quantization: Quantization) -> float:
    """Memory left for KV cache on a whole replica; negative if the weights do not fit."""
    usable = (gpu.vram_gb * USABLE_FRAC - ACTIVATION_GB) * GB * gpus_per_replica
    room = usable - weight_bytes(model, quantization)
    return room / kv_copies(model, gpus_per_replica)


def largest_batch(
    model: Model,
    gpu: Gpu,
    gpus_per_replica: int,
    quantization: Quantization,
    context_tokens: np.ndarray | float,
    shared_prefix_tokens: float = 0.0,
) -> np.ndarray:
    """Requests of this context whose KV cache fits at once; a shared prefix is held once for all of them."""
    room = kv_room_bytes(model, gpu, gpus_per_replica, quantization)
    shared = float(kv_bytes(model, quantization, shared_prefix_tokens))
    own_tokens = np.maximum(np.asarray(context_tokens, dtype=float) - shared_prefix_tokens, 1.0)
    return np.maximum(0, np.floor((room - shared) / kv_bytes(model, quantization, own_tokens)))
