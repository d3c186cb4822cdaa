"""All entries together, those shipped, and how one is looked up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import Field, model_validator

from planner.catalog.entries.apis import ApiModel
from planner.catalog.entries.benchmarks import shipped_entries
from planner.catalog.entries.engines import Efficiency, Engine
from planner.catalog.entries.gpus import Gpu
from planner.catalog.entries.models import Model
from planner.catalog.entries.offers import Offer
from planner.catalog.entries.quantizations import Quantization
from planner.catalog.entries.sourced import Sourced
from planner.io.validation import FieldProblem, Strict


class Shape(Sourced):
    """Relative rates by hour of a weekday and of a weekend day."""

    weekday: tuple[Annotated[float, Field(ge=0)], ...] = Field(min_length=24, max_length=24)
    weekend: tuple[Annotated[float, Field(ge=0)], ...] = Field(min_length=24, max_length=24)

    @model_validator(mode="after")
    def _some_hour_has_requests(self) -> Shape:
        if not any(self.weekday) and not any(self.weekend):
            raise FieldProblem(("weekday",), "is zero at every hour, as is 'weekend'", "Give an hour a weight")
        return self


class Catalog(Strict):
    """All entries by name."""

    gpus: dict[str, Gpu] = {}
    offers: dict[str, Offer] = {}
    models: dict[str, Model] = {}
    quantizations: dict[str, Quantization] = {}
    apis: dict[str, ApiModel] = {}
    efficiency: dict[str, Efficiency] = {}
    engines: dict[str, Engine] = {}
    shapes: dict[str, Shape] = {}

    def efficiency_of(self, gpu: str) -> Efficiency:
        """The constants of a GPU, else those of its family, else the general ones."""
        family = self.gpus[gpu].architecture if gpu in self.gpus else "default"
        return self.efficiency.get(gpu) or self.efficiency.get(family) or self.efficiency["default"]


KINDS = tuple(Catalog.model_fields)


@cache
def shipped_data() -> dict[str, dict[str, Any]]:
    """The shipped catalog as plain data, one mapping of entries per kind."""
    found = {kind: shipped_entries(kind) for kind in KINDS}
    return {kind: entries for kind, entries in found.items() if entries}


@cache
def shipped_catalog() -> Catalog:
    return Catalog.model_validate_json(json.dumps(shipped_data()))


def find(name: str, entries: Mapping[str, Any]) -> str | None:
    """The key of an entry by its key or one of its aliases, whatever the case."""
    wanted = name.strip().lower()
    if name in entries:
        return name
    for key, entry in entries.items():
        if wanted == key.lower() or wanted in (alias.lower() for alias in getattr(entry, "aliases", ())):
            return key
    return None


def names_of(entries: Mapping[str, Any]) -> Iterable[str]:
    for key, entry in entries.items():
        yield key
        yield from getattr(entry, "aliases", ())
