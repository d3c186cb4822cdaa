"""Latencies of the requests served, counted by the hour and held against what was promised."""

from __future__ import annotations

import numpy as np

from planner.case.case import LatencyTarget, Workload
from planner.verification.arrivals import HOURS, Stream
from planner.verification.engine import REFUSED, SERVED, SHED, UNFINISHED
from planner.verification.records import Histogram, Percentiles, Promise, WorkloadServed

FEWEST = 20
"""requests below which an hour is not judged by itself"""
WEEKDAYS = 5
Z_95 = 1.96
SHORTEST_S, LONGEST_S, BINS = 1e-4, 1e6, 1150
"""of latencies that are told apart, in steps of 2%"""
EDGES = np.geomspace(SHORTEST_S, LONGEST_S, BINS + 1)
DRAWN_EVERY = 10
"""steps that a picture joins"""


class Tally:
    """Outcome of the requests of one workload so far."""

    def __init__(self, w: Workload, planned_found_frac: float = 0.0) -> None:
        self.w, self.planned_found_frac = w, planned_found_frac
        self.targets = _targets(w)
        self.owed = np.zeros((HOURS, 60))
        self.within = {what: np.zeros((HOURS, 60)) for what in self.targets}
        self.latency = {what: np.zeros((HOURS, BINS), dtype=np.int64) for what in ("TTFT", "TPOT", "E2E")}
        self.counts = dict.fromkeys(("requests", "served", "api", "shed", "refused", "unfinished", "preempted"), 0)
        self.kept = 0
        self.tokens = np.zeros(2)

    def add(
        self,
        stream: Stream,
        hosted: np.ndarray,
        on_api: np.ndarray,
        state: np.ndarray,
        first_s: np.ndarray,
        last_s: np.ndarray,
        preempted: np.ndarray,
        found: np.ndarray,
    ) -> None:
        """Count requests; promises are held against those that the GPUs should have answered."""
        shed = (state == SHED) & ~on_api
        owed = hosted & ~shed
        done = owed & (state == SERVED)
        minute = np.minimum(stream.arrival_s / 60, 60 * HOURS - 1).astype(int)
        hour = minute // 60
        several = stream.output > 1
        latency = {
            "TTFT": first_s - stream.arrival_s,
            "TPOT": np.where(several, (last_s - first_s) / np.maximum(stream.output - 1, 1), 0.0),
            "E2E": last_s - stream.arrival_s,
        }
        kept = done.copy()
        for what, target in self.targets.items():
            good = done & (latency["E2E" if what == "deadline" else what] <= target.seconds)
            self.within[what] += np.bincount(minute[good], minlength=60 * HOURS).reshape(HOURS, 60)
            kept &= good
        for what, seconds in latency.items():
            counted = done & several if what == "TPOT" else done
            place = np.clip(np.searchsorted(EDGES, seconds[counted]) - 1, 0, BINS - 1)
            cells = np.bincount(hour[counted] * BINS + place, minlength=HOURS * BINS)
            self.latency[what] += cells.reshape(HOURS, BINS)
        self.owed += np.bincount(minute[owed], minlength=60 * HOURS).reshape(HOURS, 60)
        self.kept += int(kept.sum())
        self.tokens += (found[done].sum(), stream.prompt[done].sum())
        for name, those in (
            ("requests", np.ones(len(stream), dtype=bool)), ("served", done), ("api", on_api), ("shed", shed),
            ("refused", (state == REFUSED) & ~on_api), ("unfinished", owed & (state == UNFINISHED)),
            ("preempted", owed & (preempted > 0)),
        ):  # fmt: skip
            self.counts[name] += int(those.sum())

    def result(self) -> WorkloadServed:
        owed = float(self.owed.sum())
        counts = {name: n for name, n in self.counts.items() if name != "preempted"}
        return WorkloadServed(
            name=self.w.name,
            **counts,
            preempted_frac=self.counts["preempted"] / owed if owed else 0.0,
            found_frac=float(self.tokens[0] / self.tokens[1]) if self.tokens[1] else 0.0,
            planned_found_frac=self.planned_found_frac,
            ttft=_percentiles(self.latency["TTFT"]),
            tpot=_percentiles(self.latency["TPOT"]),
            e2e=_percentiles(self.latency["E2E"]),
            ttft_histogram=_histogram(self.latency["TTFT"]),
            promises=tuple(self._promise(what) for what in self.targets) if owed else (),
            all_within_frac=self.kept / owed if owed else 1.0,
        )

    def _promise(self, what: str) -> Promise:
        target, good, count = self.targets[what], self.within[what].sum(axis=1), self.owed.sum(axis=1)
        total, hours = count.sum(), int((count > 0).sum())
        share = float(good.sum() / total)
        off = good - share * count
        error = float(np.sqrt((off**2).sum() * hours / max(1, hours - 1)) / total)
        judged = np.flatnonzero(count >= FEWEST)
        by_hour = good[judged] / count[judged]
        worst = int(judged[np.argmin(by_hour)]) if len(judged) else None
        minutes = range(60 if worst is not None else 0)
        by_minute = [(self.within[what][worst, m], int(self.owed[worst, m])) for m in minutes]
        seen = self.latency["E2E" if what == "deadline" else what]
        late = (1 - target.percentile) * count - (count - self.latency["TTFT"].sum(axis=1))
        return Promise(
            what=what,
            target_s=target.seconds,
            percentile=target.percentile,
            within_frac=share,
            low_frac=max(0.0, share - Z_95 * error),
            high_frac=min(1.0, share + Z_95 * error),
            at_percentile_s=_slowest_but(late.sum(), seen.sum(axis=0)),
            bad_hours=int((by_hour < target.percentile).sum()),
            bad_hours_of_days=_bad_hours_of_days(good, count, target.percentile),
            worst_hour=worst,
            worst_frac=float(by_hour.min()) if len(judged) else None,
            at_percentile_by_hour_s=tuple(_slowest_but(*hour) for hour in zip(late.tolist(), seen, strict=True)),
            worst_hour_within=tuple(float(x / n) if n else None for x, n in by_minute),
            worst_hour_requests=tuple(n for _, n in by_minute),
        )


def _bad_hours_of_days(good: np.ndarray, count: np.ndarray, percentile: float) -> tuple[int, ...]:
    """Hours of a weekday and of a weekend day in which too few requests of a week were within a target."""
    kept, owed = (x.reshape(7, 24) for x in (good, count))
    kept, owed = (np.concatenate([x[:WEEKDAYS].sum(axis=0), x[WEEKDAYS:].sum(axis=0)]) for x in (kept, owed))
    return tuple(np.flatnonzero((owed >= FEWEST) & (kept < percentile * owed)).tolist())


def _targets(w: Workload) -> dict[str, LatencyTarget]:
    if w.deadline_h is not None:
        return {"deadline": LatencyTarget(seconds=3600 * w.deadline_h, percentile=w.ttft.percentile)}
    targets = {"TTFT": w.ttft, "TPOT": w.tpot}
    return targets if w.e2e is None else targets | {"E2E": w.e2e}


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
