"""Quotes of many files become offers: one price for each way to buy, each with source and date; and what differs
between two sets of offers, price by price."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from planner.catalog.entries import (
    UNKNOWN_DATE,
    HourlyPrice,
    Offer,
    OfferPrices,
    SpotPrice,
    UpfrontPrice,
    day_of,
)
from planner.catalog.importing.instances import NotKnown, gpus_of
from planner.catalog.importing.quotes import NO_NAME, UNKNOWN_PRICE, Gathering, Quote, Way
from planner.catalog.terms import term_months
from problems.constants import HOURS_PER_MONTH

SAME_FRAC = 2e-4
"""prices nearer than this are the same: files round them"""
JUMP_FRAC = 0.5
"""a price that changes by more than this is more often a mistake than news"""
HISTORY_READINGS = 28
"""so many readings of a spot price are a history, not a reading"""
NO_SPOT = "spot price not below the on-demand price, so it is not a spot price"
NO_DISCOUNT = "commitment not below the on-demand price"
Quotes = dict[Way, list[Quote]]


@dataclass(frozen=True)
class PriceChange:
    """One price of one offer, before and after, in USD per hour of the instance; None: there is none."""

    offer: str
    way: str
    before_usd_per_h: float | None
    after_usd_per_h: float | None

    @property
    def change_frac(self) -> float | None:
        if self.before_usd_per_h is None or self.after_usd_per_h is None:
            return None
        return self.after_usd_per_h / self.before_usd_per_h - 1

    @property
    def is_jump(self) -> bool:
        return self.change_frac is not None and abs(self.change_frac) > JUMP_FRAC


@dataclass(frozen=True)
class Changes:
    """What changed from one set of offers to another."""

    new_offers: tuple[str, ...]
    gone_offers: tuple[str, ...]
    prices: tuple[PriceChange, ...]
    """Of offers in both, the largest relative change first; prices that only one of them has come last."""
    unchanged: int
    """Offers in both with the same prices."""

    @property
    def jumps(self) -> tuple[PriceChange, ...]:
        return tuple(change for change in self.prices if change.is_jump)


def changes_between(before: Mapping[str, Offer], after: Mapping[str, Offer]) -> Changes:
    """Compare two sets of offers; a payment up front counts as spread over its term."""
    prices: list[PriceChange] = []
    unchanged = 0
    for key in sorted(before.keys() & after.keys()):
        old, new = _prices(before[key]), _prices(after[key])
        changed = [
            PriceChange(key, way, old.get(way), new.get(way))
            for way in dict.fromkeys((*old, *new))
            if way not in old or way not in new or not same_price(old[way], new[way])
        ]
        unchanged += not changed
        prices += changed
    prices.sort(key=lambda c: (c.change_frac is None, -abs(c.change_frac or 0.0), c.offer, c.way))
    new_offers, gone = sorted(after.keys() - before.keys()), sorted(before.keys() - after.keys())
    return Changes(tuple(new_offers), tuple(gone), tuple(prices), unchanged)


def same_price(one: float, other: float) -> bool:
    return abs(one - other) <= SAME_FRAC * max(one, other)


def _prices(offer: Offer) -> dict[str, float]:
    """USD per hour by way to buy."""
    prices = offer.prices.by_way().items()
    return {way: p.p50_usd_per_h if isinstance(p, SpotPrice) else p.usd_per_h for way, p in prices}


def offers_of(
    quotes: Iterable[Quote], gathering: Gathering, gpus: Collection[str] | None, shipped: Mapping[str, Offer]
) -> dict[str, Offer]:
    """Offers by key. What the shipped catalog derived from an on-demand price follows that price."""
    sizes: dict[str, tuple[str, int]] = {}
    by_offer: dict[str, Quotes] = defaultdict(lambda: defaultdict(list))
    for quote in quotes:
        size = gpus_of(quote)
        if not quote.instance or not quote.region:
            gathering.leave_out(NO_NAME, quote.key)
        elif isinstance(size, NotKnown):
            gathering.leave_out(size.why, size.name)
        elif gpus is None or size[0] in gpus:
            if quote.usd_per_h or quote.upfront_usd:
                sizes[quote.key] = size
                by_offer[quote.key][quote.way].append(quote)
            else:
                gathering.leave_out(UNKNOWN_PRICE, f"{quote.key} {quote.way}")
    offers = {}
    for key in sorted(by_offer):
        prices = prices_of(by_offer[key], shipped.get(key), key, gathering)
        if not prices:
            continue
        first = next(iter(by_offer[key].values()))[0]
        gpu, number = sizes[key]
        offers[key] = Offer(
            provider=first.provider,
            instance=first.instance,
            region=first.region,
            gpu=gpu,
            gpus=number,
            source=next(iter(prices.values())).source,
            date=max((p.date for p in prices.values() if day_of(p.date)), default=UNKNOWN_DATE),
            prices=OfferPrices(**prices),
        )
    return offers


def prices_of(quotes: Quotes, shipped: Offer | None, key: str, gathering: Gathering) -> dict[str, Any]:
    """A price for each way to buy an offer; one that the catalog derived from an on-demand price follows that."""
    chosen: dict[str, Any] = {}
    on_demand = _hourly(quotes["on_demand"]) if "on_demand" in quotes else None
    usual = on_demand or (shipped.prices.on_demand if shipped else None)
    if on_demand is not None:
        chosen["on_demand"] = on_demand
    if "spot" in quotes:
        spot = _spot(quotes["spot"], usual, shipped)
        if spot is None:
            gathering.leave_out(NO_SPOT, key)
        else:
            chosen["spot"] = spot
    for way in ("reserved_1y", "reserved_3y", "reserved_1y_upfront", "reserved_3y_upfront"):
        if way in quotes:
            price = _upfront(quotes[way]) if way.endswith("_upfront") else _hourly(quotes[way])
            if usual is not None and _spread(price, way) >= usual.usd_per_h:
                gathering.leave_out(NO_DISCOUNT, f"{key} {way}")
            else:
                chosen[way] = price
        elif on_demand is not None and shipped is not None and not way.endswith("_upfront"):
            chosen |= _moved(way, on_demand, shipped)
    return chosen


def _spread(price: HourlyPrice | UpfrontPrice, way: str) -> float:
    if isinstance(price, HourlyPrice):
        return price.usd_per_h
    return price.spread_over(term_months(way.replace("_", "-"))).usd_per_h


def _hourly(quotes: list[Quote]) -> HourlyPrice:
    """The latest price; where zones differ, the highest of them."""
    best = _best(quotes)
    chosen = max(best, key=lambda q: q.usd_per_h)
    low = min(q.usd_per_h for q in best)
    notes = f"the highest of a region's prices; the lowest is {low:g}" if low < chosen.usd_per_h else None
    return HourlyPrice(usd_per_h=chosen.usd_per_h, source=chosen.source, date=chosen.date, notes=notes)


def _upfront(quotes: list[Quote]) -> UpfrontPrice:
    chosen = max(_best(quotes), key=lambda q: q.upfront_usd + q.usd_per_h * 12 * HOURS_PER_MONTH)
    return UpfrontPrice(
        upfront_usd=chosen.upfront_usd, usd_per_h=chosen.usd_per_h, source=chosen.source, date=chosen.date
    )


def _best(quotes: list[Quote]) -> list[Quote]:
    """Those of the lowest rank, and of them the latest."""
    rank = min(q.rank for q in quotes)
    latest = max(q.known_date for q in quotes if q.rank == rank)
    return [q for q in quotes if (q.rank, q.known_date) == (rank, latest)]


def _spot(quotes: list[Quote], usual: HourlyPrice | None, shipped: Offer | None) -> SpotPrice | None:
    """Median and 95th percentile of the readings; None where spot is no cheaper than on demand.

    A few readings say little of bad days, so the percentile lies no nearer to the median than in the history that the
    shipped catalog has.
    """
    readings = sorted(q.usd_per_h for q in quotes)
    p50, p95 = median(readings), readings[math.ceil(0.95 * len(readings)) - 1]
    if usual is not None and p50 >= usual.usd_per_h:
        return None
    history = shipped.prices.spot if shipped else None
    is_history = len(quotes) >= HISTORY_READINGS and len({q.date for q in quotes}) >= HISTORY_READINGS
    if history is not None and not is_history:
        p95 = max(p95, p50 * history.p95_usd_per_h / history.p50_usd_per_h)
    if usual is not None:
        p95 = min(p95, usual.usd_per_h)
    number = "1 reading" if len(quotes) == 1 else f"{len(quotes)} readings"
    few = None if is_history else f"{number}, not a history: the median, and a high price taken from them"
    if few and history is not None:
        few = f"{number}, not a history: the median, and a high price at the catalog's ratio or above"
    latest = max(quotes, key=lambda q: q.known_date)
    return SpotPrice(
        p50_usd_per_h=round(p50, 6),
        p95_usd_per_h=round(max(p95, p50), 6),
        source=latest.source,
        date=latest.date,
        assumption=few,
    )


def _moved(way: str, on_demand: HourlyPrice, shipped: Offer) -> dict[str, HourlyPrice]:
    """An assumed discount of the shipped catalog, taken from the new on-demand price."""
    assumed, listed = getattr(shipped.prices, way), shipped.prices.on_demand
    if assumed is None or not assumed.assumption or listed is None:
        return {}
    if same_price(listed.usd_per_h, on_demand.usd_per_h):
        return {}
    usd_per_h = round(assumed.usd_per_h * on_demand.usd_per_h / listed.usd_per_h, 6)
    return {way: assumed.model_copy(update={"usd_per_h": usd_per_h, "date": on_demand.date})}
