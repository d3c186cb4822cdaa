"""Turns of drawn sessions: which session each request of a stream belongs to, and the blocks of its prompt and answer.

Requests come at the rates of the plan. Each is the next turn of the session that is due: one whose last answer was
given, as planned, and that has paused for its wait. Where no session is due it is one that nobody has seen so far: its
first turn, or one after a longer wait than the time since drawing began. What that finds is taken from the plan; from
then on caches decide. A session that nobody went on with for a while after it was due has ended. So every hour has the
requests that the plan counts on, and sessions pause as the file says.

A prompt begins with the blocks of the turn before and of its answer, which the engine has if it kept them.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from planner.performance.sessions import Sample, Sessions, sample_of
from planner.verification.block_cache import Blocks

TOKENS = 64
"""of a block, at least"""
LATE_S, LATE_FRAC = 30.0, 0.5
"""after which, and after which share of its wait, a session that is due counts as ended"""
MOST_BLOCKS_A_PROMPT = 400


class Drawn(NamedTuple):
    prompt: np.ndarray
    output: np.ndarray
    there: np.ndarray
    """tokens of the prompt that are in memory because the request came before drawing began"""
    blocks: Blocks


class AsPlanned(NamedTuple):
    """What a plan says of sessions."""

    first_token_s: float
    token_s: float
    kept_s: float
    """how long some tier keeps blocks"""
    found_frac: float
    """of turns that come back within that time, the share that finds them"""


def tokens_of_blocks(sessions: Sessions) -> int:
    """So that the mean prompt has not too many of them."""
    some, tokens = sample_of(sessions), TOKENS
    mean = float(some.weight @ some.prompt / some.weight.sum())
    while mean / tokens > MOST_BLOCKS_A_PROMPT:
        tokens *= 2
    return tokens


def longest_wait_s(sessions: Sessions) -> float:
    """Of nine pauses of ten, which decides how long caches take to fill."""
    some = sample_of(sessions)
    later = np.isfinite(some.wait_s)
    order = np.argsort(some.wait_s[later])
    below = np.cumsum((some.weight * some.kept)[later][order])
    return float(some.wait_s[later][order][np.searchsorted(below, 0.9 * below[-1])])


class SessionTurns:
    """The sessions of a workload while some requests after the others are drawn."""

    def __init__(self, sessions: Sessions, tokens: int, planned: AsPlanned) -> None:
        self.sample: Sample = sample_of(sessions)
        self.tokens, self.planned = tokens, planned
        self.ends = np.flatnonzero(np.r_[self.sample.session[1:] != self.sample.session[:-1], True])
        self.by_wait = np.argsort(self.sample.wait_s, kind="stable")
        self.waits_s = self.sample.wait_s[self.by_wait]
        self.below = np.concatenate([[0.0], np.cumsum(self.sample.weight[self.by_wait])])
        self.last = np.zeros(len(self.waits_s), dtype=bool)
        self.last[self.ends] = True
        self.shared = int(self.sample.shared.max() // tokens)
        self.count = self.shared
        self.due: list[tuple[float, int, int]] = []
        """(when, its turn in the sample, first number of its blocks)"""
        self.began_s: float | None = None

    def draw(self, times: np.ndarray, rng: np.random.Generator) -> Drawn:
        """The next requests, in the order of their arrival."""
        count = len(times)
        if self.began_s is None and count:
            self.began_s = float(times[0])
        chance, luck = rng.random(count), rng.random(count)
        turn, base = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        unseen = np.zeros(count, dtype=bool)
        s, p = self.sample, self.planned
        for k, now in enumerate(times.tolist()):
            turn[k], base[k], unseen[k] = self._next(now, float(chance[k]))
            i = int(turn[k])
            if not self.last[i]:
                ends = now + p.first_token_s + p.token_s * float(s.answer[i])
                heappush(self.due, (ends + float(s.wait_s[i + 1]), i + 1, int(base[k])))
        prompt, output = np.maximum(2.0, np.round(s.prompt[turn])), np.maximum(1, np.round(s.answer[turn]))
        whole = ((prompt + output) // self.tokens).astype(np.int64)
        begin = np.concatenate([[0], np.cumsum(whole)]).astype(np.int64)
        place = np.arange(begin[-1]) - np.repeat(begin[:-1], whole)
        ids = np.where(place < self.shared, place, np.repeat(base, whole) + place)
        found = unseen & (s.wait_s[turn] <= p.kept_s) & (luck < p.found_frac)
        there = np.where(found, np.minimum(s.kept[turn], prompt - 1), 0.0)
        return Drawn(prompt, output.astype(np.int64), there, Blocks(ids, begin, self.tokens))

    def _next(self, now: float, chance: float) -> tuple[int, int, bool]:
        """The turn that comes now, the first number of the blocks of its session, and whether nobody has seen that."""
        while self.due and self.due[0][0] <= now:
            when, turn, base = heappop(self.due)
            if now - when > max(LATE_S, LATE_FRAC * float(self.sample.wait_s[turn])):
                continue
            kept = self.sample.kept[turn] > self.sample.shared[turn]
            return turn, base if kept else self._new(turn), False
        seen = float(self.below[np.searchsorted(self.waits_s, now - (self.began_s or 0.0), side="right")])
        level = seen + chance * (float(self.below[-1]) - seen)
        place = min(len(self.by_wait) - 1, max(0, int(np.searchsorted(self.below, level, side="right")) - 1))
        turn = int(self.by_wait[place])
        return turn, self._new(turn), True

    def _new(self, turn: int) -> int:
        """Numbers for the blocks of a session from a turn on, until its history changes."""
        begin = self.count
        until = int(self.ends[np.searchsorted(self.ends, turn)])
        longest = float((self.sample.prompt + self.sample.answer)[turn : until + 1].max())
        self.count += int(longest // self.tokens) + 2
        return begin
