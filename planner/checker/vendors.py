"""Providers, regions and APIs in use: no more of a kind than the policy allows, and what having each costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.case.case import OWNED
from planner.catalog.entries import Offer
from planner.plan.horizon.horizon_plan import SignedCommitment
from planner.plan.view import MONTH_HOURS, REL, PlanView

PLURAL = {"provider": "providers", "region": "regions", "api": "APIs"}


def in_use(facts: PlanView) -> dict[str, set[str]]:
    """By kind, the names of all of whom an instance is bought or a request is answered."""
    used: dict[str, set[str]] = {"provider": set(), "region": set(), "api": set()}
    for line in facts.plan.fleet:
        if any(line.instances_by_slot):
            offer = facts.case.offers[line.offer]
            used["provider"].add(offer.provider)
            used["region"].add(f"{offer.provider} {offer.region}")
    for s in facts.served:
        if s.told.api is not None and any(any(flow.requests_per_s) for flow in s.told.api_flows):
            used["api"].add(facts.case.apis[s.told.api].provider)
    return used


def vendors_usd(facts: PlanView) -> float:
    """Fixed costs of a month: each vendor once, whatever is bought there."""
    listed = facts.case.limits.vendor_usd_per_month or {}
    return sum(listed.get(f"{kind} {name}", 0.0) for kind, names in in_use(facts).items() for name in sorted(names))


def few_vendors_are_used(facts: PlanView) -> Iterator[str]:
    for kind, most in (facts.case.limits.max_vendors or {}).items():
        names = sorted(in_use(facts)[kind])
        if len(names) > most:
            yield f"{len(names)} {PLURAL[kind]} are in use ({', '.join(names)}), {most} allowed"


def vendors_serve_their_share(facts: PlanView) -> Iterator[str]:
    """Of all requests that arrive, those that a cache answers and those that are shed too."""
    least = facts.case.limits.least_vendor_share_frac or {}
    every = sum(facts.requests_per_month(s.w) for s in facts.served)
    served = _requests(facts) if least else {}
    for kind, share in least.items():
        for name in sorted(in_use(facts)[kind]):
            own = served.get((kind, name), 0.0) / every if every else 0.0
            if own < share * (1 - REL):
                yield f"the {kind} {name} serves {own:.4%} of all requests, at least {share:.4%} is asked for"


def _requests(facts: PlanView) -> dict[tuple[str, str], float]:
    """Requests a month that each vendor serves."""
    served: dict[tuple[str, str], float] = {}
    for pool in facts.plan.pools:
        for k, d in enumerate(pool.deployments):
            offer = facts.case.offers[d.deployment.offer]
            carried = 3600 * facts.a_month([sum(rates) for rates in facts.carried(pool, k)])
            for vendor in (("provider", offer.provider), ("region", f"{offer.provider} {offer.region}")):
                served[vendor] = served.get(vendor, 0.0) + carried
    for s in facts.served:
        if s.told.api is not None:
            vendor = ("api", facts.case.apis[s.told.api].provider)
            served[vendor] = served.get(vendor, 0.0) + facts.sent_per_month(s, s.told.api_flows)
    return served


def held_of_vendor_usd(facts: PlanView, kind: str, name: str) -> float:
    """What is held of a vendor, a month, owned boxes aside."""
    held = [(h.offer, h.instances * h.usd_per_h) for h in facts.case.held or () if h.purchase != OWNED]
    return MONTH_HOURS * sum(usd for offer, usd in held if sells(facts, kind, name, offer))


def commitments_leave_caps(facts: PlanView, signed: Sequence[SignedCommitment]) -> Iterator[str]:
    """What is signed in a horizon stays within the caps of a quarter that it stands in as held.

    What was held before is there in any case; where that is more than a cap, nothing is signed besides.
    """
    for key, most in (facts.case.limits.vendor_cap_usd_per_month or {}).items():
        kind, _, name = key.partition(" ")
        new = MONTH_HOURS * sum(c.instances * c.usd_per_h for c in signed if sells(facts, kind, name, c.offer))
        left = max(0.0, most - (held_of_vendor_usd(facts, kind, name) - new))
        if new > left * (1 + REL) + REL:
            yield f"commitments to the {kind} {name} cost ${new:,.2f} a month, ${left:,.2f} allowed"


def _region(offer: Offer) -> str:
    return f"{offer.provider} {offer.region}"


def sells(facts: PlanView, kind: str, name: str, offer: str) -> bool:
    """Whether instances of an offer are bought of a vendor."""
    of = facts.case.offers[offer]
    return (kind == "provider" and of.provider == name) or (kind == "region" and _region(of) == name)
