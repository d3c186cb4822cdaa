"""The attention of a model, from its config: weights of all layers, and the fields that give KV cache and arithmetic.

Norms, biases and convolutions are left out: together they are less than a thousandth of the weights.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from planner.catalog.model_config.layer_kinds import layer_kinds
from planner.catalog.model_config.reading import ModelConfig
from planner.io.formatting import counted

HEADS = ("num_attention_heads", "n_head", "n_heads")
HIDDEN = ("hidden_size", "n_embd", "d_model")
ALL_KV_HEADS = ("gpt2", "gptj", "gpt_neox", "bloom", "opt")
"""kinds of models in which every query head has a KV head"""


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
    added, sparse = _sparse(config, hidden, layers)
    if sparse:
        fields["sparse"] = sparse
        if sliding or linear:
            config.complain("index_topk", "sparse attention together with windows or linear layers is not supported")
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
    rope = config.count("qk_rope_head_dim", example=64)
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


def _sparse(config: ModelConfig, hidden: int, layers: int) -> tuple[float, dict[str, Any] | None]:
    """The indexer of sparse attention: weights of all layers, and its field."""
    blocks = config.mapping("sparse_attention_config")
    if blocks.get("use_sparse_attention"):
        part = ModelConfig(config.file, blocks)
        heads, dim = part.count("sparse_num_index_heads"), part.count("sparse_index_dim", example=128)
        block, top = part.count("sparse_block_size", example=128), part.count("sparse_topk_blocks", example=16)
        config.diagnostics += part.diagnostics
        indexed = sum(map(bool, part.list_of("sparse_attention_freq", layers) or [1] * layers))
        if indexed < layers:
            config.notes.append(f"Counted as sparse: {counted(layers - indexed, 'layer')} of full attention.")
        sizes = {"top_tokens": block * top, "index_heads": heads, "index_dim": dim}
        return float(indexed * hidden * (heads * dim + dim)), sizes
    if config.get("index_topk") is None:
        return 0.0, None
    heads, dim = config.count("index_n_heads", example=64), config.count("index_head_dim", example=128)
    sizes = {"top_tokens": config.count("index_topk"), "index_heads": heads, "index_dim": dim}
    kinds = config.list_of("indexer_types", layers)
    indexed = sum(kind == "full" for kind in kinds) if kinds else layers
    if indexed < layers:
        sizes["index_layers"] = max(indexed, 1)
    query = config.count("q_lora_rank", default=hidden)
    return float(indexed * (query * heads * dim + hidden * (dim + heads))), sizes


def _refuse_unknown_kinds(config: ModelConfig) -> None:
    """Kinds of attention whose KV cache an entry cannot state."""
    unsupported = {
        "compress_ratios": "a cache of compressed keys",
        "num_kv_shared_layers": "layers that share a KV cache",
        "hidden_size_per_layer_input": "embeddings for each layer",
    }
    named = [name for name in unsupported if config.get(name)]
    for name in named:
        config.complain(name, f"{unsupported[name]} cannot be stated in a catalog entry yet", "Write the entry by hand")
    if named:
        config.check()  # the rest of the file would be asked for in vain
