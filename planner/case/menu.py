"""The menu of instances: what is for sale, what is held already, and where the data of a workload may go."""

from __future__ import annotations

from collections.abc import Iterable

from planner.case.case import OWNED, Case, Holding, Workload
from planner.catalog.entries import Offer


def sellable(case: Case, offer: Offer) -> bool:
    """Whether the menu's purchase options can rent this instance firmly or as spot."""
    prices = offer.prices
    return (
        ("on-demand" in case.purchase and prices.on_demand is not None)
        or ("spot" in case.purchase and prices.spot is not None)
        or any(term in case.purchase for term in prices.reserved())
    )


def held_instances(case: Case, key: str) -> int:
    """Instances of an offer that are there anyway; owned boxes are an offer of their own."""
    return sum(h.instances for h in held_by_term(case) if h.offer == key)


def held_by_term(case: Case) -> list[Holding]:
    """What was signed for before and is paid in any case, used or not."""
    return [h for h in case.held or () if h.purchase != OWNED]


def allowed_offers(case: Case, workloads: Iterable[Workload]) -> dict[str, Offer]:
    """What is for sale in a place where the data of all these workloads may go."""
    together = tuple(workloads)
    return {
        key: offer
        for key, offer in case.offers.items()
        if (sellable(case, offer) or held_instances(case, key)) and all(_may_go_there(w, offer) for w in together)
    }


def _may_go_there(workload: Workload, offer: Offer) -> bool:
    to_provider = workload.providers is None or offer.provider in workload.providers
    return to_provider and (workload.regions is None or offer.region in workload.regions)
