"""Tokens that go to an API in a minute, where the lengths that go there differ from those of the whole workload."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from planner.case.api_limits import amounts, busiest_minute, counts, limits_by_api
from planner.judgement.concern import Concern
from planner.plan.account.account import account_of
from planner.plan.plan import Plan

MORE_THAN_ROUNDING = 1e-3


def more_than_an_api_takes(plan: Plan) -> Iterator[Concern]:
    """Limits count what a dollar of the bill stands for on average; here each request counts by its own length."""
    case, account = plan.case, account_of(plan)
    for api, kind, most in limits_by_api(case):
        asked, usd = np.zeros(len(account.slots)), 0.0
        for s in account.served:
            if s.decided.api == api and counts(case, s.w, api):
                sent = 60 * account.flow(s.w, s.decided.api_flows) @ np.array(amounts(case, s.w, api, kind))
                asked += sent * busiest_minute(case, s.w, api, kind, account.slots)
                usd += account.a_month(account.money.api_bill_usd_per_h(s))
        if asked.max() > most * (1 + MORE_THAN_ROUNDING):
            name = kind.replace("_", " ")
            yield Concern(
                key="api-minute",
                usd_per_month=usd,
                sentence=f"up to {asked.max():,.0f} {name} a minute go to {api}, which takes {most:,.0f}: the lengths "
                "that overflow differ from the mean, by which the plan counts",
                remedy=f"lower api_limits.{api}.{kind}_per_minute by as much as that is too much",
            )
