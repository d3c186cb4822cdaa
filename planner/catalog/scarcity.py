"""How many instances of a kind may be taken to be there when they are asked for by the hour."""

from __future__ import annotations

from functools import cache

from pydantic import Field

from planner.catalog.entries import Offer, Sourced, shipped_entries

TYPICAL = "typical"
"""as `availability:` of a demand file: the table of judgement is a limit"""


class Scarcity(Sourced):
    """Of a GPU: from how many of them in one instance on, and how many such instances a region may have."""

    from_gpus: int = Field(gt=0)
    by_the_hour: int = Field(ge=0)


@cache
def scarcities() -> dict[str, Scarcity]:
    return {gpu: Scarcity.model_validate(entry, strict=False) for gpu, entry in shipped_entries("scarcity").items()}


def by_the_hour(offer: Offer) -> int | None:
    """Instances of an offer that may be there in its region; None: as many as are wanted."""
    if offer.available is not None:
        return offer.available
    known = scarcities().get(offer.gpu)
    return known.by_the_hour if known is not None and offer.gpus >= known.from_gpus else None
