"""Latencies of the requests served, counted by the hour and held against what was promised; and why hours miss it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np

from planner.case.case import HOURS_KEPT_FRAC, LatencyTarget, Workload
from planner.verification.arrivals import HOURS
from planner.verification.records import Histogram, MissedHour, Percentiles, Promise, Reason, WorkloadServed
from planner.verification.sampling import EVERY_HOUR, Measured
from planner.verification.steps import REFUSED, SERVED, SHED, UNFINISHED

FEWEST = 20
"""requests below which an hour is not judged by itself"""
Z_CLEARLY = 1.645
"""one-sided, 5%: about one in twenty of the hours that are exactly at their promise is taken for a miss at most"""
MORE_THAN_PLANNED, PREEMPTED_FRAC, BUSY_FRAC = 1.08, 0.05, 0.9
"""requests over planned ones, share of them that are preempted, and time in steps from which on they are the reason"""
BUSIEST_MIN, IN_BUSIEST_FRAC = 15, 0.5
"""the busiest minutes of an hour, and the share of its late requests that came in them if bursts are the reason"""
WEEKDAYS = 5
SHORTEST_S, LONGEST_S, BINS = 1e-4, 1e6, 1150
"""of latencies that are told apart, in steps of 2%"""
EDGES = np.geomspace(SHORTEST_S, LONGEST_S, BINS + 1)
E2E_PER_TOKEN = "E2E per token"
"""of every request by itself: from arrival to the last token, over the tokens of its answer"""
DRAWN_EVERY = 10
"""steps that a picture joins"""


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
    of_hour = {} if pool is None else _of_hour(hour, pool)
    busiest = np.argsort(-owed, kind="stable")[:BUSIEST_MIN]
    in_busiest = float((owed - good)[busiest].sum()) / (count - kept)
    peak = float(owed[busiest].mean() / max(owed.mean(), 1e-9))
    reasons = {
        "fewer replicas than planned": of_hour.get("replicas", 0.0) < of_hour.get("planned_replicas", 0.0) - 0.01,
        "work was left over": of_hour.get("waiting", 0.0) > max(1.0, count / 60),
        "more requests than planned": _is_more(
            of_hour.get("pool_requests", 0.0), of_hour.get("planned_requests", math.inf)
        ),
        "KV memory ran out": preempted / count > PREEMPTED_FRAC,
        "bursts": in_busiest > IN_BUSIEST_FRAC,
        "replicas were busy": of_hour.get("busy_frac", 0.0) > BUSY_FRAC,
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
        **of_hour,
    )


def _of_hour(hour: int, pool: PoolHours) -> dict[str, float]:
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


class Ended(NamedTuple):
    """Requests that are over, or that were never let in."""

    let_in_s: np.ndarray
    """when they came, or when work that may wait was let in: the hour in which they count"""
    arrival_s: np.ndarray
    prompt: np.ndarray
    output: np.ndarray
    hosted: np.ndarray
    """whether GPUs should have answered"""
    on_api: np.ndarray
    state: np.ndarray
    first_s: np.ndarray
    last_s: np.ndarray
    """-1 where there was no token"""
    preempted: np.ndarray
    found: np.ndarray


class Tally:
    """Outcome of the requests of one workload so far, by the hour."""

    def __init__(self, w: Workload, planned_found_frac: float = 0.0, hours_kept_frac: float = HOURS_KEPT_FRAC) -> None:
        """Promises must be kept in such a share of the hours."""
        self.w, self.planned_found_frac, self.hours_kept_frac = w, planned_found_frac, hours_kept_frac
        self.targets = _targets(w)
        self.owed = np.zeros((HOURS, 60))
        self.within = {what: np.zeros((HOURS, 60)) for what in self.targets}
        measured = ("TTFT", "TPOT", "E2E", *(what for what in self.targets if what == E2E_PER_TOKEN))
        self.latency = {what: np.zeros((HOURS, BINS), dtype=np.int32) for what in measured}
        names = ("requests", "served", "api", "shed", "refused", "unfinished", "preempted", "kept")
        self.counts = {name: np.zeros(HOURS) for name in names}
        self.tokens = np.zeros((2, HOURS))
        """found in caches, and in all"""

    def add(self, those: Ended) -> None:
        """Count requests; promises are held against those that the GPUs should have answered."""
        if not len(those.state):
            return
        shed = (those.state == SHED) & ~those.on_api
        owed = those.hosted & ~shed
        done = owed & (those.state == SERVED)
        minute = np.floor(those.let_in_s / 60).astype(np.int64) % (60 * HOURS)
        hour = minute // 60
        several = those.output > 1
        latency = {
            "TTFT": those.first_s - those.arrival_s,
            "TPOT": np.where(several, (those.last_s - those.first_s) / np.maximum(those.output - 1, 1), 0.0),
            "E2E": those.last_s - those.arrival_s,
        }
        if E2E_PER_TOKEN in self.targets:
            latency[E2E_PER_TOKEN] = latency["E2E"] / np.maximum(those.output, 1)
        kept = done.copy()
        for what, target in self.targets.items():
            good = done & (latency["E2E" if what == "deadline" else what] <= target.seconds)
            _count(self.within[what], minute[good])
            kept &= good
        for what, seconds in latency.items():
            counted = done & several if what == "TPOT" else done
            place = np.clip(np.searchsorted(EDGES, seconds[counted]) - 1, 0, BINS - 1)
            _count(self.latency[what], hour[counted] * BINS + place)
        _count(self.owed, minute[owed])
        for row, tokens in zip(self.tokens, (those.found, those.prompt), strict=True):
            _count(row, hour[done], tokens[done])
        for name, chosen in (
            ("requests", np.ones(len(hour), dtype=bool)), ("served", done), ("api", those.on_api), ("shed", shed),
            ("refused", (those.state == REFUSED) & ~those.on_api), ("unfinished", owed & (those.state == UNFINISHED)),
            ("preempted", owed & (those.preempted > 0)), ("kept", kept),
        ):  # fmt: skip
            _count(self.counts[name], hour[chosen])

    def result(self, hours: Measured = EVERY_HOUR, pool: PoolHours | None = None) -> WorkloadServed:
        """What was measured in some hours, each of which stands for itself and perhaps for others."""
        weights = hours.weights
        counts = {name: int(n @ (weights > 0)) for name, n in self.counts.items() if name not in ("preempted", "kept")}
        owed = float(weights @ self.owed.sum(axis=1))
        cached, tokens = (float(weights @ row) for row in self.tokens)
        latency = {what: weights[:, None] * cells for what, cells in self.latency.items()}
        return WorkloadServed(
            name=self.w.name,
            **counts,
            preempted_frac=float(weights @ self.counts["preempted"]) / owed if owed else 0.0,
            found_frac=cached / tokens if tokens else 0.0,
            planned_found_frac=self.planned_found_frac,
            ttft=_percentiles(latency["TTFT"]),
            tpot=_percentiles(latency["TPOT"]),
            e2e=_percentiles(latency["E2E"]),
            ttft_histogram=_histogram(self.latency["TTFT"][weights > 0]),
            promises=tuple(self._promise(what, hours, pool) for what in self.targets) if owed else (),
            all_within_frac=float(weights @ self.counts["kept"]) / owed if owed else None,
        )

    def _promise(self, what: str, hours: Measured, pool: PoolHours | None) -> Promise:
        there = hours.weights > 0
        target, good, count = self.targets[what], self.within[what].sum(axis=1) * there, self.owed.sum(axis=1) * there
        share, error = hours.share_and_error(good, count)
        enough = count >= FEWEST
        missed = clearly_missed(good, count, target.percentile)
        hours_kept, off = hours.share_and_error((enough & ~missed) * 1.0, enough * 1.0) if enough.any() else (None, 0.0)
        off = off if hours.sampled else 0.0
        judged = np.flatnonzero(enough)
        by_hour = good[judged] / count[judged]
        worst = int(judged[np.argmin(by_hour)]) if len(judged) else None
        minutes = range(60 if worst is not None else 0)
        by_minute = [(self.within[what][worst, m], int(self.owed[worst, m])) for m in minutes]
        seen = self.latency["E2E" if what == "deadline" else what] * there[:, None]
        late = (1 - target.percentile) * count - (count - self.latency["TTFT"].sum(axis=1) * there)
        return Promise(
            what=what,
            target_s=target.seconds,
            percentile=target.percentile,
            within_frac=share,
            low_frac=max(0.0, share - error),
            high_frac=min(1.0, share + error),
            estimated=hours.sampled,
            at_percentile_s=_slowest_but(hours.weights @ late, hours.weights @ seen),
            bad_hours=int(missed.sum()),
            hours_judged=len(judged),
            hours_kept_frac=hours_kept,
            hours_low_frac=None if hours_kept is None else max(0.0, hours_kept - off),
            hours_high_frac=None if hours_kept is None else min(1.0, hours_kept + off),
            hours_promised_frac=self.hours_kept_frac,
            missed_hours=self._missed_hours(what, missed, pool),
            bad_hours_of_days=_bad_hours_of_days(*hours.spread(good, count), target.percentile, self.hours_kept_frac),
            worst_hour=worst,
            worst_frac=float(by_hour.min()) if len(judged) else None,
            at_percentile_by_hour_s=tuple(_slowest_but(*hour) for hour in zip(late.tolist(), seen, strict=True)),
            worst_hour_within=tuple(float(x / n) if n else None for x, n in by_minute),
            worst_hour_requests=tuple(n for _, n in by_minute),
        )

    def _missed_hours(self, what: str, missed: np.ndarray, pool: PoolHours | None) -> tuple[MissedHour, ...]:
        """The worst first."""
        preempted = self.counts["preempted"]
        hours = [
            missed_hour(h, self.within[what][h], self.owed[h], float(preempted[h]), pool)
            for h in np.flatnonzero(missed).tolist()
        ]
        return tuple(sorted(hours, key=lambda hour: hour.within_frac))


def _count(cells: np.ndarray, places: np.ndarray, weights: np.ndarray | None = None) -> None:
    """Add up in cells, however many dimensions they have; only those between the places are touched."""
    if len(places):
        first = int(places.min())
        more = np.bincount(places - first, weights)
        cells.reshape(-1)[first : first + len(more)] += more.astype(cells.dtype)


def _bad_hours_of_days(
    good: np.ndarray, count: np.ndarray, percentile: float, hours_kept_frac: float
) -> tuple[int, ...]:
    """Hours of a weekday and of a weekend day in which a week misses a target, or too many of its days do."""

    def of_days(x: np.ndarray) -> np.ndarray:
        by_day = x.reshape(7, 24)
        return np.concatenate([by_day[:WEEKDAYS].sum(axis=0), by_day[WEEKDAYS:].sum(axis=0)])

    owed, judged, missed = of_days(count), of_days(count >= FEWEST), of_days(clearly_missed(good, count, percentile))
    too_few = (owed >= FEWEST) & (of_days(good) < percentile * owed)
    return tuple(np.flatnonzero(too_few | (missed > (1 - hours_kept_frac) * judged)).tolist())


def _targets(w: Workload) -> dict[str, LatencyTarget]:
    if w.deadline_h is not None:
        return {"deadline": LatencyTarget(seconds=3600 * w.deadline_h, percentile=w.ttft.percentile)}
    pace = None if w.tpot == w.e2e_per_token else w.tpot  # which then stands for the time per token, and is no promise
    targets = {"TTFT": w.ttft, "TPOT": pace, "E2E": w.e2e, E2E_PER_TOKEN: w.e2e_per_token}
    return {what: target for what, target in targets.items() if target is not None}


def _slowest_but(late: float, counts: np.ndarray) -> float | None:
    """Latency that all but so many requests keep; None where nothing was served, or too little.

    The upper end of the step in which it lies.
    """
    total = counts.sum()
    if not total or late < -1e-9 * total:
        return None
    kept = max(0.0, total - late) * (1 - 1e-12)
    return float(EDGES[int(np.searchsorted(np.cumsum(counts), kept)) + 1])


def _percentiles(counts: np.ndarray) -> Percentiles | None:
    whole = counts.sum(axis=0)
    if not whole.sum():
        return None
    p50, p95, p99 = (_slowest_but((1 - p) * whole.sum(), whole) or 0.0 for p in (0.5, 0.95, 0.99))
    return Percentiles(p50_s=p50, p95_s=p95, p99_s=p99)


def _histogram(counts: np.ndarray) -> Histogram:
    whole = counts.sum(axis=0).reshape(-1, DRAWN_EVERY).sum(axis=1)
    used = np.flatnonzero(whole)
    if not len(used):
        return Histogram(edges_s=(), requests=())
    first, last = int(used[0]), int(used[-1])
    edges = EDGES[::DRAWN_EVERY][first : last + 2]
    return Histogram(edges_s=tuple(edges.tolist()), requests=tuple(whole[first : last + 1].tolist()))
