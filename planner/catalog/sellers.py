"""Who sells open models by the token, and which of them are counted on."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from planner.catalog.apis import known_api_models
from planner.catalog.entries import Model, Sourced, shipped_entries
from planner.catalog.names import bare_name, sells

PASSED_ON = "huggingface_"
SAME_MODEL = "same-model"
"""on a menu of APIs: all sellers of the workloads' own models that are counted on"""


class Seller(Sourced):
    name: str
    counted: bool
    """False: named where it is cheaper, and no reason to change a plan"""


@cache
def known_sellers() -> dict[str, Seller]:
    return {name: Seller.model_validate(entry, strict=False) for name, entry in shipped_entries("sellers").items()}


def is_counted(api: str) -> bool:
    """Whether the seller of "provider/model" is counted on."""
    seller = known_sellers().get(api.partition("/")[0])
    return seller is not None and seller.counted


@cache
def sellers() -> list[str]:
    """Every API model but those that Hugging Face passes on from a provider that sells it by itself."""
    known = known_api_models()
    direct = {(name.partition("/")[0], bare_name(name)) for name in known}

    def is_passed_on(name: str) -> bool:
        seller = name.removeprefix(PASSED_ON).partition("/")[0]
        return name.startswith(PASSED_ON) and (seller, bare_name(name)) in direct

    return [name for name in known if not is_passed_on(name)]


def counted_sellers_of(models: Iterable[tuple[str, Model]]) -> list[str]:
    """API models of sellers that are counted on which sell any of these very models."""
    wanted = list(models)
    return [api for api in sellers() if is_counted(api) and any(sells(api, key, model) for key, model in wanted)]
