"""Caches: what is allowed, what they leave to be computed, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator

from planner.case import CacheCosts, Workload


def caching_is_allowed(w: Workload, option: str) -> Iterator[str]:
    if option not in w.caching:
        yield f"its caching is {option}, which is not among {', '.join(w.caching)}"


def cached_at_an_api(w: Workload, input_tokens: float) -> float:
    """Tokens of a prompt that the provider has, on average: prefixes, and nothing behind them."""
    return w.prefix_hit_frac * min(w.shared_prefix_tokens, input_tokens)


def caches_usd_per_month(costs: CacheCosts, option: str) -> float:
    """However much is asked."""
    kinds = option.split("+")
    store = costs.tier_usd_per_month if "prefix" in kinds or "template" in kinds else 0.0
    return store + (costs.vector_store_usd_per_month if "semantic" in kinds else 0.0)


def embedding_usd_per_request(costs: CacheCosts, w: Workload, option: str) -> float:
    """The prompt of every request is looked up in a semantic cache, found or not."""
    prompt = sum(b.share_frac * b.input_tokens for b in w.buckets)
    return prompt * costs.embedding_usd_per_1m_tokens / 1e6 if "semantic" in option.split("+") else 0.0
