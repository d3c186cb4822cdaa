"""Savings plans and provisioned units of a case: what they cover, and what that takes of them.

A savings plan is a commitment in dollars an hour that instances on demand take up at the plan's rates. Provisioned
units of an API hold so many tokens a minute; what exceeds them is paid by the token. Work that may wait goes at batch
prices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from planner.case.apis import allowed_apis, request_usd
from planner.case.case import Allowance, Case, Workload
from planner.case.slots import slots_of
from problems.allowance import Allowance as Cover
from problems.allowance import Item, units_of
from problems.constants import HOURS_PER_MONTH

MINUTES = 60.0
SAME = 1e-9
MONTHS = {"hourly": 0.0, "1mo": 1.0, "1y": 12.0, "3y": 36.0}
"""for which an allowance is signed"""
LIKE = {"1y": "reserved-1y", "3y": "reserved-3y"}
"""term of an allowance that lasts for several quarters -> the commitment to instances that runs as long"""
A_PART = 4
"""lots of a savings plan of several rates are at most one part of so many of the lowest"""


def allowance_of(case: Case, name: str) -> Allowance:
    """What is known of an allowance."""
    return next(a for a in case.allowances or () if a.name == name)


def covers_of(case: Case, items_of: Callable[[str, Workload], list[Item]]) -> tuple[Cover, ...]:
    """The allowances of a case in the order in which they cover; `items_of` names the bills of a workload at an API."""
    return tuple(_cover(case, a, items_of) for a in case.allowances or ())


def share_of_months(case: Case, a: Allowance) -> float:
    """Of the months of a case, those in which an allowance is there."""
    if a.in_months is None or case.months is None:
        return 1.0
    return sum(case.months[m].weight for m in a.in_months) / sum(m.weight for m in case.months)


def _cover(case: Case, a: Allowance, items_of: Callable[[str, Workload], list[Item]]) -> Cover:
    takes: dict[Item, float] = {}
    takes.update(a.rates or {})
    if a.api is not None:
        for w in case.workloads:
            if may_be_covered(case, w, a.api):
                takes |= dict.fromkeys(items_of(a.api, w), tokens_per_usd(case, w, a))
    cover = Cover(
        key=a.name,
        usd_per_h=a.usd_per_h,
        takes=takes,
        covers=1.0 if a.tokens_per_minute is None else MINUTES * a.tokens_per_minute,
        fewest=a.fewest,
        step=a.step,
        held=a.held,
    )
    if a.in_months is not None:
        cover = replace(cover, there=np.array([slot.month in a.in_months for slot in slots_of(case)]))
    return cover if a.most is None else replace(cover, most=a.most)


def may_be_covered(case: Case, w: Workload, api: str) -> bool:
    """Whether provisioned units take requests of a workload: at the API, and not at its batch price."""
    return w.deadline_h is None and w.api_wait_h == 0 and api in allowed_apis(case, w)


def tokens_per_usd(case: Case, w: Workload, a: Allowance) -> float:
    """Tokens of provisioned units that a dollar of a workload's bill stands for, at the mean of its lengths."""
    assert a.api is not None
    usd = sum(b.share_frac * float(price) for b, price in zip(w.buckets, request_usd(case, w, a.api), strict=True))
    tokens = 0.0
    for b in w.buckets:
        cached = w.api_cached_tokens(b.input_tokens)
        plain = b.input_tokens - cached
        tokens += b.share_frac * (plain + a.cached_weight * cached + a.output_weight * b.output_tokens)
    return tokens / usd


def lasts_for_quarters(a: Allowance) -> bool:
    """Whether it is signed for several quarters of a horizon, not by each of them for itself."""
    return a.term in LIKE


def not_signed_anew(a: Allowance) -> Allowance:
    """What is held of an allowance until it lapses, and no more of it then."""
    return a if a.last_day is None else a.model_copy(update={"most": 0.0})


def units_of_a_lot(a: Allowance) -> float:
    """In which an allowance is signed over a horizon: its steps, and of dollars round parts of the lowest rate.

    Where it has one rate, that is best: each lot pays for an instance.
    """
    if a.step is not None:
        return a.step if not a.fewest else float(math.gcd(round(a.fewest), round(a.step)))
    rates = sorted(set((a.rates or {}).values()))
    if len(rates) == 1:
        return rates[0]
    most = rates[0] / A_PART
    power = 10.0 ** math.floor(math.log10(most))
    return max(n * power for n in (1, 2, 5) if n * power <= most * (1 + SAME))


def units_in(a: Allowance, lots: int) -> float:
    return units_of(lots, units_of_a_lot(a))


def with_held(case: Case, units: Mapping[str, float]) -> Case:
    """A quarter's case in which so many units are held of the allowances that last for quarters, and no others."""
    left = []
    for a in case.allowances or ():
        if a.held or not lasts_for_quarters(a):
            left.append(a)
        elif units.get(a.name):
            left.append(a.model_copy(update={"held": units[a.name]}))
    return case if case.allowances is None else case.model_copy(update={"allowances": tuple(left) or None})


def allowances_held_usd_per_month(case: Case) -> float:
    """What allowances cost that are held in any case."""
    return HOURS_PER_MONTH * sum(a.held * a.usd_per_h * share_of_months(case, a) for a in case.allowances or ())


def beyond_usd(a: Allowance, units: float, months_planned: float) -> float:
    """Still owed after the months that are planned."""
    return units * a.usd_per_h * HOURS_PER_MONTH * max(0.0, MONTHS[a.term] - months_planned)
