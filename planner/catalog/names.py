"""From the names in files and options to those of the catalog; what it has not, and what has a later release."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

from planner.catalog.entries import Model, Sourced, find, names_of, shipped_entries
from planner.io.errors import did_you_mean

_MARK = re.compile(
    r"(?i)[-_.](fp8|w8a8|w4a16|awq|gptq|nvfp4|mxfp4|bf16|int8|int4|4bit|8bit|dynamic|block|kv|quantized|marlin|g128|hf)$"
)
_SILENT = ("int4", "4bit", "8bit", "dynamic", "block", "kv", "quantized", "marlin", "g128", "hf")
"""marks that do not say how by themselves: INT4 stands beside AWQ or GPTQ"""
_STORED = {"w8a8": "int8-w8a8"}
_ORNAMENTS = re.compile(r"^(meta)?-?|-?(instruct|chat|it|hf|versatile|instant)$")
"""what providers put around the name of the same weights"""
_HUB_CACHE = re.compile(r"models--([^/]+?)--([^/]+)")
ADD_MODEL = "add it from its config.json: fleetplan catalog add-model config.json"


def unknown_model(name: str, models: Mapping[str, Any]) -> str:
    """A remedy for a model that the catalog does not know: why it has none, or a similar name and how to add one."""
    wanted = next((key for spelling in _model_spellings(name) if (key := find(spelling, wanted_models()))), None)
    if wanted is not None:
        return wanted_models()[wanted].why_missing
    similar = did_you_mean(name, list(names_of(models)))
    return f"{similar} If not, {ADD_MODEL}" if similar else ADD_MODEL


def find_model(name: str, models: Mapping[str, Any]) -> str | None:
    """A model by its key, an alias, or a path that ends in one (a folder, a download cache)."""
    return next((key for spelling in _model_spellings(name) if (key := find(spelling, models))), None)


def checkpoint(name: str, models: Mapping[str, Any], quantizations: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Model and quantization of a published checkpoint whose name ends in how its weights are stored."""
    base, marks = name, list[str]()
    while (match := _MARK.search(base)) is not None:
        base, marks = base[: match.start()], [match[1].lower(), *marks]
    model = find_model(name, models) or find_model(base, models)
    telling = (_STORED.get(mark, mark) for mark in marks if mark not in _SILENT)
    stored = next((key for mark in telling if (key := find(mark, quantizations))), None)
    return model, stored


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


def sells(api: str, key: str, model: Model) -> bool:
    """Whether an API, as provider/model, sells this very model, by its name."""
    return bare_name(api.partition("/")[2]) in names_of_weights(key, model)


def names_of_weights(key: str, model: Model) -> frozenset[str]:
    return _bare_names((key, *model.aliases))


@lru_cache(maxsize=4096)
def _bare_names(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(bare_name(name) for name in names)


@cache
def bare_name(name: str) -> str:
    """The last part of a name, without case, punctuation and what providers put around it."""
    last = name.lower().rsplit("/", 1)[-1].replace("_", "-")
    before = ""
    while before != last:
        before, last = last, _ORNAMENTS.sub("", last)
    return re.sub(r"[^a-z0-9.]", "", last)


class Wanted(Sourced):
    """An entry of wanted.yaml."""

    aliases: tuple[str, ...] = ()
    known: str | None = None
    """what is published of it"""
    unstatable: str | None = None
    """what of it an entry cannot say; None: its shape has no public source"""

    @property
    def why_missing(self) -> str:
        known = f"It is known ({self.known})" if self.known else "It is known"
        if self.unstatable is not None:
            return f"{known}, but an entry cannot state {self.unstatable}"
        return f"{known}, but its shape has no public source: {ADD_MODEL}"


@cache
def wanted_models() -> dict[str, Wanted]:
    return {name: Wanted.model_validate_json(json.dumps(entry)) for name, entry in shipped_entries("wanted").items()}


@cache
def later_releases() -> dict[str, str]:
    """The later release of a model, by the keys of both."""
    return shipped_entries("superseded")
