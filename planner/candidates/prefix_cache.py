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

import numpy as np

from planner.candidates.traffic import Traffic
from planner.case.case import Workload
from planner.performance.latency import Machine
from planner.performance.memory import kv_bytes, kv_bytes_per_token
from planner.performance.queueing import in_flight_at
from planner.performance.steady_state import Scaling
from planner.performance.throughput import Lengths, Throughput

REACHED = 0.9
"""share of what could be found that is, where a router sends requests elsewhere if the replica is too busy"""
ANSWER_FRAC = 0.6
"""share of its answer that a running request holds: a little more than half, since long ones run longer"""
HALVINGS = 7


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
    """share of the prompt tokens [member]"""


def found_frac(w: Workload, residence_s: float, spread: int) -> float:
    """Share of a workload's prompt tokens that are found where blocks stay so long."""
    shared = w.shared_found_frac
    if w.prefix_reuse is None:
        return shared
    possible = w.prefix_reuse.found_frac(residence_s * w.prefix_reuse.tokens_per_s)
    return shared + max(0.0, possible - shared) * (REACHED if spread == 1 else 1 / spread)


@dataclass(frozen=True, eq=False)
class PrefixCacheSearch:
    """The longest residence that a replica keeps while it finds what that gives."""

    machine: Machine
    traffic: Traffic
    spread: int
    load: float
    scaling: Scaling | None
    estimate: Callable[[Lengths], Throughput]

    def result(self) -> tuple[Throughput, PrefixCache]:
        nothing = self._tried(0.0)
        longest = self._residence_s(*nothing)
        low, high, best = 0.0, 1.0, nothing
        result = self._tried(longest)
        if self._residence_s(*result) >= longest:
            low, best = 1.0, result
        else:
            for _ in range(HALVINGS):
                middle = (low + high) / 2
                result = self._tried(middle * longest)
                if self._residence_s(*result) >= middle * longest:
                    low, best = middle, result
                else:
                    high = middle
        return best[0], PrefixCache(self._free_tokens(*best), self.load, low * longest, self.spread, best[1])

    def _tried(self, residence_s: float) -> tuple[Throughput, tuple[float, ...]]:
        found = tuple(found_frac(w, residence_s, self.spread) for w in self.traffic.members)
        beyond = np.array([share - w.shared_found_frac for w, share in zip(self.traffic.members, found, strict=True)])
        lengths = self.traffic.lengths
        reused = beyond[self.traffic.member_of] * lengths.input_tokens
        return self.estimate(replace(lengths, reused_tokens=reused)), found

    def _residence_s(self, estimate: Throughput, found: tuple[float, ...]) -> float:
        """Time in which as many tokens come as the cache holds."""
        rate, (prompt, _, answer) = self._requests_per_s(estimate), self._mean_tokens(estimate, found)
        return self._free_tokens(estimate, found) / (rate * (prompt + answer)) if rate else 0.0

    def _free_tokens(self, estimate: Throughput, found: tuple[float, ...]) -> float:
        """Tokens that fit beside those of running requests, at full length in every layer."""
        machine, rate = self.machine, self._requests_per_s(estimate)
        if not rate:
            return 0.0
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
