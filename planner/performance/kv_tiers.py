"""Memory besides that of the GPUs in which the KV cache of prompts waits, and how long it takes to come back.

Blocks come back in chunks of BLOCK_TOKENS tokens, of all layers together: vLLM keeps them so since 0.12
(blog.vllm.ai/2026/01/08/kv-offloading-connector.html), while other requests are computed. Each GPU of a replica reads
its own part over its own link; heads that GPUs repeat are stored as often.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from pydantic import Field

from planner.catalog.entries import Sourced, shipped_entries
from planner.io.validation import Strict
from planner.performance.machine import Machine
from planner.performance.memory import kv_bytes_per_token

BLOCK_TOKENS = 16
HOST, DISK = "host", "disk"


class KvTier(Strict):
    """One tier, as far as it belongs to one GPU."""

    name: str
    gb_per_gpu: float = Field(gt=0)
    read_gb_per_s: float | None = Field(default=None, gt=0)
    """to each GPU; None: as host memory is copied, by the size of chunks"""


class HostCopies(Sourced):
    gb_per_s: dict[int, float]
    """by the bytes of a chunk"""
    architectures: tuple[str, ...]


@cache
def host_copies() -> tuple[HostCopies, ...]:
    """The last one is for architectures that no other names."""
    return tuple(HostCopies.model_validate(entry, strict=False) for entry in shipped_entries("host_copies").values())


def copies_to(architecture: str) -> HostCopies:
    known = host_copies()
    return next((c for c in known if architecture in c.architectures), known[-1])


def stored_bytes_per_token(machine: Machine) -> float:
    """Of a token in a tier, on all GPUs of a replica together."""
    return kv_bytes_per_token(machine.model, machine.quantization) * machine.kv_copies


def tier_tokens(machine: Machine, tier: KvTier) -> float:
    """Tokens that a replica's part of a tier holds."""
    return 1e9 * tier.gb_per_gpu * machine.gpus / stored_bytes_per_token(machine)


def read_s_per_token(machine: Machine, tier: KvTier) -> float:
    """Seconds that a token takes to come back, all GPUs reading their parts at once."""
    each = stored_bytes_per_token(machine) / machine.gpus
    if tier.read_gb_per_s is not None:
        return each / (1e9 * tier.read_gb_per_s)
    sizes, rates = zip(*sorted(copies_to(machine.gpu.architecture.lower()).gb_per_s.items()), strict=True)
    chunk = BLOCK_TOKENS * each
    rate = float(np.interp(np.log(chunk), np.log(sizes), rates)) * min(1.0, chunk / sizes[0])
    return float(each / (1e9 * rate))
