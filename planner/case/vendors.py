"""Vendors: the providers, regions and APIs that a plan may buy of, as a policy counts and charges them."""

from __future__ import annotations

from collections.abc import Iterable

from planner.case.case import Case
from planner.catalog.entries import ApiModel, Offer

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
    if kind == "api" and name not in {api.provider for api in case.apis.values()}:
        return case.limits.new_api_usd_per_month or 0.0
    return (case.limits.vendor_usd_per_month or {}).get(f"{kind} {name}", 0.0)


def apis_usd(case: Case, apis: Iterable[str]) -> float:
    """What it costs a month to have the providers of these API models, each once."""
    return sum(vendor_usd(case, vendor) for vendor in vendors_bought_of(case, (), apis))
