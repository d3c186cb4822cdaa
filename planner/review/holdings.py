"""What is held when the next quarter begins, and the case of that quarter planned around it.

Held is what `committed` of the review file lists, and `have` of the next demand file; where neither says anything, what
the last plan reserved and what it held itself. A holding serves whole quarters: one that begins or ends within the next
quarter is of no use in it, and is paid for its days.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from pydantic import Field, model_validator

from planner.case.allowances import share_of_months
from planner.case.case import OWNED, SAVINGS_PLAN, Assumption, Case, Holding
from planner.case.dates import add_months, last_day_of_term, quarter_days
from planner.case.demand.future.holdings import beyond_quotas
from planner.case.demand.schema import PurchaseName
from planner.case.owned import as_many_as_there_are, with_owned_offers
from planner.case.prices import usd_per_h
from planner.case.quarters import covers, is_held_instances, usd_in_quarter
from planner.case.slots import MONTHS_OF_A_QUARTER
from planner.catalog.terms import TERM_MONTHS, is_term
from planner.io.errors import Diagnostic, InputError, did_you_mean
from planner.io.strict_yaml import Document
from planner.io.units import PositiveWhole, UsdPerHour
from planner.io.validation import FieldProblem, Strict
from planner.plan.plan import Plan
from planner.review.records import SavingsPlanCover
from problems.constants import HOURS_PER_MONTH

HAVE = "have."
"""begins the keys of assumptions about what is held"""


class CommittedSpec(Strict):
    """Instances that are paid for whether they are used or not."""

    offer: str
    """An instance, as the last plan's fleet names it: provider/instance@region."""
    purchase: PurchaseName
    instances: PositiveWhole
    lapses: date
    """The last day of the term."""
    price: UsdPerHour | None = Field(default=None, examples=["$1.17/h"])
    """For one instance, as signed; by default that of the last plan."""

    @model_validator(mode="after")
    def _is_a_commitment(self) -> CommittedSpec:
        if not is_term(self.purchase):
            raise FieldProblem(("purchase",), "is not a commitment", f"Write one of {', '.join(TERM_MONTHS)}")
        return self


@dataclass(frozen=True)
class HeldNext:
    """What is held around the next quarter."""

    holdings: tuple[Holding, ...]
    """those that lapsed before it too"""
    first: date
    last: date
    """days of the quarter"""
    assumed: bool = False
    """whether it is the last plan's, which nobody confirmed"""
    covers: tuple[SavingsPlanCover, ...] = ()
    """what savings plans on the bill cover, of which some is held here too"""

    def there(self) -> tuple[Holding, ...]:
        """Holdings that are there on some day of the quarter."""
        return tuple(
            h
            for h in self.holdings
            if (h.last_day is None or h.last_day >= self.first) and (h.first_day is None or h.first_day <= self.last)
        )

    def usable(self, case: Case) -> tuple[Holding, ...]:
        """Holdings that can serve: there for the whole quarter, on instances of the menu."""
        return tuple(h for h in self.there() if h.offer in case.offers and covers(h, self.first, self.last))

    def usd_per_month(self, holding: Holding) -> float:
        """What is paid for a holding in a month of the quarter, on average."""
        return usd_in_quarter(holding, self.first, self.last) / MONTHS_OF_A_QUARTER


def held_next(
    document: Document,
    committed: tuple[CommittedSpec, ...] | None,
    have: tuple[Holding, ...],
    last: Plan,
    case: Case,
    starts: date,
) -> HeldNext:
    """What is held around the quarter that begins on a day; raises InputError where that cannot be."""
    first, end = quarter_days(starts, 0)
    if committed is None and not have:
        held = HeldNext(_of_last_plan(last, starts), first, end, assumed=any(is_term(f.purchase) for f in last.fleet))
    else:
        given = committed or ()
        diagnostics = [*_mistakes(document, given, have, last.case, case)]
        if diagnostics:
            raise InputError(diagnostics)
        signed = (
            Holding(
                offer=c.offer,
                purchase=c.purchase,
                instances=c.instances,
                usd_per_h=_signed_usd_per_h(c, last.case, case) or 0.0,
                last_day=c.lapses,
            )
            for c in given
        )
        held = HeldNext((*signed, *have), first, end)
    on_menu = (h for h in held.there() if h.offer in case.offers)
    key = ("committed",) if committed else ("next", "demand") if have else ("last_plan",)
    over = [
        document.diagnostic(key, message, "Raise it, or correct what is held")
        for _, message in beyond_quotas(on_menu, case.offers, case.limits)
    ]
    if over:
        raise InputError(over)
    return held


def _of_last_plan(last: Plan, starts: date) -> tuple[Holding, ...]:
    """What the last plan held, and what it reserved, taken as signed on the first day of its quarter."""
    began = last.case.starts or add_months(starts, -MONTHS_OF_A_QUARTER)
    reserved = (
        Holding(
            offer=f.offer,
            purchase=f.purchase,
            instances=max(f.instances_by_slot),
            usd_per_h=f.usd_per_h,
            last_day=last_day_of_term(began, f.purchase),
        )
        for f in last.fleet
        if is_term(f.purchase)
    )
    return (*(last.case.held or ()), *reserved)


def _mistakes(
    document: Document, committed: tuple[CommittedSpec, ...], have: tuple[Holding, ...], last: Case, case: Case
) -> Iterator[Diagnostic]:
    known = {**last.offers, **case.offers}
    twice = {(h.offer, h.purchase) for h in have}
    for k, c in enumerate(committed):
        path = ("committed", k, "offer")
        if c.offer not in known:
            message = f"no instance on the menu is called '{c.offer}'"
            yield document.diagnostic(path, message, did_you_mean(c.offer, known))
        elif (c.offer, c.purchase) in twice:
            message = f"its {c.purchase} is also listed under 'have' in the demand file"
            yield document.diagnostic(path, message, "Keep one of the two")
        elif _signed_usd_per_h(c, last, case) is None:
            yield document.diagnostic(path, f"has no price for {c.purchase}", "Give the one signed: price: $1.17/h")


def _signed_usd_per_h(c: CommittedSpec, last: Case, case: Case) -> float | None:
    """Price as signed: as given, as the last plan held it, or at the prices of then."""
    if c.price is not None:
        return c.price
    before = [h for h in last.held or () if (h.offer, h.purchase) == (c.offer, c.purchase)]
    for h in sorted(before, key=lambda h: h.last_day != c.lapses):
        return h.usd_per_h
    for menu in (last, case):
        if c.offer in menu.offers and (price := usd_per_h(menu.offers[c.offer].prices, c.purchase)) is not None:
            return price
    return None


def planned_around(case: Case, held: HeldNext, said: bool) -> Case:
    """The case of the next quarter with what is held; unchanged where that is nothing and no first day is given."""
    usable = held.usable(case)
    besides = sum(held.usd_per_month(h) for h in held.there() if h not in usable)
    if not (said or held.there() or case.held or case.starts or case.held_besides_usd_per_month):
        return case
    assumptions = [_dated(a, held) for a in case.assumptions if not a.key.startswith(HAVE)]
    assumptions += [_not_used(h, case, held) for h in held.there() if h not in usable]
    assumptions += [_by_savings_plan(h) for h in usable if h.purchase == SAVINGS_PLAN]
    parts = [a for a in case.allowances or () if a.in_months is not None]
    lapsing = (a for a in parts if not is_held_instances(a))
    besides += HOURS_PER_MONTH * sum(a.held * a.usd_per_h * share_of_months(case, a) for a in lapsing)
    dated = any(w.month_factors is not None for w in case.workloads)
    around = as_many_as_there_are(case, ()).model_copy(
        update={
            "months": case.months if dated else None,
            "allowances": tuple(a for a in case.allowances or () if a.in_months is None) or None,
            "starts": held.first,
            "held": usable or None,
            "held_besides_usd_per_month": besides or None,
            "assumptions": tuple(assumptions),
        }
    )
    return with_owned_offers(around)


def _dated(assumption: Assumption, held: HeldNext) -> Assumption:
    if assumption.key != "horizon":
        return assumption
    return assumption.model_copy(update={"value": f"one quarter, {held.first} to {held.last}"})


def _not_used(h: Holding, case: Case, held: HeldNext) -> Assumption:
    day = f"last day {h.last_day}" if h.last_day and h.last_day < held.last else f"first day {h.first_day}"
    why = f"its {day} lies within the quarter, but instances serve only whole quarters"
    if h.offer not in case.offers:
        why = "its instance is not on the menu"
    paid = "it costs nothing while it is not used" if h.purchase == OWNED else "it is paid for its days"
    return Assumption(key=f"{HAVE}{h.offer}", value=f"not used from {held.first} to {held.last}", why=f"{why}; {paid}")


def _by_savings_plan(h: Holding) -> Assumption:
    why = "as on the bill: its payments are assumed to continue through the quarter, for the same instances"
    return Assumption(key=f"{HAVE}{h.offer}", value=f"{h.instances} paid for by a savings plan", why=why)
