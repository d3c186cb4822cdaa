"""The policy's rules about vendors, as the optimizer knows them."""

from __future__ import annotations

from planner.case.case import Case
from planner.case.vendors import Vendor, vendor_usd, vendors_of_api, vendors_of_offer
from problems.recipes.vendors import NO_VENDORS, Vendors


def vendor_rules(case: Case) -> Vendors:
    """Only kinds of vendors that something is said of are followed: others need no column."""
    at_most, fixed = case.limits.max_vendors or {}, case.limits.vendor_usd_per_month or {}
    kinds = {*at_most, *(key.partition(" ")[0] for key in fixed)}
    if not kinds:
        return NO_VENDORS

    def limited(vendors: tuple[Vendor, ...]) -> tuple[Vendor, ...]:
        return tuple(vendor for vendor in vendors if vendor[0] in kinds)

    of_offer = {key: limited(vendors_of_offer(offer)) for key, offer in case.offers.items()}
    of_api = {key: limited(vendors_of_api(case.apis[key])) for key in case.menu_apis} if "api" in kinds else {}
    every = {vendor for vendors in (*of_offer.values(), *of_api.values()) for vendor in vendors}
    usd = {vendor: vendor_usd(case, vendor) for vendor in sorted(every) if vendor_usd(case, vendor)}
    return Vendors(of_offer, of_api, usd, dict(at_most))
