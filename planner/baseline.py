"""The baseline: the same demand bought from an API provider, one request priced and scaled."""

from __future__ import annotations

import numpy as np

from planner.case import Case, Workload
from planner.formulation import request_usd
from planner.slots import Slot, requests_per_month


def api_usd_per_month(case: Case, workload: Workload, api: str, slots: tuple[Slot, ...]) -> float:
    """What a workload's requests cost per month at an API model, input, cached input and output priced apart."""
    shares = np.array([b.share_frac for b in workload.buckets])
    return requests_per_month(workload, slots) * float(shares @ request_usd(case, workload, api))


def baseline_usd_per_month(case: Case, slots: tuple[Slot, ...]) -> float:
    return sum(api_usd_per_month(case, w, case.baseline, slots) for w in case.workloads)


def tokens_per_request(workload: Workload) -> float:
    return sum(b.share_frac * (b.input_tokens + b.output_tokens) for b in workload.buckets)
