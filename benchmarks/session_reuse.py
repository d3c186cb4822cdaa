"""What caches find of real sessions, replayed block by block, against the model that plans use.

    python benchmarks/session_reuse.py weka_claude_code.csv.gz [--held-out FILE]

The sessions are split in two halves. From one half `fleetplan demand` would write a `sessions:` entry; it is used to
predict what caches find of the other half, which is replayed exactly: one LRU cache of blocks per replica, every block
of every prompt looked up. Sessions begin at random times, at a low and at a high rate, over three periods; the first
fills the caches and is not counted. The working set is the distinct blocks of one period. With --held-out the model is
fitted on all of the first file and scored on the second.

Contexts of 131,072 tokens: sessions that would be longer are compacted (they go on from their first 50,000 tokens,
written anew) or slide (only their first 16,384 tokens stay in place).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numba import njit

from planner.logs.sessions import SessionRows, fitted
from planner.performance.sessions import Ages, Cut, Sessions, Window, ages_from, ages_of, context_tokens

BLOCK, CUT, LEFT, HEAD = 64, 131_072, 50_000, 16_384
SIZES = (0.05, 0.10, 0.20, 0.40, 0.80)
PERIODS = 3
Then = Literal["compact", "slide"]
DAY_S = 86_400.0


@dataclass(frozen=True, eq=False)
class Session:
    """One session, by request."""

    start_s: np.ndarray
    thread: np.ndarray
    """agent that asks"""
    blocks: np.ndarray
    kept: np.ndarray
    """leading blocks in common with an earlier request"""
    source: np.ndarray
    """number of that request; -1: none"""
    answer: np.ndarray


def sessions_in(path: str) -> list[Session]:
    table = pd.read_csv(path).sort_values(["session", "seq"])
    found = []
    for _, g in table.groupby("session", sort=True):
        source = g.shared_with.fillna(-1).to_numpy(dtype=np.int64)
        if (source >= np.arange(len(g))).any():
            raise ValueError("a request goes on from a later one")
        thread = pd.factorize(g.agent)[0]
        columns = (g.blocks, g.shared_blocks)
        found.append(
            Session(
                g.t_s.to_numpy(float),
                thread,
                *(c.to_numpy(np.int64) for c in columns),
                source,
                g.output_tokens.to_numpy(float),
            )
        )
    return found


def cut(session: Session, then: Then) -> Session:
    """The session in a context of CUT tokens."""
    most, left, head = CUT // BLOCK, LEFT // BLOCK, HEAD // BLOCK
    blocks, kept, source = session.blocks.copy(), session.kept.copy(), session.source.copy()
    if then == "slide":
        over = blocks > most
        kept = np.where(over, np.minimum(kept, head), np.minimum(kept, most))
        return Session(session.start_s, session.thread, np.minimum(blocks, most), kept, source, session.answer)
    dropped, piece = np.zeros(len(blocks), np.int64), np.zeros(len(blocks), np.int64)
    for k in range(len(blocks)):
        before = source[k]
        if before >= 0:
            dropped[k], piece[k] = dropped[before], piece[before]
        if session.blocks[k] - dropped[k] > most:
            dropped[k], piece[k] = session.blocks[k] - left, k + 1
        blocks[k] = max(1, session.blocks[k] - dropped[k])
        same = before >= 0 and piece[before] == piece[k]
        kept[k] = min(blocks[k], max(0, session.kept[k] - dropped[k])) if same else 0
    return Session(session.start_s, session.thread, blocks, kept, source, session.answer)


def named(session: Session) -> tuple[list[np.ndarray], int]:
    """Numbers of each prompt's blocks, and how many there are."""
    prompts: list[np.ndarray] = []
    count = 0
    for blocks, kept, source in zip(session.blocks, session.kept, session.source, strict=True):
        head = prompts[source][:kept] if source >= 0 else np.zeros(0, np.int64)
        prompts.append(np.concatenate([head, np.arange(count, count + blocks - len(head))]))
        count += int(blocks) - len(head)
    return prompts, count


def rows_of(sessions: list[Session]) -> SessionRows:
    """As a log has them that a demand file is made from; waits are from start to start, as the replay has no others."""
    parts = []
    number = 0
    for s in sessions:
        for thread in np.unique(s.thread):
            mine = np.flatnonzero(s.thread == thread)
            wait = np.concatenate([[np.inf], np.maximum(np.diff(s.start_s[mine]), 1e-3)])
            kept = np.where(np.isfinite(wait), s.kept[mine], 0)
            parts.append((np.full(len(mine), number), wait, BLOCK * s.blocks[mine], s.answer[mine], BLOCK * kept))
            number += 1
    return SessionRows(*(np.concatenate(c).astype(float if k else int) for k, c in enumerate(zip(*parts, strict=True))))


def measured_ages(sessions: list[Session], replicas: int, sticky: bool, seed: int = 7, draws: int = 3) -> Ages:
    """How long ago blocks were used last where a turn is sent, with turns sent by chance; exact for these sessions."""
    rng, ages, weights, total = np.random.default_rng(seed), [], [], 0
    for s in sessions:
        prompts, count = named(s)
        ids, begin = np.concatenate(prompts), np.concatenate([[0], np.cumsum([len(p) for p in prompts])])
        for _ in range(1 if sticky or replicas == 1 else draws):
            place = np.zeros(len(prompts), np.int64) if sticky else rng.integers(0, replicas, len(prompts))
            age = _ages(ids, begin, s.start_s, place, count, replicas)
            total += len(age)
            values, counts = np.unique(age[np.isfinite(age)], return_counts=True)
            ages.append(values)
            weights.append(counts)
    return ages_from(np.concatenate(ages), np.concatenate(weights).astype(float), float(total))


@njit(cache=True)
def _ages(ids, begin, start_s, place, count, replicas):  # type: ignore[no-untyped-def]
    last = np.full((replicas, count), -np.inf)
    age = np.full(len(ids), np.inf)
    for k in range(len(begin) - 1):
        for i in range(begin[k], begin[k + 1]):
            age[i] = start_s[k] - last[place[k], ids[i]]
            last[place[k], ids[i]] = start_s[k]
    return age


@njit(cache=True)
def replayed(ids, begin, place, capacity, replicas, count, first):  # type: ignore[no-untyped-def]
    """Share of blocks found from some request on, by one LRU cache per replica of so many blocks each."""
    newer, older = np.full((replicas, count), -1, np.int32), np.full((replicas, count), -1, np.int32)
    inside = np.zeros((replicas, count), np.bool_)
    newest, oldest, size = (
        np.full(replicas, -1, np.int32),
        np.full(replicas, -1, np.int32),
        np.zeros(replicas, np.int64),
    )
    hits = total = 0
    for q in range(len(begin) - 1):
        r, a, b = place[q], begin[q], begin[q + 1]
        m = a
        while m < b and inside[r, ids[m]]:
            m += 1
        if q >= first:
            hits, total = hits + m - a, total + b - a
        for k in range(b - 1, a - 1, -1):  # the head is used last, so that it outlives the tail
            x = ids[k]
            if newest[r] == x:
                continue
            if inside[r, x]:
                up, down = newer[r, x], older[r, x]
                older[r, up] = down
                if down == -1:
                    oldest[r] = up
                else:
                    newer[r, down] = up
            else:
                inside[r, x] = True
                size[r] += 1
            older[r, x], newer[r, x] = newest[r], -1
            if newest[r] == -1:
                oldest[r] = x
            else:
                newer[r, newest[r]] = x
            newest[r] = x
        while size[r] > capacity:
            x = oldest[r]
            oldest[r] = newer[r, x]
            inside[r, x] = False
            size[r] -= 1
            if oldest[r] == -1:
                newest[r] = -1
            else:
                older[r, oldest[r]] = -1
    return hits / total


@dataclass(frozen=True, eq=False)
class Trace:
    """Sessions of several periods, each begun at a random time of each period, by request."""

    ids: np.ndarray
    begin: np.ndarray
    session: np.ndarray
    count: int
    working_set: int
    first: int
    """request of the second period"""


def trace_of(sessions: list[Session], period_s: float, seed: int = 1) -> Trace:
    rng = np.random.default_rng(seed)
    prompts_of = [named(s) for s in sessions]
    times, owner, prompts = [], [], []
    base = 0
    for period in range(PERIODS):
        for s, (own, count) in zip(sessions, prompts_of, strict=True):
            times.append(s.start_s + (period + rng.random()) * period_s)
            owner.append(np.full(len(own), period * len(sessions) + len(times)))
            prompts += [p + base for p in own]
            base += count
    when = np.concatenate(times)
    order = np.argsort(when, kind="stable")
    in_order = [prompts[k] for k in order]
    begin = np.concatenate([[0], np.cumsum([len(p) for p in in_order])])
    working_set = sum(count for _, count in prompts_of)
    first = int(np.searchsorted(when[order], period_s))
    last = int(np.searchsorted(when[order], PERIODS * period_s))
    ids = np.concatenate(in_order[:last])
    return Trace(ids, begin[: last + 1], np.concatenate(owner)[order][:last], base, working_set, first)


@dataclass(frozen=True)
class Row:
    context: str
    period_h: float
    replicas: int
    sticky: bool
    size: float
    found: float
    by_file: float
    """predicted through a demand file"""
    by_ages: float
    """predicted from the ages of tokens themselves, without percentiles"""


def in_a_context(sessions: Sessions, then: Then) -> Sessions:
    if then == "compact":
        return sessions.with_cut(Cut(tokens=CUT, then=then, left_tokens=LEFT))
    return sessions.model_copy(update={"window": Window(tokens=CUT, head_tokens=HEAD)})


def rows(fit_on: list[Session], score_on: list[Session], then: Then | None, period_h: float) -> Iterator[Row]:
    fit, score = fit_on, score_on
    if then is not None:
        score = [cut(s, then) for s in score_on]
    file = fitted(rows_of(fit), answers_kept=False)
    if then is not None:
        file = in_a_context(file, then)
        fit = [cut(s, then) for s in fit_on]
    trace = trace_of(score, 3600 * period_h)
    tokens_per_s = len(trace.ids) - int(trace.begin[trace.first])
    rate = tokens_per_s / ((PERIODS - 1) * 3600 * period_h)
    rng = np.random.default_rng(3)
    for replicas, sticky in ((1, True), (4, True), (4, False)):
        by_session = rng.integers(0, replicas, int(trace.session.max()) + 1)[trace.session]
        place = by_session if sticky else rng.integers(0, replicas, len(trace.session))
        known, ages = ages_of(file, 1 if sticky else replicas), measured_ages(fit, replicas, sticky)
        for size in SIZES:
            blocks = int(size * trace.working_set)
            found = replayed(trace.ids, trace.begin, place, blocks // replicas, replicas, trace.count, trace.first)
            contexts = blocks / replicas / (context_tokens(file) / BLOCK)
            predicted = [a.found_in(a.residence_s(blocks, rate), contexts) for a in (known, ages)]
            yield Row(then or "any", period_h, replicas, sticky, size, found, *predicted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sessions")
    parser.add_argument("--held-out")
    parser.add_argument("--period-h", type=float, nargs="*", default=[24.0, 1.0])
    asked = parser.parse_args()
    known = sessions_in(asked.sessions)
    fit_on, score_on = (known, sessions_in(asked.held_out)) if asked.held_out else (known[::2], known[1::2])
    print(f"fitted on {len(fit_on)} sessions, scored on {len(score_on)}; shares of prompt blocks found, in %\n")
    print("| context | sessions within | replicas | cache | replayed | demand file | off | ages | off |")
    print("|---|---|---|---|---|---|---|---|---|")
    worst: dict[str, list[float]] = {"demand file": [], "ages": []}
    choices: tuple[Then | None, ...] = (None, "compact", "slide")
    for then in choices:
        for period_h in asked.period_h:
            for row in rows(fit_on, score_on, then, period_h):
                which = f"{row.replicas}{'' if row.replicas == 1 else ', sticky' if row.sticky else ', any'}"
                off = [100 * (p - row.found) for p in (row.by_file, row.by_ages)]
                worst["demand file"].append(off[0])
                worst["ages"].append(off[1])
                print(
                    f"| {'any' if then is None else f'131k, {then}'} | {period_h:g} h | {which} | {row.size:.0%} "
                    f"| {100 * row.found:.1f} | {100 * row.by_file:.1f} | {off[0]:+.1f} "
                    f"| {100 * row.by_ages:.1f} | {off[1]:+.1f} |", flush=True,
                )  # fmt: skip
    print()
    for name, off in worst.items():
        print(f"{name}: mean {np.mean(np.abs(off)):.1f} points, worst {max(off, key=abs):+.1f}")


if __name__ == "__main__":
    main()
