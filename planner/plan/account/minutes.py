"""How much of what APIs take in a minute a plan asks them for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from planner.case.api_limits import limits_of_apis
from planner.plan.account.account import Account
from problems.api_limits import ApiLimit


def shares_of_minutes(account: Account) -> Iterator[tuple[ApiLimit, np.ndarray]]:
    """Each limit, and the share of it that the busiest minute of an hour takes [slot]."""
    for limit in limits_of_apis(account.case, account.slots, lambda w: [w.name]):
        share = np.zeros(len(account.slots))
        for s in account.served:
            if s.decided.api == limit.api and s.w.name in limit.per_usd:
                share += account.money.api_bill_usd_per_h(s) * limit.per_usd[s.w.name]
        yield limit, share
