"""What APIs take in a minute: requests and tokens, against the busiest minute of an hour.

A slot is an hour, and limits hold by the minute. Minutes of an hour differ by swings of the rate and by chance: of 60
of them the busiest is taken to be the one at z standard deviations, z = 2.13, which one of 60 exceeds. Swings are
log-normal with the workload's variation v; in a minute with N requests on average chance has the variance
N (c2 + l2), in mean sizes squared, where c2 is burstiness and l2 the squared coefficient of variation of what a request
counts as:

    busiest / mean = 1 + sqrt(z^2 (c2 + l2) / N + w^2),    1 + w = exp(z sigma - sigma^2 / 2),  sigma^2 = ln(1 + v^2)

Every part of a workload's requests is taken to peak as the whole does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from statistics import NormalDist

import numpy as np

from planner.case.apis import allowed_apis, request_usd
from planner.case.case import Case, Workload
from planner.case.slots import Slot, rates_rps
from problems.api_limits import ApiLimit

MINUTES = 60.0
Z_OF_BUSIEST = NormalDist().inv_cdf(1 - 1 / MINUTES)
KINDS = ("requests", "tokens", "input_tokens", "output_tokens")
"""what is counted by the minute"""


def limits_of_apis(case: Case, slots: tuple[Slot, ...], pools_of: Callable[[Workload], list[str]]) -> list[ApiLimit]:
    """The limits of a case, in shares that a dollar an hour of a pool's bill takes; `pools_of` names its pools."""
    found = []
    for api, kind, most in limits_by_api(case):
        per_usd: dict[str, np.ndarray] = {}
        for w in case.workloads:
            if counts(case, w, api):
                per_minute = per_usd_per_h(case, w, api, kind) / MINUTES
                share = per_minute * busiest_minute(case, w, api, kind, slots) / most
                per_usd |= dict.fromkeys(pools_of(w), share)
        found.append(ApiLimit(api, kind, most, per_usd))
    return found


def limits_by_api(case: Case) -> Iterator[tuple[str, str, float]]:
    """The API, what is counted, and the most of it that the API takes in a minute."""
    for key, most in (case.limits.api_per_minute or {}).items():
        api, _, kind = key.rpartition(" ")
        yield api, kind, most


def counts(case: Case, w: Workload, api: str) -> bool:
    """Whether requests of a workload are counted: work with a deadline tries again until there is room."""
    return w.deadline_h is None and w.api_wait_h == 0 and api in allowed_apis(case, w)


def amounts(case: Case, w: Workload, api: str, kind: str) -> list[float]:
    """What a request of each length counts as [bucket]."""
    cached_weight = (case.limits.api_cached_weight or {}).get(api, 1.0)
    inputs = [b.input_tokens - (1 - cached_weight) * w.api_cached_tokens(b.input_tokens) for b in w.buckets]
    outputs = [b.output_tokens for b in w.buckets]
    both = [i + o for i, o in zip(inputs, outputs, strict=True)]
    return {"requests": [1.0] * len(outputs), "tokens": both, "input_tokens": inputs, "output_tokens": outputs}[kind]


def per_usd_per_h(case: Case, w: Workload, api: str, kind: str) -> float:
    """What a dollar of a workload's bill stands for, at the mean of its lengths."""
    shares = np.array([b.share_frac for b in w.buckets])
    return float(shares @ amounts(case, w, api, kind)) / float(shares @ request_usd(case, w, api))


def busiest_minute(case: Case, w: Workload, api: str, kind: str, slots: tuple[Slot, ...]) -> np.ndarray:
    """The busiest minute of an hour over its mean [slot]."""
    own = (case.limits.api_minute_peak or {}).get(api)
    if own is not None:
        return np.full(len(slots), own)
    shares, sizes = np.array([b.share_frac for b in w.buckets]), np.array(amounts(case, w, api, kind))
    mean = float(shares @ sizes)
    size_scv = float(shares @ sizes**2) / mean**2 - 1
    variance = math.log1p(w.rate_cv**2)
    swing = math.expm1(Z_OF_BUSIEST * math.sqrt(variance) - variance / 2)
    requests = MINUTES * rates_rps(w, slots)
    chance = Z_OF_BUSIEST**2 * (w.arrival_scv + max(size_scv, 0.0))
    return np.asarray(1 + np.sqrt(chance / np.where(requests > 0, requests, 1.0) + swing**2))
