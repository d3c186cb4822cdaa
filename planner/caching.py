"""Caching: what each choice costs beyond the GPU memory that it takes."""

from __future__ import annotations

import numpy as np

from planner.case import CACHE_KINDS, Case, Workload
from planner.slots import Slot, rates_rps
from problems.constants import HOURS_PER_MONTH

NONE = "none"


def kinds_of(option: str) -> tuple[str, ...]:
    return tuple(kind for kind in CACHE_KINDS if kind in option.split("+"))


def on_gpus(option: str) -> str:
    """What is left of a choice on the GPUs: answers that are found whole never get there."""
    return "+".join(kind for kind in kinds_of(option) if kind != "semantic") or NONE


def cache_usd_per_h(case: Case, workload: Workload, option: str, slots: tuple[Slot, ...]) -> np.ndarray:
    """Stores by the month, and an embedding of the prompt of every request, found or not [slot]."""
    costs, kinds = case.cache_costs, kinds_of(option)
    by_month = costs.tier_usd_per_month if on_gpus(option) != NONE else 0.0
    per_request = 0.0
    if "semantic" in kinds:
        by_month += costs.vector_store_usd_per_month
        prompt = sum(b.share_frac * b.input_tokens for b in workload.buckets)
        per_request = prompt * costs.embedding_usd_per_1m_tokens / 1e6
    return by_month / HOURS_PER_MONTH + 3600 * per_request * rates_rps(workload, slots)
