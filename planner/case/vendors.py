"""Vendors: the providers, regions and APIs that a plan may buy of, as a policy counts and charges them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from planner.case.case import OWNED, Case
from planner.catalog.entries import ApiModel, Offer
from problems.constants import HOURS_PER_MONTH

VendorKind = Literal["provider", "region", "api"]
VENDOR_KINDS: tuple[VendorKind, ...] = get_args(VendorKind)
VENDOR_NAMES = {"provider": "provider", "region": "region", "api": "API"}
"""as people say it"""
Vendor = tuple[str, str]
"""kind and name; a region is one of its provider's"""


def vendors_of_offer(offer: Offer) -> tuple[Vendor, ...]:
    return ("provider", offer.provider), ("region", f"{offer.provider} {offer.region}")


def vendors_of_api(api: ApiModel) -> tuple[Vendor, ...]:
    return (("api", api.provider),)


def vendors_bought_of(case: Case, offers: Iterable[str], apis: Iterable[str]) -> list[Vendor]:
    """Everybody who sells these instances and API models, each once."""
    found = {vendor for key in offers for vendor in vendors_of_offer(case.offers[key])}
    return sorted(found | {vendor for key in apis for vendor in vendors_of_api(case.apis[key])})


def vendor_usd(case: Case, vendor: Vendor) -> float:
    """What it costs a month to have a vendor, whatever is bought there."""
    kind, name = vendor
    if _is_new_api(case, vendor):
        return case.limits.new_api_usd_per_month or 0.0
    return (case.limits.vendor_usd_per_month or {}).get(f"{kind} {name}", 0.0)


def _is_new_api(case: Case, vendor: Vendor) -> bool:
    """Whether a vendor is a provider of APIs that the case does not name."""
    return vendor[0] == "api" and vendor[1] not in {api.provider for api in case.apis.values()}


def is_shut_out(case: Case, vendor: Vendor) -> bool:
    """Whether a cap does not allow anything to be bought of a vendor."""
    left = cap_left_usd(case, vendor)
    return left is not None and (left <= 0 or left < vendor_usd(case, vendor))


def cap_left_usd(case: Case, vendor: Vendor) -> float | None:
    """What a vendor may be paid in a month besides what is held of it; None: any amount."""
    kind, name = vendor
    most = (case.limits.vendor_cap_usd_per_month or {}).get(f"{kind} {name}")
    most = case.limits.new_api_cap_usd_per_month if _is_new_api(case, vendor) else most
    return None if most is None else max(0.0, most - vendor_held_usd(case, vendor))


def vendor_held_usd(case: Case, vendor: Vendor) -> float:
    """What holdings of a vendor cost in a month; owned boxes are paid while they run."""
    mine = (h for h in case.held or () if h.purchase != OWNED and vendor in vendors_of_offer(case.offers[h.offer]))
    return HOURS_PER_MONTH * sum(h.instances * h.usd_per_h for h in mine)


def apis_usd(case: Case, apis: Iterable[str]) -> float:
    """What it costs a month to have the providers of these API models, each once."""
    return sum(vendor_usd(case, vendor) for vendor in vendors_bought_of(case, (), apis))
