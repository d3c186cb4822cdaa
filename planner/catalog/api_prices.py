"""Prices of API models, from the offline data of the genai-prices package."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any

from planner.catalog.entries import ApiBatch, ApiModel, ApiTier, Sourced, shipped_entries

AS_OF = datetime(2026, 11, 1, tzinfo=UTC)
"""the moment whose prices count, never the day of the run; it goes with the pinned version of the package"""
BATCH = {"processing": "batch"}
"""how genai-prices names what a batch API charges"""


class BatchWindow(Sourced):
    turnaround_h: float


@cache
def api_model(name: str) -> ApiModel | None:
    """An API model by "provider/model"; None where there is no such model or no price per token."""
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
        batch=_batch(provider, model, tiers),
        source=f"genai-prices {version('genai-prices')}",
        date=AS_OF.date().isoformat(),
    )


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


@cache
def known_api_models() -> tuple[str, ...]:
    """Every "provider/model" that has a price."""
    from genai_prices import data_snapshot

    return tuple(
        sorted(
            f"{provider.id}/{model.id}"
            for provider in data_snapshot.get_snapshot().providers
            for model in provider.models
            if _tiers(model.get_prices(AS_OF))
        )
    )


def _tiers(price: Any) -> tuple[ApiTier, ...]:
    """A price per length of the input; fields that the provider does not price stay missing."""
    if price.input_mtok is None or price.output_mtok is None:
        return ()
    fields = {"input": price.input_mtok, "cached": price.cache_read_mtok, "output": price.output_mtok}
    starts = {0}
    for value in fields.values():
        starts |= {tier.start for tier in getattr(value, "tiers", ())}

    def at(value: Any, start: int) -> float | None:
        if value is None or not hasattr(value, "tiers"):
            return None if value is None else float(value)
        reached = [tier for tier in value.tiers if tier.start <= start]
        return float(max(reached, key=lambda tier: tier.start).price if reached else value.base)

    return tuple(
        ApiTier(
            above_input_tokens=start,
            input_usd_per_1m=at(fields["input"], start) or 0.0,
            cached_input_usd_per_1m=at(fields["cached"], start),
            output_usd_per_1m=at(fields["output"], start) or 0.0,
        )
        for start in sorted(starts)
    )
