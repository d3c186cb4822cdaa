"""Models: the figures that give weights, KV cache and arithmetic."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.catalog.entries.sourced import Named
from planner.io.validation import Strict


class Moe(Strict):
    experts: int = Field(gt=0)
    experts_per_token: int = Field(gt=0)
    expert_ffn: int = Field(gt=0)
    shared_experts: int = 0
    dense_layers: int = 0
    quantized_alone: bool = False
    """Whether its published checkpoints of fewer than 8 bits keep everything but these experts in 16 bit."""


class Sliding(Strict):
    window_tokens: int = Field(gt=0)
    full_attention_layers: int = Field(ge=0)
    full_kv_heads: int | None = Field(default=None, gt=0)
    """KV heads of the layers with full attention, where they differ from those with a window."""
    full_head_dim: int | None = Field(default=None, gt=0)


class Linear(Strict):
    """Layers that keep a state of fixed size instead of a KV cache; without heads, no state at all."""

    full_attention_layers: int = Field(ge=0)
    key_heads: int = Field(ge=0)
    value_heads: int = Field(ge=0)
    head_dim: int = Field(gt=0)
    key_dim: int | None = Field(default=None, gt=0)
    """Width of a key head (the state size of Mamba), where it differs from that of a value head."""

    @property
    def state_bytes(self) -> float:
        """Bytes of one request in one such layer; the state is kept in 32 bit."""
        return 4.0 * self.value_heads * self.head_dim * (self.key_dim or self.head_dim)


class Mla(Strict):
    kv_lora_rank: int = Field(gt=0)
    rope_dim: int = Field(gt=0)
    query_lora_rank: int = Field(default=1536, gt=0)
    value_dim: int = Field(default=128, gt=0)


class Sparse(Strict):
    """Attention over the tokens that an indexer scores best."""

    top_tokens: int = Field(gt=0)
    index_heads: int = Field(gt=0)
    index_dim: int = Field(gt=0)
    index_layers: int | None = Field(default=None, gt=0)
    """Layers with an indexer of their own, where others use what it picked; None: every layer."""

    @property
    def index_bytes(self) -> float:
        """Bytes that the indexer keeps of a token in a layer: an 8-bit key and its scale."""
        return self.index_dim + 4.0


class Model(Named):
    """An open-weight model: the figures that give weights, KV cache and arithmetic."""

    family: str = "unknown"
    parameters_b: float = Field(gt=0)
    active_parameters_b: float = Field(gt=0)
    layers: int = Field(gt=0)
    hidden: int = Field(gt=0)
    query_heads: int = Field(gt=0)
    kv_heads: int = Field(gt=0)
    head_dim: int = Field(gt=0)
    ffn: int = Field(gt=0)
    vocab: int = Field(gt=0)
    max_context_tokens: int = Field(gt=0)
    attention: Literal["mha", "gqa", "mla"] = "gqa"
    moe: Moe | None = None
    sliding: Sliding | None = None
    linear: Linear | None = None
    mla: Mla | None = None
    sparse: Sparse | None = None
    tied_embeddings: bool = False
    """The output layer shares its weights with the embedding."""
    ffn_matrices: int = 3
    """Matrices of a feed-forward block: three with a gate, two without."""
    native_quantization: str = "fp16"
    checkpoint: str | None = None
    """Id of the published weights on the Hugging Face Hub, or a path, for the command that serves it."""
    checkpoints: dict[str, str] | None = None
    """Ids or paths of the same weights by quantization, beside those that the catalog knows."""
