"""How large a model is: what an API sells against what a workload asks for."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from planner.catalog.entries import Model, Sourced, shipped_catalog, shipped_entries

Tier = Literal["small", "medium", "large"]
TIERS: tuple[Tier, ...] = ("small", "medium", "large")
"""by rising quality"""
BELOW_B: tuple[tuple[Tier, float], ...] = (("small", 15.0), ("medium", 60.0))
"""billions of parameters"""
_SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)b(?![a-z0-9])")


class TierEntry(Sourced):
    tier: Tier
    words: tuple[str, ...]


@cache
def tier_entries() -> dict[str, TierEntry]:
    return {name: TierEntry.model_validate(entry, strict=False) for name, entry in shipped_entries("api_tiers").items()}


@cache
def tier_of_api(name: str) -> Tier | None:
    """The tier of "provider/model"; None where its name tells nothing."""
    model = name.lower().partition("/")[2] or name.lower()
    sizes = [int(times or 1) * float(size) for times, size in _SIZE.findall(model)]
    if sizes:
        return _tier_of_size(_whole_b(model, max(sizes)))
    for entry in tier_entries().values():
        if any(re.search(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", model) for word in entry.words):
            return entry.tier
    return None


def _whole_b(name: str, size_b: float) -> float:
    """All parameters of a mixture of experts whose name gives the active ones, as llama-4-scout-17b; else as named."""
    bare = _squashed(name)
    mixtures = [(key, m) for key, m in shipped_catalog().models.items() if m.active_parameters_b < m.parameters_b]
    whole = (m.parameters_b for key, m in mixtures if _squashed(key) in bare and round(m.active_parameters_b) == size_b)
    return next(whole, size_b)


def _squashed(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def tier_of_model(model: Model) -> Tier:
    return _tier_of_size(model.parameters_b)


def is_below(tier: Tier | None, other: Tier) -> bool:
    """Whether a tier is known to be the lower one."""
    return tier is not None and TIERS.index(tier) < TIERS.index(other)


def _tier_of_size(parameters_b: float) -> Tier:
    return next((tier for tier, limit in BELOW_B if parameters_b < limit), "large")
