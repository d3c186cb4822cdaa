"""The layers of a model, from its config: weights of attention and feed-forward blocks, and what gives its KV cache.

Norms, biases and convolutions are left out: together they are less than a thousandth of the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from planner.catalog.model_config.config import ModelConfig
from planner.io.errors import shown
from planner.io.formatting import counted

KINDS = {
    "full_attention": "full",
    "deepseek_sparse_attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "sliding",
    "linear_attention": "linear",
}
EVERYWHERE = ("mistral", "mixtral", "starcoder2", "phi3")
"""kinds of models with a window in every layer, where there is one"""
FULL_EVERY = {"gemma2": 2, "gemma3": 6, "cohere2": 4, "gpt_oss": 2}
"""every so many layers one attends to everything, in configs that do not say so"""
LLAMA_4_INTERVAL = 4
HEADS = ("num_attention_heads", "n_head", "n_heads")
HIDDEN = ("hidden_size", "n_embd", "d_model")
ALL_KV_HEADS = ("gpt2", "gptj", "gpt_neox", "bloom", "opt")
"""kinds of models in which every query head has a KV head"""
EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "experts_per_token", "moe_topk")
DENSE_FFN = ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner", "d_ff")
SHARED_FFN = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "share_expert_dim",
              "shared_intermediate_size")  # fmt: skip
WITHOUT_GATE = ("bloom", "falcon", "gpt2", "gptj", "gpt_neox", "opt", "phi", "starcoder2", "nemotron", "nemotron_h")
"""kinds of models whose feed-forward blocks have two matrices, not three"""
EXPERTS_IN_ALL = (
    "mixtral",
    "minimax_m2",
    "gpt_oss",
    "qwen3_5_moe",
    "olmoe",
    "phimoe",
    "granitemoe",
    "gemma4",
    "deepseek_v4",
    "deepseek_ref",
)
"""kinds of models with experts in every layer, whose configs do not say so"""
EXPERTS_OF_FFN_SIZE = ("mixtral", "minimax_m2", "gpt_oss", "llama4", "olmoe", "phimoe", "granitemoe")
"""kinds of models whose intermediate_size is that of an expert"""
PICKED_RATIO = 4
"""tokens of an entry, in layers of DeepSeek-V4 that have an indexer"""
BLOCKS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def layer_kinds(config: ModelConfig, layers: int) -> list[str]:
    """The kind of each layer."""
    if config.mapping("linear_attn_config") and not config.get("layer_types"):
        full = config.mapping("linear_attn_config").get("full_attn_layers")
        if not isinstance(full, list) or not full:
            config.complain("linear_attn_config", "has no full_attn_layers, the numbers of layers with full attention")
            return ["full"] * layers
        return ["full" if number in full else "linear" for number in range(1, layers + 1)]
    if (named := config.list_of("layer_types", layers)) is not None:
        unknown = sorted({str(kind) for kind in named} - set(KINDS))
        if unknown:
            config.complain("layer_types", f"unknown kind of layer '{unknown[0]}'", f"Known here: {', '.join(KINDS)}")
        return [KINDS.get(str(kind), "full") for kind in named]
    if (pattern := config.list_of("hybrid_layer_pattern", layers)) is not None:
        return ["sliding" if windowed else "full" for windowed in pattern]
    if not all(config.list_of("attn_type_list", layers) or ()):
        config.complain("attn_type_list", "has layers of linear attention whose shape the file does not state")
    if config.get("linear_num_value_heads") is not None:
        return _every(config.count("full_attention_interval", example=4), layers, "linear")
    if config.model_type.startswith("llama4") and config.get("attention_chunk_size") is not None:
        return _llama_4(config, layers)
    return _windows(config, layers)


def _every(interval: int, layers: int, otherwise: str) -> list[str]:
    return ["full" if number % interval == 0 else otherwise for number in range(1, layers + 1)]


def _llama_4(config: ModelConfig, layers: int) -> list[str]:
    """Layers with rotary positions attend within chunks, counted as a window of that length."""
    config.notes.append("Attention within chunks is counted as a window of their length.")
    rotary = config.list_of("no_rope_layers", layers)
    if rotary is not None:
        return ["sliding" if has_positions else "full" for has_positions in rotary]
    interval = config.count("no_rope_layer_interval", default=LLAMA_4_INTERVAL)
    return _every(interval, layers, "sliding")


def _windows(config: ModelConfig, layers: int) -> list[str]:
    window, context = config.get("sliding_window"), config.get("max_position_embeddings")
    unused = isinstance(window, int) and isinstance(context, int) and window >= context
    if window is None or unused or config.get("use_sliding_window") is False:
        return ["full"] * layers
    interval = config.get("sliding_window_pattern", "_sliding_window_pattern")
    if interval is not None or config.model_type in FULL_EVERY:
        default = FULL_EVERY.get(config.model_type)
        every = config.count("sliding_window_pattern", "_sliding_window_pattern", default=default)
        return _every(every, layers, "sliding")
    if config.get("use_sliding_window") and config.get("max_window_layers") is not None:
        first = config.count("max_window_layers")
        return ["full" if k < first else "sliding" for k in range(layers)]
    if config.model_type in EVERYWHERE:
        return ["sliding"] * layers
    config.ask("sliding_window_pattern", 6, "so which layers have the window is open")
    return ["full"] * layers


@dataclass(frozen=True)
class Attention:
    layers: int
    parameters: float
    """of all layers"""
    fields: dict[str, Any] = field(default_factory=dict)
    """of the catalog entry"""


@dataclass(frozen=True)
class Heads:
    """Heads of one kind of layer."""

    query: int
    kv: int
    key_dim: int
    value_dim: int

    def parameters(self, hidden: int, gated: bool = False, shared_value: bool = False) -> float:
        """Query, key, value and output matrices; a gate on the output is as large as the query."""
        query = hidden * self.query * self.key_dim * (2 if gated else 1)
        key = hidden * self.kv * self.key_dim
        value = 0 if shared_value else hidden * self.kv * self.value_dim
        return float(query + key + value + self.query * self.value_dim * hidden)

    @property
    def head_dim(self) -> int:
        """The width that counts for both: the mean of key and value."""
        return -(-(self.key_dim + self.value_dim) // 2)


def read_attention(config: ModelConfig, layers: int) -> Attention:
    """Weights and fields of so many layers that each have attention, full or of another kind."""
    _refuse_unknown_kinds(config)
    hidden = config.count(*HIDDEN, example=4096)
    if config.get("compress_ratios") is not None:
        return _compressed(config, hidden, layers)
    kinds = layer_kinds(config, layers)
    full, linear, sliding = (kinds.count(kind) for kind in ("full", "linear", "sliding"))
    if config.get("kv_lora_rank") is not None:
        one, fields = _latent(config, hidden)
        if sliding:
            config.complain("sliding_window", "a window together with latent attention is not supported")
        parameters = full * one
    else:
        heads = read_heads(config, hidden)
        gated = _gated(config)
        fields = _shared_fields(heads)
        parameters = (full + sliding) * heads.parameters(hidden, gated)
        if sliding:
            parameters, fields = _windowed(config, hidden, heads, full, sliding, fields)
    if linear:
        if sliding:
            config.complain("layer_types", "windows together with linear attention are not supported")
        one, fields["linear"] = _linear(config, hidden, full)
        parameters += linear * one
    added, sparse = _sparse(config, hidden, kinds)
    if sparse:
        fields["sparse"] = sparse
        if sliding:
            config.complain("index_topk", "sparse attention together with windows is not supported")
    return Attention(layers, parameters + added, fields)


def read_heads(config: ModelConfig, hidden: int) -> Heads:
    query = config.count(*HEADS, example=32)
    default = 1 if config.get("multi_query") else query if config.model_type in ALL_KV_HEADS else None
    kv = config.count("num_key_value_heads", "num_kv_heads", "multi_query_group_num", default=default, example=8)
    if query % kv:
        config.complain("num_key_value_heads", f"{query} query heads do not divide over {kv} KV heads")
    width = None if hidden % query else hidden // query
    key = config.count("head_dim", "attention_head_dim", "kv_channels", default=width, example=128)
    return Heads(query, kv, key, config.count("v_head_dim", default=key))


def _gated(config: ModelConfig) -> bool:
    return bool(config.get("attn_output_gate")) or config.model_type == "qwen3_next"


def _shared_fields(heads: Heads) -> dict[str, Any]:
    kind = "mha" if heads.query == heads.kv else "gqa"
    return {"query_heads": heads.query, "kv_heads": heads.kv, "head_dim": heads.head_dim, "attention": kind}


def _windowed(
    config: ModelConfig, hidden: int, heads: Heads, full: int, sliding: int, fields: dict[str, Any]
) -> tuple[float, dict[str, Any]]:
    """Layers with a window beside those with full attention, whose heads may differ (Gemma 4, MiMo)."""
    window = config.count("sliding_window", "sliding_window_size", "attention_chunk_size", example=4096)
    key = config.count("swa_head_dim", default=heads.key_dim)
    inside = Heads(
        config.count("swa_num_attention_heads", default=heads.query),
        config.count("swa_num_key_value_heads", default=heads.kv),
        key,
        config.count("swa_v_head_dim", default=heads.value_dim if key == heads.key_dim else key),
    )
    wide = config.count("global_head_dim", default=heads.key_dim)
    same = wide == heads.key_dim
    outside = Heads(
        heads.query,
        config.count("num_global_key_value_heads", default=heads.kv),
        wide,
        heads.value_dim if same else wide,
    )
    if inside.query != outside.query:
        config.complain("swa_num_attention_heads", "differs from num_attention_heads, which is not supported")
    gated = _gated(config)
    shared_value = bool(config.get("attention_k_eq_v"))
    sizes: dict[str, Any] = {"window_tokens": window, "full_attention_layers": full}
    if outside.kv != inside.kv:
        sizes["full_kv_heads"] = outside.kv
    if outside.head_dim != inside.head_dim:
        sizes["full_head_dim"] = outside.head_dim
    parameters = sliding * inside.parameters(hidden, gated) + full * outside.parameters(hidden, gated, shared_value)
    return parameters, _shared_fields(inside) | {"sliding": sizes}


def _latent(config: ModelConfig, hidden: int) -> tuple[float, dict[str, Any]]:
    """Multi-head latent attention: weights of a layer, and fields."""
    heads = config.count(*HEADS, example=64)
    rank = config.count("kv_lora_rank", example=512)
    rope = config.count("qk_rope_head_dim", example=64, least=0)
    nope = config.count("qk_nope_head_dim", example=128)
    value = config.count("v_head_dim", example=128)
    width = heads * (nope + rope)
    query_rank = None if config.get("q_lora_rank") is None else config.count("q_lora_rank")
    query = hidden * width if query_rank is None else query_rank * (hidden + width)
    gate = hidden * heads * value if config.get("mla_use_output_gate") else 0
    key_value = hidden * (rank + rope) + rank * heads * (nope + value)
    sizes = {"kv_lora_rank": rank, "rope_dim": rope}
    if query_rank is not None:
        sizes["query_lora_rank"] = query_rank
    return float(query + key_value + heads * value * hidden + gate), {
        "query_heads": heads, "kv_heads": heads, "head_dim": nope + rope, "attention": "mla",
        "mla": sizes | {"value_dim": value},
    }  # fmt: skip


def _linear(config: ModelConfig, hidden: int, full: int) -> tuple[float, dict[str, Any]]:
    """Linear attention: weights of a layer, and its field."""
    kimi = config.mapping("linear_attn_config")
    if kimi:
        part = ModelConfig(config.file, kimi)
        heads, dim = part.count("num_heads", example=32), part.count("head_dim", example=128)
        config.diagnostics += part.diagnostics
        values = heads * dim
        low_rank = hidden * dim + dim * values
        gate = hidden * values if kimi.get("use_full_rank_gate") else low_rank
        one = 4 * hidden * values + low_rank + gate + hidden * heads
        return float(one), {"full_attention_layers": full, "key_heads": heads, "value_heads": heads, "head_dim": dim}
    key_heads, value_heads = config.count("linear_num_key_heads"), config.count("linear_num_value_heads")
    key_dim = config.count("linear_key_head_dim", example=128)
    dim = config.count("linear_value_head_dim", example=128)
    one = hidden * (2 * key_heads * key_dim + 3 * value_heads * dim + 2 * value_heads)
    sizes = {"full_attention_layers": full, "key_heads": key_heads, "value_heads": value_heads, "head_dim": dim}
    return float(one), sizes | ({"key_dim": key_dim} if key_dim != dim else {})


def _sparse(config: ModelConfig, hidden: int, kinds: Sequence[str]) -> tuple[float, dict[str, Any] | None]:
    """The indexer of sparse attention: weights of all layers, and its field."""
    layers = len(kinds)
    blocks = config.mapping("sparse_attention_config")
    if blocks.get("use_sparse_attention"):
        part = ModelConfig(config.file, blocks)
        heads, dim = part.count("sparse_num_index_heads"), part.count("sparse_index_dim", example=128)
        block, top = part.count("sparse_block_size", example=128), part.count("sparse_topk_blocks", example=16)
        config.diagnostics += part.diagnostics
        indexed = sum(map(bool, part.list_of("sparse_attention_freq", layers) or [1] * layers))
        sizes = {"top_tokens": block * top, "index_heads": heads, "index_dim": dim}
        if indexed < layers:
            sizes |= {"index_layers": max(indexed, 1), "full_attention_layers": layers - indexed}
        return float(indexed * hidden * (heads * dim + dim)), sizes
    if config.get("index_topk") is None:
        return 0.0, None
    heads, dim = config.count("index_n_heads", example=64), config.count("index_head_dim", example=128)
    sizes = {"top_tokens": config.count("index_topk"), "index_heads": heads, "index_dim": dim}
    types = config.list_of("indexer_types", layers) or ["full"] * layers
    indexed = sum(kind != "linear" and of == "full" for kind, of in zip(kinds, types, strict=False))
    if indexed < layers:
        sizes["index_layers"] = max(indexed, 1)
    pooled = config.count("index_kpool", default=1)
    if pooled > 1:
        sizes["tokens_per_key"] = pooled
    query = config.count("q_lora_rank", default=hidden)
    return float(indexed * (query * heads * dim + hidden * (dim + heads))), sizes


def _compressed(config: ModelConfig, hidden: int, layers: int) -> Attention:
    """Layers whose cache has an entry for several tokens, picked by an indexer or not (DeepSeek-V4).

    Keys and values are one vector. A compressor is two matrices, twice as wide where its entries overlap.
    """
    ratios = list(config.values["compress_ratios"])[:layers] if isinstance(config.get("compress_ratios"), list) else []
    wide = sorted({ratio for ratio in ratios if isinstance(ratio, int) and ratio > 1 and ratio != PICKED_RATIO})
    if len(ratios) < layers or len(wide) > 1 or any(not isinstance(ratio, int) or ratio < 0 for ratio in ratios):
        config.complain("compress_ratios", f"expected 0, {PICKED_RATIO} or one larger number for each of the layers")
    heads, dim = config.count(*HEADS, example=128), config.count("head_dim", example=512)
    rank = config.count("q_lora_rank", example=1536)
    groups, out_rank = config.count("o_groups", example=16), config.count("o_lora_rank", example=1024)
    index_heads, index_dim = config.count("index_n_heads", example=64), config.count("index_head_dim", example=128)
    top = config.count("index_topk", example=1024)
    picked, read = ratios.count(PICKED_RATIO), sum(ratio in wide for ratio in ratios)
    output = heads * dim * out_rank + groups * out_rank * hidden
    one = hidden * rank + rank * heads * dim + hidden * dim + output
    indexer = rank * index_heads * index_dim + hidden * index_heads + 4 * hidden * index_dim
    parameters = layers * one + picked * (4 * hidden * dim + indexer) + read * 2 * hidden * dim
    fields: dict[str, Any] = {
        "query_heads": heads, "kv_heads": heads, "head_dim": dim, "attention": "mla",
        "mla": {"kv_lora_rank": dim, "rope_dim": 0, "query_lora_rank": rank, "value_dim": dim},
        "sparse": {
            "top_tokens": top * PICKED_RATIO, "index_heads": index_heads, "index_dim": index_dim,
            "index_layers": max(picked, 1), "tokens_per_key": PICKED_RATIO,
        },
        "compressed": {
            "window_tokens": config.count("sliding_window", example=128), "picked_layers": picked,
            "picked_ratio": PICKED_RATIO, "read_layers": read, "read_ratio": wide[0] if wide else 1,
        },
    }  # fmt: skip
    return Attention(layers, float(parameters), fields)


def _refuse_unknown_kinds(config: ModelConfig) -> None:
    """Kinds of attention whose KV cache an entry cannot state."""
    unsupported = {
        "num_kv_shared_layers": "layers that share a KV cache",
        "hidden_size_per_layer_input": "embeddings for each layer",
    }
    named = [name for name in unsupported if config.get(name)]
    for name in named:
        config.complain(name, f"{unsupported[name]} cannot be stated in a catalog entry yet", "Write the entry by hand")
    if named:
        config.check()  # the rest of the file would be asked for in vain


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


def mamba_blocks(config: ModelConfig) -> list[str] | None:
    """The blocks of a hybrid with Mamba, in order; None for other models."""
    letters, names = config.get("hybrid_override_pattern"), config.get("layers_block_type")
    if isinstance(letters, str):
        blocks = [BLOCKS.get(letter, letter) for letter in letters]
        where = "hybrid_override_pattern"
    elif isinstance(names, list):
        blocks, where = [str(name) for name in names], "layers_block_type"
    else:
        return None
    unknown = next((block for block in blocks if block not in BLOCKS.values()), None)
    if unknown is not None:
        config.complain(where, f"unknown block {shown(unknown)}", f"Known here: {', '.join(BLOCKS.values())}")
    return blocks


def read_mamba_hybrid(config: ModelConfig, blocks: Sequence[str]) -> tuple[Attention, FeedForward]:
    """A layer is a block that mixes tokens, with a feed-forward block where one follows."""
    hidden = config.count(*HIDDEN, example=4096)
    heads = read_heads(config, hidden)
    full, mamba = blocks.count("attention"), blocks.count("mamba")
    count, dim = config.count("mamba_num_heads", example=64), config.count("mamba_head_dim", example=64)
    state = config.count("ssm_state_size", "mamba_d_state", example=128)
    groups = config.count("n_groups", "mamba_n_groups", default=1)
    inner = count * dim
    one = hidden * (2 * inner + 2 * groups * state + count) + inner * hidden
    linear = {"full_attention_layers": full, "key_heads": groups, "value_heads": count, "head_dim": dim}
    kind = "mha" if heads.query == heads.kv else "gqa"
    fields: dict[str, Any] = {
        "query_heads": heads.query, "kv_heads": heads.kv, "head_dim": heads.head_dim, "attention": kind,
        "linear": linear | ({"key_dim": state} if state != dim else {}),
    }  # fmt: skip
    layers = max(full + mamba, 1)
    config.notes.append(f"{mamba} Mamba and {full} attention blocks count as layers, feed-forward blocks with them.")
    attention = Attention(layers, full * heads.parameters(hidden) + mamba * one, fields)
    return attention, feed_forward(config, hidden, layers, blocks.count("mlp"), blocks.count("moe"))


def read_searched(config: ModelConfig, layers: int) -> tuple[Attention, FeedForward]:
    """Layers of different shapes, some without attention (block_configs)."""
    hidden = config.count(*HIDDEN, example=8192)
    blocks = config.list_of("block_configs", layers) or ()
    query = config.count("num_attention_heads", example=64)
    dim = config.count("head_dim", default=hidden // query)
    parts = [(_part(block, "attention"), _part(block, "ffn")) for block in blocks]
    groups = {part.get("n_heads_in_group") for part, _ in parts if not _other(part)}
    group = groups.pop() if len(groups) == 1 else None
    if not isinstance(group, int) or group < 1:
        config.complain("block_configs", "n_heads_in_group must be one number in all layers with attention")
        group = 1
    heads = Heads(query, max(query // group, 1), dim, dim)
    full = sum(not _other(part) for part, _ in parts)
    attention = full * heads.parameters(hidden) + sum(_replaced(part, hidden) for part, _ in parts)
    widths = [0 if _other(part) else _width(config, part.get("ffn_mult"), hidden) for _, part in parts]
    ffn = sum(3 * hidden * width for width in widths) + sum(_replaced(part, hidden) for _, part in parts)
    fields: dict[str, Any] = {
        "query_heads": query, "kv_heads": heads.kv, "head_dim": dim,
        "attention": "mha" if heads.kv == query else "gqa",
    }  # fmt: skip
    if full < layers:
        fields["linear"] = {"full_attention_layers": full, "key_heads": 0, "value_heads": 0, "head_dim": dim}
        config.notes.append(f"{counted(layers - full, 'layer')} without attention.")
    return Attention(layers, attention, fields), FeedForward(float(ffn), fields={"ffn": max([*widths, 1])})


def _part(block: object, name: str) -> dict[str, Any]:
    part = block.get(name) if isinstance(block, dict) else None
    return part if isinstance(part, dict) else {}


def _other(part: dict[str, Any]) -> bool:
    return bool(part.get("no_op") or part.get("replace_with_linear"))


def _replaced(part: dict[str, Any], hidden: int) -> float:
    return float(hidden * hidden) if part.get("replace_with_linear") else 0.0


def _width(config: ModelConfig, multiple: object, hidden: int) -> int:
    """Two thirds of the multiple, rounded up to a multiple of 256, as in the models' own code."""
    if isinstance(multiple, bool) or not isinstance(multiple, int | float) or not 0 < multiple < 1000:
        config.complain("block_configs", f"expected a number at ffn_mult, got {shown(multiple)}")
        return 1
    return -(-int(2 * multiple * hidden / 3) // 256) * 256
