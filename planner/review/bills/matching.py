"""What a row of a bill is of: an instance on the menu, an API of the plan, something like them, or another service."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from planner.catalog.importing.focus import NAMING, OTHER_SYSTEM, instance_of, runs_linux
from planner.catalog.importing.instances import has_gpus, provider_called
from planner.review.bills.cells import TOKENS, Row, unit_size
from planner.review.bills.records import BoughtAs, ChargeKind

NOT_ON_MENU = "not on the plan's menu"
NO_GPUS = "an instance without GPUs"
NO_SUCH_API = "no API of the plan"
MATCHED_BY = (*NAMING, "SkuId", "SkuPriceId", "ResourceId", "RegionId", "PublisherName", "ServiceName")
MODEL_NAMES = ("x_ModelId", "ModelId", "x_Model", "Model", "ModelName")
API_PROVIDERS = {"gcp": "google"}
"""whose models go by another name than its instances"""
_DAY = re.compile(r"[-@](\d{8}|\d{4}-\d{2}-\d{2})$")


class Target(NamedTuple):
    """What a charge is for."""

    kind: ChargeKind
    name: str
    why: str = ""

    @property
    def is_named(self) -> bool:
        """Whether the row says itself which instance or model it is of."""
        return self.kind != "other services" or self.why == NO_GPUS


class Matching:
    """Offers and APIs by the names that bills have for them."""

    def __init__(self, offers: Collection[str], apis: Collection[str], skus: Mapping[str, str]) -> None:
        self.offers, self.skus = frozenset(offers), skus
        self.apis = {key.lower(): key for key in apis}
        self.instances = {key.partition("@")[0] for key in offers}

    def target(self, row: Row, details: dict[str, Any]) -> Target:
        provider = provider_called(row["ProviderName"])
        instance = instance_of(row, provider, details)
        for name in (row.get("SkuId"), row.get("SkuPriceId"), instance):
            if name and name in self.skus:
                named = self.skus[name]
                return Target("instances" if named in self.offers else "apis", named)
        units = tuple(TOKENS.items())
        if any(unit_size(row.get(unit, ""), units) is not None for unit in ("PricingUnit", "ConsumedUnit")):
            return self._api(row, provider, details)
        if instance:
            return self._instance(provider, instance, row.get("RegionId", ""), details)
        return Target("other services", row.get("ServiceName") or "(no name)")

    def _instance(self, provider: str, instance: str, region: str, details: dict[str, Any]) -> Target:
        named = f"{provider}/{instance}"
        key = f"{named}@{region}"
        if key in self.offers:
            return Target("instances", key) if runs_linux(details) else Target("no offer", key, OTHER_SYSTEM)
        if details.get("GpuCount") or has_gpus(provider, instance):
            why = "the menu has it in other regions" if named in self.instances else NOT_ON_MENU
            return Target("no offer", key, why)
        return Target("other services", f"instances without GPUs ({provider})", NO_GPUS)

    def _api(self, row: Row, provider: str, details: dict[str, Any]) -> Target:
        sellers = [provider, API_PROVIDERS.get(provider, provider), provider_called(row.get("PublisherName", ""))]
        models = list(_models(row, details))
        for model in models:
            for seller in sellers:
                key = self.apis.get(f"{seller}/{model}".lower())
                if key is not None:
                    return Target("apis", key)
        return Target("no offer", f"{provider}/{models[0]}" if models else provider, NO_SUCH_API)


def _models(row: Row, details: dict[str, Any]) -> Iterator[str]:
    """Names that a model may have here, with and without the day of its version."""
    named = [details.get(name) for name in MODEL_NAMES]
    for model in (*named, row.get("ResourceId"), row.get("SkuId")):
        if isinstance(model, str) and model:
            yield model
            if _DAY.search(model):
                yield _DAY.sub("", model)


def bought_as(row: Row) -> BoughtAs:
    if row.get("CommitmentDiscountId") or row.get("PricingCategory") == "Committed":
        return "reserved"
    metered = row.get("SkuMeter") or row.get("x_UsageType") or ""
    if row.get("PricingCategory") == "Dynamic" or "SpotUsage" in metered:
        return "spot"
    return "on-demand"


def token_kind(row: Row, details: dict[str, Any]) -> str:
    """cached, input, output or other."""
    words = details.get("x_TokenType") or row.get("SkuMeter") or row.get("ChargeDescription") or ""
    text = str(words).lower()
    if "cach" in text:
        return "cached"
    if "output" in text or "completion" in text:
        return "output"
    return "input" if "input" in text or "prompt" in text else "other"
