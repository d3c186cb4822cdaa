"""What differs between two sets of offers, price by price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.catalog.entries import Offer, SpotPrice

SAME_FRAC = 2e-4
"""prices nearer than this are the same: files round them"""
JUMP_FRAC = 0.5
"""a price that changes by more than this is more often a mistake than news"""


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
