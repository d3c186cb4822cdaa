"""Contracted prices of a bill, as prices of the next plan."""

from __future__ import annotations

from collections import defaultdict

from planner.case.case import Case
from planner.case.prices import usd_per_h
from planner.catalog.importing.changes import PriceChange, same_price
from planner.catalog.importing.offers import Quotes, prices_of
from planner.catalog.importing.quotes import Gathering
from planner.review.bills.bill import Bill
from planner.review.bills.records import BillPrice


def at_prices_of_bill(case: Case, bill: Bill) -> tuple[Case, tuple[BillPrice, ...]]:
    """The case at the prices that the bill gives of instances on its menu, and those of them that are new.

    One that is far from what it was is more often a mistake than news: it is named, and not taken.
    """
    by_offer: dict[str, Quotes] = defaultdict(lambda: defaultdict(list))
    for quote in bill.quotes:
        if quote.key in case.offers and quote.usd_per_h > 0:
            by_offer[quote.key][quote.way].append(quote)
    offers, changed = dict(case.offers), []
    for key in sorted(by_offer):
        offer = offers[key]
        quoted = prices_of(by_offer[key], offer, key, Gathering())
        prices = offer.prices.model_copy(update=quoted)
        new = {}
        for way in quoted:
            purchase = way.replace("_", "-")
            before, after = (usd_per_h(of, purchase) for of in (offer.prices, prices))
            if after is None or purchase not in case.purchase:
                continue
            if before is None or not same_price(before, after):
                taken = not PriceChange(key, way, before, after).is_jump
                if taken:
                    new[way] = quoted[way]
                changed.append(
                    BillPrice(offer=key, purchase=purchase, before_usd_per_h=before, usd_per_h=after,
                              source=quoted[way].source, date=quoted[way].date, taken=taken)
                )  # fmt: skip
        offers[key] = offer.model_copy(update={"prices": offer.prices.model_copy(update=new)})
    return (case.model_copy(update={"offers": offers}) if changed else case), tuple(changed)
