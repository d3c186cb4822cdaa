"""Models whose layers are blocks of their own: Mamba with attention (Nemotron-H), and searched ones (Nemotron NAS)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.catalog.model_config.attention import HIDDEN, Attention, Heads, read_heads
from planner.catalog.model_config.feed_forward import FeedForward, feed_forward
from planner.catalog.model_config.reading import ModelConfig
from planner.io.errors import shown
from planner.io.formatting import counted

BLOCKS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


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
