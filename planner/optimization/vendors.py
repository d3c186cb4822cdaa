"""The policy's rules about vendors, as the optimizer knows them."""

from __future__ import annotations

from planner.case.case import Case
from planner.case.slots import Slot, requests_per_month
from planner.case.vendors import VENDOR_KINDS, Vendor, cap_left_usd, vendor_usd, vendors_of_api, vendors_of_offer
from problems.recipes.vendors import NO_VENDORS, Vendors


def vendor_rules(case: Case, slots: tuple[Slot, ...]) -> Vendors:
    """Only kinds of vendors that something is said of are followed: others need no column."""
    limits = case.limits
    at_most, shares = limits.max_vendors or {}, limits.least_vendor_share_frac or {}
    named = (*(limits.vendor_usd_per_month or {}), *(limits.vendor_cap_usd_per_month or {}))
    kinds = {kind for kind in VENDOR_KINDS if kind in {*at_most, *shares, *(key.partition(" ")[0] for key in named)}}
    if not kinds:
        return NO_VENDORS

    def limited(vendors: tuple[Vendor, ...]) -> tuple[Vendor, ...]:
        return tuple(vendor for vendor in vendors if vendor[0] in kinds)

    of_offer = {key: limited(vendors_of_offer(offer)) for key, offer in case.offers.items()}
    of_api = {key: limited(vendors_of_api(case.apis[key])) for key in case.menu_apis} if "api" in kinds else {}
    every = {vendor for vendors in (*of_offer.values(), *of_api.values()) for vendor in vendors}
    usd = {vendor: vendor_usd(case, vendor) for vendor in sorted(every) if vendor_usd(case, vendor)}
    requests = sum(requests_per_month(w, slots) for w in case.workloads)
    caps = {vendor: most for vendor in sorted(every) if (most := cap_left_usd(case, vendor)) is not None}
    return Vendors(of_offer, of_api, usd, dict(at_most), dict(shares), caps, requests)
