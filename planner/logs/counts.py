"""Traffic from tables of counts by time, such as usage pages or requests per hour.

The step of a table is the difference between neighbouring times that occurs most often, over all of its rows. A span
without a row, or with a row whose count cannot be read, is unknown. Exports that group rows leave out what had no
requests: where other keys have rows, a key that never writes a zero and has rows in few of the spans (SPARSE_FRAC) has
zeros in the others, from the first to the last row of its own.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from planner.logs.engine import MONDAY_US
from planner.logs.expressions import MOST_WORKLOADS, OTHER, few_together, fewest_requests
from planner.logs.hours import repeated_rows
from planner.logs.lengths import Marginals
from planner.logs.reading.ledger import Ledger
from planner.logs.reading.requests import Counts
from planner.logs.traffic import HOUR_S, MINUTE_S, CacheUse, Traffic

if TYPE_CHECKING:
    import pandas as pd

DAY_S = 24 * HOUR_S
UNEVEN = 0.1
"""of a step of a day or longer, by which spans differ: days of 23 and 25 hours, months"""
SPARSE_FRAC = 0.9
FIGURES = ("requests", "prompt", "output", "cached", "span_s")


class CountRows:
    """Rows of counts, column by column, in arrays that grow: a table may be long."""

    def __init__(self, only: frozenset[str] | None = None) -> None:
        self.only = only
        """keys whose rows are kept; of others their names and times"""
        self.rows = 0
        self.columns: dict[str, np.ndarray] = {}
        self.names: dict[str, dict[str, int]] = {"key": {}, "model": {}}
        """number of each name"""
        self.times = np.zeros(0, np.int64)
        """seconds at which there is a row, each once"""
        self.reported = np.zeros(0, np.int64)
        """those with a span: an exporter that gives it reports all of its time, for every key"""

    def add(self, part: Counts) -> None:
        import pandas as pd

        values = {name: getattr(part, name) for name in ("time_us", "series", *FIGURES)}
        for name, numbers in self.names.items():
            codes, distinct = pd.factorize(getattr(part, name))
            values[name] = np.array([numbers.setdefault(str(n), len(numbers)) for n in distinct], np.int32)[codes]
        second = part.time_us // 1_000_000
        self.times = np.union1d(self.times, second)
        if part.span_s is not None:
            self.reported = np.union1d(self.reported, second[part.span_s > 0])
        if self.only is not None:
            kept = np.isin(values["key"], [n for name, n in self.names["key"].items() if name in self.only])
            values = {name: None if column is None else column[kept] for name, column in values.items()}
        stop = self.rows + len(values["key"])
        for name, column in values.items():
            if column is None and name not in self.columns:
                continue
            array = self.columns.get(name)
            if array is None:
                array = np.full(stop, np.nan) if self.rows else np.empty(0, column.dtype)
            if len(array) < stop:
                array = np.r_[array[: self.rows], np.empty(stop + stop // 4 - self.rows, array.dtype)]
            array[self.rows : stop] = np.nan if column is None else column
            self.columns[name] = array
        self.rows = stop

    def table(self) -> pd.DataFrame:
        """All rows; `key` and `model` are numbers of names."""
        import pandas as pd

        return pd.DataFrame({name: values[: self.rows] for name, values in self.columns.items()}, copy=False)


def traffic_of_counts(rows: CountRows, ledger: Ledger, every_key: bool = False) -> list[Traffic]:
    """One for each key, in the order of their names; without `every_key`, those with few requests become one."""
    table = rows.table()
    key_of = dict(rows.names["key"])
    if not every_key:
        key_of = _few_put_together(table, key_of, ledger)
    times, reported = rows.times, rows.reported
    step = int(table.span_s[table.span_s > 0].median()) if len(reported) else _step(times)
    if step > HOUR_S:
        ledger.note(f"counts are by {step / HOUR_S:g} h: the hours within are assumed to be equal")
    fine = max(MINUTE_S, gcd(step, HOUR_S) if step > HOUR_S else step)
    phase = _most_frequent(times % fine)
    dated = bool(times[-1] > 10**8)
    kept = repeated_rows(table, ledger)
    key = table.key.to_numpy()
    order = np.flatnonzero(kept)[np.argsort(key[kept], kind="stable")]
    bounds = np.searchsorted(key[order], np.arange(len(rows.names["key"]) + 2))
    workloads = []
    for name, number in sorted(key_of.items()):
        own = table.take(order[bounds[number] : bounds[number + 1]])
        total = float(np.nansum(own.requests.to_numpy()))
        if not len(own) or not (total or every_key):
            continue
        start = own.time_us.to_numpy() // 1_000_000
        alive = reported if len(reported) else _alive(start, own.requests.to_numpy(), times)
        first = (int(min(alive.min(), start.min())) - phase) // fine * fine + phase
        begins = first if dated else first + MONDAY_US // 1_000_000
        by_step = {
            figure: _laid_out(start, own[figure].to_numpy(dtype=float), alive, times, step, fine, first)
            for figure in ("requests", "prompt", "output")
            if figure in own.columns
        }
        prompt, output = (_whole_sum(own, figure) for figure in ("prompt", "output"))
        workloads.append(
            Traffic(
                name=name,
                models=_models(own, rows.names["model"]),
                step_s=fine,
                start_s=begins,
                requests=by_step["requests"],
                covered=(float(begins), float(begins + fine * len(by_step["requests"]))),
                dated=dated,
                total=total,
                prompt_tokens=prompt,
                output_tokens=output,
                prompt_by_step=by_step.get("prompt"),
                output_by_step=by_step.get("output"),
                lengths=Marginals.of_means(prompt, output, total),
                cache=_cache(own),
            )
        )
    return workloads


def _models(rows: pd.DataFrame, names: dict[str, int]) -> tuple[tuple[str, float], ...]:
    """Models with their requests, most first."""
    requests = np.bincount(rows.model, rows.requests.fillna(0.0), minlength=len(names))
    used = [(name, float(requests[number])) for name, number in names.items() if (rows.model == number).any()]
    return tuple(sorted(used, key=lambda item: (-item[1], item[0])))


def _alive(start: np.ndarray, counted: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Times at which a key that has no row had no requests."""
    within = times[(times >= start.min()) & (times <= start.max())]
    sparse = len(np.unique(start)) < SPARSE_FRAC * len(within) and not (counted == 0).any()
    return within if sparse else start


def _whole_sum(rows: pd.DataFrame, name: str) -> float | None:
    """Tokens of the rows whose requests are known; None where one of them does not say."""
    if name not in rows.columns:
        return None
    tokens = rows[name][rows.requests.notna()]
    return float(tokens.sum()) if tokens.notna().all() else None


def _cache(rows: pd.DataFrame) -> CacheUse | None:
    if "cached" not in rows.columns or "prompt" not in rows.columns:
        return None
    known = rows.cached.notna()
    return CacheUse(float(rows.cached.sum()), float(rows.prompt[known].sum()), float(rows.requests[known].sum()), None)


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


def _few_put_together(table: pd.DataFrame, key_of: dict[str, int], ledger: Ledger) -> dict[str, int]:
    """Numbers of the keys with most requests, and one for all others, which the table then has."""
    requests = np.bincount(table.key, table.requests.fillna(0.0), minlength=len(key_of))
    fewest = fewest_requests(float(requests.sum()))
    by_size = sorted(key_of, key=lambda name: (-requests[key_of[name]], name))
    large = [name for name in by_size if requests[key_of[name]] >= fewest][:MOST_WORKLOADS]
    small = len(key_of) - len(large)
    if not small or len(key_of) == 1:
        return key_of
    ledger.note(few_together(small))
    numbers = {name: key_of[name] for name in large}
    other = numbers.setdefault(OTHER, len(key_of))
    table["key"] = np.where(np.isin(table.key, list(numbers.values())), table.key, other).astype(np.int32)
    return numbers
