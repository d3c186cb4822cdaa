"""Sessions in logs: turns that go on from earlier ones, and the figures of a demand file that stand for them.

Waits are measured by the tokens that wait, not by turns: a memory sees tokens, and long sessions pause differently.
Turns, prompts and what is appended are percentiles with their means. Three figures are fitted, so that sessions drawn
from the file have the log's mean prompt and the share of its prompt tokens that came before: how much less long
sessions append in a turn, the context at which sessions are compacted where that is not enough, and the share of turns
that find nothing because their history was rewritten.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from planner.performance.length_spread import LengthSpread, least_mean
from planner.performance.sessions import Cut, SessionKind, Sessions, WaitPoint, Waits, sample_of

LEVELS = (0.01, 0.05, 0.1, 0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 1.0)
"""quantiles of waits that are written down"""
REWRITTEN_FRAC = 0.5
"""share of the turn before that must be kept, or its history counts as rewritten"""
HALVINGS, FITTED_ON = 12, 160
LEAST_SLOWS, NEARLY = 0.01, 1.05
"""the least that is worth saying, and times the mean prompt that is near enough to it"""
MOST_APART, LEAST_ALIKE = 10, 0.01
"""turns between two waits that are compared, and the least correlation that is worth saying"""
FEWEST_OF_KIND = 6
"""sessions, below which they are no kind of their own"""
FEWEST_TURNS = 50
"""later turns of sessions, below which nothing is fitted to them"""
NO_ANSWER = LengthSpread(p50=1e-3, p95=1e-3)
NO_TIMES_OF_ANSWERS = "waits are from request to request, as the log has no time of answers: these count as waits"
FEWEST_A_SESSION = 1.5
"""requests of a session on average, below which a column of sessions tells of none"""


@dataclass(frozen=True, eq=False)
class SessionRows:
    """Requests in the order of their sessions, and in each by time [request]."""

    thread: np.ndarray
    """numbers of what goes on turn by turn: a session, or a sub-agent of one"""
    wait_s: np.ndarray
    """since the turn before ended; inf of a first turn"""
    prompt: np.ndarray
    answer: np.ndarray
    kept: np.ndarray
    """tokens from the start of the prompt that an earlier turn of the session had in its own"""
    assumed: tuple[str, ...] = ()
    """what the log does not say, and was taken for granted"""

    def at(self, some: np.ndarray) -> SessionRows:
        """Those of some requests, which are whole sessions."""
        return SessionRows(*(c[some] for c in (self.thread, self.wait_s, self.prompt, self.answer, self.kept)))

    @property
    def sessions(self) -> int:
        return len(np.unique(self.thread))


def rows_of_turns(
    session: np.ndarray,
    start_s: np.ndarray,
    prompt: np.ndarray,
    answer: np.ndarray,
    kept: np.ndarray | None = None,
    took_s: np.ndarray | None = None,
) -> SessionRows:
    """Requests of a log that names sessions; a prompt is taken to begin with the one before where the log is silent."""
    order = np.lexsort((start_s, session))
    session, start_s = np.unique(session[order], return_inverse=True)[1], start_s[order]
    prompt, answer = prompt[order].astype(float), answer[order].astype(float)
    later = np.concatenate([[False], session[1:] == session[:-1]])
    assumed = []
    if kept is None:
        before = np.concatenate([[0.0], prompt[:-1]])
        kept = np.where(later & (prompt >= before), before, 0.0)
        assumed.append(
            "a prompt no shorter than the one before it begins with all of that; a shorter one keeps nothing"
        )
    else:
        kept = np.where(later, kept[order], 0.0)
    end_s = start_s if took_s is None else start_s + took_s[order]
    if took_s is None:
        assumed.append(
            "waits are from request to request, as the log has no time of answers: the time to answer counts"
        )
    wait_s = np.where(later, np.maximum(0.0, start_s - np.concatenate([[0.0], end_s[:-1]])), np.inf)
    return SessionRows(session, wait_s, prompt, answer, np.minimum(kept, prompt), tuple(assumed))


def rows_of_blocks(
    blocks: list[np.ndarray], start_s: np.ndarray, prompt: np.ndarray, answer: np.ndarray, block_tokens: int
) -> SessionRows:
    """Requests of a trace with hashes of prefix blocks: one goes on from the last that had most of its prefix.

    What most requests begin with makes no session: it is a system prompt that all have.
    """
    order = np.argsort(start_s, kind="stable")
    count = len(order)
    common = _common_blocks([blocks[k] for k in order])
    last: dict[int, int] = {}
    thread, before, kept = np.zeros(count, dtype=np.int64), np.full(count, -1), np.zeros(count)
    threads = 0
    for place, k in enumerate(order.tolist()):
        found = -1
        for depth, block in enumerate(blocks[k].tolist()):
            if block not in last:
                break
            kept[place] = (depth + 1) * block_tokens
            found = last[block] if depth >= common else found
        if found >= 0:
            before[place], thread[place] = found, thread[found]
        else:
            kept[place], thread[place] = 0.0, threads
            threads += 1
        last.update(dict.fromkeys(blocks[k].tolist(), place))
    start_s, prompt, answer = start_s[order], prompt[order].astype(float), answer[order].astype(float)
    wait_s = np.where(before >= 0, np.maximum(0.0, start_s - start_s[before]), np.inf)
    by_thread = np.argsort(thread, kind="stable")
    assumed = "sessions are chains of prompts that begin with each other's blocks, beyond what most prompts share"
    kept = np.minimum(kept, prompt)[by_thread]
    return SessionRows(
        thread[by_thread],
        wait_s[by_thread],
        prompt[by_thread],
        answer[by_thread],
        kept,
        (assumed, NO_TIMES_OF_ANSWERS),
    )


def _common_blocks(blocks: list[np.ndarray]) -> int:
    """Leading blocks that half of the requests have."""
    depth, alike = 0, blocks
    while alike:
        heads = np.array([b[depth] for b in alike if len(b) > depth], dtype=np.int64)
        if not len(heads):
            break
        values, counts = np.unique(heads, return_counts=True)
        best = int(counts.argmax())
        if counts[best] < 0.5 * len(blocks):
            break
        alike = [b for b in alike if len(b) > depth and b[depth] == values[best]]
        depth += 1
    return depth


def are_sessions(rows: SessionRows) -> bool:
    """Whether there is enough of them to say anything."""
    later = int(np.isfinite(rows.wait_s).sum())
    return later >= FEWEST_TURNS and len(rows.thread) >= FEWEST_A_SESSION * rows.sessions


def fitted(rows: SessionRows, answers_kept: bool = True, by_length: int = 3, by_pace: int = 3) -> Sessions:
    """Figures that stand for the sessions of a log, in kinds by how long they grow and by how fast they go on.

    An engine keeps the answers that it wrote; `answers_kept` is False for a cache that sees prompts alone.
    """
    peak = np.zeros(rows.thread.max() + 1)
    np.maximum.at(peak, rows.thread, rows.prompt)
    tokens = np.bincount(rows.thread, rows.prompt, minlength=len(peak))
    later = np.isfinite(rows.wait_s)
    waited = np.bincount(rows.thread[later], np.log(rows.wait_s[later] + 1.0), minlength=len(peak))
    pace = waited / np.maximum(1, np.bincount(rows.thread[later], minlength=len(peak)))
    kind = np.zeros(len(peak), dtype=np.int64)
    for some in _split(peak, tokens, np.flatnonzero(tokens > 0), by_length):
        for fewer in _split(pace, tokens, some, by_pace):
            kind[fewer] = kind.max() + 1
    found = []
    for k in range(1, int(kind.max()) + 1):
        mine = kind[rows.thread] == k
        if mine.any():
            found.append(_fitted_kind(rows.at(mine), answers_kept, float((kind == k).sum()) / rows.sessions))
    return Sessions(kinds=tuple(found))


def _split(value: np.ndarray, weight: np.ndarray, some: np.ndarray, parts: int) -> list[np.ndarray]:
    """Some sessions by a figure of theirs, in parts of about as many tokens and of several sessions each."""
    parts = max(1, min(parts, len(some) // FEWEST_OF_KIND))
    order = some[np.argsort(value[some], kind="stable")]
    below = (np.cumsum(weight[order]) - weight[order] / 2) / weight[order].sum()
    return [part for k in range(parts) if len(part := order[(below * parts).astype(int) == k])]


def _fitted_kind(rows: SessionRows, answers_kept: bool, share: float) -> SessionKind:
    later = np.isfinite(rows.wait_s)
    answer = rows.answer if answers_kept else np.zeros_like(rows.answer)
    previous = np.concatenate([[0.0], answer[:-1]])
    before = np.concatenate([[0.0], rows.prompt[:-1]])
    goes_on = later & (rows.kept >= REWRITTEN_FRAC * np.minimum(before, rows.prompt))
    new = np.maximum(1.0, rows.prompt - rows.kept - previous)
    if not later.any():
        answers = spread_of(answer) if answers_kept else NO_ANSWER
        once = (Waits(share_frac=1.0, points=(WaitPoint(below_frac=1.0, seconds=1.0),)),)
        ones, prompts = LengthSpread(p50=1, p95=1), spread_of(rows.prompt)
        return SessionKind(
            share_frac=share, turns=ones, first_prompt=prompts, appended=NO_ANSWER, answer=answers, waits=once
        )
    left = rows.prompt[later & ~goes_on & (rows.prompt < before)]
    found_frac = float(np.minimum(rows.prompt, rows.kept + previous * goes_on)[later].sum() / rows.prompt.sum())
    turns = np.unique(rows.thread, return_counts=True)[1]
    first, mean = spread_of(rows.prompt[~later]), float(rows.prompt.mean())
    plain = SessionKind(
        share_frac=share,
        alike=_alike(rows),
        turns=spread_of(turns),
        first_prompt=first,
        appended=spread_of(new[goes_on]) if goes_on.any() else NO_ANSWER,
        answer=spread_of(answer) if answers_kept else NO_ANSWER,
        waits=(Waits(share_frac=1.0, points=wait_points(rows.wait_s[later], rows.kept[later] + 1.0)),),
    )

    def drawn(cut_tokens: float, slows: float | None, fresh_frac: float = 0.0) -> Sessions:
        cut = None
        if math.isfinite(cut_tokens):
            after = float(np.median(left)) if len(left) else min(first.p50, cut_tokens / 2)
            cut = Cut(tokens=round(cut_tokens), then="compact", left_tokens=min(after, 0.75 * cut_tokens))
        return Sessions(kinds=(plain.model_copy(update={"fresh_frac": fresh_frac, "cut": cut, "slows": slows}),))

    def mean_prompt(cut_tokens: float, slows: float | None) -> float:
        some = sample_of(drawn(cut_tokens, slows), FITTED_ON)
        return float(some.weight @ some.prompt / some.weight.sum())

    longest, cut_tokens, slows = float((rows.prompt + rows.answer).max()), math.inf, None
    if mean_prompt(longest, None) > mean:
        cut_tokens, slows = longest, _halved(LEAST_SLOWS, 1.0, lambda x: mean_prompt(longest, x) > mean)
        if mean_prompt(longest, slows) > NEARLY * mean:
            cut_tokens = _halved(first.p50, longest, lambda x: mean_prompt(x, slows) < mean)
    elif mean_prompt(math.inf, None) > mean:
        near = mean_prompt(longest, None) > mean / NEARLY
        cut_tokens = longest if near else _halved(longest, 4 * longest, lambda x: mean_prompt(x, None) < mean)
    some = sample_of(drawn(cut_tokens, slows))
    found_without = float(some.weight @ some.kept / (some.weight @ some.prompt))
    return drawn(cut_tokens, slows, min(0.9, max(0.0, 1 - found_frac / found_without))).kinds[0]


def _alike(rows: SessionRows) -> float | None:
    """Correlation of the normal scores of two waits of a session, a few turns apart; None where there is none."""
    later = np.isfinite(rows.wait_s)
    order = np.argsort(rows.wait_s[later], kind="stable")
    score = np.full(len(later), np.nan)
    levels = (np.arange(len(order)) + 0.5) / max(1, len(order))
    score[np.flatnonzero(later)[order]] = [NormalDist().inv_cdf(level) for level in levels.tolist()]
    both: list[float] = []
    for apart in range(1, MOST_APART + 1):
        same = (rows.thread[apart:] == rows.thread[:-apart]) & later[:-apart] & later[apart:]
        both += (score[apart:] * score[:-apart])[same].tolist()
    found = float(np.mean(both)) if both else 0.0
    return round(found, 3) if LEAST_ALIKE <= found < 1 else None


def wait_points(wait_s: np.ndarray, tokens: np.ndarray) -> tuple[WaitPoint, ...]:
    """Quantiles of waits by the tokens that wait."""
    order = np.argsort(wait_s, kind="stable")
    below = np.cumsum(tokens[order]) / float(tokens.sum())
    seconds = np.maximum.accumulate(np.interp(LEVELS, below, wait_s[order])).tolist()
    return tuple(WaitPoint(below_frac=q, seconds=max(s, 1e-3)) for q, s in zip(LEVELS, seconds, strict=True))


def spread_of(tokens: np.ndarray) -> LengthSpread:
    """Percentiles and mean, as far as a demand file can have them together."""
    some = np.maximum(1.0, np.asarray(tokens, dtype=float))
    p50, p95 = np.percentile(some, [50, 95]).tolist()
    p95 = min(max(p95, p50), 200 * p50)
    if p95 <= p50 * (1 + 1e-9):
        return LengthSpread(p50=p50, p95=p50)
    plain = LengthSpread(p50=p50, p95=p95)
    return LengthSpread(p50=p50, p95=p95, mean=min(max(float(some.mean()), least_mean(plain) * 1.001), 10 * p95))


def _halved(low: float, high: float, below: Callable[[float], bool]) -> float:
    """Where a condition that holds for lower values no longer does."""
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if below(middle) else (low, middle)
    return low
