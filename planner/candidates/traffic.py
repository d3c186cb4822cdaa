"""Traffic: the requests that a replica sees, of one workload or of several that share it.

The length buckets of several workloads stand one after the other. A batch is served as one, so the tightest objective
holds for all of them: the shortest time, at the highest percentile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from planner.case.case import Bucket, LatencyTarget, Workload
from planner.case.length_buckets import SMALLEST_SHARE, must_hold, prompt_cv2_within, prompts_of, too_long_frac
from planner.performance.machine import Lora
from planner.performance.throughput import Lengths, Limits
from problems.staffing import z_of

MOSTLY = 0.5
"""share of a length's requests that are too long, from which on it is not served, however few they are"""
NO_MATTER: dict[str, Any] = {
    "weekday_rps": (0.0,) * 24,
    "weekend_rps": (0.0,) * 24,
    "growth_per_month_frac": 0.0,
    "month_factors": None,
    "api_allowed": True,
    "api_wait_h": 0.0,
    "api_tier": None,
    "baseline": None,
    "smaller_apis_forbidden": None,
    "shed_usd_per_request": None,
}
"""fields of a workload that make no difference to its replicas, and what stands for all of their values"""


@dataclass(frozen=True, eq=False)
class Traffic:
    """Workloads on the same replicas."""

    members: tuple[Workload, ...]
    """as a replica sees them: each with one option of caching, with its prefixes and templates and no others"""
    request_shares: tuple[float, ...]
    """of all requests, by member"""
    pace_frac: float = 1.0
    """of the time per token that is promised end to end, what a token after the first may take"""

    @cached_property
    def key(self) -> tuple[int, ...]:
        """Traffics of the very same members meet the same limits with the same lengths, whatever their shares."""
        return tuple(id(w) for w in self.members)

    @cached_property
    def likeness(self) -> str:
        """Equal for traffics that replicas treat alike. Where requests reuse prompts, how many there are counts too."""
        members = (w.model_copy(update=NO_MATTER).model_dump_json() for w in self.members)
        return "\n".join([*members, *map(repr, self.request_shares)])

    @cached_property
    def buckets(self) -> tuple[Bucket, ...]:
        """With their shares of each member's own requests."""
        return tuple(b for w in self.members for b in w.buckets)

    @cached_property
    def member_of(self) -> np.ndarray:
        """[bucket]"""
        return np.repeat(np.arange(len(self.members)), [len(w.buckets) for w in self.members])

    @cached_property
    def shares(self) -> np.ndarray:
        """of all requests [bucket]"""
        own = np.array([b.share_frac for b in self.buckets])
        shares: np.ndarray = own * np.array(self.request_shares)[self.member_of]
        return shares

    @cached_property
    def lengths(self) -> Lengths:
        return Lengths(
            input_tokens=np.array([b.input_tokens for b in self.buckets]),
            output_tokens=np.array([b.output_tokens for b in self.buckets]),
            cached_tokens=np.array([w.cached_tokens(b.input_tokens) for w in self.members for b in w.buckets]),
            resident_tokens=sum(w.prefixes * w.shared_prefix_tokens + w.template_tokens for w in self.members),
        )

    @cached_property
    def prompt_cv2_within(self) -> np.ndarray:
        """Squared coefficient of variation of the prompts in each bucket, which stands for a slice of them [bucket]"""
        return np.concatenate([np.full(len(w.buckets), prompt_cv2_within(w)) for w in self.members])

    @cached_property
    def prompts(self) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]:
        """Prompts of each member by length and by what of them is cached: (share, new tokens, tokens)."""
        found = (prompts_of(w) for w in self.members)
        return tuple((share, np.maximum(whole - cached, 1.0), whole) for share, whole, cached in found)

    def refused(self, longest: int) -> np.ndarray:
        """Lengths that an engine would refuse which admits no requests of more tokens [bucket]"""
        if longest not in self._refused:
            self._refused[longest] = np.concatenate([_refused(w, longest) for w in self.members])
        return self._refused[longest]

    @cached_property
    def _refused(self) -> dict[int, np.ndarray]:
        return {}

    @cached_property
    def limits(self) -> Limits:
        seconds = np.inf if self.e2e is None else self.e2e.seconds
        in_time = np.where(self.answered_in_time, seconds, np.inf)
        whole = np.inf if self.e2e_per_token is None else self.pace_frac * self.e2e_per_token.seconds
        return Limits(min(self.tpot.seconds, whole), z_of(self.tpot.percentile), in_time)

    def at_pace(self, frac: float) -> Traffic:
        """The same where tokens after the first take at most such a share of what is promised end to end for each."""
        return replace(self, pace_frac=frac) if self.e2e_per_token is not None else self

    @cached_property
    def ttft(self) -> LatencyTarget:
        return _tightest(w.ttft for w in self.members)

    @cached_property
    def tpot(self) -> LatencyTarget:
        return _tightest(w.tpot for w in self.members)

    @cached_property
    def e2e(self) -> LatencyTarget | None:
        given = [w.e2e for w in self.members if w.e2e is not None]
        return _tightest(given) if given else None

    @cached_property
    def e2e_per_token(self) -> LatencyTarget | None:
        """It binds the members that have one, each by itself."""
        given = [w.e2e_per_token for w in self.members if w.e2e_per_token is not None]
        return _tightest(given) if given else None

    @cached_property
    def answered_in_time(self) -> np.ndarray:
        """Whether the end-to-end objective binds it: all but the longest answers of each member [bucket]"""
        if self.e2e is None:
            return np.zeros(len(self.buckets), dtype=bool)
        return np.concatenate([must_hold(w.buckets, self.e2e.percentile, outputs=True) for w in self.members])

    @cached_property
    def arrival_scv(self) -> float:
        """Mean over the merged streams, weighted by their rates."""
        return float(np.dot(self.request_shares, [w.arrival_scv for w in self.members]))

    @cached_property
    def lora(self) -> Lora | None:
        """The adapters of members that share a model; one workload by itself has its own merged into the weights."""
        sizes = [w.adapter_gb for w in self.members if w.adapter_gb is not None]
        if len(self.members) == 1 or not sizes:
            return None
        return Lora(adapters=len(sizes), adapter_gb=sum(sizes) / len(sizes))


def _refused(w: Workload, longest: int) -> np.ndarray:
    """Lengths that hold requests of more tokens: as many of them as leave next to none elsewhere [bucket]"""
    over, share = too_long_frac(w, longest), np.array([b.share_frac for b in w.buckets])
    order = np.argsort(over, kind="stable")
    refused = np.empty(len(over), dtype=bool)
    refused[order] = np.cumsum((over * share)[order]) > SMALLEST_SHARE
    return refused | (over > MOSTLY)


def _tightest(objectives: Iterable[LatencyTarget]) -> LatencyTarget:
    found = list(objectives)
    return LatencyTarget(seconds=min(o.seconds for o in found), percentile=max(o.percentile for o in found))


def traffic_of(workload: Workload) -> Traffic:
    """One workload by itself."""
    return Traffic((workload,), (1.0,))
