"""What savings plans on the bill cover, counted as held in the next quarter.

A savings plan commits dollars, not instances. Nobody says here which instances will take it up, so what it covered, at
the rate that the bill shows, counts as so many whole instances that are there already: nothing is reserved on top of
them. Its whole cost, used or not, is paid in any case. Where the demand file of the next quarter says what is held of
savings plans, that counts instead, as dollars.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

from planner.case.case import SAVINGS_PLAN, Case, Holding
from planner.case.demand.future.holdings import beyond_quotas
from planner.catalog.terms import is_term
from planner.review.bills.bill import Bill
from planner.review.bills.cells import ZERO
from planner.review.bills.ledger import Commitment
from planner.review.holdings import HeldNext
from planner.review.records import SavingsPlanCover
from problems.constants import HOURS_PER_MONTH


@dataclass
class _Covered:
    """Instances of an offer that commitments pay for, on average over the bill."""

    instances: float = 0.0
    usd_per_month: float = 0.0
    names: list[str] = field(default_factory=list)


def with_savings_plans(held: HeldNext, bill: Bill | None, case: Case) -> HeldNext:
    """What is held, with what savings plans of the bill cover beyond it; a bill knows better than the last review."""
    if bill is None:
        return held
    if any(a.held and a.rates for a in case.allowances or ()):
        return replace(held, holdings=tuple(h for h in held.holdings if h.purchase != SAVINGS_PLAN))
    others = tuple(h for h in held.holdings if h.purchase != SAVINGS_PLAN)
    held = replace(held, holdings=others)
    by_plans, by_others = _covered(bill, by_spend=True), _covered(bill, by_spend=False)
    listed = Counter[str]()
    for h in others:
        if is_term(h.purchase) and (h.last_day is None or h.last_day >= bill.first.date()):
            listed[h.offer] += h.instances
    covers = []
    for offer in sorted(by_plans.keys() & case.offers.keys()):
        mine = by_plans[offer]
        beyond = max(0.0, min(mine.instances, mine.instances + by_others[offer].instances - listed[offer]))
        usd_per_month = mine.usd_per_month * beyond / mine.instances
        n = round(beyond)
        while n and [*beyond_quotas([*held.there(), _holding(offer, n, usd_per_month)], case.offers, case.limits)]:
            n -= 1
        if n:
            held = replace(held, holdings=(*held.holdings, _holding(offer, n, usd_per_month)))
        covers.append(
            SavingsPlanCover(
                commitments=tuple(mine.names),
                offer=offer,
                covered_instances=mine.instances,
                held_instances=n,
                usd_per_month=mine.usd_per_month,
            )
        )
    return replace(held, covers=tuple(covers))


def _holding(offer: str, instances: int, usd_per_month: float) -> Holding:
    each = usd_per_month / instances / HOURS_PER_MONTH
    return Holding(offer=offer, purchase=SAVINGS_PLAN, instances=instances, usd_per_h=each)


def _covered(bill: Bill, by_spend: bool) -> defaultdict[str, _Covered]:
    """By offer; what a commitment left unused goes where it was used, in proportion to cost."""
    found: defaultdict[str, _Covered] = defaultdict(_Covered)
    for key, c in sorted(bill.ledger.commitments.items()):
        if c.by_spend == by_spend:
            for offer, usd, instances in _uses(c, bill.hours):
                found[offer].instances += instances
                found[offer].usd_per_month += usd * HOURS_PER_MONTH / bill.hours
                found[offer].names.append(c.name or key)
    return found


def _uses(c: Commitment, hours: float) -> list[tuple[str, float, float]]:
    """Offer, dollars over the bill, and instances that these pay for in every hour, at the rate of those used."""
    total = float(sum((used for used in c.used.values() if used > 0), ZERO))
    uses = []
    for target, paid in c.used.items():
        used, used_hours = float(paid), float(c.hours[target])
        if target.kind == "instances" and used > 0 and used_hours > 0:
            usd = used + float(c.unused) * used / total
            uses.append((target.name, usd, usd / (used / used_hours) / hours))
    return uses
