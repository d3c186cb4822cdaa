"""Models without an entry that people ask for, and entries that have a later release."""

from __future__ import annotations

import json
from functools import cache

from planner.catalog.entries import Sourced, shipped_entries

ADD_MODEL = "add it from its config.json: fleetplan catalog add-model config.json"


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
