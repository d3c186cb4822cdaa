"""The feed-forward blocks of a model, from its config: dense ones, and experts that a router chooses from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from planner.catalog.model_config.reading import ModelConfig

EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "experts_per_token", "moe_topk")
DENSE_FFN = ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner", "d_ff")
SHARED_FFN = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "share_expert_dim",
              "shared_intermediate_size")  # fmt: skip
WITHOUT_GATE = ("bloom", "falcon", "gpt2", "gptj", "gpt_neox", "opt", "phi", "starcoder2", "nemotron", "nemotron_h")
"""kinds of models whose feed-forward blocks have two matrices, not three"""
EXPERTS_IN_ALL = ("mixtral", "minimax_m2", "gpt_oss", "qwen3_5_moe", "olmoe", "phimoe", "granitemoe", "gemma4")
"""kinds of models with experts in every layer, whose configs do not say so"""
EXPERTS_OF_FFN_SIZE = ("mixtral", "minimax_m2", "gpt_oss", "llama4", "olmoe", "phimoe", "granitemoe")
"""kinds of models whose intermediate_size is that of an expert"""


@dataclass(frozen=True)
class FeedForward:
    parameters: float
    """of all layers, every expert included"""
    routed: float = 0.0
    """the part of them that a router chooses from"""
    chosen_frac: float = 1.0
    fields: dict[str, Any] = field(default_factory=dict)


def ffn_matrices(config: ModelConfig) -> int:
    activation = str(config.get("mlp_hidden_act", "hidden_act", "activation_function"))
    return 2 if config.model_type in WITHOUT_GATE or activation == "relu2" else 3


def has_experts(config: ModelConfig) -> bool:
    return config.get("enable_moe_block") is not False and (config.get(*EXPERTS) or 0) not in (0, 1)


def read_feed_forward(config: ModelConfig, hidden: int, layers: int) -> FeedForward:
    """Blocks of a model whose layers each have one."""
    with_experts = _layers_with_experts(config, layers) if has_experts(config) else 0
    return feed_forward(config, hidden, layers, layers - with_experts, with_experts)


def feed_forward(config: ModelConfig, hidden: int, layers: int, dense: int, with_experts: int) -> FeedForward:
    """So many dense blocks and blocks of experts in so many layers."""
    matrices = ffn_matrices(config)
    shape = {} if matrices == 3 else {"ffn_matrices": matrices}
    if not with_experts:
        ffn = config.count(*DENSE_FFN, default=_four_times(config, hidden), example=14336)
        return FeedForward(float(dense * matrices * hidden * ffn), fields={"ffn": ffn} | shape)
    experts, chosen = config.count(*EXPERTS, example=128), config.count(*CHOSEN, example=8)
    if chosen > experts:
        config.complain(CHOSEN[0], f"{chosen} experts for a token are more than the {experts} there are")
    default = config.count(*DENSE_FFN) if config.model_type in EXPERTS_OF_FFN_SIZE else None
    width = config.count("moe_intermediate_size", "expert_ffn_hidden_size", default=default, example=2048)
    inner = config.count("moe_latent_size", "routed_expert_hidden_size", default=hidden)
    latent = 2 * hidden * inner if inner != hidden else 0
    shared = _shared_width(config, width)
    routed = with_experts * matrices * inner * width * experts
    beside = with_experts * (matrices * hidden * shared + hidden * experts + latent)
    ffn = width
    if dense:
        ffn = config.count("dense_intermediate_size", "intermediate_size_mlp", *DENSE_FFN, example=18432)
    moe = {
        "experts": experts, "experts_per_token": min(chosen, experts), "expert_ffn": width,
        "shared_experts": round(shared / width), "dense_layers": max(layers - with_experts, 0),
    }  # fmt: skip
    total = float(routed + beside + dense * matrices * hidden * ffn)
    return FeedForward(total, float(routed), min(chosen / experts, 1.0), {"ffn": ffn, "moe": moe} | shape)


def _four_times(config: ModelConfig, hidden: int) -> int | None:
    return 4 * hidden if config.model_type in ("gpt2", "gptj", "bloom", "falcon") else None


def _shared_width(config: ModelConfig, expert_ffn: int) -> int:
    """Width of what every token passes through beside the experts it chose."""
    if config.get("enable_moe_block"):
        return config.count(*DENSE_FFN)  # Gemma 4: the dense block stands beside the experts
    if config.model_type == "llama4":
        return expert_ffn
    if config.get(*SHARED_FFN):
        return config.count(*SHARED_FFN)
    return expert_ffn * config.count("n_shared_experts", "num_shared_experts", default=0, least=0)


def _layers_with_experts(config: ModelConfig, layers: int) -> int:
    if (kinds := config.list_of("mlp_layer_types", layers)) is not None:
        return sum(kind == "sparse" for kind in kinds)
    if isinstance(config.get("moe_layer_freq"), list):
        return sum(map(bool, config.list_of("moe_layer_freq", layers) or ()))
    if (numbers := config.list_of("moe_layers")) is not None:
        return min(len(numbers), layers)
    if config.get("interleave_moe_layer_step") is not None:
        return layers // config.count("interleave_moe_layer_step")
    if config.get("decoder_sparse_step") is not None:
        step, never = config.count("decoder_sparse_step"), config.list_of("mlp_only_layers") or ()
        return sum((k + 1) % step == 0 and k not in never for k in range(layers))
    if config.get("first_k_dense_replace") is not None:
        first, step = config.count("first_k_dense_replace", least=0), config.count("moe_layer_freq", default=1)
        return sum(k >= first and k % step == 0 for k in range(layers))
    if config.model_type not in EXPERTS_IN_ALL and not config.get("enable_moe_block"):
        config.ask("first_k_dense_replace", 0, "the number of first layers without experts")
    return layers
