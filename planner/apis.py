"""APIs: which of them a workload may use, and what a request costs there."""

from __future__ import annotations

import numpy as np

from planner.case import Case, Workload


def allowed_apis(case: Case, workload: Workload) -> tuple[str, ...]:
    return case.menu_apis if workload.api_allowed else ()


def request_usd(case: Case, workload: Workload, api: str) -> np.ndarray:
    """Price of one request of each bucket, at the batch price where its answer may take that long [bucket]."""
    price, wait_h = case.apis[api].request_usd, workload.api_wait_h
    return np.array(
        [
            price(b.input_tokens, workload.api_cached_tokens(b.input_tokens), b.output_tokens, wait_h)
            for b in workload.buckets
        ]
    )
