"""How much of its prompts a replica finds in the KV memory that running requests leave, from a curve of reuse.

Blocks of prompts and answers fill that memory and stay for a time T = memory / (tokens that come in a second), where
replicas are as busy as the staffing rule lets them be. Requests come back after a time of their own, however many
others there are, so what is found within T is what one cache of T x rate tokens found where the curve was measured at
that rate, h. A router that knows prefixes sends a request to where its prefix is. A router that does not sends one of n
there, unless all requests share the prefix, a share s:

    found = s + (h - s) x REACHED        or        found = s + (h - s) / n                  [share of prompt tokens]

More found makes a replica faster, more comes in and T is shorter: the longest T is taken that the replica keeps itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from planner.candidates.traffic import Traffic
from planner.case.case import Workload, kinds_of
from planner.performance.kv_tiers import KvTier, read_s_per_token, tier_tokens
from planner.performance.machine import Machine
from planner.performance.memory import kv_bytes, kv_bytes_per_token
from planner.performance.queueing import in_flight_at
from planner.performance.sessions import Ages, ages_of, context_tokens, sample_of
from planner.performance.steady_state import Scaling
from planner.performance.throughput import Lengths, Throughput

REACHED, TURNS_REACHED = 0.9, 0.95
"""share of what could be found that is, of prompts and of turns of sessions, where a router sends requests elsewhere if
the replica is too busy; a session that moves leaves its next turns where it went"""
ANSWER_FRAC = 0.6
"""share of its answer that a running request holds: a little more than half, since long ones run longer"""
HALVINGS = 7
FOUND_KINDS = (0.2, 0.4, 0.6, 0.75, 0.85, 0.9, 0.93, 0.95, 0.965, 0.98, 0.99)
MISSED_KINDS = (0.2, 0.4, 0.6, 0.8, 0.95)
"""quantiles between which turns count as one, by what of them is new"""
LONGEST_S, SHORTER = 1e7, 0.98
"""that a block stays: for ever, as far as a plan is concerned; and by how much a time is cut that is not kept"""


@dataclass(frozen=True)
class PrefixCache:
    """What a replica finds of its prompts."""

    tokens: float
    """KV memory that running requests leave"""
    load: float
    """share of its time that a replica is busy, at most"""
    residence_s: float
    """how long a block stays"""
    spread: int
    """replicas of which a request may be sent to any, wherever its prefix is; 1 where the router knows"""
    found_fracs: tuple[float, ...]
    """share of the prompt tokens [member], in whatever tier"""
    tiers: tuple[TierCache, ...] = ()
    """besides the GPUs' memory, the fastest first"""


@dataclass(frozen=True)
class TierCache:
    """What a tier besides the GPUs' memory adds."""

    name: str
    tokens: float
    """that it holds for the replica"""
    residence_s: float
    found_fracs: tuple[float, ...]
    """share of the prompt tokens that is found here and in no faster tier [member]"""
    read_s_per_token: float


def spread_over(replicas: int) -> int:
    """Of replicas any of which may get a turn, a number that stands for them: the next power of two."""
    return 1 << max(0, replicas - 1).bit_length()


def ages(w: Workload, spread: int) -> Ages:
    assert w.sessions is not None
    return ages_of(w.sessions, spread_over(spread))


class Held(NamedTuple):
    """A memory of a replica, and how long it keeps blocks on average."""

    residence_s: float
    tokens: float = 0.0


def found_frac(w: Workload, held: Held | float, spread: int) -> float:
    """Share of a workload's prompt tokens that are found where blocks stay so long."""
    shared = w.shared_found_frac
    held = held if isinstance(held, Held) else Held(held)
    residence_s = held.residence_s
    if w.sessions is not None:
        found = ages(w, spread).found_in(residence_s, held.tokens / context_tokens(w.sessions))
        return shared + max(0.0, found - shared) * (TURNS_REACHED if spread == 1 else 1.0)
    if w.prefix_reuse is None:
        return shared
    possible = w.prefix_reuse.found_frac(residence_s * w.prefix_reuse.tokens_per_s)
    return shared + max(0.0, possible - shared) * (REACHED if spread == 1 else 1 / spread)


@dataclass(frozen=True, eq=False)
class TurnPrompts:
    """Prompts of turns by where what came before is found, each with its share [kind of prompt]."""

    share_frac: np.ndarray
    new_tokens: np.ndarray
    tokens: np.ndarray
    read_s: np.ndarray


def prompts_of_turns(w: Workload, cache: PrefixCache) -> TurnPrompts:
    """What the turns of sessions have to compute: what is appended where the turn before is found, else all of it."""
    assert w.sessions is not None
    some, known = sample_of(w.sessions), ages(w, 1)
    possible = max(1e-12, known.found_frac(np.inf) - known.always)
    there = min(1.0, max(0.0, cache.found_fracs[0] - w.shared_found_frac) / possible)
    in_tiers = [(min(there, tier.found_fracs[0] / possible), tier.read_s_per_token) for tier in cache.tiers]
    on_gpus = max(0.0, there - sum(share for share, _ in in_tiers))
    new, whole = np.maximum(1.0, some.prompt - some.kept), np.maximum(1.0, some.prompt - some.shared)
    parts = [(share, new, read_s, FOUND_KINDS) for share, read_s in [(on_gpus, 0.0), *in_tiers]]
    rows = []
    for share, tokens, read_s, kinds in [*parts, (1 - there, whole, 0.0, MISSED_KINDS)]:
        if share <= 1e-9:
            continue
        order = np.argsort(tokens, kind="stable")
        below = np.cumsum(some.weight[order]) / some.weight.sum()
        for piece in np.split(order, np.searchsorted(below, np.array(kinds))):
            weight = some.weight[piece]
            if weight.sum() > 0:
                mean = [float(weight @ x[piece] / weight.sum()) for x in (tokens, some.prompt, some.kept - some.shared)]
                rows.append((share * weight.sum() / some.weight.sum(), mean[0], mean[1], read_s * max(0.0, mean[2])))
    columns = np.array(rows).T
    return TurnPrompts(columns[0] / columns[0].sum(), *columns[1:])


@dataclass(frozen=True, eq=False)
class PrefixCacheSearch:
    """The longest residence that a replica keeps while it finds what that gives."""

    machine: Machine
    traffic: Traffic
    spread: int
    load: float
    scaling: Scaling | None
    estimate: Callable[[Lengths], Throughput]
    tiers: tuple[KvTier, ...] = ()
    """of the box, the fastest first; members use those that they may"""

    def result(self) -> tuple[Throughput, PrefixCache]:
        if self.tiers or any(w.sessions is not None for w in self.traffic.members):
            return self._by_rate()
        nothing = self._tried((Held(0.0),))
        longest = self._residence_s(*nothing)
        low, high, best = 0.0, 1.0, nothing
        result = self._tried((Held(longest),))
        if self._residence_s(*result) >= longest:
            low, best = 1.0, result
        else:
            for _ in range(HALVINGS):
                middle = (low + high) / 2
                result = self._tried((Held(middle * longest),))
                if self._residence_s(*result) >= middle * longest:
                    low, best = middle, result
                else:
                    high = middle
        return best[0], PrefixCache(self._free_tokens(*best), self.load, low * longest, self.spread, best[1])

    def _by_rate(self) -> tuple[Throughput, PrefixCache]:
        """Halve for the rate that the replica reaches with what it finds at that rate, and take no less time than then.

        Every tier keeps blocks for its room over the rate, so the rate settles all of them at once.
        """
        nothing, result = self._tried(self._nothing), self._tried((Held(LONGEST_S),) * (1 + len(self.tiers)))
        low, high = self._requests_per_s(nothing[0]), self._requests_per_s(result[0])
        if not low or not high:  # with whatever it finds, it serves nothing
            return nothing[0], self._cache(self._nothing, nothing)
        high = max(low, high)
        for _ in range(HALVINGS):
            rate = float(np.sqrt(low * high))
            result = self._tried(self._held(rate, *result))
            low, high = (rate, high) if self._requests_per_s(result[0]) >= rate else (low, rate)
        asked = self._held(high, *result)
        for _ in range(HALVINGS):
            result = self._tried(asked)
            held = self._held(self._requests_per_s(result[0]), *result)
            if all(h.residence_s >= a.residence_s and h.tokens >= a.tokens for h, a in zip(held, asked, strict=True)):
                return result[0], self._cache(asked, result)
            asked = tuple(
                Held(
                    SHORTER * min(h.residence_s, a.residence_s),
                    min(h.tokens, SHORTER * a.tokens) if k == 0 else a.tokens,
                )
                for k, (h, a) in enumerate(zip(held, asked, strict=True))
            )
        return nothing[0], self._cache(self._nothing, nothing)

    @property
    def _nothing(self) -> tuple[Held, ...]:
        return (Held(0.0),) * (1 + len(self.tiers))

    def _cache(self, held: tuple[Held, ...], result: tuple[Throughput, tuple[float, ...]]) -> PrefixCache:
        return PrefixCache(
            held[0].tokens, self.load, held[0].residence_s, self.spread, result[1], self._caches(held)
        )  # fmt: skip

    def _held(self, rate: float, estimate: Throughput, found: tuple[float, ...]) -> tuple[Held, ...]:
        """How long the GPUs' memory and each tier keep blocks at a rate."""
        prompt, _, answer = self._mean_tokens(estimate, found)
        rooms = (self._free_tokens_at(rate, estimate, found), *(tier_tokens(self.machine, t) for t in self.tiers))
        w = self.traffic.members[0]
        if w.sessions is None:
            return tuple(Held(room / (rate * (prompt + answer)), room) for room in rooms)
        known = ages(w, self.spread)
        return tuple(Held(min(LONGEST_S, known.residence_s(room, rate * prompt)), room) for room in rooms)

    def _tried(self, held: tuple[Held, ...]) -> tuple[Throughput, tuple[float, ...]]:
        """With what is found where the GPUs' memory and the tiers keep blocks so long."""
        members, lengths, member_of = self.traffic.members, self.traffic.lengths, self.traffic.member_of
        found = np.array([found_frac(w, held[0], self.spread) for w in members])
        read_s = np.zeros(len(members))
        for tier in self._caches(held):
            found, read_s = found + tier.found_fracs, read_s + np.array(tier.found_fracs) * tier.read_s_per_token
        beyond = found - [w.shared_found_frac for w in members]
        reused = beyond[member_of] * lengths.input_tokens
        more = {"read_s": read_s[member_of] * lengths.input_tokens} if self.tiers else {}
        return self.estimate(replace(lengths, reused_tokens=reused, **more)), tuple(found.tolist())

    def _caches(self, held: tuple[Held, ...]) -> tuple[TierCache, ...]:
        """What the tiers find, each beyond the faster ones."""
        caches = []
        before = [found_frac(w, held[0], self.spread) for w in self.traffic.members]
        for tier, asked in zip(self.tiers, held[1:], strict=True):
            here = [
                max(found_frac(w, asked, self.spread), faster) if tier.name in kinds_of(w.caching[0]) else faster
                for w, faster in zip(self.traffic.members, before, strict=True)
            ]
            more = tuple(a - b for a, b in zip(here, before, strict=True))
            read_s = read_s_per_token(self.machine, tier)
            caches.append(TierCache(tier.name, asked.tokens, asked.residence_s, more, read_s))
            before = here
        return tuple(caches)

    def _residence_s(self, estimate: Throughput, found: tuple[float, ...]) -> float:
        """Time in which as many tokens come as the cache holds."""
        rate, (prompt, _, answer) = self._requests_per_s(estimate), self._mean_tokens(estimate, found)
        return self._free_tokens(estimate, found) / (rate * (prompt + answer)) if rate else 0.0

    def _free_tokens(self, estimate: Throughput, found: tuple[float, ...]) -> float:
        """Tokens that fit beside those of running requests, at full length in every layer."""
        rate = self._requests_per_s(estimate)
        return self._free_tokens_at(rate, estimate, found) if rate else 0.0

    def _free_tokens_at(self, rate: float, estimate: Throughput, found: tuple[float, ...]) -> float:
        machine = self.machine
        model, scheme, copies = machine.model, machine.quantization, machine.kv_copies
        prompt, new, answer = self._mean_tokens(estimate, found)
        running = in_flight_at(machine, prompt, new, answer, rate, self.traffic.arrival_scv, self.scaling)
        running = min(running, self._batch(estimate))
        held = running * float(kv_bytes(model, scheme, prompt + ANSWER_FRAC * answer, copies))
        resident = float(np.max(self.traffic.lengths.resident_tokens))
        return max(0.0, (machine.kv_room_bytes - held) / kv_bytes_per_token(model, scheme) - resident)

    def _requests_per_s(self, estimate: Throughput) -> float:
        """That come to a replica which is as busy as it may be; 0 where it serves nothing."""
        shares = self._shares(estimate)
        rates = estimate.requests_per_s
        busy_s = float(shares @ np.divide(1.0, rates, out=np.zeros_like(rates), where=rates > 0))
        return self.load / busy_s if busy_s else 0.0

    def _batch(self, estimate: Throughput) -> float:
        rates = estimate.requests_per_s
        load = np.divide(self.traffic.shares, rates, out=np.zeros_like(rates), where=rates > 0)
        return float(load @ estimate.in_flight / load.sum())

    def _mean_tokens(self, estimate: Throughput, found: tuple[float, ...]) -> tuple[float, float, float]:
        """Tokens of a prompt, those of them that are new, and tokens of an answer."""
        shares, lengths = self._shares(estimate), self.traffic.lengths
        prompt = float(shares @ lengths.input_tokens)
        new = float(shares @ (lengths.input_tokens * (1 - np.array(found)[self.traffic.member_of])))
        return prompt, max(new, 1.0), float(shares @ lengths.output_tokens)

    def _shares(self, estimate: Throughput) -> np.ndarray:
        """of the requests that it serves [bucket]"""
        shares: np.ndarray = np.where(estimate.requests_per_s > 0, self.traffic.shares, 0.0)
        return shares / max(float(shares.sum()), 1e-300)
