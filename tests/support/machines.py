"""Replicas of every kind of model in the catalog."""

from __future__ import annotations

from planner.catalog.entries import DEFAULT_ENGINE, shipped_catalog
from planner.catalog.variant import TENSOR, Parallelism
from planner.performance.machine import Lora, Machine
from planner.performance.memory import layout_of

Name = tuple[str, str, str, int]
"""model, quantization, GPU, GPUs"""
DENSE = ("llama-3.1-8b", "fp8", "l4", 1)
MOE = ("qwen3-30b-a3b", "fp16", "h100", 2)
MOE_SLIDING = ("gpt-oss-120b", "mxfp4", "h100", 1)
SLIDING = ("gemma-3-27b", "fp16", "h100", 1)
ALL_SLIDING = ("mistral-7b-v0.1", "fp16", "l4", 1)
MLA = ("deepseek-v3", "fp8", "h200", 8)
COMPRESSED = ("deepseek-v4-flash", "mxfp4", "h200", 4)
LINEAR_SPARSE = ("glm-5.3-flash", "fp8", "h200", 8)
MACHINES = (DENSE, MOE, MOE_SLIDING, SLIDING, ALL_SLIDING, MLA, COMPRESSED, LINEAR_SPARSE)
RANKS = (MOE, ("gpt-oss-120b", "mxfp4", "h100", 4), MLA)
"""of models that data-parallel ranks share"""


def machine(
    name: Name, lora: Lora | None = None, parallelism: Parallelism = TENSOR, engine: str = DEFAULT_ENGINE
) -> Machine:
    catalog = shipped_catalog()
    model, quantization, gpu, gpus = name
    return Machine(
        catalog.models[model], catalog.quantizations[quantization], catalog.gpus[gpu], gpus, catalog.efficiency[gpu],
        catalog.engines[engine], lora, layout_of(parallelism, gpus),
    )  # fmt: skip
