"""Which hours miss a promise, and why: what serving a pool showed of each hour, against its plan."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

import numpy as np

from planner.verification.records import MissedHour, Reason

FEWEST = 20
"""requests below which an hour is not judged by itself"""
Z_CLEARLY = 1.645
"""one-sided, 5%: about one in twenty of the hours that are exactly at their promise is taken for a miss at most"""
MORE_THAN_PLANNED, PREEMPTED_FRAC, BUSY_FRAC = 1.08, 0.05, 0.9
"""requests over planned ones, share of them that are preempted, and time in steps from which on they are the reason"""
BUSIEST_MIN, IN_BUSIEST_FRAC = 15, 0.5
"""the busiest minutes of an hour, and the share of its late requests that came in them if bursts are the reason"""


@dataclass(frozen=True, eq=False)
class PoolHours:
    """What a pool did [hour of the week]."""

    requests: np.ndarray
    """that came"""
    planned_requests: np.ndarray
    replicas: np.ndarray
    """that ran, mean"""
    planned_replicas: np.ndarray
    busy_s: np.ndarray
    """time of replicas in steps"""
    waiting: np.ndarray
    """requests that no replica had begun when the hour began"""


def clearly_missed(good: np.ndarray, count: np.ndarray, percentile: float) -> np.ndarray:
    """Hours in which more requests are late than chance explains where each is in time with the promised probability.

    The normal approximation of the binomial law with a correction for whole numbers: of 20 requests four must be late
    to miss a promise for 95%, of 100 ten, of 10,000 537.
    """
    late = 1 - percentile
    most = count * late + Z_CLEARLY * np.sqrt(count * late * percentile) + 0.5
    missed: np.ndarray = (count >= FEWEST) & (count - good > most)
    return missed


def missed_hour(hour: int, good: np.ndarray, owed: np.ndarray, preempted: float, pool: PoolHours | None) -> MissedHour:
    """An hour that misses; requests in time and owed are counted by the minute."""
    count, kept = float(owed.sum()), float(good.sum())
    facts = {} if pool is None else _facts(hour, pool)
    busiest = np.argsort(-owed, kind="stable")[:BUSIEST_MIN]
    in_busiest = float((owed - good)[busiest].sum()) / (count - kept)
    peak = float(owed[busiest].mean() / max(owed.mean(), 1e-9))
    reasons = {
        "fewer replicas than planned": facts.get("replicas", 0.0) < facts.get("planned_replicas", 0.0) - 0.01,
        "work was left over": facts.get("waiting", 0.0) > max(1.0, count / 60),
        "more requests than planned": _is_more(
            facts.get("pool_requests", 0.0), facts.get("planned_requests", math.inf)
        ),
        "KV memory ran out": preempted / count > PREEMPTED_FRAC,
        "bursts": in_busiest > IN_BUSIEST_FRAC,
        "replicas were busy": facts.get("busy_frac", 0.0) > BUSY_FRAC,
        "requests are slow by themselves": True,
    }
    assert tuple(reasons) == get_args(Reason)
    return MissedHour(
        hour=hour,
        requests=round(count),
        within_frac=kept / count,
        reason=next(reason for reason in get_args(Reason) if reasons[reason]),
        preempted_frac=preempted / count,
        busiest_minutes_ratio=peak,
        **facts,
    )


def _facts(hour: int, pool: PoolHours) -> dict[str, float]:
    replicas = float(pool.replicas[hour])
    return {
        "pool_requests": float(pool.requests[hour]),
        "planned_requests": float(pool.planned_requests[hour]),
        "replicas": replicas,
        "planned_replicas": float(pool.planned_replicas[hour]),
        "busy_frac": min(1.0, float(pool.busy_s[hour]) / (3600 * replicas)) if replicas else 0.0,
        "waiting": float(pool.waiting[hour]),
    }


def _is_more(requests: float, planned: float) -> bool:
    """Clearly more than planned, by more than chance."""
    return requests > MORE_THAN_PLANNED * planned + 2 * math.sqrt(planned)
