"""Savings plans and provisioned units over a horizon: what is signed is sold, lasts its term, and is there in each
quarter as held; no quarter has more of any than that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta

from planner.case.case import Allowance, Case, Future
from planner.case.slots import MONTHS_OF_A_QUARTER
from planner.checker.figures import MONTH_HOURS, REL, differs, is_not
from planner.checker.quarter_cases import month_start, quarter_share, quarter_span
from planner.plan.horizon.horizon_plan import HorizonPlan, SignedAllowance

TERM_MONTHS = {"1y": 12, "3y": 36}
"""terms that last for several quarters; others are each quarter's own"""
A_YEAR = 12


def signed_allowances_are_sold(horizon: HorizonPlan, future: Future) -> Iterator[str]:
    """What is signed of each, when, and what it comes to."""
    known = {a.name: a for a in horizon.case.allowances or ()}
    scenarios = {s.name for s in future.scenarios}
    lines = Counter((a.name, a.quarter, a.scenario) for a in horizon.allowances or ())
    for (name, quarter, _), times in lines.items():
        if times > 1:
            yield f"{name}: signed in {times} lines with quarter {quarter + 1}"
    for signed in horizon.allowances or ():
        a = known.get(signed.name)
        if a is None or signed.term != a.term or a.term not in TERM_MONTHS:
            yield f"{signed.name}: is not sold for several quarters"
        elif signed.quarter >= future.quarters or (signed.scenario is not None and signed.scenario not in scenarios):
            yield f"{signed.name}: signed in a quarter or scenario that does not exist"
        elif (signed.quarter == 0) != (signed.scenario is None):
            yield f"{signed.name}: what is signed now is signed in every scenario, and nothing else is"
        else:
            yield from (f"{signed.name}: {problem}" for problem in _is_true(future, a, signed))


def _is_true(future: Future, a: Allowance, signed: SignedAllowance) -> Iterator[str]:
    first, months = quarter_span(future.starts, signed.quarter)[0], TERM_MONTHS[a.term]
    inside = min(months, MONTHS_OF_A_QUARTER * (future.quarters - signed.quarter))
    a_month = signed.units * a.usd_per_h * MONTH_HOURS
    yield from is_not("its first day", signed.first_day, first)
    yield from is_not("its last day", signed.last_day, month_start(first, months) - timedelta(days=1))
    yield from differs("usd_per_month", signed.usd_per_month, a_month)
    yield from differs("inside_usd", signed.inside_usd, a_month * inside)
    yield from differs("beyond_usd", signed.beyond_usd, a_month * (months - inside))
    lost = 0.0
    if months > A_YEAR and months > inside:
        if future.unused_worth_frac is None and future.max_liability_usd is None:
            yield "a term of more than a year outlasts the horizon, and the file does not allow that"
        lost = 0.0 if future.unused_worth_frac is None else 1 - future.unused_worth_frac
    yield from differs("counted_usd", signed.counted_usd, a_month * (inside + lost * (months - inside)))
    if signed.units < a.fewest * (1 - REL):
        yield f"{signed.units:g} are signed, no fewer than {a.fewest:g} are sold"
    steps = 0.0 if a.step is None else (signed.units - a.fewest) / a.step
    if abs(steps - round(steps)) > REL * (1 + steps):
        yield f"{signed.units:g} are signed; beyond {a.fewest:g} they are sold in steps of {a.step:g}"
    if _held_until_the_end(future, a, signed.quarter):
        yield f"is signed with quarter {signed.quarter + 1}, in which {a.held:g} are held"


def _held_until_the_end(future: Future, a: Allowance, quarter: int) -> bool:
    return a.held > 0 and (a.last_day is None or a.last_day >= quarter_span(future.starts, quarter)[1])


def quarter_holds_what_is_signed(
    case: Case, planned: Case, quarter: int, signed: Sequence[SignedAllowance]
) -> Iterator[str]:
    """Whether a quarter has of each allowance what was held before, or what is signed and in force, and no more."""
    assert case.future is not None
    first, last = quarter_span(case.future.starts, quarter)
    expected = []
    for a in case.allowances or ():
        now = a
        if a.held and not _held_until_the_end(case.future, a, quarter):
            now = a.model_copy(update={"held": 0.0, "last_day": None})
        units = sum(s.units for s in signed if s.name == a.name and s.first_day <= first and s.last_day >= last)
        if not now.held and a.term in TERM_MONTHS:
            if not units:
                continue
            now = now.model_copy(update={"held": units})
        if a.most is not None and units > a.most * (1 + REL):
            yield f"{a.name}: {units:g} are in force, {a.most:g} allowed"
        expected.append(now)
    found = [a for a in planned.allowances or () if a.in_months is None]
    if [a.name for a in found] != [a.name for a in expected]:
        yield "its savings plans and provisioned units are not those of the horizon that are there"
        return
    for claimed, true in zip(found, expected, strict=True):
        yield from differs(f"{true.name}: what is held", claimed.held, true.held)
        if claimed.model_copy(update={"held": true.held}) != true:
            yield f"{true.name}: it differs from that of the horizon"


def allowance_held_usd(future: Future, a: Allowance, quarter: int) -> float:
    """What is paid in a quarter for what was held before: of its 3 x 730 hours, the share of its days."""
    share = quarter_share(future, quarter, None, a.last_day)
    return a.held * a.usd_per_h * MONTH_HOURS * MONTHS_OF_A_QUARTER * share


def allowance_owed_usd(future: Future, signed: SignedAllowance) -> float:
    """After the horizon for a term of more than a year."""
    months = TERM_MONTHS.get(signed.term, 0)
    left = max(0, months - MONTHS_OF_A_QUARTER * (future.quarters - signed.quarter))
    return signed.usd_per_month * left if months > A_YEAR else 0.0
