"""Prices that changed between the menus of two plans: of instances, and of APIs by the token."""

from __future__ import annotations

from collections.abc import Iterator

from planner.case.case import Case
from planner.catalog.entries import ApiModel, OfferPrices
from planner.plan.diff_records import PriceChange
from planner.plan.plan import Plan

Priced = dict[str, tuple[float, str | None]]
"""what is priced, with its unit: the price and its date"""


def price_changes(before: Plan, after: Plan) -> Iterator[PriceChange]:
    """Price changes of what both menus have and either may buy; what one of them lacks is a change of the menu."""
    a, b = before.case, after.case
    used = {(f.offer, f.purchase) for plan in (before, after) for f in plan.fleet}
    for offer in (key for key in a.offers if key in b.offers):
        for way in dict.fromkeys([*a.purchase, *b.purchase]):
            then, now = (_of_offer(case.offers[offer].prices, way) for case in (a, b))
            yield from _changed(offer, then, now, used=(offer, way) in used)
    apis = {w.api for plan in (before, after) for w in plan.workloads if w.api}
    baselines = {before.case.baseline, after.case.baseline}
    for api in (key for key in a.apis if key in b.apis):
        for change in _changed(api, _of_api(a.apis[api]), _of_api(b.apis[api])):
            yield change.model_copy(update={"used": api in apis | baselines})
    yield from _changed("policy", _of_the_rest(a), _of_the_rest(b), used=True)


def _changed(of: str, then: Priced, now: Priced, used: bool = False) -> Iterator[PriceChange]:
    for key in dict.fromkeys([*then, *now]):
        (was, of_day), (is_now, today) = then.get(key, (None, None)), now.get(key, (None, None))
        if was != is_now:
            yield PriceChange(of=of, key=key, before=was, after=is_now, date_before=of_day, date_after=today, used=used)


def _of_offer(prices: OfferPrices, way: str) -> Priced:
    """Prices of one way to buy it."""
    if way == "spot":
        spot = prices.spot
        return {} if spot is None else {
            "spot, $/h": (spot.p50_usd_per_h, spot.date), "spot, p95 $/h": (spot.p95_usd_per_h, spot.date),
        }  # fmt: skip
    price = prices.on_demand if way == "on-demand" else prices.reserved().get(way)
    return {} if price is None else {f"{way}, $/h": (price.usd_per_h, price.date)}


def _of_api(api: ApiModel) -> Priced:
    found: Priced = {}
    for way, prices in (("", api), ("batch ", api.batch)):
        for tier in prices.tiers if prices is not None else ():
            assert prices is not None
            above = f" above {tier.above_input_tokens} tokens" if tier.above_input_tokens else ""
            cached = tier.cached_input_usd_per_1m
            found[f"{way}input{above}, $/1M"] = (tier.input_usd_per_1m, prices.date)
            found[f"{way}output{above}, $/1M"] = (tier.output_usd_per_1m, prices.date)
            if cached is not None:
                found[f"{way}cached input{above}, $/1M"] = (cached, prices.date)
    return found


def _of_the_rest(case: Case) -> Priced:
    costs = case.cache_costs
    return {
        "engineers, $/month": (case.engineers_usd_per_month, None),
        "cache tier, $/month": (costs.tier_usd_per_month, None),
        "vector store, $/month": (costs.vector_store_usd_per_month, None),
        "embeddings, $/1M": (costs.embedding_usd_per_1m_tokens, None),
    }
