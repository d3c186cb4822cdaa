"""The baseline: the same requests bought from an API provider, one request priced and scaled."""

from __future__ import annotations

import numpy as np

from planner.apis import request_usd
from planner.case import Case, Workload
from planner.slots import Slot, requests_per_month

NEXT_TO_NOTHING = 1e-12
"""share of the requests that rounding may leave"""


def answered_per_month(workload: Workload, slots: tuple[Slot, ...], shed_per_month: np.ndarray | float) -> np.ndarray:
    """Requests by length without those that are turned away, the ones that a cache answers included [bucket]."""
    asked = requests_per_month(workload, slots) * np.array([b.share_frac for b in workload.buckets])
    answered = asked - shed_per_month
    return np.where(answered > NEXT_TO_NOTHING * asked, answered, 0.0)


def baseline_usd_per_month(case: Case, workload: Workload, answered: np.ndarray) -> float:
    """What these requests cost at the baseline, input, input that the provider caches and output priced apart."""
    return float(answered @ request_usd(case, workload, case.baseline))


def tokens_of(workload: Workload, answered: np.ndarray) -> float:
    return float(answered @ [b.input_tokens + b.output_tokens for b in workload.buckets])


def tokens_per_request(workload: Workload) -> float:
    return tokens_of(workload, np.array([b.share_frac for b in workload.buckets]))
