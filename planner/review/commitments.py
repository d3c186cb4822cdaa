"""What to do about commitments, by the next plan, which is made around them: keep, sell, renew, let lapse, or buy.

A holding that is there for the whole quarter serves it before anything is bought. One that lapses within the quarter is
paid until its last day, and the plan buys or rents what it still needs in its place for the whole quarter: it pays both
until then, which nobody has to who lets the old one serve and renews when it lapses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from planner.case.case import OWNED, SAVINGS_PLAN, Holding
from planner.case.terms import counted_months
from planner.catalog.terms import is_term, term_months
from planner.plan.account.account import account_of
from planner.plan.horizon.horizon_view import running_by_slot
from planner.plan.plan import Plan
from planner.review.holdings import HeldNext
from planner.review.records import Act, CommitmentAdvice
from problems.constants import HOURS_PER_MONTH

COVERED = "a savings plan on the bill covers it: nothing more is reserved"
ORDER: tuple[Act, ...] = ("buy", "renew", "let lapse", "more than needed", "keep")


@dataclass(frozen=True)
class Advice:
    lines: tuple[CommitmentAdvice, ...]
    besides_usd_per_month: float
    """paid for what is held and not used: idle in every hour, or there for a part of the quarter"""
    overlap_usd_per_month: float
    """paid less where what lapses within the quarter serves until then, and what takes its place begins then"""
    serving_until_lapse_usd_per_month: float
    """of what is paid besides, the part for what serves until it lapses"""


def advise(plan: Plan, held: HeldNext) -> Advice:
    """Advice on what is held around the quarter of a plan, which was made around it."""
    there = [h for h in held.there() if h.purchase != OWNED]
    usable = [h for h in held.usable(plan.case) if h.purchase != OWNED]
    others = [h for h in there if h not in usable]
    idle, lines = _usable(plan, usable)
    book = _Book(plan, held)
    for h in sorted(others, key=lambda h: (h.offer, str(h.last_day))):
        lines += book.not_usable(h)
    gone = [h for h in held.holdings if h.purchase != OWNED and h not in there]
    lines += book.bought(gone)
    lines.sort(key=lambda line: (ORDER.index(line.act), line.offer, line.purchase, line.lapses or ""))
    besides = idle + sum(held.usd_per_month(h) for h in others)
    return Advice(tuple(lines), besides, book.overlap_usd_per_month, book.serving_usd_per_month)


def _usable(plan: Plan, usable: list[Holding]) -> tuple[float, list[CommitmentAdvice]]:
    """What idle holdings cost a month, and a line for each holding; those that last longest are used first."""
    left = {h.offer: most_used(plan, h.offer) for h in usable}
    idle_usd, lines = 0.0, []
    for h in sorted(usable, key=_as_used):
        used = min(h.instances, left[h.offer])
        left[h.offer] -= used
        if used:
            why = "held for the whole quarter, and used by the next plan"
            lines.append(_line("keep", h, used, COVERED if h.purchase == SAVINGS_PLAN else why))
        if h.instances > used:
            why = f"held until {h.last_day} but never used by the next plan: still paid"
            if h.purchase == SAVINGS_PLAN:
                why = "a savings plan pays for more than the next plan uses: it is paid in any case"
            spare = _line("more than needed", h, h.instances - used, why)
            idle_usd += spare.usd_per_month
            lines.append(spare)
    return idle_usd, lines


def _as_used(h: Holding) -> tuple[str, bool, int, str]:
    """Reservations before savings plans, as providers apply them; of them, those that last longest first."""
    return h.offer, h.purchase == SAVINGS_PLAN, -h.last_day.toordinal() if h.last_day else -(10**7), h.purchase


def most_used(plan: Plan, offer: str) -> int:
    """Instances of an offer that run in the busiest hour, spot aside."""
    spot = [f.instances_by_slot for f in plan.fleet if (f.offer, f.purchase) == (offer, "spot")]
    running = running_by_slot(plan, offer)
    return max(n - sum(line[t] for line in spot) for t, n in enumerate(running))


def _line(act: Act, h: Holding, n: int, why: str, usd_each: float | None = None) -> CommitmentAdvice:
    usd = n * (h.usd_per_h if usd_each is None else usd_each) * HOURS_PER_MONTH
    return CommitmentAdvice(act=act, offer=h.offer, purchase=h.purchase, instances=n,
                            lapses=str(h.last_day) if h.last_day else None, usd_per_month=usd, said=why)  # fmt: skip


@dataclass
class _Book:
    """What the plan buys and rents, less what takes the place of a holding."""

    plan: Plan
    held: HeldNext
    new: dict[tuple[str, str], int] = field(default_factory=dict)
    """reserved by the plan: offer and term -> instances"""
    rented: dict[str, list[tuple[float, list[int]]]] = field(default_factory=dict)
    """by the hour: offer -> prices, the highest first, with the instances of each slot"""
    overlap_usd_per_month: float = 0.0
    serving_usd_per_month: float = 0.0
    """paid for holdings that serve until they lapse"""

    def __post_init__(self) -> None:
        for f in sorted(self.plan.fleet, key=lambda f: -f.usd_per_h):
            if is_term(f.purchase):
                self.new[f.offer, f.purchase] = max(f.instances_by_slot)
            elif f.purchase in ("on-demand", "spot"):
                self.rented.setdefault(f.offer, []).append((f.usd_per_h, list(f.instances_by_slot)))

    def not_usable(self, h: Holding) -> Iterator[CommitmentAdvice]:
        """Lines for a holding that is paid for in the quarter, and of no use in it."""
        held = self.held
        if h.last_day is None or h.last_day >= held.last:
            if h.offer not in self.plan.case.offers:
                why = f"held until {h.last_day}, and its instance is not on the next plan's menu: still paid"
                yield _line("more than needed", h, h.instances, why)
            else:
                why = f"begins on {h.first_day}, within the quarter: serves from the next quarter on"
                yield _line("keep", h, h.instances, why)
            return
        left, paid = h.instances, held.usd_per_month(h) / h.instances
        lapses = f"lapses on {h.last_day} (within the quarter)"
        for term in sorted((t for o, t in self.new if o == h.offer), key=lambda t: (t != h.purchase, t)):
            n = min(left, self.new[h.offer, term])
            if n:
                self.new[h.offer, term] -= n
                left -= n
                each = _new_usd_per_h(self.plan, h.offer, term)
                owed = term_months(term) * each * HOURS_PER_MONTH
                renewed = h.model_copy(update={"instances": n, "usd_per_h": each})
                overlap = held.usd_per_month(renewed)
                self.overlap_usd_per_month += overlap
                self.serving_usd_per_month += n * paid
                why = (f"{lapses} and is still needed: renew it then as {term}, ${owed:,.0f} each over the term; "
                       f"from the first day on it would cost ${overlap:,.0f} a month more")  # fmt: skip
                yield _line("renew", h, n, why, each)
        n, replaced_usd = self._replaces_rented(h.offer, left)
        if n:
            left -= n
            overlap = held.usd_per_month(
                h.model_copy(update={"instances": 1, "usd_per_h": replaced_usd / HOURS_PER_MONTH})
            )
            self.overlap_usd_per_month += overlap
            self.serving_usd_per_month += n * paid
            until = f"${n * paid:,.0f} a month is paid until then, when it can replace ${overlap:,.0f} of them"
            rents = f"{lapses}; the plan rents up to {n} by the hour in its place"
            if self._for_sale(h):
                yield _line("let lapse", h, n, f"{rents}, which costs less than a new term; {until}")
            else:
                yield _line("renew", h, n, f"{rents}, since {h.purchase} is not for sale; {until}")
        if left:
            why = f"{lapses} and is not needed: do not renew; ${left * paid:,.0f} a month is paid until then"
            yield _line("let lapse", h, left, why)

    def _replaces_rented(self, offer: str, most: int) -> tuple[int, float]:
        """Instances of an offer that can replace rented ones in some hour, and what these cost a month."""
        used, usd = 0, 0.0
        for t, hours in enumerate(account_of(self.plan).hours.tolist()):
            free = most
            for price, counts in self.rented.get(offer, []):
                n = min(free, counts[t])
                counts[t] -= n
                free -= n
                usd += n * price * hours
            used = max(used, most - free)
        return used, usd

    def _for_sale(self, h: Holding) -> bool:
        case = self.plan.case
        offer = case.offers.get(h.offer)
        priced = offer is not None and h.purchase in offer.prices.reserved()
        return priced and h.purchase in case.purchase and counted_months(case, h.purchase) is not None

    def bought(self, gone: list[Holding]) -> Iterator[CommitmentAdvice]:
        """Lines for what is reserved anew, as far as it takes the place of no holding that lapses."""
        for (offer, term), n in self.new.items():
            if not n:
                continue
            each = _new_usd_per_h(self.plan, offer, term)
            owed = f"${term_months(term) * each * HOURS_PER_MONTH:,.0f} each over the term"
            before = [h for h in gone if (h.offer, h.purchase) == (offer, term)]
            renewed = min(n, sum(h.instances for h in before))
            if renewed:
                latest = max(before, key=lambda h: str(h.last_day))
                yield _line("renew", latest, renewed, f"lapsed before the quarter; needed again: {owed}", each)
            if n > renewed:
                why = f"the next plan needs it, and no commitment covers it: {owed}"
                yield CommitmentAdvice(act="buy", offer=offer, purchase=term, instances=n - renewed, lapses=None,
                                       usd_per_month=(n - renewed) * each * HOURS_PER_MONTH, said=why)  # fmt: skip


def _new_usd_per_h(plan: Plan, offer: str, purchase: str) -> float:
    return next(f.usd_per_h for f in plan.fleet if (f.offer, f.purchase) == (offer, purchase))
