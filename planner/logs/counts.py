"""Traffic from tables of counts by time, such as usage pages or requests per hour.

The step of a table is the difference between neighbouring times that occurs most often, over all of its rows. A span
without a row is unknown; where other keys have rows, it is a zero from the first to the last row of its own key, for
exports that group rows leave out what had no requests.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from planner.logs.expressions import FEWEST_REQUESTS, MOST_WORKLOADS, OTHER, few_together
from planner.logs.lengths import Marginals
from planner.logs.reading.ledger import Ledger
from planner.logs.reading.requests import Counts
from planner.logs.traffic import HOUR_S, MINUTE_S, CacheUse, Traffic

if TYPE_CHECKING:
    import pandas as pd

DAY_S = 24 * HOUR_S
UNEVEN = 0.1
"""of a step of a day or longer, by which spans differ: days of 23 and 25 hours, months"""


def traffic_of_counts(parts: list[Counts], ledger: Ledger) -> list[Traffic]:
    """One for each key that has requests, in the order of their names."""
    import pandas as pd

    names = ("time_us", "span_s", "requests", "prompt", "output", "cached", "model", "key", "series")
    table = pd.concat([pd.DataFrame({n: np.asarray(getattr(p, n)) for n in names}) for p in parts], ignore_index=True)
    _put_few_together(table, ledger)
    times = np.unique(table.time_us.to_numpy(dtype=np.int64) // 1_000_000)
    # An exporter that gives the length of its spans reports all of its time, for every key.
    reported = np.unique(table.time_us[table.span_s > 0].to_numpy(dtype=np.int64) // 1_000_000)
    step = int(table.span_s[table.span_s > 0].median()) if len(reported) else _step(times)
    if step > HOUR_S:
        ledger.note(f"counts are by {step / HOUR_S:g} h: the hours within are taken as equal")
    fine = max(MINUTE_S, gcd(step, HOUR_S) if step > HOUR_S else step)
    phase = _most_frequent(times % fine)
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
        alive = reported if len(reported) else times[(times >= start.min()) & (times <= start.max())]
        first = (int(min(alive.min(), start.min())) - phase) // fine * fine + phase
        requests = _laid_out(start, rows.requests.to_numpy(dtype=float), alive, times, step, fine, first)
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


def _most_frequent(values: np.ndarray) -> int:
    """The smallest of those that occur most often."""
    distinct, count = np.unique(values, return_counts=True)
    return int(distinct[np.argmax(count)])


def _step(times: np.ndarray) -> int:
    return _most_frequent(np.diff(times)) if len(times) > 1 else HOUR_S


def _laid_out(
    start: np.ndarray, count: np.ndarray, alive: np.ndarray, times: np.ndarray, step: int, fine: int, first: int
) -> np.ndarray:
    """Counts by fine steps, each spread over its span; NaN where no row tells."""

    def places(at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row, fine step and share of the row, for every fine step within the span of a row."""
        parts = np.maximum(1, _spans(at, times, step) // fine)
        row = np.repeat(np.arange(len(at)), parts)
        within = np.arange(len(row)) - np.repeat(np.cumsum(parts) - parts, parts)
        return row, (at[row] - first) // fine + within, 1 / parts[row]

    covered = np.r_[places(alive)[1], places(start)[1]]
    requests = np.full(int(covered.max()) + 1, np.nan)
    requests[covered] = 0.0
    row, place, share = places(start)
    return requests + np.bincount(place, count[row] * share, minlength=len(requests))


def _spans(at: np.ndarray, times: np.ndarray, step: int) -> np.ndarray:
    """Seconds that rows are for: those of a day or longer end where the next one begins, whatever clocks did."""
    if step < DAY_S:
        return np.full(len(at), step, dtype=np.int64)
    following = np.r_[times[1:], times[-1] + step][np.searchsorted(times, at)] - at
    return np.where(np.abs(following - step) <= UNEVEN * step, following, step).astype(np.int64)


def _put_few_together(table: pd.DataFrame, ledger: Ledger) -> None:
    """Keep the keys with most requests; all others become one."""
    sizes = table.groupby("key").requests.sum().sort_values(ascending=False, kind="stable")
    large = sizes[sizes >= FEWEST_REQUESTS].head(MOST_WORKLOADS).index
    small = len(sizes) - len(large)
    if small and len(sizes) > 1:
        ledger.note(few_together(small))
        table["key"] = table.key.where(table.key.isin(large), OTHER)
