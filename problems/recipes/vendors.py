"""Vendors: who sells the instances and API requests of a recipe, what each costs to have, and how many there may be.

A vendor is a provider of instances, a region of one, or a provider of an API. Only those that something is said of are
listed, so a fleet without such rules has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

Vendor = tuple[str, str]
"""kind and name: (provider, aws), (region, aws us-east-1), (api, openai)"""


@dataclass(frozen=True)
class Vendors:
    """The vendors of offers and APIs, and the rules about having them."""

    of_offer: dict[str, tuple[Vendor, ...]] = field(default_factory=dict)
    of_api: dict[str, tuple[Vendor, ...]] = field(default_factory=dict)
    usd_per_month: dict[Vendor, float] = field(default_factory=dict)
    """fixed cost of a vendor in use, whatever is bought there"""
    at_most: dict[str, int] = field(default_factory=dict)
    """vendors of a kind that may be in use"""

    def of(self, offers: Iterable[str], api: str | None) -> tuple[Vendor, ...]:
        """The vendors of some offers and an API, each once."""
        sold = [vendor for g in offers for vendor in self.of_offer.get(g, ())]
        sold += self.of_api.get(api, ()) if api is not None else ()
        return tuple(dict.fromkeys(sold))

    def usd(self, vendors: Iterable[Vendor]) -> float:
        """What it costs a month to have these vendors."""
        return sum(self.usd_per_month.get(vendor, 0.0) for vendor in sorted(set(vendors)))

    def keeps_counts(self, vendors: Iterable[Vendor]) -> bool:
        """Whether no kind has more vendors than it may."""
        used = set(vendors)
        return all(sum(k == kind for k, _ in used) <= most for kind, most in self.at_most.items())

    def no_more(self, first: str, second: str) -> bool:
        """Whether whatever is bought of the second offer could be bought of the first with no other vendor."""
        return set(self.of_offer.get(first, ())) <= set(self.of_offer.get(second, ()))


NO_VENDORS = Vendors()
