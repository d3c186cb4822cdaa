"""Speculative decoding: what drafts the next tokens of a request, and how many of them the model accepts.

A step verifies k drafts of a request beside the token that any step gives. With a_j the chance that the j-th draft is
accepted, and with it all before, which never grows with j, a step brings A tokens:

    P(A > j) = a_j        E[A] = 1 + a_1 + ... + a_k        E[A^2] = 1 + 3 a_1 + ... + (2k + 1) a_k

and m tokens take (m + E[A^2] / 2 E[A] - 1/2) / E[A] steps: the last one brings more than is wanted (renewal theory).
Their number varies by chance, with a variance of m Var[A] / E[A]^3: short answers are late more often than long ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from planner.catalog.drafts import Head
from planner.catalog.entries import Model, Quantization, shipped_catalog
from planner.performance.memory import (
    EMBEDDING_BITS,
    SPLIT,
    Layout,
    kv_bytes_per_token,
    parameters,
    state_bytes,
    weight_bytes,
)

MOST_DRAFTS = 8
"""tokens that a step drafts, at most: no curve of acceptance goes further"""
HALVINGS = 60
USUAL_FFN, USUAL_WORDS, FUSED_STATES = 6, 32000, 3
"""of heads whose shape nobody published: times the width of the model, as the largest of known ones; words; and the
states of the model that any head fuses"""


@dataclass(frozen=True)
class Speculation:
    """How one replica drafts and what comes of it."""

    method: str
    accepted: tuple[float, ...]
    """chance that the first draft of a step is accepted, the first two are, ...; as many as are drafted"""
    drafter: Model | None = None
    """what a pass runs through: a head of one layer, or a whole model; None: drafts are looked up in the prompt"""
    shares_head: bool = False
    """whether its output matrix is the model's own"""
    as_quantized: bool = False
    """whether it comes in the precision of the model; else in 16 bit"""

    @property
    def tokens(self) -> int:
        return len(self.accepted)

    @property
    def key(self) -> str:
        return f"{self.method}:{self.tokens}"

    @cached_property
    def accepted_tokens(self) -> float:
        """Tokens that a step brings on average, the one that any step gives included."""
        return 1.0 + sum(self.accepted)

    @cached_property
    def _square(self) -> float:
        """Mean square of the tokens that a step brings."""
        return 1.0 + sum((2 * j + 1) * a for j, a in enumerate(self.accepted, 1))

    @cached_property
    def _left_over(self) -> float:
        """Tokens of the last step of an answer that are not wanted, on average."""
        return self._square / self.accepted_tokens / 2 - 0.5

    def steps_of(self, tokens: np.ndarray) -> np.ndarray:
        """Steps in which so many tokens of an answer come; as many as tokens at most."""
        steps: np.ndarray = np.minimum((tokens + self._left_over) / self.accepted_tokens, tokens)
        return steps

    def steps_sd(self, tokens: np.ndarray) -> np.ndarray:
        """Standard deviation of these steps."""
        variance = max(0.0, self._square - self.accepted_tokens**2) / self.accepted_tokens**3
        sd: np.ndarray = np.sqrt(tokens * variance)
        return sd


@dataclass(frozen=True)
class Extra:
    """What drafts take of the memory of a replica."""

    weight_bytes: float = 0.0
    """of what drafts, over all GPUs"""
    kv_factor: float = 1.0
    """times the KV memory of a token: what drafts has a cache of its own"""
    lookahead_tokens: float = 0.0
    """that a request holds for drafts besides; where layers keep a state, one for each draft counts as tokens"""


NO_EXTRA = Extra()


def drafted_in(speculation: Speculation, own: Quantization) -> Quantization:
    """The precision of what drafts."""
    return own if speculation.as_quantized else shipped_catalog().quantizations["fp16"]


def extra_of(speculation: Speculation, model: Model, quantization: Quantization, layout: Layout = SPLIT) -> Extra:
    each = kv_bytes_per_token(model, quantization)
    lookahead = speculation.tokens * (1 + (state_bytes(model) / each if model.linear else 0.0))
    drafter = speculation.drafter
    if drafter is None:
        return Extra(lookahead_tokens=lookahead)
    stored = drafted_in(speculation, quantization)
    own_head = 0.0 if not speculation.shares_head else parameters(drafter).head * EMBEDDING_BITS / 8
    return Extra(
        weight_bytes=weight_bytes(drafter, stored, layout) - layout.attention_copies * own_head,
        kv_factor=1 + kv_bytes_per_token(drafter, stored) / each,
        lookahead_tokens=lookahead,
    )


def acceptance(lengths: Mapping[int, float]) -> tuple[float, ...]:
    """Chances by place of mean tokens a step (the one that any step gives included) that were measured by draft length.

    Up to the shortest draft each is the same share of the one before; between two that were measured they are equal.
    None is above the one before: where measurements say so, that is noise.
    """
    found: list[float] = []
    for k, tokens in sorted(lengths.items()):
        if not found:
            found = list(geometric(tokens, k))
            continue
        each = max(0.0, (tokens - 1 - sum(found)) / (k - len(found)))
        found += [each] * (k - len(found))
    return tuple(accumulate(found, min))


def geometric(tokens: float, drafts: int) -> tuple[float, ...]:
    """Chances of so many drafts, each the same share of the one before, that bring so many tokens a step."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(_powers(middle, drafts)) < tokens - 1 else (low, middle)
    return tuple(_powers(low, drafts))


def _powers(share: float, count: int) -> Sequence[float]:
    return [share**j for j in range(1, count + 1)]


def eagle_head(model: Model, head: Head | None) -> Model:
    """A head as a model of one layer; without a shape, one as wide as its model."""
    if head is None:
        wide = {"hidden": model.hidden, "ffn": USUAL_FFN * model.hidden, "vocab": USUAL_WORDS}
        if model.mla is not None:
            wide |= {"query_heads": max(1, model.hidden // 128), "kv_heads": 8, "head_dim": 128}
        else:
            wide |= {"query_heads": model.query_heads, "kv_heads": model.kv_heads, "head_dim": model.head_dim}
        head = Head(**wide)
    inner = head.query_heads * head.head_dim
    attention = 2 * head.hidden * (inner + 2 * head.kv_heads * head.head_dim) + inner * head.hidden
    feed_forward, fusion = 3 * head.hidden * head.ffn, FUSED_STATES * model.hidden * head.hidden
    billions = (attention + feed_forward + fusion + head.vocab * head.hidden) / 1e9
    return Model(
        **head.model_dump(), parameters_b=billions, active_parameters_b=billions, layers=1,
        max_context_tokens=model.max_context_tokens, tied_embeddings=True,
    )  # fmt: skip


def mtp_module(model: Model) -> Model:
    """One more layer of a model, with a matrix that joins embedding and state; the output matrix is the model's."""
    p, of_experts = parameters(model), model.layers - (model.moe.dense_layers if model.moe else 0)
    dense, routed = p.dense / model.layers + 2 * model.hidden**2, p.routed / of_experts
    own_index = {"index_layers": None, "full_attention_layers": None}
    return model.model_copy(
        update={
            "layers": 1,
            "parameters_b": (dense + routed + p.head) / 1e9,
            "active_parameters_b": (dense + routed * p.chosen_frac + p.head) / 1e9,
            "tied_embeddings": True,
            "moe": model.moe and model.moe.model_copy(update={"dense_layers": 0}),
            "sliding": None,
            "linear": None,
            "compressed": None,
            "sparse": model.sparse and model.sparse.model_copy(update=own_index),
        }
    )
