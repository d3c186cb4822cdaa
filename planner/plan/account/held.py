"""Whose what is held is: it is shared by what uses it, and what nobody uses is nobody's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from planner.case.allowances import allowance_of
from planner.case.case import OWNED
from planner.plan.account.account import Account
from problems.constants import HOURS_PER_MONTH


def held_usd_by_workload(account: Account) -> dict[str, float]:
    """USD a month of what is paid in any case, for each workload; what they lack of the whole is not used.

    Instances go to deployments on their offer by GPU-hours, as what is bought does; allowances to what they cover.
    """
    of_offer: defaultdict[str, float] = defaultdict(float)
    of_workload = {s.w.name: 0.0 for s in account.served}
    for h in account.case.held or ():
        if h.purchase != OWNED:
            of_offer[h.offer] += h.instances * h.usd_per_h * HOURS_PER_MONTH
    for item, usd in _allowances(account):
        if item in account.case.offers:
            of_offer[item] += usd
        else:
            of_workload[item] += usd
    for s in account.served:
        of_workload[s.w.name] += account.money.share_of_offers(s, of_offer.__getitem__)
    return of_workload


def _allowances(account: Account) -> Iterator[tuple[str, float]]:
    """What held ones cost, by what they cover."""
    cover = account.money.cover
    for name, item in cover.parts:
        if allowance_of(account.case, name).held:
            yield item, cover.paid_usd_per_month(name, item)
