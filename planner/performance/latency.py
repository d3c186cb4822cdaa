"""Time of the two things a replica does: prefill a prompt, and one decode step of a batch.

A roofline with an efficiency for each resource (planner/data/efficiency.yaml): arithmetic against the dense
rate of the precision, weights and KV cache against memory bandwidth, all-reduces against the interconnect,
and launch overheads per layer and per sequence. Everything broadcasts over numpy arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.catalog import Efficiency, Gpu, Model, Quantization
from planner.performance.memory import kv_bytes, kv_copies, weight_bytes


@dataclass(frozen=True)
class Machine:
    """One replica: a model variant on some GPUs."""

    model: Model
    quantization: Quantization
    gpu: Gpu
    gpus: int
    efficiency: Efficiency

    @property
    def flops(self) -> float:
        """arithmetic that the GPUs reach together in the precision of the quantization [FLOP/s]"""
        tflops = self.gpu.dense_tflops
        peak = tflops.get(self.quantization.compute, tflops["fp16"])
        return peak * 1e12 * self.efficiency.compute_frac * self.gpus

    @property
    def attention_flops(self) -> float:
        """arithmetic of attention, which stays in 16 bit [FLOP/s]"""
        return self.gpu.dense_tflops["fp16"] * 1e12 * self.efficiency.compute_frac * self.gpus

    @property
    def bandwidth(self) -> float:
        return self.gpu.bandwidth_gb_per_s * 1e9 * self.gpus


def prefill_s(machine: Machine, tokens: np.ndarray | float, context_tokens: np.ndarray | float | None = None) -> np.ndarray:
    """Seconds to prefill so many new tokens whose attention spans the context (by default, themselves)."""
    tokens = np.asarray(tokens, dtype=float)
    context = tokens if context_tokens is None else np.asarray(context_tokens, dtype=float)
    model = machine.model
    gemm = 2 * model.active_parameters_b * 1e9 * tokens / machine.flops
    attended = _attended_tokens(model, tokens, context)
    attention = 4 * model.query_heads * model.head_dim * attended / machine.attention_flops
    weights = weight_bytes(model, machine.quantization) * _expert_share(model, tokens)
    reading = weights / (machine.bandwidth * machine.efficiency.weight_read_frac)
    compute = np.maximum(gemm, reading) + attention
    return compute + _all_reduce_s(machine, tokens) + machine.efficiency.prefill_overhead_ms / 1e3


def decode_step_s(machine: Machine, batch: np.ndarray | float, context_tokens: np.ndarray | float) -> np.ndarray:
    """Seconds of one decode step: one more token for each of the requests in flight."""
    batch = np.asarray(batch, dtype=float)
    context = np.asarray(context_tokens, dtype=float)
    model, eff = machine.model, machine.efficiency
    weights = weight_bytes(model, machine.quantization) * _expert_share(model, batch)
    reading = weights / (machine.bandwidth * eff.weight_read_frac)
    gemm = 2 * model.active_parameters_b * 1e9 * batch / machine.flops
    copies = kv_copies(model, machine.gpus)
    kv = batch * kv_bytes(model, machine.quantization, context) * copies / (machine.bandwidth * eff.kv_read_frac)
    overhead = model.layers * eff.layer_overhead_us / 1e6 + batch * eff.sequence_overhead_us / 1e6
    return np.maximum(reading, gemm) + kv + _all_reduce_s(machine, batch) + overhead


def _attended_tokens(model: Model, tokens: np.ndarray, context: np.ndarray) -> np.ndarray:
    """Query-key pairs of a causal prefill, summed over layers; sliding layers see their window only."""
    full = model.layers * tokens * (context - tokens / 2)
    if model.sliding is None:
        return full
    window = np.minimum(context, model.sliding.window_tokens)
    share = model.sliding.full_attention_layers / model.layers
    return share * full + (1 - share) * model.layers * tokens * np.minimum(context - tokens / 2, window)


def _expert_share(model: Model, tokens: np.ndarray) -> np.ndarray:
    """Share of the weights that a step over so many tokens reads: experts nobody chose stay unread."""
    if model.moe is None:
        return np.ones_like(tokens)
    chosen = model.moe.experts_per_token / model.moe.experts
    touched = 1 - (1 - chosen) ** np.maximum(tokens, 1.0)
    routed = (model.parameters_b - model.active_parameters_b) / (model.parameters_b * (1 - chosen))
    return 1 - routed + routed * touched


def _all_reduce_s(machine: Machine, tokens: np.ndarray) -> np.ndarray:
    """Two all-reduces per layer over the activations of the tokens."""
    if machine.gpus == 1:
        return np.zeros_like(tokens)
    eff = machine.efficiency
    bytes_moved = 2 * (machine.gpus - 1) / machine.gpus * tokens * machine.model.hidden * 2
    rate = machine.gpu.interconnect.gb_per_s / 2 * 1e9 * eff.link_frac
    return 2 * machine.model.layers * (eff.all_reduce_latency_us / 1e6 + bytes_moved / rate)
