"""What a plan asks to be signed, over whole terms, and what of that rests on a price that nobody has quoted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.case.allowances import MONTHS, allowance_of
from planner.case.case import Case
from planner.catalog.entries import is_of_unknown_day
from planner.catalog.terms import is_bought, term_months
from planner.plan.plan import AllowancePlan, Commitment, FleetLine, Plan
from problems.constants import HOURS_PER_MONTH


@dataclass(frozen=True)
class Signature:
    """Instances of an offer that are to be signed for."""

    commitment: Commitment
    line: FleetLine
    whole_term_usd: float
    doubt: str
    """why its price is no quote: assumed, stale or of unknown date; nothing where it is as good as one"""


def to_be_signed(plan: Plan) -> Iterator[Signature]:
    """Every commitment of a plan."""
    lines = {(line.offer, line.purchase): line for line in plan.fleet}
    for c in plan.commitments:
        line = lines[c.offer, c.term]
        spread = c.instances * line.usd_per_h * HOURS_PER_MONTH * term_months(c.term)
        whole = c.upfront_usd if is_bought(c.term) else spread
        yield Signature(c, line, whole, price_doubt(plan.case, c.offer, c.term))


def allowances_to_be_signed(plan: Plan) -> tuple[AllowancePlan, ...]:
    """Savings plans and provisioned units, besides those that are held."""
    return tuple(a for a in plan.allowances or () if not a.held)


def whole_term_usd(plan: Plan, a: AllowancePlan) -> float | None:
    """Of an allowance; None where it is signed for no term."""
    months = MONTHS[allowance_of(plan.case, a.name).term]
    return months * a.usd_per_month if months else None


def signed_on_no_quote(plan: Plan) -> tuple[Signature, ...]:
    """What would be signed at prices that are assumed (among them those borrowed from another vendor), stale, or of
    unknown date."""
    return tuple(s for s in to_be_signed(plan) if s.doubt)


def price_doubt(case: Case, offer: str, purchase: str) -> str:
    """Why a price is no quote: assumed, stale or of unknown date; nothing where it is as good as one."""
    price = case.offers[offer].prices.by_way().get(purchase)
    if price is None:
        return ""
    if price.assumption:
        return "assumed"
    if is_of_unknown_day(price.date):
        return "of unknown date"
    return "stale" if price.is_stale else ""
