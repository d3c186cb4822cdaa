"""Traffic of each workload in a log: requests go to whoever takes them, counts and metrics become traffic.

Forecasts of demand files and reviews are made from it without an engine, from any log that `fleetplan demand` reads and
through the same readers. Requests are counted by the minute, in whole numbers and bounded memory (24 bytes for one that
has an id); gaps between them and joint lengths, which need all requests at once, are left to the engine behind
`fleetplan demand`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from planner.io.errors import input_error
from planner.logs.counts import CountRows, traffic_of_counts
from planner.logs.engine import MINUTE_US, MONDAY_US
from planner.logs.lengths import Marginals
from planner.logs.reading.ledger import DUPLICATE_IDS, Ledger
from planner.logs.reading.presets import NAMED_BY_KEY
from planner.logs.reading.prometheus import Metrics
from planner.logs.reading.requests import NO_ID, Counts, Log, Requests, repeated
from planner.logs.reading.tables import Reading
from planner.logs.traffic import MINUTE_S, Traffic, span_covered, traffic_of_counters
from solvers.backends.clock import check

SUMS = ("requests", "prompt", "output")
MOST_CELLS = 2_000_000
"""minutes of workloads that wait to be added up"""


def traffic_in(
    log: Log,
    where: Path | str,
    take: Callable[[Requests], None],
    taken: Callable[[bool], list[Traffic]],
    counts: CountRows | None = None,
) -> list[Traffic]:
    """Traffic by key; raises InputError where a log holds nothing, or what does not go together.

    Requests go to `take`, piece by piece; `taken` then says what traffic they make, with dates or without. Counts
    go to `counts`, where that is given, and keep all of their keys.
    """
    rows = CountRows() if counts is None else counts
    metrics = Metrics(log.by, log.ledger)
    dated: set[bool] = set()
    try:
        for part in log.parts():
            check()
            if isinstance(part, Requests):
                take(part)
                dated |= {part.dated} if len(part.time_us) else set()
            elif isinstance(part, Counts):
                rows.add(part)
            else:
                metrics.add(part)
    except MemoryError:
        remedy = "Give one row an hour, or leave out older rows"
        raise input_error(where, "needs more memory than there is", remedy) from None
    if len(dated) > 1:
        raise input_error(where, "holds logs with dates and logs without", "Read them one by one")
    filled = (("requests", dated), ("counts", len(rows.times)), ("metrics", metrics.first))
    kinds = [name for name, some in filled if some]
    if len(kinds) > 1:
        raise input_error(where, f"holds {' and '.join(kinds)}", "They overlap: read one kind of them")
    if metrics.first:
        return traffic_of_counters(metrics.usable())
    if len(rows.times):
        return traffic_of_counts(rows, log.ledger, every_key=counts is not None) if rows.rows else []
    if not dated:
        raise input_error(where, "holds no request", "Check what was exported")
    return taken(dated.pop())


@dataclass(frozen=True, eq=False)
class Usage:
    """What a log says of each workload; one without a name where no column names them."""

    traffic: dict[str, Traffic]
    ledger: Ledger
    names: tuple[str, ...]
    """all workloads that the log has"""

    @property
    def remarks(self) -> list[str]:
        return [*self.ledger.left_out_lines(), *self.ledger.notes]


def read_usage_file(path: Path, only: frozenset[str] | None = None, columns: dict[str, str] | None = None) -> Usage:
    """Read one file, or `only` some of its workloads (and what names none); raises InputError where it is no log."""
    log = Log([path], Reading(columns or {}, naming=NAMED_BY_KEY), "workload")
    wanted = None if only is None else only | {""}
    minutes, counts = _Minutes(log.ledger, wanted), CountRows(wanted)
    workloads = traffic_in(log, path, minutes.add, minutes.traffic, counts)
    return Usage({t.name: t for t in workloads}, log.ledger, tuple(sorted({**minutes.keys, **counts.names["key"]})))


@dataclass
class _Minutes:
    """Requests on their way to counts by the minute."""

    ledger: Ledger
    only: frozenset[str] | None
    """workloads whose requests are counted"""
    keys: dict[str, int] = field(default_factory=dict)
    summed: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    """(key << 32 | minute, SUMS) of requests without an id"""
    with_id: list[np.ndarray] = field(default_factory=list)
    first_us: int = 2**62
    last_us: int = 0

    def add(self, part: Requests) -> None:
        import pandas as pd

        if not len(part.time_us):
            return
        codes, names = pd.factorize(part.key)
        key = np.array([self.keys.setdefault(str(name), len(self.keys)) for name in names])[codes]
        self.first_us = min(self.first_us, int(part.time_us.min()))
        self.last_us = max(self.last_us, int(part.time_us.max()))
        rows = np.empty(len(key), dtype=ROW)
        columns = (part.id, key, part.time_us // MINUTE_US, part.prompt, part.output)
        for name, values in zip(ROW.names or (), columns, strict=True):
            rows[name] = values
        if self.only is not None:
            rows = rows[np.isin(rows["key"], [n for name, n in self.keys.items() if name in self.only])]
        self.with_id.append(rows[rows["id"] != NO_ID])
        self._sum(rows[rows["id"] == NO_ID])

    def _sum(self, rows: np.ndarray) -> None:
        place = rows["key"].astype(np.int64) << 32 | rows["minute"]
        figures = np.stack([np.ones(len(rows)), rows["prompt"], rows["output"]], axis=1)
        self.summed.append(_added(place, figures))
        if sum(len(places) for places, _ in self.summed) > MOST_CELLS:
            self._fold()

    def _fold(self) -> tuple[np.ndarray, np.ndarray]:
        places, sums = (np.concatenate(parts) for parts in zip(*self.summed, strict=True))
        self.summed = [_added(places, sums)]
        return self.summed[0]

    def traffic(self, dated: bool) -> list[Traffic]:
        """One for each workload, in the order of their names; the log begins and ends for all of them at once."""
        ids = np.concatenate([rows["id"] for rows in self.with_id])
        again = repeated(ids)
        self.ledger.leave_out_together(DUPLICATE_IDS, int(again.sum()), "by request id")
        at = len(ids)
        while self.with_id:  # from the end, so that they are given up one by one
            rows = self.with_id.pop()
            at -= len(rows)
            self._sum(rows[~again[at : at + len(rows)]])
        places, sums = self._fold()
        shift_us = 0 if dated else MONDAY_US
        covered = span_covered(
            (self.first_us + shift_us) / 1e6, (self.last_us + shift_us) / 1e6, int(sums[:, 0].sum())
        )  # fmt: skip
        first = int(covered[0] // MINUTE_S)
        size = max((self.last_us + shift_us) // MINUTE_US, int(-(-covered[1] // MINUTE_S)) - 1) - first + 1
        workloads = []
        for name, key in sorted(self.keys.items()):
            own = places >> 32 == key
            if not own.any():
                continue
            minutes = np.zeros((len(SUMS), size))
            minutes[:, (places[own] & 0xFFFFFFFF) + shift_us // MINUTE_US - first] = sums[own].T
            requests, prompt, output = minutes
            n, read, wrote = minutes.sum(axis=1).tolist()
            workloads.append(
                Traffic(
                    name=name, models=(), step_s=MINUTE_S, start_s=first * MINUTE_S, requests=requests, covered=covered,
                    dated=dated, total=n, prompt_tokens=read, output_tokens=wrote, prompt_by_step=prompt,
                    output_by_step=output, lengths=Marginals.of_means(read, wrote, n),
                )
            )  # fmt: skip
        return workloads


ROW = np.dtype([("id", np.int64), ("key", np.int32), ("minute", np.int32), ("prompt", np.int32), ("output", np.int32)])


def _added(places: np.ndarray, figures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Figures of one place added up."""
    distinct, of = np.unique(places, return_inverse=True)
    return distinct, np.stack([np.bincount(of, column, minlength=len(distinct)) for column in figures.T], axis=1)
