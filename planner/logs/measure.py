"""From logs to measured workloads: read, stage, group on an engine, and measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from planner.io.errors import input_error, shown
from planner.io.formatting import counted
from planner.logs.bursts import Bursts, bursts_of
from planner.logs.engine import DUCKDB, Stage, check_engine, connected
from planner.logs.expressions import (
    few_together,
    grouped,
    length_cells,
    shared_by_files,
    with_few_keys,
    without_duplicates,
    without_shared,
)
from planner.logs.growth import Growth, growth_of
from planner.logs.hours import Hours, hours_of
from planner.logs.lengths import OUTPUT_CUTS, PROMPT_CUTS, Lengths, buckets_of, cuts_of, side_of
from planner.logs.reading.ledger import DUPLICATE_IDS, IN_TWO_FILES, Ledger
from planner.logs.reading.requests import NO_ID, By, Requests, open_logs
from planner.logs.reading.tables import Reading
from planner.logs.reuse import BLOCK_TOKENS, MOST_REFERENCES, ReuseCurve, reuse_curve
from planner.logs.sessions import SessionRows, are_sessions, rows_of_blocks, rows_of_turns
from planner.logs.statistics import Rates, Swings, rates_of, swings_of
from planner.logs.traffic import Traffic, traffic_of_requests
from planner.logs.usage import traffic_in
from solvers.backends.scratch import remove_stale, scratch_folder

AGAIN_FRAC = 0.001
"""of the requests, up to which the same time and lengths in two files are chance"""
POISSON = 1.0
"""burstiness that counts are taken to have where gaps are not known"""

WHAT_ODD = {
    "launch": "before it began",
    "ended": "after its last request",
    "gap": "without records",
    "outage": "almost without requests, although usually busy",
    "outlier": "far off the usual level",
    "shift": "far off the usual level for a day or longer, kept",
}


@dataclass(frozen=True)
class MeasureOptions:
    """What to measure, and where."""

    sources: tuple[str, ...]
    columns: tuple[tuple[str, str], ...] = ()
    time_unit: str | None = None
    by: By | None = None
    zone: str = "UTC"
    holidays: frozenset[date] = frozenset()
    engine: str = DUCKDB
    sessions: bool = False
    """whether prompts with hashes of blocks are to be read as sessions"""
    work: Path | None = None
    """a folder for staged requests; a cluster's workers must see it"""


@dataclass(frozen=True, eq=False)
class Workload:
    """A workload with all that its log tells."""

    traffic: Traffic
    hours: Hours
    rates: Rates
    growth: Growth
    swings: Swings
    bursts: Bursts


@dataclass(frozen=True, eq=False)
class Measured:
    options: MeasureOptions
    ledger: Ledger
    workloads: tuple[Workload, ...]
    reuse: ReuseCurve | None
    dated: bool
    sessions: SessionRows | None = None
    """where the log names them, or they were asked for"""


def measure_logs(options: MeasureOptions) -> Measured:
    """Measure logs; raises InputError where there is nothing to measure."""
    check_engine(options.engine)
    _check_zone(options.zone)
    log = open_logs(options.sources, Reading(dict(options.columns), options.time_unit), options.by)
    with scratch_folder("logs", options.work) as folder:
        remove_stale(folder.parent)
        if options.work is not None and options.engine != DUCKDB:
            folder.chmod(0o755)  # workers of a cluster may be other users
        stage, blocks, turns = Stage(folder), _Blocks(log.ledger), _Turns(options.sessions)

        def take(part: Requests) -> None:
            stage.add(part)
            blocks.add(part)
            turns.add(part)

        traffic = traffic_in(
            log, options.sources[0], take, lambda dated: _of_requests(options, stage, log.ledger, dated)
        )
    if options.by and not any(t.name for t in traffic):
        remedy = f"Leave --by out, or name its column: --columns {options.by}=COLUMN"
        raise input_error(options.sources[0], f"has no {options.by} to split by", remedy)
    if max(t.span_s for t in traffic) < 1:
        raise input_error(options.sources[0], "covers no time", "Give a log of at least some minutes")
    measured = tuple(measured_workload(t, options.zone, options.holidays) for t in traffic)
    if any(w.hours.split for w in measured):
        log.ledger.note(split_note(options.zone))
    return Measured(
        options, log.ledger, measured, blocks.curve(), all(t.dated for t in traffic), turns.rows(log.ledger)
    )


def _of_requests(options: MeasureOptions, stage: Stage, ledger: Ledger, dated: bool) -> list[Traffic]:
    with connected(options.engine, stage.folder) as connection:
        table, twice = without_duplicates(connection, stage.table(connection))
        ledger.leave_out_together(DUPLICATE_IDS, twice, "by request id")
        shared, inside = shared_by_files(connection, table, stage)
        if shared.again and not shared.is_chance:
            table = without_shared(connection, table, inside)
            ledger.leave_out_together(IN_TWO_FILES, shared.again, "by time, lengths and model")
        elif shared.again > AGAIN_FRAC * stage.rows:
            ledger.note(
                f"{counted(shared.again, 'request')} without an id found in two files with the same time and lengths, "
                "perhaps by chance: if the files overlap, give each time only once, or add a column of ids"
            )
        table, models, small = with_few_keys(connection, table, stage)
        if small:
            ledger.note(few_together(small))
        groups = grouped(connection, table, stage, models)
        sides: dict[str, tuple[Any, Any]] = {}
        cuts: dict[str, tuple[Sequence[float], Sequence[float]]] = {}
        for key in groups.models.key.unique():
            pair = []
            for frame, column in ((groups.prompts, "prompt"), (groups.outputs, "output")):
                rows = frame[frame.key == key]
                pair.append((rows[column].to_numpy(dtype=np.int64), rows.n.to_numpy(dtype=np.int64)))
            sides[str(key)] = (side_of(*pair[0]), side_of(*pair[1]))
            cuts[str(key)] = (cuts_of(*pair[0], PROMPT_CUTS), cuts_of(*pair[1], OUTPUT_CUTS))
        cells = length_cells(connection, table, stage, cuts)
    lengths = {key: Lengths(*sides[key], buckets_of(cells[cells.key == key])) for key in sides}
    return traffic_of_requests(groups, lengths, dated)


def hour_notes(w: Workload) -> list[str]:
    """Hours left out, and hours of the day that the log does not show."""
    notes = [f"{counted(flags.sum(), 'hour')} {WHAT_ODD[kind]}" for kind, flags in w.hours.odd.items()]
    kinds = (("weekday", "weekend days"), ("weekend", "weekdays"))
    for missing, (kind, other) in zip(w.rates.missing_hours, kinds, strict=True):
        if missing:
            verb = "is" if missing == 1 else "are"
            notes.append(f"{counted(missing, kind + ' hour')} {verb} not in the log and taken from {other}")
    return notes


def split_note(zone: str) -> str:
    return f"counts lie in two hours of the clock of {zone} and are split between them evenly"


def measured_workload(traffic: Traffic, zone: str, holidays: frozenset[date] = frozenset()) -> Workload:
    """Everything that traffic tells, by the clock of a time zone."""
    hours = hours_of(traffic, zone, holidays)
    growth, bursts = growth_of(hours), bursts_of(traffic.gaps, traffic.total)
    rates = rates_of(traffic, hours, growth)
    swings = swings_of(traffic, hours, rates, growth, POISSON if bursts.scv is None else max(0.0, bursts.scv))
    return Workload(traffic, hours, rates, growth, swings, bursts)


class _Blocks:
    """Block hashes of a trace, in the order of their requests."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.requests: list[tuple[int, int, np.ndarray]] = []
        self.references = 0

    def add(self, part: Requests) -> None:
        if part.blocks is None or self.references >= MOST_REFERENCES:
            return
        offset = len(self.requests)
        times = part.time_us.tolist()
        self.requests += [(t, offset + k, blocks) for k, (t, blocks) in enumerate(zip(times, part.blocks, strict=True))]
        self.references += sum(len(blocks) for blocks in part.blocks)
        if self.references >= MOST_REFERENCES:
            self.ledger.note(f"reuse is taken from the first {self.references:,} prefix blocks of the log")

    def curve(self) -> ReuseCurve | None:
        if not self.references:
            return None
        return reuse_curve([blocks for _, _, blocks in sorted(self.requests, key=lambda r: r[:2])])


class _Turns:
    """Requests of sessions, where a log names these or has hashes of blocks that tell."""

    def __init__(self, by_blocks: bool) -> None:
        self.by_blocks = by_blocks
        self.parts: list[tuple[np.ndarray, ...]] = []
        self.blocks: list[np.ndarray] = []

    def add(self, part: Requests) -> None:
        if part.session is None and not (self.by_blocks and part.blocks is not None):
            return
        named = np.zeros(len(part.time_us), dtype=np.int64) if part.session is None else part.session
        some = np.flatnonzero(named != NO_ID) if part.session is not None else np.arange(len(named))
        self.parts.append(tuple(x[some] for x in (named, part.time_us / 1e6, part.prompt, part.output)))
        self.blocks += [part.blocks[k] for k in some.tolist()] if part.session is None and part.blocks else []

    def rows(self, ledger: Ledger) -> SessionRows | None:
        if not self.parts:
            return None
        session, start_s, prompt, output = (np.concatenate(c) for c in zip(*self.parts, strict=True))
        if self.blocks:
            rows = rows_of_blocks(self.blocks, start_s, prompt, output, BLOCK_TOKENS)
        else:
            rows = rows_of_turns(session, start_s, prompt, output)
        if are_sessions(rows):
            return rows
        ledger.note("sessions have too few turns to say anything of them: lengths are written instead")
        return None


def _check_zone(zone: str) -> None:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        message = f"there is no time zone {shown(zone)}"
        raise input_error("--time-zone", message, "Write one such as Europe/Berlin") from None


def parse_columns(text: str | None) -> tuple[tuple[str, str], ...]:
    """Columns from `time=ts,prompt=in_tokens`."""
    from planner.logs.reading.presets import FIELDS

    columns: dict[str, str] = {}
    for part in (text or "").split(",") if text else ():
        name, equals, column = part.partition("=")
        if not equals or not column.strip() or name.strip() not in FIELDS:
            fields: Sequence[str] = FIELDS
            message = f"expected pairs such as time=ts, got {shown(part)}"
            raise input_error("--columns", message, f"To the left of = write one of {', '.join(fields)}")
        columns[name.strip()] = column.strip()
    return tuple(columns.items())
