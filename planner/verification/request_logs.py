"""Requests from a log: when each came, and how many tokens it read and wrote.

Files are read by planner/logs/reading, in every format that it knows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from planner.case.case import Workload
from planner.case.length_buckets import cut_of
from planner.catalog.entries import shipped_catalog
from planner.catalog.names import find_model
from planner.io.errors import input_error, listed, shown
from planner.io.units import UTC
from planner.logs.reading.requests import Requests, open_logs, repeated
from planner.logs.reading.session_files import is_session_file
from planner.logs.reading.tables import Reading
from planner.logs.reuse import BLOCK_TOKENS
from planner.performance.length_spread import CUTS, LengthSpread, quantile
from planner.plan.plan import Plan
from planner.verification.arrivals import HOURS, MOST_TOKENS, Stream, stream_of
from planner.verification.block_cache import Blocks
from planner.verification.session_logs import read_session_requests

if TYPE_CHECKING:
    import pandas as pd

DAY_S, WEEK_S = 86_400, 3600 * HOURS
NAMED_IN_FILE = "Call it '{}' in a copy of the file"
DAY_NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True, eq=False)
class RequestLog:
    time_s: np.ndarray
    """from the first request on, in order"""
    prompt: np.ndarray
    output: np.ndarray
    starts: pd.Timestamp | None
    """the first request, where the log has dates"""
    dropped: int
    """rows without a time or a length, failed, or there twice"""
    of_others: int = 0
    """requests for other models"""
    blocks: np.ndarray | None = None
    """hashes of each prompt's blocks, where the log has them"""
    no_logs: tuple[str, ...] = ()
    """files of the folder that are no logs"""
    block_tokens: int = BLOCK_TOKENS


def read_request_log(path: Path, own_models: frozenset[str] = frozenset()) -> RequestLog:
    """Read a file, or a folder of files, of requests; raises InputError where it is no log of requests.

    Of a log that names models of the workload and others, only requests for the workload's own count.
    """
    import pandas as pd

    log = open_logs([str(path)], Reading({}, naming=NAMED_IN_FILE))
    kinds = {"time_us": np.int64, "prompt": np.int32, "output": np.int32, "id": np.int64}
    parts: dict[str, list[np.ndarray]] = {name: [np.zeros(0, kind)] for name, kind in kinds.items()}
    owned, lists, hashed, dated = [np.zeros(0, dtype=bool)], list[np.ndarray](), True, False
    known = shipped_catalog().models
    for part in log.parts():
        if not isinstance(part, Requests):
            raise input_error(path, "holds counts and no requests", "Name a log with one row for each request")
        for name, kind in kinds.items():
            column = getattr(part, name)
            parts[name].append(np.minimum(column, MOST_TOKENS).astype(kind) if kind is np.int32 else column)
        model = part.model.astype(str)
        owned.append(model.isin([name for name in model.unique() if find_model(name, known) in own_models]).to_numpy())
        hashed, dated = hashed and part.blocks is not None, dated or part.dated
        lists += part.blocks if hashed and part.blocks is not None else []
    time_us, prompt, output, ids = (np.concatenate(parts.pop(name)) for name in kinds)
    if not len(time_us):
        raise input_error(path, "has no requests", "Name a log with one row for each request")
    blocks = np.empty(len(time_us) if hashed else 0, dtype=object)
    for k, hashes in enumerate(lists if hashed else ()):
        blocks[k] = hashes  # one by one: numpy makes a matrix of lists that are equally long
    own = np.concatenate(owned)
    of_others = int((~own).sum()) if own.any() else 0
    if of_others:
        time_us, prompt, output, ids = (x[own] for x in (time_us, prompt, output, ids))
        blocks = blocks[own] if hashed else blocks
    again = repeated(ids)
    time_us, prompt, output = (x[~again] for x in (time_us, prompt, output))
    order = np.argsort(time_us, kind="stable")
    time_us = time_us[order]
    starts = pd.Timestamp(int(time_us[0]), unit="us", tz="UTC") if dated else None
    dropped = sum(log.ledger.left_out.values()) + int(again.sum())
    time_s = (time_us - time_us[0]) / 1e6
    of_prompts = blocks[~again][order] if hashed else None
    no_logs = tuple(shown(file.name) for file in log.ledger.no_logs)
    return RequestLog(time_s, prompt[order], output[order], starts, dropped, of_others, of_prompts, no_logs)


@dataclass(frozen=True, eq=False)
class RequestSource:
    """A log that stands for one workload of a plan."""

    log: RequestLog
    workload: str
    start_hour: int
    name: str
    """for people"""

    @property
    def block_tokens(self) -> int | None:
        """of the blocks whose hashes it has"""
        return None if self.log.blocks is None else self.log.block_tokens

    def times_s(self, load: float) -> np.ndarray:
        """From Monday on, within the week; at another load, time runs faster or slower."""
        times: np.ndarray = 3600.0 * self.start_hour + self.log.time_s / load
        return times[: int(np.searchsorted(times, WEEK_S))]

    def has_blocks_for(self, w: Workload) -> bool:
        """Whether it has hashes of blocks, and the workload's prefixes are cached."""
        return self.log.blocks is not None and (w.reuses or w.prefix_hit_frac > 0)

    def stream(self, w: Workload, times: np.ndarray, part: slice, rng: np.random.Generator) -> Stream:
        """Some requests of the log as they came."""
        prompt, output = (x[part].astype(float) for x in (self.log.prompt, self.log.output))
        cached = w.reuses or self.has_blocks_for(w)
        return stream_of(w, times[part], prompt, output, bucket_of(w, prompt, output), rng, cached)


class LoggedBlocks:
    """Whole blocks of the prompts of a log, numbered anew for some requests after the others."""

    def __init__(self, tokens: int = BLOCK_TOKENS) -> None:
        self.tokens = tokens
        self.known: dict[int, int] = {}

    def numbered(self, hashes: np.ndarray, prompt: np.ndarray) -> Blocks:
        known = self.known
        whole = [blocks[: int(n) // self.tokens] for blocks, n in zip(hashes, prompt.tolist(), strict=True)]
        begin = np.concatenate([[0], np.cumsum([len(blocks) for blocks in whole])]).astype(np.int64)
        ids = [known.setdefault(block, len(known)) for blocks in whole for block in blocks.tolist()]
        return Blocks(np.array(ids, dtype=np.int64), begin, self.tokens)


def source_of(plan: Plan, path: Path, workload: str, start_hour: int | None) -> RequestSource:
    """The log, from its own hour of the week on; where it has no dates or spans no day, from the busiest one on.

    Of a log that goes on beyond the Sunday, the week with most requests is served.
    """
    w = next(w for w in plan.case.workloads if w.name == workload)
    if is_session_file(path):
        return _source_of_sessions(w, path, start_hour)
    log = read_request_log(path, frozenset(choice.model for choice in w.models))
    if start_hour is None:
        if log.starts is not None and log.time_s[-1] >= DAY_S:
            first = log.starts.tz_convert(plan.case.time_zone or UTC)
            start_hour = 24 * first.day_of_week + first.hour
        else:
            start_hour = int(np.argmax(w.weekday_rps))
    logged = len(log.time_s)
    log, start_hour = busiest_week(log, start_hour)
    span_h = log.time_s[-1] / 3600
    dropped = f", {log.dropped:,} left out" if log.dropped else ""
    dropped += f", {log.of_others:,} for other models" if log.of_others else ""
    dropped += f", without {listed(log.no_logs, 'and')}: no log" if log.no_logs else ""
    place = f"{DAY_NAMES[start_hour // 24]} {start_hour % 24:02d}h"
    part = f" of {logged:,}, those of its busiest week," if len(log.time_s) < logged else ""
    name = f"{path.name}: {len(log.time_s):,} requests{part} in {span_h:.3g} h from {place} on{dropped}"
    return RequestSource(log, workload, start_hour, name)


def _source_of_sessions(w: Workload, path: Path, start_hour: int | None) -> RequestSource:
    """Sessions that begin at the plan's rates, from an hour of the week on: by default from Monday on."""
    first = start_hour or 0
    times, prompt, output, blocks, tokens = read_session_requests(path, w, first)
    log = RequestLog(times, prompt, output, None, 0, blocks=blocks, block_tokens=tokens)
    there = int(np.searchsorted(times, WEEK_S - 3600.0 * first))
    part = f" of {len(times):,}, those within the week," if there < len(times) else ""
    when = f"in {times[there - 1] / 3600:.3g} h from {DAY_NAMES[first // 24]} {first % 24:02d}h on"
    name = f"{path.name}: {there:,} requests{part} {when}; its sessions begin at the plan's rates"
    return RequestSource(log, w.name, first, name)


def busiest_week(log: RequestLog, start_hour: int) -> tuple[RequestLog, int]:
    """The week from Monday 0h on with most requests, and the hour in which it begins; `start_hour` is the log's."""
    since_monday_s = 3600.0 * start_hour + log.time_s
    week = (since_monday_s // WEEK_S).astype(int)
    if not week[-1]:
        return log, start_hour
    inside = week == int(np.argmax(np.bincount(week)))
    times = since_monday_s[inside] - WEEK_S * week[inside][0]
    first_hour = int(times[0] // 3600)
    part = replace(
        log,
        time_s=times - 3600.0 * first_hour,
        prompt=log.prompt[inside],
        output=log.output[inside],
        blocks=None if log.blocks is None else log.blocks[inside],
    )
    return part, first_hour


def bucket_of(w: Workload, prompt: np.ndarray, output: np.ndarray) -> np.ndarray:
    """The bucket that a request counts as: the slice of each distribution that it is in, or the nearest length."""
    cut = cut_of(w)
    if w.input_spread is not None and w.output_spread is not None and cut is not None:
        prompt_slice = np.searchsorted(_cuts(w.input_spread), prompt)
        return cut.index(prompt_slice, np.searchsorted(_cuts(w.output_spread), output), prompt + output)
    inputs = np.log([b.input_tokens for b in w.buckets])
    outputs = np.log([b.output_tokens for b in w.buckets])
    best, nearest = np.zeros(len(prompt), dtype=np.int64), np.full(len(prompt), np.inf)
    for k in range(len(w.buckets)):
        away = (np.log(prompt) - inputs[k]) ** 2 + (np.log(output) - outputs[k]) ** 2
        best, nearest = np.where(away < nearest, k, best), np.minimum(away, nearest)
    return best


def _cuts(spread: LengthSpread) -> np.ndarray:
    if spread.p95 <= spread.p50 * (1 + 1e-9):
        return np.zeros(0)
    return np.array([quantile(spread, p) for p in CUTS[1:-1]])
