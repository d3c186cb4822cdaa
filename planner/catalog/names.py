"""From the names in files and options to those of the catalog."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from planner.catalog.entries import find

_HUB_CACHE = re.compile(r"models--([^/]+?)--([^/]+)")


def find_model(name: str, models: Mapping[str, Any]) -> str | None:
    """A model by its key, an alias, or a path that ends in one (a folder, a download cache)."""
    return next((key for spelling in _model_spellings(name) if (key := find(spelling, models))), None)


def find_gpu(name: str, gpus: Mapping[str, Any]) -> str | None:
    """A GPU by its key, an alias, or either behind its maker's name, as drivers report it."""
    spellings = (name, re.sub(r"(?i)^(nvidia|amd)[\s_-]+", "", name.strip()).replace("_", "-"))
    return next((key for spelling in spellings if (key := find(spelling, gpus))), None)


def _model_spellings(name: str) -> Iterator[str]:
    yield name
    cached = _HUB_CACHE.search(name)
    if cached:
        yield f"{cached[1]}/{cached[2]}"
        yield cached[2]
    parts = [part for part in name.split("/") if part]
    if len(parts) >= 2:
        yield "/".join(parts[-2:])
    if parts:
        yield parts[-1]
