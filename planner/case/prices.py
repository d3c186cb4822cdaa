"""What an instance costs in each way to buy it."""

from __future__ import annotations

from dataclasses import dataclass

from planner.case.case import Case
from planner.case.menu import held_instances
from planner.catalog.entries import OfferPrices, SpotPrice
from planner.catalog.terms import is_bought

HELD, HELD_SOURCE = "held", "signed before: paid in any case"
"""the way to buy of what is there before anything is bought, and where its price comes from"""


@dataclass(frozen=True)
class InstancePrice:
    """Price of one instance bought in one way."""

    usd_per_h: float
    """all in: spot at its median, a payment up front spread over the term"""
    upfront_usd: float
    """cash at signing, for the whole term, or the price of a server"""
    later_usd_per_h: float
    """what is owed for an hour when it comes"""
    at_p95_usd_per_h: float
    """where spot stays at the 95th percentile of its price"""
    source: str
    date: str | None
    assumption: str | None


def usd_per_h(prices: OfferPrices, purchase: str) -> float | None:
    """What an hour of one instance comes to, as plans count it: spot at its median, payments up front over the term."""
    price = prices.by_way().get(purchase)
    if price is None:
        return None
    return price.p50_usd_per_h if isinstance(price, SpotPrice) else price.usd_per_h


def later_usd_per_h(prices: OfferPrices, purchase: str, usd_per_h: float) -> float:
    """What is still owed for an hour that comes: nothing for a server that was bought, which can be sold."""
    upfront = prices.upfront().get(purchase)
    if upfront is not None:
        return upfront.usd_per_h
    return 0.0 if is_bought(purchase) else usd_per_h


HELD_PRICE = InstancePrice(0.0, 0.0, 0.0, 0.0, HELD_SOURCE, None, None)


def price_of(case: Case, offer: str, purchase: str) -> InstancePrice | None:
    """None where it is not sold in this way; what is held costs nothing besides."""
    if purchase == HELD:
        return HELD_PRICE if held_instances(case, offer) else None
    prices = case.offers[offer].prices
    price, usd = prices.by_way().get(purchase), usd_per_h(prices, purchase)
    if price is None or usd is None:
        return None
    upfront, bought = prices.upfront().get(purchase), prices.bought if is_bought(purchase) else None
    return InstancePrice(
        usd_per_h=usd,
        upfront_usd=upfront.upfront_usd if upfront else bought.price_usd if bought else 0.0,
        later_usd_per_h=later_usd_per_h(prices, purchase, usd),
        at_p95_usd_per_h=price.p95_usd_per_h if isinstance(price, SpotPrice) else usd,
        source=price.source,
        date=price.date,
        assumption=price.assumption,
    )
