"""How much of what APIs take in a minute a plan asks them for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from planner.case.api_limits import limits_of_apis
from planner.plan.account.account import Account


def shares_of_minutes(account: Account) -> Iterator[tuple[str, float, np.ndarray]]:
    """Each limit by name with what it is, and the share of it that the busiest minute of an hour takes [slot]."""
    most_of = account.case.limits.api_per_minute
    for limit in limits_of_apis(account.case, account.slots, lambda w: [w.name]) if most_of else ():
        share = np.zeros(len(account.slots))
        for s in account.served:
            if s.decided.api == limit.api and s.w.name in limit.per_usd:
                share += account.money.api_bill_usd_per_h(s) * limit.per_usd[s.w.name]
        name = f"{limit.api} {limit.kind}"
        yield name, (most_of or {})[name], share
