"""Owned boxes: an offer of their own, which costs what running them costs, in the number that there is."""

from __future__ import annotations

from collections.abc import Iterable

from planner.case.case import OWNED, Case, Holding
from planner.catalog.entries import HourlyPrice, OfferPrices

RUNNING = "the cost of running an owned box, from the file"


def owned_key(offer: str) -> str:
    return f"{offer}+{OWNED}"


def with_owned_offers(case: Case) -> Case:
    """The case with an offer for each kind of box that is owned."""
    offers = dict(case.offers)
    for h in _owned(case.held or ()):
        price = HourlyPrice(usd_per_h=h.usd_per_h, source=RUNNING)
        prices = OfferPrices(on_demand=price)
        offers[owned_key(h.offer)] = case.offers[h.offer].model_copy(update={"prices": prices, "spot_zones": 1})
    return as_many_as_there_are(case.model_copy(update={"offers": offers}), case.held or ())


def as_many_as_there_are(case: Case, held: Iterable[Holding]) -> Case:
    """The case with no more owned boxes than those held; of a kind that is not there yet, or no more, none."""
    most = {owned_key(h.offer): 0 for h in _owned(case.held or ())}
    if not most:
        return case
    for h in _owned(held):
        most[owned_key(h.offer)] += h.instances
    limits = case.limits.model_copy(update={"max_instances": case.limits.max_instances | most})
    return case.model_copy(update={"limits": limits})


def _owned(held: Iterable[Holding]) -> list[Holding]:
    return [h for h in held if h.purchase == OWNED]
