"""Reserved instances that are held against those that the next plan wants: what to buy, renew or let lapse.

The next plan is made as if nothing were held. What is held when the next quarter begins serves it first; a term that
ends before the quarter does has to be renewed where the plan still wants it. What is held and not wanted is
paid for all the same, and takes the place of instances that the plan would rent by the hour. What is held was signed at
the last plan's prices, and costs that until it lapses. So the quarter costs the next plan and `besides`: exact, for a
fleet that works; one planned around what is held might cost less.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from planner.case.case import Case
from planner.case.horizon import DAYS_PER_MONTH
from planner.catalog.entries import TERM_MONTHS
from planner.plan.plan import Plan
from planner.plan.price_changes import usd_per_h
from planner.review.records import CommitmentAdvice
from planner.review.review_file import CommittedSpec
from problems.constants import HOURS_PER_MONTH

QUARTER_DAYS = 91


@dataclass
class HeldCommitment:
    offer: str
    purchase: str
    left: int
    lapses: date
    usd_per_h: float


@dataclass(frozen=True)
class Advice:
    lines: tuple[CommitmentAdvice, ...]
    besides_usd_per_month: float
    """paid on top of the next plan for what is held, over the quarter; below zero where what is held is cheaper"""


def bought_last(last: Plan, starts: date) -> tuple[CommittedSpec, ...]:
    """What the last plan reserved, taken as bought a quarter before this day."""
    return tuple(
        CommittedSpec(
            offer=f.offer,
            purchase=f.purchase,  # type: ignore[arg-type]
            instances=max(f.instances_by_slot),
            lapses=starts + timedelta(days=round(TERM_MONTHS[f.purchase] * DAYS_PER_MONTH) - QUARTER_DAYS - 1),
        )
        for f in last.fleet
        if f.purchase in TERM_MONTHS
    )


def advise(plan: Plan, last: Case, committed: tuple[CommittedSpec, ...], starts: date) -> Advice:
    """For the quarter that begins on this day."""
    ends = starts + timedelta(days=QUARTER_DAYS - 1)
    held = [
        HeldCommitment(c.offer, c.purchase, c.instances, c.lapses, _usd_per_h(plan.case, last, c.offer, c.purchase))
        for c in sorted(committed, key=lambda c: (c.offer, c.purchase, c.lapses))
        if c.lapses >= starts
    ]
    gone = [c for c in committed if c.lapses < starts]
    wanted = {(f.offer, f.purchase): max(f.instances_by_slot) for f in plan.fleet if f.purchase in TERM_MONTHS}
    lines: list[CommitmentAdvice] = []
    besides = 0.0
    # The same term first, then any term of the same instance; what lasts longest first.
    for same_term in (True, False):
        for offer, purchase in wanted:
            for h in sorted(held, key=lambda h: h.lapses, reverse=True):
                fits = h.offer == offer and (h.purchase == purchase or not same_term)
                used = min(h.left, wanted[offer, purchase]) if fits else 0
                if used:
                    h.left -= used
                    wanted[offer, purchase] -= used
                    lines.append(_served(h, used, purchase, ends))
                    dearer = h.usd_per_h - _planned_usd_per_h(plan, offer, purchase)
                    besides += used * dearer * HOURS_PER_MONTH * _share(h, starts)
    lines += [line for key, n in wanted.items() if n for line in _bought(plan, key, n, gone)]
    for h in held:
        if h.left:
            line, usd = _not_wanted(plan, h, ends)
            lines.append(line)
            besides += usd * _share(h, starts)
    order = ("buy", "renew", "let lapse", "more than needed", "keep")
    lines.sort(key=lambda line: (order.index(line.act), line.offer, line.purchase, line.lapses or ""))
    return Advice(tuple(lines), besides)


def _share(h: HeldCommitment, starts: date) -> float:
    """Share of the quarter in which it is still held."""
    return min(1.0, ((h.lapses - starts).days + 1) / QUARTER_DAYS)


def _planned_usd_per_h(plan: Plan, offer: str, purchase: str) -> float:
    return next(f.usd_per_h for f in plan.fleet if (f.offer, f.purchase) == (offer, purchase))


def _usd_per_h(case: Case, last: Case, offer: str, purchase: str) -> float:
    """What is held was signed at the prices of then."""
    for prices in (last, case):
        if offer in prices.offers and (price := usd_per_h(prices.offers[offer].prices, purchase)) is not None:
            return price
    return 0.0


def _served(h: HeldCommitment, n: int, purchase: str, ends: date) -> CommitmentAdvice:
    lasts = h.lapses >= ends
    said = "held, and needed for the whole quarter"
    if not lasts:
        said = f"lapses on {h.lapses} in the quarter and is still needed: renew it as {purchase}"
    usd = n * h.usd_per_h * HOURS_PER_MONTH
    return CommitmentAdvice(act="keep" if lasts else "renew", offer=h.offer, purchase=h.purchase, instances=n,
                            lapses=str(h.lapses), usd_per_month=usd, said=said)  # fmt: skip


def _bought(plan: Plan, key: tuple[str, str], n: int, gone: list[CommittedSpec]) -> Iterator[CommitmentAdvice]:
    offer, purchase = key
    each = _planned_usd_per_h(plan, offer, purchase) * HOURS_PER_MONTH
    renewed = min(n, sum(c.instances for c in gone if (c.offer, c.purchase) == key))
    owed = TERM_MONTHS[purchase] * each
    if renewed:
        lapsed = str(max(c.lapses for c in gone if (c.offer, c.purchase) == key))
        said = f"lapsed before the quarter; needed again: ${owed:,.0f} each over the term"
        yield CommitmentAdvice(act="renew", offer=offer, purchase=purchase, instances=renewed, lapses=lapsed,
                               usd_per_month=renewed * each, said=said)  # fmt: skip
    if n > renewed:
        said = f"the next plan needs it, and no commitment covers it: ${owed:,.0f} each over the term"
        yield CommitmentAdvice(act="buy", offer=offer, purchase=purchase, instances=n - renewed, lapses=None,
                               usd_per_month=(n - renewed) * each, said=said)  # fmt: skip


def _not_wanted(plan: Plan, h: HeldCommitment, ends: date) -> tuple[CommitmentAdvice, float]:
    """What is paid for it besides the plan, less what it takes the place of."""
    paid = h.left * h.usd_per_h * HOURS_PER_MONTH
    months = plan.slots[-1].month + 1
    replaced = 0.0
    free = [h.left] * len(plan.slots)
    hourly = [f for f in plan.fleet if f.offer == h.offer and f.purchase not in TERM_MONTHS]
    for line in sorted(hourly, key=lambda f: -f.usd_per_h):
        for t, slot in enumerate(plan.slots):
            n = min(free[t], line.instances_by_slot[t])
            free[t] -= n
            replaced += n * slot.hours_per_month * line.usd_per_h / months
    lasts = h.lapses >= ends
    instead = f", and replaces ${replaced:,.0f} a month rented by the hour" if replaced else ""
    said = f"held until {h.lapses} but not needed by the next plan: still paid{instead}"
    if not lasts:
        said = f"lapses on {h.lapses} in the quarter and is not needed: do not renew; paid until then{instead}"
    told = CommitmentAdvice(act="more than needed" if lasts else "let lapse", offer=h.offer, purchase=h.purchase,
                            instances=h.left, lapses=str(h.lapses), usd_per_month=paid, said=said)  # fmt: skip
    return told, paid - replaced
