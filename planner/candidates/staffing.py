"""The staffing rule of a deployment, as its replicas and its pool set it."""

from __future__ import annotations

import numpy as np

from planner.candidates.replica import Replica
from planner.case.case import Case
from planner.case.slots import Slot, hour_of_days
from problems.staffing import Staffing, staffing_z

BySlot = float | np.ndarray


def staffing_alone(case: Case, replica: Replica, may_wait: bool, rate_cv: BySlot, load_factor: BySlot) -> Staffing:
    """The rule where it serves the pool alone; work that may wait meets no TTFT, and swings even out while it waits."""
    traffic = replica.traffic
    return Staffing(
        z=0.0 if may_wait else staffing_z(traffic.ttft.percentile),
        arrival_scv=traffic.arrival_scv,
        rate_cv=0.0 if may_wait else rate_cv,
        batch=replica.staffing_batch,
        min_replicas=case.limits.min_replicas,
        # Work that waits has no TTFT, but a deadline: a replica that is slower than estimated must still catch up.
        max_utilization=1 / (1 + replica.error_frac) if may_wait else replica.max_utilization,
        routing=None if may_wait else replica.routing,
        load_factor=load_factor,
    )


def staffing_in_a_mix(case: Case, replica: Replica, load_factor: float) -> Staffing:
    """The rule where it serves some lengths of a workload only: that of its worst length, as any may come to it."""
    (workload,) = replica.traffic.members
    return Staffing(
        z=staffing_z(workload.ttft.percentile),
        arrival_scv=workload.arrival_scv,
        rate_cv=workload.rate_cv,
        batch=replica.staffing_batch_of_any,
        min_replicas=case.limits.min_replicas,
        max_utilization=replica.most_load_of_any,
        routing=replica.routing_of_any,
        load_factor=load_factor,
    )


def rate_cv_together(case: Case, load: np.ndarray, rate_cvs: list[float]) -> np.ndarray:
    """Variation of the load of several workloads around its mean [slot]; `load` is of each [slot, workload].

    Each swings by its own coefficient times its load, s_i. Two of them are correlated, so the variance of their sum is
    (1 - rho) x sum of s_i^2 + rho x (sum of s_i)^2.
    """
    swing, rho = load * rate_cvs, case.tenancy.correlation
    variance = (1 - rho) * (swing**2).sum(axis=1) + rho * swing.sum(axis=1) ** 2
    total = load.sum(axis=1)
    cv: np.ndarray = np.divide(np.sqrt(variance), total, out=np.zeros_like(total), where=total > 0)
    return cv


def load_factor_by_slot(factors: tuple[float, ...], slots: tuple[Slot, ...]) -> BySlot:
    """What replicas that serve the pool alone carry: by the slot where hours differ."""
    if min(factors) == max(factors):
        return factors[0]
    return np.array([factors[hour_of_days(s.day, s.hour)] for s in slots])
