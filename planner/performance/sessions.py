"""Sessions: requests that come back with all that was said before, and what a memory finds of it by how long it keeps.

A turn's prompt is the one before it, the answer to that, and what is appended. What was computed for it waits in some
memory until the next turn, and is found there if the memory keeps blocks longer than the session pauses. A memory that
drops what was used least recently keeps blocks for about the same time T, whosever they are (Che and others, 2002).
With F(a) the share of prompt tokens that were last used a seconds ago or less,

    found within T        h(T) = F(T)
    kept for T            m(T) = integral from 0 to T of (1 + w - F(a)) da       [tokens, for one prompt token a second]

w are the tokens of answers for each of prompts. T follows from room = m(T) x prompt tokens a second: whatever is not
used again within T stays for T (Denning and Schwartz, 1972). Of n replicas of which any may get a turn, one has what it
saw when the session was last there: j turns ago with probability (1 - 1/n)^(j - 1) / n.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from planner.io.validation import Strict
from planner.performance.length_spread import LengthSpread, lengths_at

SAMPLED, SEED = 400, 51
"""sessions that stand for all, and what they are drawn from: the same sessions give the same figures"""
MOST_TURNS_BACK, LEAST_MISSED = 200, 1e-3
"""turns after which nobody counts on a replica that a session was on, or the share of sessions that were not there"""
MOST_TURNS, FEWEST_OF_KIND = 5000, 40
FILLS = np.array([NormalDist().inv_cdf((k + 0.5) / 24) for k in range(24)])
"""standard normal values at even quantiles"""
AfterCut = Literal["compact", "end"]


class WaitPoint(Strict):
    below_frac: float = Field(ge=0, le=1)
    seconds: float = Field(ge=0)


class Waits(Strict):
    """Pauses of one kind between an answer and the next turn."""

    share_frac: float = Field(gt=0, le=1)
    points: tuple[WaitPoint, ...] = Field(min_length=1)
    """quantiles in rising order; between them the logarithm of a wait is on a straight line"""

    def at(self, level: np.ndarray) -> np.ndarray:
        """Quantiles; before the first point and beyond the last as at them."""
        seconds = np.log([max(p.seconds, 1e-3) for p in self.points])
        return np.asarray(np.exp(np.interp(level, [p.below_frac for p in self.points], seconds)))


class Cut(Strict):
    """What a client does with a session that reaches the longest context that it allows."""

    tokens: int = Field(gt=0)
    """of prompt and answer together"""
    then: AfterCut
    """compact: it goes on from a summary, of which nothing is found; end: it does not go on"""
    left_tokens: float = Field(gt=0)
    """of the prompt after it is compacted"""


class Window(Strict):
    """Prompts that are longer lose their oldest turns, so that nothing behind their head is found."""

    tokens: int = Field(gt=0)
    """of prompt and answer together"""
    head_tokens: float = Field(ge=0)


class SessionKind(Strict):
    """Sessions that are alike."""

    share_frac: float = Field(gt=0, le=1)
    """of the sessions"""
    turns: LengthSpread
    first_prompt: LengthSpread
    appended: LengthSpread
    """tokens of a turn that are new in its prompt: results of tools, words of people; answers come beside them"""
    answer: LengthSpread
    waits: tuple[Waits, ...] = Field(min_length=1)
    fresh_frac: float = Field(default=0.0, ge=0, lt=1)
    """share of later turns that find nothing: their history was rewritten"""
    slows: float | None = Field(default=None, gt=0, le=1)
    """a turn of a session with n turns appends as much as n to the power of minus this; None: as much in any session"""
    alike: float | None = Field(default=None, gt=0, lt=1)
    """correlation of two waits of a session, as normal scores; None: each is drawn by itself"""
    cut: Cut | None = None


class Sessions(Strict):
    """Sessions of a workload."""

    kinds: tuple[SessionKind, ...] = Field(min_length=1)
    shared_tokens: float = Field(default=0.0, ge=0)
    """that the first prompts of all sessions begin with, and which are always found"""

    window: Window | None = None

    def with_cut(self, cut: Cut) -> Sessions:
        """The same where clients allow so many tokens, and did not allow fewer before."""
        kinds = (
            k.model_copy(update={"cut": cut}) if k.cut is None or k.cut.tokens > cut.tokens else k for k in self.kinds
        )
        return self.model_copy(update={"kinds": tuple(kinds)})


class Sample(NamedTuple):
    """Sessions that stand for all, one after the other [request]."""

    session: np.ndarray
    weight: np.ndarray
    """how much it counts: of a session it is the same for all requests"""
    wait_s: np.ndarray
    """since the answer of the turn before; inf of a first turn"""
    prompt: np.ndarray
    answer: np.ndarray
    kept: np.ndarray
    """tokens from the start of its prompt that the turn before it left: that prompt and its answer, but after a cut"""
    shared: np.ndarray
    """of its prompt, tokens that all sessions begin with"""


@dataclass(frozen=True, eq=False)
class Ages:
    """How long ago tokens of prompts were used last, where they are looked for."""

    age_s: np.ndarray
    """in rising order"""
    below: np.ndarray
    """share of all prompt tokens that were last used so long ago or less"""
    always: float = 0.0
    """share of them that is found whatever happens"""
    written: float = 0.0
    """tokens of answers for each of prompts"""

    def found_frac(self, residence_s: float) -> float:
        k = int(np.searchsorted(self.age_s, residence_s, side="right"))
        return self.always + (float(self.below[k - 1]) if k else 0.0)

    def found_in(self, residence_s: float, contexts: float) -> float:
        """Where a memory has room for so many contexts, and so keeps blocks for that time on average only.

        What comes in a time is a number of contexts by chance, so the time in which they fill it varies by 1/contexts.
        """
        if not 0 < residence_s < np.inf or contexts <= 0:
            return self.found_frac(residence_s)
        sigma = np.sqrt(np.log1p(1 / contexts))
        return float(np.mean([self.found_frac(t) for t in residence_s * np.exp(sigma * FILLS - sigma**2 / 2)]))

    def kept_s(self, residence_s: float) -> float:
        """Tokens that are kept for one prompt token a second."""
        if np.isinf(residence_s):
            return np.inf
        k = int(np.searchsorted(self.age_s, residence_s, side="right"))
        last = float(self.age_s[k - 1]) if k else 0.0
        before = float(self._kept_at[k - 1]) if k else 0.0
        return before + (residence_s - last) * (1 + self.written - self.found_frac(last))

    def residence_s(self, tokens: float, tokens_per_s: float) -> float:
        """How long a memory of so many tokens keeps them, where so many prompt tokens come in a second."""
        if tokens_per_s <= 0:
            return np.inf
        asked = tokens / tokens_per_s
        k = int(np.searchsorted(self._kept_at, asked, side="right"))
        last = float(self.age_s[k - 1]) if k else 0.0
        before = float(self._kept_at[k - 1]) if k else 0.0
        new = 1 + self.written - self.found_frac(last)
        return last + (asked - before) / new if new > 1e-12 else np.inf

    @cached_property
    def _kept_at(self) -> np.ndarray:
        """Tokens kept at each age, for one prompt token a second [age]."""
        missed = 1 + self.written - self.always - np.concatenate([[0.0], self.below[:-1]])
        return np.cumsum(np.diff(np.concatenate([[0.0], self.age_s])) * missed)


def ages_from(
    age_s: np.ndarray, tokens: np.ndarray, all_tokens: float, always: float = 0.0, written: float = 0.0
) -> Ages:
    """Of tokens that were used before; `all_tokens` are those of all prompts."""
    order = np.argsort(age_s, kind="stable")
    return Ages(age_s[order], np.cumsum(tokens[order]) / all_tokens, always, written)


@lru_cache(maxsize=256)
def ages_of(sessions: Sessions, replicas: int) -> Ages:
    """Where any of so many replicas may get a turn; 1: a session stays where it is."""
    some = sample_of(sessions)
    total, shared = float(some.weight @ some.prompt), float(some.weight @ some.shared)
    always, written = shared / total, float(some.weight @ some.answer) / total
    ages, weights = [np.zeros(0)], [np.zeros(0)]
    since, kept, missed = np.zeros(len(some.prompt)), np.full(len(some.prompt), np.inf), 1.0
    place, first = np.arange(len(some.prompt)), np.searchsorted(some.session, some.session)
    for back in range(1, MOST_TURNS_BACK + 1):
        there = np.flatnonzero(place - back >= first)
        if not len(there) or missed < LEAST_MISSED:
            break
        turn = there - back + 1
        since[there] += some.wait_s[turn]
        kept[there] = np.minimum(kept[there], some.kept[turn])
        ages.append(since[there].copy())
        own = np.maximum(0.0, np.minimum(kept, some.prompt) - some.shared)
        weights.append(missed / replicas * (some.weight * own)[there])
        missed *= 1 - 1 / replicas
    return ages_from(np.concatenate(ages), np.concatenate(weights), total, always, written)


@lru_cache(maxsize=256)
def context_tokens(sessions: Sessions) -> float:
    """Tokens of a context as a memory has them, in which long ones weigh more: the mean square over the mean."""
    some = sample_of(sessions)
    whole = some.prompt + some.answer
    return float(some.weight @ whole**2 / (some.weight @ whole))


@lru_cache(maxsize=64)
def sample_of(sessions: Sessions, about: int = SAMPLED) -> Sample:
    """So many sessions that stand for all: each figure at even quantiles, in an order by chance with a fixed seed."""
    rng = np.random.default_rng(SEED)
    total = sum(kind.share_frac for kind in sessions.kinds)
    # Kinds with few sessions get more of them than their share, each of which counts for less.
    counts = [max(FEWEST_OF_KIND, round(about * kind.share_frac / total)) for kind in sessions.kinds]
    parts = [_of_kind(k, n, rng) for k, n in zip(sessions.kinds, counts, strict=True)]
    number = np.repeat(np.cumsum([0, *counts[:-1]]), [len(p.prompt) for p in parts])
    weight = np.concatenate([
        np.full(len(p.prompt), k.share_frac / total / n) for p, k, n in zip(parts, sessions.kinds, counts, strict=True)
    ])  # fmt: skip
    every = Sample(*(np.concatenate(c) for c in zip(*parts, strict=True)))
    prompt, kept = every.prompt, every.kept
    if sessions.window is not None:
        over = prompt + every.answer > sessions.window.tokens
        kept = np.where(over, np.minimum(kept, sessions.window.head_tokens), kept)
        prompt = np.where(over, np.maximum(1.0, sessions.window.tokens - every.answer), prompt)
    shared = np.minimum(sessions.shared_tokens, prompt)
    kept = np.maximum(np.minimum(kept, prompt), shared)
    return every._replace(session=number + every.session, weight=weight, prompt=prompt, kept=kept, shared=shared)


def _of_kind(kind: SessionKind, sessions: int, rng: np.random.Generator) -> Sample:
    """Alike, each of which counts as one."""
    turns = np.clip(np.round(_drawn(kind.turns, _even(sessions, rng))), 1, MOST_TURNS).astype(int)
    count = int(turns.sum())
    appended, answer = (np.maximum(1.0, _drawn(x, _even(count, rng))) for x in (kind.appended, kind.answer))
    if kind.slows is not None:
        less = np.repeat(turns**-kind.slows, turns)
        appended = np.maximum(1.0, appended * less / less.mean())
    first = np.maximum(1.0, _drawn(kind.first_prompt, _even(sessions, rng)))
    levels = _even(count, rng) if kind.alike is None else _alike(kind.alike, turns, rng)
    wait = waits_at(kind.waits, _even(count, rng), levels)
    fresh = _even(count, rng) < kind.fresh_frac
    prompt, kept, is_first, length = (
        np.zeros(count),
        np.zeros(count),
        np.zeros(count, dtype=bool),
        np.zeros(sessions, int),
    )
    k = 0
    for number, (asked, start) in enumerate(zip(turns.tolist(), first.tolist(), strict=True)):
        for context, found in _contexts(kind.cut, start, appended[k : k + asked], answer[k : k + asked]):
            place = k + length[number]
            prompt[place], kept[place], is_first[place] = context, found, length[number] == 0
            length[number] += 1
        k += asked
    there = prompt > 0  # sessions that end at a cut have fewer turns
    wait, kept = np.where(is_first, np.inf, wait)[there], np.where(fresh, 0.0, kept)
    ones = np.ones(int(there.sum()))
    return Sample(
        np.repeat(np.arange(sessions), length), ones, wait, prompt[there], answer[there], kept[there], 0 * ones
    )


def _contexts(cut: Cut | None, start: float, appended: np.ndarray, answers: np.ndarray) -> list[tuple[float, float]]:
    """(prompt, tokens of it that the turn before left) of a session's turns."""
    found: list[tuple[float, float]] = []
    prompt, left = start, 0.0
    for k, answer in enumerate(answers.tolist()):
        if k:
            left = found[-1][0] + float(answers[k - 1])
            prompt = left + float(appended[k])
        if cut is not None and prompt + answer > cut.tokens:
            longest = max(1.0, cut.tokens - answer)
            if cut.then == "end" and k:
                break
            prompt, left = min(cut.left_tokens + float(appended[k]), longest), 0.0
        found.append((prompt, min(left, prompt)))
    return found


def waits_at(waits: tuple[Waits, ...], kind: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Waits by what chooses their kind and their quantile."""
    edges = np.cumsum([0.0, *(w.share_frac for w in waits)])
    seconds = waits[-1].at(level)
    for w, (low, high) in zip(waits, pairwise(edges.tolist()), strict=True):
        inside = (kind >= low * edges[-1]) & (kind < high)
        seconds[inside] = w.at(level[inside])
    return seconds


def _even(count: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers between 0 and 1 that cover it evenly, in an order by chance."""
    return np.asarray((rng.permutation(count) + rng.random(count)) / count)


def _alike(correlation: float, turns: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers between 0 and 1 that cover it evenly, of which those of a session are alike."""
    own, count = np.repeat(rng.standard_normal(len(turns)), turns), int(turns.sum())
    score = np.sqrt(correlation) * own + np.sqrt(1 - correlation) * rng.standard_normal(count)
    return np.asarray((np.argsort(np.argsort(score)) + rng.random(count)) / count)


def _drawn(spread: LengthSpread, level: np.ndarray) -> np.ndarray:
    """Lengths at some quantiles."""
    grid = np.linspace(0.0005, 0.9995, 2000)
    return np.asarray(np.interp(level, grid, lengths_at(spread, grid, _normals())))


@lru_cache(maxsize=1)
def _normals() -> np.ndarray:
    return np.array([NormalDist().inv_cdf(q) for q in np.linspace(0.0005, 0.9995, 2000).tolist()])
