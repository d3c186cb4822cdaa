"""Caches: what is allowed, what they leave to be computed, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.case.case import CacheCosts, Case, Workload, kinds_of
from planner.catalog.entries import ApiPrices, HourlyPrice, SpotPrice, UpfrontPrice
from planner.plan.plan import HELD, HELD_SOURCE
from planner.plan.view import MONTH_HOURS


def caching_is_allowed(w: Workload, option: str) -> Iterator[str]:
    if option not in w.caching:
        yield f"its caching is {option}, which is not among {', '.join(w.caching)}"


def cached_at_an_api(w: Workload, input_tokens: float) -> float:
    """Tokens of a prompt that the provider has, on average: prefixes, and nothing behind them."""
    return w.prefix_hit_frac * min(w.shared_prefix_tokens, input_tokens)


def caches_usd_per_month(costs: CacheCosts, option: str) -> float:
    """However much is asked."""
    kinds = kinds_of(option)
    store = costs.tier_usd_per_month if "prefix" in kinds or "template" in kinds else 0.0
    return store + (costs.vector_store_usd_per_month if "semantic" in kinds else 0.0)


def embedding_usd_per_request(costs: CacheCosts, w: Workload, option: str) -> float:
    """The prompt of every request is looked up in a semantic cache, found or not."""
    prompt = sum(b.share_frac * b.input_tokens for b in w.buckets)
    return prompt * costs.embedding_usd_per_1m_tokens / 1e6 if "semantic" in kinds_of(option) else 0.0


TERM_MONTHS = {"reserved-1y": 12, "reserved-3y": 36, "reserved-1y-upfront": 12, "reserved-3y-upfront": 36}
"""ways to buy that hold an instance for a term"""


def held_boxes(case: Case, offer: str) -> int:
    """Instances that are there before anything is bought; owned boxes are bought by the hour."""
    return sum(h.instances for h in case.held or () if h.offer == offer and h.purchase != "owned")


def held_usd(case: Case) -> float:
    """What these cost a month in any case, and others that are there for a part of the quarter only."""
    each = [h.instances * h.usd_per_h for h in case.held or () if h.purchase != "owned"]
    return MONTH_HOURS * sum(each) + (case.held_besides_usd_per_month or 0.0)


@dataclass(frozen=True)
class Price:
    """Price of one instance bought in one way."""

    usd_per_h: float
    """all in: spot at its median, a payment up front spread over the term"""
    upfront_usd: float
    later_usd_per_h: float
    """what is paid for an hour when it comes"""
    at_p95_usd_per_h: float
    """where spot stays at the 95th percentile of its price"""
    source: str
    date: str | None
    assumption: str | None


def price_of(case: Case, offer: str, purchase: str) -> Price | None:
    """None where it is not sold in this way; what is held costs nothing besides."""
    if purchase == HELD:
        return Price(0.0, 0.0, 0.0, 0.0, HELD_SOURCE, None, None) if held_boxes(case, offer) else None
    prices = case.offers[offer].prices
    ways = {
        "on-demand": prices.on_demand,
        "spot": prices.spot,
        "reserved-1y": prices.reserved_1y,
        "reserved-3y": prices.reserved_3y,
        "reserved-1y-upfront": prices.reserved_1y_upfront,
        "reserved-3y-upfront": prices.reserved_3y_upfront,
    }
    price = ways.get(purchase)
    if price is None:
        return None
    all_in, later, upfront, p95 = _figures(price, TERM_MONTHS.get(purchase, 0))
    return Price(all_in, upfront, later, p95, price.source, price.date, price.assumption)


def _figures(price: HourlyPrice | SpotPrice | UpfrontPrice, months: int) -> tuple[float, float, float, float]:
    if isinstance(price, SpotPrice):
        return price.p50_usd_per_h, price.p50_usd_per_h, 0.0, price.p95_usd_per_h
    if isinstance(price, UpfrontPrice):
        all_in = price.usd_per_h + price.upfront_usd / (months * MONTH_HOURS)
        return all_in, price.usd_per_h, price.upfront_usd, all_in
    return price.usd_per_h, price.usd_per_h, 0.0, price.usd_per_h


def request_usd(case: Case, w: Workload, api: str) -> list[float]:
    """What one request of each length costs at an API; at its batch price where it may wait for that and it is less."""
    entry = case.apis[api]
    usual = _by_length(entry, w)
    if entry.batch is None or entry.batch.turnaround_h > w.api_wait_h:
        return usual
    return [min(a, b) for a, b in zip(usual, _by_length(entry.batch, w), strict=True)]


def _by_length(prices: ApiPrices, w: Workload) -> list[float]:
    """The input of a request decides the tier of all its tokens."""
    each = []
    for b in w.buckets:
        tiers = sorted(prices.tiers, key=lambda t: t.above_input_tokens)
        tier = [t for t in tiers if t.above_input_tokens == 0 or t.above_input_tokens < b.input_tokens][-1]
        found = tier.cached_input_usd_per_1m
        cached, usual = cached_at_an_api(w, b.input_tokens), tier.input_usd_per_1m
        usd = (b.input_tokens - cached) * usual + cached * (usual if found is None else found)
        each.append((usd + b.output_tokens * tier.output_usd_per_1m) / 1e6)
    return each
