"""What APIs sell: their prices, from the offline data of the genai-prices package, and how large their models are."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any, Literal

from planner.catalog.entries import ApiBatch, ApiModel, ApiTier, Model, Sourced, shipped_catalog, shipped_entries

AS_OF = datetime(2026, 11, 1, tzinfo=UTC)
"""the moment whose prices count, never the day of the run; it goes with the pinned version of the package"""
BATCH = {"processing": "batch"}
"""how genai-prices names what a batch API charges"""
Tier = Literal["small", "medium", "large"]
TIERS: tuple[Tier, ...] = ("small", "medium", "large")
"""by rising quality"""
BELOW_B: tuple[tuple[Tier, float], ...] = (("small", 15.0), ("medium", 60.0))
"""billions of parameters"""
_SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)b(?![a-z0-9])")


class BatchWindow(Sourced):
    turnaround_h: float


class ServiceTierPrices(Sourced):
    """A model of planner/data/service_tiers.yaml."""

    input_usd_per_1m: float
    cached_input_usd_per_1m: float | None = None
    output_usd_per_1m: float
    max_input_tokens: int | None = None


class BatchPrices(Sourced):
    """A model of planner/data/batch_prices.yaml."""

    input_usd_per_1m: float
    output_usd_per_1m: float


@cache
def batch_prices() -> dict[str, BatchPrices]:
    """By "provider/model"."""
    return {name: BatchPrices(**entry) for name, entry in shipped_entries("batch_prices").items()}


@cache
def service_tiers() -> dict[str, ServiceTierPrices]:
    """By "provider/model:tier"."""
    return {name: ServiceTierPrices(**entry) for name, entry in shipped_entries("service_tiers").items()}


@cache
def api_model(name: str) -> ApiModel | None:
    """An API model by "provider/model" or "provider/model:tier"; None where there is none or no price per token."""
    if name in service_tiers():
        return _at_tier(name, service_tiers()[name])
    provider_id, _, model_id = name.partition("/")
    if not model_id:
        return None
    from genai_prices import data_snapshot

    snapshot = data_snapshot.get_snapshot()
    listed = ((p, m) for p in snapshot.providers if p.id == provider_id for m in p.models if m.id == model_id)
    try:
        # Some models answer to longer names than the one that they are listed by.
        provider, model = next(listed, None) or snapshot.find_provider_model(model_id, None, provider_id, None)
    except LookupError:
        return None
    tiers = _tiers(model.get_prices(AS_OF))
    if not tiers:
        return None
    return ApiModel(
        name=model.name or model.id,
        provider=provider.id,
        model=model_id,
        tiers=tiers,
        max_context_tokens=model.context_window or None,
        batch=_batch(provider, model, tiers) or _batch_of_our_own(f"{provider.id}/{model_id}"),
        source=f"genai-prices {version('genai-prices')}",
        date=AS_OF.date().isoformat(),
    )


def _at_tier(name: str, prices: ServiceTierPrices) -> ApiModel | None:
    standard, _, tier = name.rpartition(":")
    model = api_model(standard)
    if model is None:
        return None
    longest = [n for n in (model.max_context_tokens, prices.max_input_tokens) if n is not None]
    only = ApiTier(
        input_usd_per_1m=prices.input_usd_per_1m,
        cached_input_usd_per_1m=prices.cached_input_usd_per_1m,
        output_usd_per_1m=prices.output_usd_per_1m,
    )
    changes = {"name": f"{model.name} ({tier})", "tiers": (only,), "batch": None, "service_tier": tier}
    sourced = {"source": prices.source, "date": prices.date, "max_context_tokens": min(longest, default=None)}
    return model.model_copy(update=changes | sourced)


def with_cache_writes(apis: dict[str, ApiModel]) -> dict[str, ApiModel]:
    """APIs with what they ask for input that they are to cache, where the listed prices are theirs."""
    return {name: _with_writes(name, api) for name, api in apis.items()}


def _with_writes(name: str, api: ApiModel) -> ApiModel:
    if api.service_tier is not None or api_model(name) is None or api.tiers != api_model(name).tiers:  # type: ignore[union-attr]
        return api  # the user's own prices
    from genai_prices import data_snapshot

    _, model = data_snapshot.get_snapshot().find_provider_model(api.model, None, api.provider, None)
    price = model.get_prices(AS_OF).cache_write_mtok
    tiers = tuple(
        tier.model_copy(update={"cache_write_usd_per_1m": _at(price, tier.above_input_tokens)}) for tier in api.tiers
    )
    return api.model_copy(update={"tiers": tiers})


@cache
def api_named(model: str) -> str | None:
    """The "provider/model" that a log means by a name, by whoever made the model; None where nobody sells it so."""
    if api_model(model) is not None:
        return model
    from genai_prices import data_snapshot

    try:
        provider, found = data_snapshot.get_snapshot().find_provider_model(model, None, None, None)
    except LookupError:
        return None
    name = f"{provider.id}/{found.id}"
    return name if api_model(name) is not None else None


@cache
def batch_windows() -> dict[str, BatchWindow]:
    """How long the batch API of each provider takes at most."""
    return {name: BatchWindow(**entry) for name, entry in shipped_entries("batch_windows").items()}


def _batch(provider: Any, model: Any, listed: tuple[ApiTier, ...]) -> ApiBatch | None:
    """Prices of work that waits, where the provider itself publishes them for prompts of every length."""
    window = batch_windows().get(provider.id)
    if window is None or not any(model is own for own in provider.models):
        return None
    tiers = _tiers(model.get_prices(AS_OF, BATCH))
    lengths = [[tier.above_input_tokens for tier in prices] for prices in (listed, tiers)]
    if tiers == listed or lengths[0] != lengths[1]:
        return None
    source = f"genai-prices {version('genai-prices')}; within {window.turnaround_h:g} h: {window.source}"
    return ApiBatch(tiers=tiers, turnaround_h=window.turnaround_h, source=source, date=AS_OF.date().isoformat())


def _batch_of_our_own(name: str) -> ApiBatch | None:
    """Prices of work that waits, from our own file."""
    prices = batch_prices().get(name)
    if prices is None:
        return None
    window = batch_windows()[name.partition("/")[0]]
    tier = ApiTier(input_usd_per_1m=prices.input_usd_per_1m, output_usd_per_1m=prices.output_usd_per_1m)
    source = f"{prices.source}; within {window.turnaround_h:g} h: {window.source}"
    return ApiBatch(tiers=(tier,), turnaround_h=window.turnaround_h, source=source, date=prices.date)


@cache
def known_api_models() -> tuple[str, ...]:
    """Every "provider/model" that has a price."""
    from genai_prices import data_snapshot

    listed = (
        f"{provider.id}/{model.id}"
        for provider in data_snapshot.get_snapshot().providers
        for model in provider.models
        if _tiers(model.get_prices(AS_OF))
    )
    return tuple(sorted([*listed, *service_tiers()]))


def _tiers(price: Any) -> tuple[ApiTier, ...]:
    """A price per length of the input; fields that the provider does not price stay missing."""
    if price.input_mtok is None or price.output_mtok is None:
        return ()
    fields = {"input": price.input_mtok, "cached": price.cache_read_mtok, "output": price.output_mtok}
    starts = {0}
    for value in fields.values():
        starts |= {tier.start for tier in getattr(value, "tiers", ())}

    return tuple(
        ApiTier(
            above_input_tokens=start,
            input_usd_per_1m=_at(fields["input"], start) or 0.0,
            cached_input_usd_per_1m=_at(fields["cached"], start),
            output_usd_per_1m=_at(fields["output"], start) or 0.0,
        )
        for start in sorted(starts)
    )


def _at(value: Any, start: int) -> float | None:
    """A price for prompts above some length."""
    if value is None or not hasattr(value, "tiers"):
        return None if value is None else float(value)
    reached = [tier for tier in value.tiers if tier.start <= start]
    return float(max(reached, key=lambda tier: tier.start).price if reached else value.base)


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
