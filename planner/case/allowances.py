"""Savings plans and provisioned units of a case: what they cover, and what that takes of them.

A savings plan is a commitment in dollars an hour that instances on demand take up at the plan's rates. Provisioned
units of an API hold so many tokens a minute; what exceeds them is paid by the token. Work that may wait goes at batch
prices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planner.case.apis import allowed_apis, request_usd
from planner.case.case import Allowance, Case, Workload
from problems.allowance import Allowance as Cover
from problems.allowance import Item
from problems.constants import HOURS_PER_MONTH

MINUTES = 60.0
MONTHS = {"hourly": 0.0, "1mo": 1.0, "1y": 12.0, "3y": 36.0}
"""for which an allowance is signed"""


def allowance_of(case: Case, name: str) -> Allowance:
    """What is known of an allowance."""
    return next(a for a in case.allowances or () if a.name == name)


def covers_of(case: Case, items_of: Callable[[str, Workload], list[Item]]) -> tuple[Cover, ...]:
    """The allowances of a case in the order in which they cover; `items_of` names the bills of a workload at an API."""
    return tuple(_cover(case, a, items_of) for a in case.allowances or ())


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


def allowances_held_usd_per_month(case: Case) -> float:
    """What allowances cost that are held in any case."""
    return HOURS_PER_MONTH * sum(a.held * a.usd_per_h for a in case.allowances or ())


def beyond_usd(a: Allowance, units: float, months_planned: float) -> float:
    """Still owed after the months that are planned."""
    return units * a.usd_per_h * HOURS_PER_MONTH * max(0.0, MONTHS[a.term] - months_planned)
