"""Latencies of the requests served, held against what was promised."""

from __future__ import annotations

import numpy as np

from planner.case.case import LatencyTarget, Workload
from planner.verification.arrivals import HOURS, Stream
from planner.verification.engine import REFUSED, SERVED, SHED, UNFINISHED
from planner.verification.records import Percentiles, Promise, WorkloadServed

FEWEST = 20
"""requests below which an hour is not judged by itself"""
Z_95 = 1.96


def served_workload(
    w: Workload,
    stream: Stream,
    hosted: np.ndarray,
    on_api: np.ndarray,
    state: np.ndarray,
    first_s: np.ndarray,
    last_s: np.ndarray,
    preempted: np.ndarray,
) -> WorkloadServed:
    """Count what came of the requests, and hold the promises against those that the GPUs should have answered."""
    shed = (state == SHED) & ~on_api
    owed = hosted & ~shed
    done = owed & (state == SERVED)
    ttft, e2e = first_s - stream.arrival_s, last_s - stream.arrival_s
    several = done & (stream.output > 1)
    tpot = np.where(several, (last_s - first_s) / np.maximum(stream.output - 1, 1), 0.0)
    hour = np.minimum(stream.arrival_s / 3600, HOURS - 1).astype(int)
    promises, kept = [], done.copy()
    for what, target, latency in _targets(w, ttft, tpot, e2e):
        within = done & (latency <= target.seconds)
        kept &= within
        promises.append(_promise(what, target, latency, owed, done, within, hour))
    n = int(owed.sum())
    return WorkloadServed(
        name=w.name,
        requests=len(stream),
        served=int(done.sum()),
        api=int(on_api.sum()),
        shed=int(shed.sum()),
        refused=int((owed & (state == REFUSED)).sum()),
        unfinished=int((owed & (state == UNFINISHED)).sum()),
        preempted_frac=float((preempted[owed] > 0).mean()) if n else 0.0,
        found_frac=float(stream.found[owed].sum() / stream.prompt[owed].sum()) if n else 0.0,
        ttft=_percentiles(ttft[done]),
        tpot=_percentiles(tpot[several]),
        e2e=_percentiles(e2e[done]),
        promises=tuple(promises) if n else (),
        all_within_frac=float(kept.sum() / n) if n else 1.0,
    )


def _targets(
    w: Workload, ttft: np.ndarray, tpot: np.ndarray, e2e: np.ndarray
) -> list[tuple[str, LatencyTarget, np.ndarray]]:
    if w.deadline_h is not None:
        return [("deadline", LatencyTarget(seconds=3600 * w.deadline_h, percentile=w.ttft.percentile), e2e)]
    targets = [("TTFT", w.ttft, ttft), ("TPOT", w.tpot, tpot)]
    return targets if w.e2e is None else [*targets, ("E2E", w.e2e, e2e)]


def _promise(
    what: str,
    target: LatencyTarget,
    latency: np.ndarray,
    owed: np.ndarray,
    done: np.ndarray,
    within: np.ndarray,
    hour: np.ndarray,
) -> Promise:
    count = np.bincount(hour[owed], minlength=HOURS).astype(float)
    good = np.bincount(hour[within], minlength=HOURS).astype(float)
    total = count.sum()
    share = float(good.sum() / total) if total else 1.0
    hours = int((count > 0).sum())
    off = good - share * count
    error = float(np.sqrt((off**2).sum() * hours / max(1, hours - 1)) / total) if total else 0.0
    judged = np.flatnonzero(count >= FEWEST)
    by_hour = good[judged] / count[judged]
    worst = int(judged[np.argmin(by_hour)]) if len(judged) else None
    served = np.sort(latency[done])
    place = int(np.ceil(target.percentile * total)) - 1
    return Promise(
        what=what,
        target_s=target.seconds,
        percentile=target.percentile,
        within_frac=share,
        low_frac=max(0.0, share - Z_95 * error),
        high_frac=min(1.0, share + Z_95 * error),
        at_percentile_s=float(served[place]) if 0 <= place < len(served) else None,
        bad_hours=int((by_hour < target.percentile).sum()),
        worst_hour=worst,
        worst_frac=float(by_hour.min()) if len(judged) else None,
    )


def _percentiles(latency: np.ndarray) -> Percentiles | None:
    if not len(latency):
        return None
    p50, p95, p99 = np.percentile(latency, [50, 95, 99]).tolist()
    return Percentiles(p50_s=p50, p95_s=p95, p99_s=p99)
