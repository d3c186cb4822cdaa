"""Traffic of one workload, as statistics need it: counts by steps of time, gaps by minute, lengths and cache use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.logs.expressions import FEWEST_REQUESTS, MOST_WORKLOADS, OTHER, Grouped, few_together
from planner.logs.lengths import Lengths, Marginals
from planner.logs.reading.ledger import Ledger
from planner.logs.reading.prometheus import Counters, quantiles, steps
from planner.logs.reading.requests import Counts

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
    covered = _covered(first_us / 1e6, last_us / 1e6, int(every.requests.sum()))
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


def _covered(first_s: float, last_s: float, requests: int) -> tuple[float, float]:
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


def traffic_of_counts(parts: list[Counts], ledger: Ledger) -> list[Traffic]:
    """Counts by time, such as usage pages or a table of requests per hour; a span without a row is unknown."""
    import pandas as pd

    names = ("time_us", "span_s", "requests", "prompt", "output", "cached", "model", "key", "series")
    table = pd.concat([pd.DataFrame({n: np.asarray(getattr(p, n)) for n in names}) for p in parts], ignore_index=True)
    _put_few_together(table, ledger)
    # An exporter that gives the length of its spans leaves out what had no requests in them.
    reported = np.unique(table.time_us[table.span_s > 0].to_numpy(dtype=np.int64) // 1_000_000)
    workloads = []
    for key, rows in table.groupby("key", sort=True):
        if not rows.requests.sum():
            continue
        repeated = rows.duplicated(keep="last").to_numpy()
        if repeated.any():
            ledger.left_out["duplicate rows"] += int(repeated.sum())
            ledger.first_rows.setdefault("duplicate rows", ["the same time and figures"])
            rows = rows[~repeated]
        together = int(rows.duplicated(["time_us", "series"]).sum())
        if together:
            ledger.note(f"{together:,} rows share their time with another row and are added to it")
        start = rows.time_us.to_numpy(dtype=np.int64) // 1_000_000
        differences = np.diff(np.unique(start))
        given = rows.span_s.to_numpy()
        usual = int(np.min(differences)) if len(differences) else HOUR_S
        step = int(np.median(given[given > 0])) if (given > 0).any() else usual
        if step > HOUR_S:
            ledger.note(f"counts are by {step / HOUR_S:g} h: the hours within are taken as equal")
        fine = min(HOUR_S, max(MINUTE_S, step))
        times = max(1, step // fine)
        alive = reported if len(reported) else start
        first = int(alive.min()) // fine * fine
        requests = np.full(int((alive.max() - first) // fine) + times, np.nan)
        for k in range(times):
            requests[(alive - first) // fine + k] = 0.0
        for k in range(times):
            place = (start - first) // fine + k
            sums = np.bincount(place, rows.requests / times, minlength=len(requests))
            requests += sums[: len(requests)]
        total = float(rows.requests.sum())
        models = rows.groupby("model").requests.sum().sort_values(ascending=False, kind="stable")
        known = rows.cached.notna()
        cache = CacheUse(
            float(rows.cached.sum()), float(rows.prompt[known].sum()), float(rows.requests[known].sum()), None
        )
        prompt, output = (float(rows[n].sum()) if rows[n].notna().all() else None for n in ("prompt", "output"))
        workloads.append(
            Traffic(
                name=str(key),
                models=tuple((str(m), float(n)) for m, n in models.items()),
                step_s=fine,
                start_s=first,
                requests=requests,
                covered=(float(first), float(first + fine * len(requests))),
                dated=bool(start.max() > 10**8),
                total=total,
                prompt_tokens=prompt,
                output_tokens=output,
                lengths=Marginals.of_means(prompt, output, total),
                cache=cache if known.any() else None,
            )
        )
    return workloads


def _put_few_together(table: pd.DataFrame, ledger: Ledger) -> None:
    """Keep the keys with most requests; all others become one."""
    sizes = table.groupby("key").requests.sum().sort_values(ascending=False, kind="stable")
    large = sizes[sizes >= FEWEST_REQUESTS].head(MOST_WORKLOADS).index
    small = len(sizes) - len(large)
    if small and len(sizes) > 1:
        ledger.note(few_together(small))
        table["key"] = table.key.where(table.key.isin(large), OTHER)


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
