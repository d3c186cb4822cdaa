"""Which weights a deployment loads, and how many bytes they are."""

from __future__ import annotations

from dataclasses import dataclass

from planner.case.case import Case
from planner.catalog.engine_support import quantized_checkpoint
from planner.catalog.entries import Model
from planner.performance.memory import weight_bytes

SIXTEEN_BIT = "fp16"
"""the only precision of published weights that engines quantize while they load them"""
BYTES_OF_16_BIT = 2


@dataclass(frozen=True)
class Weights:
    """What is downloaded and read to start a replica."""

    checkpoint: str | None
    """id or path; None: nobody knows one"""
    quantized_to: str | None
    """what the engine is told to make of them while it loads them; None: they are stored as they are served"""
    gb: float
    """as stored, which is more than what is served where they are quantized on load"""


def weights_of(case: Case, name: str, quantization: str) -> Weights:
    """Published in the format, quantized by somebody, quantized on load, or a checkpoint that is yet to be made."""
    model, scheme = case.models[name], case.quantizations[quantization]
    stored, served_gb = scheme.weights or quantization, weight_bytes(model, scheme) / 1e9
    if model.native_quantization == stored:
        return Weights(model.checkpoint, None, served_gb)
    known = quantized_checkpoint(model, stored)
    if known is None and scheme.vllm_on_load and model.native_quantization == SIXTEEN_BIT:
        return Weights(model.checkpoint, scheme.vllm_on_load, _published_gb(model))
    return Weights(known, None, served_gb)


def _published_gb(model: Model) -> float:
    return BYTES_OF_16_BIT * model.parameters_b
