"""APIs are asked for no more than they take in the busiest minute of an hour."""

from __future__ import annotations

import math
from collections.abc import Iterator

from planner.case.apis import request_usd
from planner.case.case import Workload
from planner.checker.checked import Checked
from planner.checker.figures import REL

MINUTE_IN_60 = 2.1280452341849846
"""standard deviations of a normal distribution that one value of 60 exceeds"""


def apis_take_it(checked: Checked) -> Iterator[str]:
    limits = checked.case.limits
    for key, most in (limits.api_per_minute or {}).items():
        api, kind = key.rsplit(" ", 1)
        taken = dict.fromkeys(checked.slots, 0.0)
        for planned, w in zip(checked.plan.workloads, checked.case.workloads, strict=True):
            if planned.api != api or w.deadline_h is not None or w.api_wait_h > 0:
                continue
            usd_of = request_usd(checked.case, w, api)
            counts_as = [_counts_as(kind, w, b.input_tokens, b.output_tokens, _weight(checked, api)) for b in w.buckets]
            shares = [b.share_frac for b in w.buckets]
            mean_usd = sum(p * usd for p, usd in zip(shares, usd_of, strict=True))
            mean = sum(p * n for p, n in zip(shares, counts_as, strict=True))
            square = sum(p * n * n for p, n in zip(shares, counts_as, strict=True))
            arriving = checked.account.rates_rps(w)
            for flow in planned.api_flows:
                usd_a_minute = 60 * sum(rate * usd for rate, usd in zip(flow.requests_per_s, usd_of, strict=True))
                peak = (limits.api_minute_peak or {}).get(api)
                if peak is None:
                    peak = _busiest(w, 60 * float(arriving[flow.slot]), square / mean**2 - 1)
                taken[flow.slot] += usd_a_minute / mean_usd * mean * peak
        worst = max(taken, key=lambda t: taken[t])
        if taken[worst] > most * (1 + REL):
            asked = f"{taken[worst]:,.0f} {kind.replace('_', ' ')} go to {api} in the busiest minute"
            yield f"slot {worst}: {asked}, {most:,.0f} allowed"


def _weight(checked: Checked, api: str) -> float:
    return (checked.case.limits.api_cached_weight or {}).get(api, 1.0)


def _counts_as(kind: str, w: Workload, prompt: float, answer: float, cached_weight: float) -> float:
    cached = w.api_cached_tokens(prompt)
    prompt_counts = (prompt - cached) + cached_weight * cached
    if kind == "requests":
        return 1.0
    return {"input_tokens": prompt_counts, "output_tokens": answer, "tokens": prompt_counts + answer}[kind]


def _busiest(w: Workload, a_minute: float, size_scv: float) -> float:
    """The minute that one of 60 exceeds, over their mean: swings of the rate, and chance beside them."""
    sigma = math.sqrt(math.log(1 + w.rate_cv * w.rate_cv))
    swing = math.exp(MINUTE_IN_60 * sigma - sigma * sigma / 2) - 1
    by_chance = MINUTE_IN_60 * math.sqrt((w.arrival_scv + max(size_scv, 0.0)) / a_minute)
    return 1 + math.hypot(by_chance, swing)
