"""How the published weights of a model are stored, as a quantization of the catalog."""

from __future__ import annotations

from typing import Any

from planner.catalog.entries import shipped_catalog
from planner.catalog.model_config.reading import ModelConfig
from planner.catalog.names import checkpoint
from planner.io.errors import shown

METHODS = {"fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": "mxfp4", "awq": "int4-awq", "gptq": "int4-gptq"}
ALGORITHMS = {"FP8": "fp8", "NVFP4": "nvfp4", "W4A8_NVFP4_FP8": "nvfp4", "NVFP4_AWQ": "nvfp4"}
"""of checkpoints made by NVIDIA's Model Optimizer"""


def native_quantization(config: ModelConfig, name: str) -> str:
    """The quantization of the weights: as given, else as the config states, else as the name ends, else 16 bit."""
    given, known = config.get("native_quantization"), shipped_catalog().quantizations
    if given is not None:
        if given not in known:
            config.complain("native_quantization", f"there is no quantization {shown(given)}",
                            f"Known here: {', '.join(known)}")  # fmt: skip
            return "fp16"
        return str(given)
    stated = config.mapping("quantization_config")
    if not stated:
        stored = checkpoint(name, shipped_catalog().models, known)[1]
        if stored not in (None, "fp16"):
            config.notes.append(f"Its config names no quantization; {stored} is taken from the model's name.")
        return stored or "fp16"
    found = _of(config, stated)
    if found is None:
        method = shown(stated.get("quant_method"))
        config.complain("quantization_config", f"the method {method} is not in the catalog",
                        "Give the nearest with --set native_quantization=int4-gptq")  # fmt: skip
    return found or "fp16"


def experts_alone(config: ModelConfig) -> bool:
    """Whether a 4-bit checkpoint keeps attention and shared experts in 16 bit."""
    skipped = config.mapping("quantization_config").get("ignore")
    return isinstance(skipped, list) and any("self_attn" in str(name) for name in skipped)


def _of(config: ModelConfig, stated: dict[str, Any]) -> str | None:
    method = str(stated.get("quant_method") or "").lower()
    if method == "gptq" and stated.get("bits") not in (None, 4):
        return None
    if method in METHODS:
        return METHODS[method]
    algorithm = stated.get("quant_algo")
    if algorithm == "MIXED_PRECISION":
        config.notes.append("Published in a mix of FP8 and FP4, counted as FP8: its weights are smaller than that.")
        return "fp8"
    if algorithm is not None:
        return ALGORITHMS.get(str(algorithm).upper())
    return _compressed(stated) if method == "compressed-tensors" else None


def _compressed(stated: dict[str, Any]) -> str | None:
    """The first group of a compressed-tensors config."""
    groups = stated.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, dict) else None
    weights = first.get("weights") if isinstance(first, dict) else None
    if not isinstance(weights, dict):
        return None
    kind, bits = weights.get("type"), weights.get("num_bits")
    if kind == "float" and bits == 4:
        return "nvfp4" if weights.get("group_size") == 16 else "mxfp4"
    if kind == "float" and bits == 8:
        return "fp8"
    return {4: "int4-gptq", 8: "int8"}.get(bits) if kind == "int" and isinstance(bits, int) else None
