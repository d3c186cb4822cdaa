"""Candidates that are dropped before anything is formulated: each must be one that no plan misses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from planner.candidates.dominance import dominated_variants
from problems.staffing import Staffing

STAFFING = Staffing(z=1.0, arrival_scv=1.0, rate_cv=0.0, batch=16.0, min_replicas=1)
CASE: Any = SimpleNamespace(purchase=("on-demand",))


def candidate(variant: str, gpus: int, *seconds: float) -> Any:
    replica = SimpleNamespace(
        tiers=(),
        serves_all=bool(np.isfinite(seconds).all()),
        seconds_per_request=np.array(seconds),
        staffing_batch=16.0,
        max_utilization=1.0,
    )
    return SimpleNamespace(
        variant=variant, replica_name=f"{variant}/{gpus}x",
        offer=SimpleNamespace(gpu="l4"), machine=SimpleNamespace(gpus=gpus), replica=replica,
        staffing_in_a_mix=STAFFING, spot_allowed=True, load_factors=(1.0,), max_utilization=1.0,
        routing=None, boxes=1,
        pool=SimpleNamespace(critical_share=1.0, traffic=SimpleNamespace(arrival_scv=1.0)),
    )  # fmt: skip


@pytest.mark.parametrize(("long", "dropped"), [(2.0, {1, 2}), (np.inf, set())])
def test_one_that_takes_the_place_of_two_must_serve_alone(long: float, dropped: set[int]) -> None:
    """On one offer the first would be mixed with itself. That is no mix, and what serves short requests only serves
    in mixes only.
    """
    found = [candidate("small", 1, 1.0, long), candidate("large", 1, 2.0, long), candidate("large", 2, 1.5, long)]
    assert set(dominated_variants(CASE, found, ()).by) == dropped
