"""Which commitments a case may buy, and for how many months of their price they count.

    counted months = inside + (1 - worth) x beyond

What lies beyond the horizon of a term up to a year is worth its price, and so is what is left of a server that was
bought: it costs its months in the horizon, and is worth its book value after them. A longer term of a provider that
outlasts the horizon is for sale only where the file says what the rest is worth, or how much may be owed.
"""

from __future__ import annotations

from planner.case.case import Case
from planner.case.slots import MONTHS_OF_A_QUARTER
from planner.catalog.entries import BoughtPrice
from planner.catalog.terms import is_bought, term_months
from problems.constants import HOURS_PER_MONTH

LONG_MONTHS = 12
"""terms above this are weighed by what they are worth after the horizon"""


def inside_months(case: Case, term: str, quarter: int = 0) -> int:
    """Months in the horizon of a term that begins with a quarter."""
    quarters = case.future.quarters if case.future else 1
    return min(term_months(term), MONTHS_OF_A_QUARTER * (quarters - quarter))


def beyond_months(case: Case, term: str, quarter: int = 0) -> int:
    return term_months(term) - inside_months(case, term, quarter)


def is_long(term: str) -> bool:
    """Whether it is a commitment of more than a year."""
    return term_months(term) > LONG_MONTHS


def counted_months(case: Case, term: str, quarter: int = 0) -> float | None:
    """Months of its price that a term counts for; None: it is not for sale with this quarter."""
    worth, limit = (case.future.unused_worth_frac, case.future.max_liability_usd) if case.future else (None, None)
    inside, beyond = inside_months(case, term, quarter), beyond_months(case, term, quarter)
    if not is_long(term) or not beyond or is_bought(term):
        return float(inside)
    if worth is None and limit is None:
        return None
    return inside + (1 - (1.0 if worth is None else worth)) * beyond


def bought_terms(case: Case) -> tuple[str, ...]:
    """Ways on the menu to buy servers of one's own."""
    return tuple(term for term in case.purchase if is_bought(term))


def months_to_pay(term: str, usd_per_month: float, replaced_usd_per_month: float) -> float:
    """Months of such demand after which what a term replaces would have cost as much as the whole term does."""
    return term_months(term) * usd_per_month / replaced_usd_per_month


def not_for_sale(case: Case) -> tuple[str, ...]:
    """Terms on the menu that are not bought because they outlast the plan."""
    return tuple(t for t in case.purchase if is_long(t) and counted_months(case, t) is None)


def undepreciated_usd(case: Case, price: BoughtPrice, quarter: int) -> float:
    """What a server that serves from a quarter on is still to lose in value after the horizon; liabilities count it."""
    return price.depreciation_usd_per_month * beyond_months(case, price.term, quarter)


def liability_usd(case: Case, term: str, usd_per_h: float, quarter: int = 0) -> float:
    """Owed after the horizon for one instance, as `policy: max_liability` counts it: terms of more than a year.

    `usd_per_h` is what is paid when the hour comes: what was paid up front is not owed.
    """
    return usd_per_h * HOURS_PER_MONTH * beyond_months(case, term, quarter) if is_long(term) else 0.0
