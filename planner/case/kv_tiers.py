"""Which tiers of KV cache a box has for the workloads that may use them."""

from __future__ import annotations

from functools import cache

from planner.case.case import Case, kinds_of
from planner.catalog.entries import Offer, Sourced, shipped_entries
from planner.performance.kv_tiers import DISK, HOST, KvTier

USABLE_HOST_FRAC = 0.75
"""of a box's memory: the rest is for engines, page cache and the system"""
GIB = 2**30


class HostMemory(Sourced):
    gib: float


@cache
def known_host_memory() -> dict[str, HostMemory]:
    return {k: HostMemory.model_validate(v, strict=False) for k, v in shipped_entries("host_memory").items()}


def with_host_memory(offer: Offer) -> Offer:
    """The offer with the memory of its box, where somebody published it and the offer does not say."""
    known = known_host_memory().get(f"{offer.provider}/{offer.instance}")
    if offer.host_memory_gib is not None or known is None:
        return offer
    return offer.model_copy(update={"host_memory_gib": known.gib})


def tiers_of(case: Case, offer: Offer, option: str) -> tuple[KvTier, ...]:
    """The tiers of a choice of caching that a box has, the fastest first."""
    kinds, found = kinds_of(option), []
    if HOST in kinds and offer.host_memory_gib is not None:
        gb = USABLE_HOST_FRAC * offer.host_memory_gib * GIB / 1e9 / offer.gpus
        found.append(KvTier(name=HOST, gb_per_gpu=gb))
    if DISK in kinds and case.kv_disk is not None:
        disk = case.kv_disk
        found.append(KvTier(name=DISK, gb_per_gpu=disk.gb / offer.gpus, read_gb_per_s=disk.read_gb_per_s / offer.gpus))
    return tuple(found)
