"""Traffic of one workload, as statistics need it: counts by steps of time, gaps by minute, lengths and cache use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.logs.expressions import Grouped
from planner.logs.lengths import Lengths, Marginals
from planner.logs.reading.prometheus import Counters, quantiles, steps

if TYPE_CHECKING:
    import pandas as pd

HOUR_S, MINUTE_S = 3600, 60
EDGE_GAPS = 3.0
"""mean gaps between requests within which a log that begins after the hour is taken to cover the whole hour"""
SCRAPE_S = 300
PERCENTILES = (0.5, 0.95, 0.999)


@dataclass(frozen=True, eq=False)
class Gaps:
    """Gaps between requests, by the minute in which they end [minute that has requests]."""

    minute: np.ndarray
    count: np.ndarray
    total_us: np.ndarray
    """within the minute"""
    squares: np.ndarray
    lead_us: np.ndarray
    """the gap that leads into the minute; NaN for the first"""
    zeros: np.ndarray
    """gaps of nothing"""
    tick_us: float
    """the smallest gap above 0; NaN where there is none"""


@dataclass(frozen=True)
class CacheUse:
    """Prompt tokens that prefix caches of the logged fleet had ready."""

    cached_tokens: float
    prompt_tokens: float
    """of the requests whose cached tokens are known"""
    requests: float
    hits: float | None
    """requests with some; None where only totals are known"""


@dataclass(frozen=True, eq=False)
class Traffic:
    name: str
    models: tuple[tuple[str, float], ...]
    """with their requests, most first"""
    step_s: int
    start_s: int
    """of the first step, since 1970 in UTC"""
    requests: np.ndarray
    """[step]; NaN where nobody knows"""
    covered: tuple[float, float]
    """the time that the log is for, in seconds since 1970"""
    dated: bool
    total: float
    """requests"""
    prompt_tokens: float | None
    output_tokens: float | None
    prompt_by_step: np.ndarray | None = None
    """tokens [step]; NaN where nobody knows"""
    output_by_step: np.ndarray | None = None
    gaps: Gaps | None = None
    lengths: Lengths | Marginals | None = None
    cache: CacheUse | None = None

    @property
    def span_s(self) -> float:
        return self.covered[1] - self.covered[0]


def traffic_of_requests(grouped: Grouped, lengths: dict[str, Lengths], dated: bool) -> list[Traffic]:
    """One for each workload, in the order of their names."""
    workloads = []
    every = grouped.minutes
    first_us, last_us = int(every.first_us.min()), int(every.last_us.max())
    covered = span_covered(first_us / 1e6, last_us / 1e6, int(every.requests.sum()))
    first, last = int(covered[0] // MINUTE_S), max(int(every.minute.max()), int(-(-covered[1] // MINUTE_S)) - 1)
    for key, minutes in every.groupby("key", sort=True):
        name = str(key)
        minute = minutes.minute.to_numpy(dtype=np.int64)
        total = int(minutes.requests.sum())
        requests = np.zeros(last - first + 1)
        requests[minute - first] = minutes.requests
        models = grouped.models[grouped.models.key == key].sort_values(["n", "model"], ascending=[False, True])
        known = int(minutes.cached_known.sum())
        cache = CacheUse(
            float(minutes.cached.sum()), float(minutes.cached_of.sum()), known, float(minutes.cached_some.sum())
        )
        workloads.append(
            Traffic(
                name=name,
                models=tuple((str(m), float(n)) for m, n in zip(models.model, models.n, strict=True)),
                step_s=MINUTE_S,
                start_s=first * MINUTE_S,
                requests=requests,
                covered=covered,
                dated=dated,
                total=total,
                prompt_tokens=float(minutes.prompt.sum()),
                output_tokens=float(minutes.output.sum()),
                gaps=_gaps(minutes),
                lengths=lengths[name],
                cache=cache if known else None,
            )
        )
    return workloads


def span_covered(first_s: float, last_s: float, requests: int) -> tuple[float, float]:
    """A log begins with its first request or, where the next full hour is no further than chance, with the hour."""
    near = EDGE_GAPS * (last_s - first_s) / max(1, requests - 1)
    begins, ends = first_s // HOUR_S * HOUR_S, -(-last_s // HOUR_S) * HOUR_S
    return begins if first_s - begins <= near else first_s, ends if ends - last_s <= near else last_s


def _gaps(minutes: pd.DataFrame) -> Gaps:
    first, last = minutes.first_us.to_numpy(dtype=np.int64), minutes.last_us.to_numpy(dtype=np.int64)
    return Gaps(
        minute=minutes.minute.to_numpy(dtype=np.int64),
        count=minutes.requests.to_numpy(dtype=np.int64) - 1,
        total_us=(last - first).astype(float),
        squares=minutes.gap_squares.to_numpy(dtype=float),
        lead_us=np.r_[np.nan, (first[1:] - last[:-1]).astype(float)],
        zeros=minutes.zeros.to_numpy(dtype=np.int64),
        tick_us=float(minutes.tick_us.min()),
    )


def _by_requests(requests_of: dict[str, float], total: float) -> tuple[tuple[str, float], ...]:
    """Models and their requests, the most used first; a count that two counters give is counted once."""
    counted = sum(requests_of.values())
    ordered = sorted(requests_of.items(), key=lambda item: (-item[1], item[0]))
    return tuple((model, n / counted * total) for model, n in ordered) if counted else ()


def traffic_of_counters(counters: dict[str, Counters]) -> list[Traffic]:
    """Counters that Prometheus scraped."""
    workloads = []
    for key, c in sorted(counters.items()):
        low, requests, shown_in = steps(c.spans["requests"], SCRAPE_S)
        total = c.total("requests")
        prompt, output = (c.total(n) if c.spans.get(n) else None for n in ("prompt", "output"))
        tables: dict[str, list[float]] = {
            n: quantiles(c.histogram[n], PERCENTILES) for n in ("prompt", "output") if n in c.histogram
        }
        cache = CacheUse(c.total("hits"), c.total("queries"), total, None) if c.spans.get("hits") else None
        workloads.append(
            Traffic(
                name=key,
                models=_by_requests(c.requests_of, total),
                step_s=SCRAPE_S,
                start_s=low * SCRAPE_S,
                requests=np.where(shown_in, requests, np.nan),
                covered=(float(low * SCRAPE_S), float((low + len(requests)) * SCRAPE_S)),
                dated=True,
                total=total,
                prompt_tokens=prompt,
                output_tokens=output,
                lengths=Marginals.of_histograms(tables, prompt, output, total),
                cache=cache,
            )
        )
    return workloads
