"""Time, demand, and where requests go: what everything else of the account is worked out from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from planner.candidates.replica import Replica
from planner.candidates.step_budget import replica_for
from planner.candidates.traffic import Traffic
from planner.case.apis import tokens_of
from planner.case.case import KV_TIERS, Case, Workload
from planner.case.kv_tiers import tiers_of
from planner.case.slots import Slot, rates_rps, slots_before, slots_of
from planner.performance.kv_tiers import KvTier
from planner.plan.decisions import Decisions, DeploymentDecision, PoolDecision, WorkloadDecision
from planner.plan.plan import Flow

T = TypeVar("T")
BySlot = Sequence[float] | np.ndarray
ByLength = np.ndarray
"""requests a second [slot, bucket]"""
NEXT_TO_NOTHING = 1e-12
"""share of a rate that rounding may leave"""


class Together(Protocol):
    """Workloads that are served together: a pool as it was decided, or as a plan shows it."""

    @property
    def key(self) -> str: ...


@dataclass(frozen=True, eq=False)
class Served:
    """A workload of the case, and what was decided for it."""

    w: Workload
    seen: Workload
    """as GPUs and APIs see it, behind its caches"""
    decided: WorkloadDecision
    demand: ByLength
    """what comes through its caches"""
    kept: ByLength
    """what of that stays on the GPUs, whichever"""


@dataclass(frozen=True, eq=False)
class Flows:
    """Demand, routes and load, from a case and decisions alone; names and lengths must fit."""

    case: Case
    decided: Decisions
    _cache: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)
    """what was asked for before"""

    # -- time ---------------------------------------------------------------------------------------------

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        return slots_of(self.case)

    @cached_property
    def months(self) -> int:
        return self.slots[-1].month + 1

    @cached_property
    def month_of(self) -> np.ndarray:
        """[slot]"""
        return np.array([s.month for s in self.slots])

    @cached_property
    def hours(self) -> np.ndarray:
        """hours of a month that each slot stands for, on average over the months [slot]"""
        return np.array([s.hours_per_month for s in self.slots]) / self.months

    @cached_property
    def before(self) -> np.ndarray:
        """the hour before, on a day of the same kind [slot]"""
        return slots_before(self.slots)

    def a_month(self, per_hour: BySlot) -> float:
        """What an hourly amount [slot] comes to in a month, on average over the months."""
        return float(self.hours @ np.asarray(per_hour, dtype=float))

    # -- demand -------------------------------------------------------------------------------------------

    def rates_rps(self, w: Workload) -> np.ndarray:
        """Requests a second that are let in [slot]."""
        return rates_rps(w, self.slots)

    def arriving_rps(self, w: Workload) -> np.ndarray:
        """Requests a second that arrive, those refused for their length included [slot]."""
        return np.asarray(self.rates_rps(w) / w.admitted_frac)

    def by_length(self, w: Workload) -> ByLength:
        return np.asarray(self.rates_rps(w)[:, None] * np.array([b.share_frac for b in w.buckets]))

    def requests_per_month(self, w: Workload) -> float:
        return 3600 * self.a_month(self.rates_rps(w))

    @cached_property
    def served(self) -> tuple[Served, ...]:
        """In the order of the case."""
        return tuple(map(self._served, self.case.workloads, self.decided.workloads))

    def _served(self, w: Workload, decided: WorkloadDecision) -> Served:
        seen = w.with_caching(decided.caching)
        demand = self.by_length(seen)
        kept = minus(demand, self.flow(w, decided.api_flows), self.flow(w, decided.shed_flows))
        return Served(w, seen, decided, demand, kept)

    def answered_per_month(self, s: Served) -> np.ndarray:
        """Requests of each length that are not shed, whoever answers them [bucket]."""
        return self._once(("answered", s.w.name), lambda: 3600 * self.hours @ self.not_shed(s))

    def not_shed(self, s: Served) -> ByLength:
        """Requests a second that somebody answers [slot, bucket]."""
        return minus(self.by_length(s.w), self.flow(s.w, s.decided.shed_flows))

    def tokens_per_month(self, s: Served) -> float:
        return tokens_of(s.w, self.answered_per_month(s))

    # -- where the requests go ----------------------------------------------------------------------------

    def flow(self, w: Workload, flows: Sequence[Flow]) -> ByLength:
        rates = np.zeros((len(self.slots), len(w.buckets)))
        for flow in flows:
            rates[flow.slot] = flow.requests_per_s
        return rates

    def sent_per_month(self, s: Served, flows: Sequence[Flow]) -> float:
        """Requests a month that take one way."""
        return 3600 * self.a_month(self.flow(s.w, flows).sum(axis=1))

    def pool(self, together: Together) -> PoolDecision:
        return self._pools[together.key]

    @cached_property
    def _pools(self) -> dict[str, PoolDecision]:
        return {pool.key: pool for pool in self.decided.pools}

    def members(self, together: Together) -> list[Served]:
        """In the order of the case, which is that of the pool."""
        workloads = set(self.pool(together).workloads)
        return self._once(("members", together.key), lambda: [s for s in self.served if s.w.name in workloads])

    def carried(self, together: Together, k: int) -> ByLength:
        """What the k-th deployment of a pool carries; the lengths of several workloads stand one after the other."""
        return self._once(("carried", together.key, k), lambda: self._carried(together, k))

    def _carried(self, together: Together, k: int) -> ByLength:
        members = self.members(together)
        if len(members) > 1:
            return np.concatenate([s.kept for s in members], axis=1)
        (s,) = members
        flows = [self.flow(s.w, each) for each in s.decided.deployment_flows]
        return flows[k - 1] if k else minus(s.kept, *flows)

    # -- replicas -----------------------------------------------------------------------------------------

    def traffic(self, together: Together) -> Traffic:
        """What comes to a replica: each workload with its share of the requests that get there."""
        return self._once(("traffic", together.key), lambda: self._traffic(together))

    def _traffic(self, together: Together) -> Traffic:
        members = self.members(together)
        requests = [self.requests_per_month(s.seen) for s in members]
        return Traffic(tuple(s.seen for s in members), tuple(r / sum(requests) for r in requests))

    def whole_replica(self, together: Together, k: int) -> Replica:
        """What a replica of the k-th deployment does, whichever lengths it is sent."""
        d = self.pool(together).deployments[k]
        tiers = self.tiers(together, d.offer)
        return self._once(
            ("replica", together.key, d.variant, tiers),
            lambda: replica_for(self.case, self.traffic(together), d.variant, tiers),
        )

    def tiers(self, together: Together, offer: str) -> tuple[KvTier, ...]:
        """Tiers of KV cache that boxes of an offer have for a pool."""
        each = (tiers_of(self.case, self.case.offers[offer], s.decided.caching) for s in self.members(together))
        found = {tier.name: tier for tiers in each for tier in tiers}
        return tuple(found[name] for name in KV_TIERS if name in found)

    def replica(self, together: Together, k: int) -> Replica:
        """What it does for the lengths that it is sent: of a mix it may leave to others what it could serve."""
        whole = self.whole_replica(together, k)
        if not self.in_a_mix(together, k):
            return whole
        some = np.array(self.pool(together).deployments[k].serves)
        return self._once(("part", together.key, k), lambda: whole.for_lengths(some))

    def in_a_mix(self, together: Together, k: int) -> bool:
        """Whether the k-th deployment serves some of the lengths only, whichever."""
        deployments = self.pool(together).deployments
        return len(deployments) > 1 or not all(deployments[k].serves)

    def may_wait(self, together: Together) -> bool:
        return self.members(together)[0].w.deadline_h is not None

    def seconds(self, together: Together, k: int) -> np.ndarray:
        """Of a replica's time that a request takes; inf where it is sent none of that length [bucket]."""
        return self.replica(together, k).seconds_per_request

    def load(self, together: Together, k: int) -> np.ndarray:
        """Replicas of the k-th deployment that are kept busy [slot], work that waits where it is done."""
        return self._once(("load", together.key, k), lambda: self._load(together, k))

    def _load(self, together: Together, k: int) -> np.ndarray:
        seconds = finite(self.seconds(together, k))
        load: np.ndarray = self.carried(together, k) @ seconds
        for s in self.members(together):
            if not s.decided.moves:
                continue
            shares = np.array([b.share_frac for b in s.w.buckets])
            each = float(shares @ seconds) / float(shares.sum())
            for move in s.decided.moves:
                load[move.from_slot] -= move.requests_per_s * each
                load[move.to_slot] += move.requests_per_s * each
        return load

    def load_of(self, together: Together, s: Served) -> np.ndarray:
        """Replicas of the first deployment of a pool that all the requests of one workload keep busy [slot]."""
        members = self.members(together)
        start = sum(len(other.w.buckets) for other in members[: members.index(s)])
        load: np.ndarray = s.kept @ finite(self.seconds(together, 0))[start : start + len(s.w.buckets)]
        return load

    def share_of_load(self, together: Together, s: Served) -> float:
        """Share of a workload in its pool's load-hours."""
        members = self.members(together)
        if len(members) == 1:
            return 1.0
        hours = {other.w.name: self.a_month(self.load_of(together, other)) for other in members}
        return hours[s.w.name] / sum(hours.values())

    def pool_of(self, workload: str) -> PoolDecision:
        return next(pool for pool in self.decided.pools if workload in pool.workloads)

    @property
    def hosted(self) -> list[tuple[PoolDecision, int, DeploymentDecision]]:
        """Every deployment, with its pool and its place there."""
        return [(pool, k, d) for pool in self.decided.pools for k, d in enumerate(pool.deployments)]

    def _once(self, key: object, work: Callable[[], T]) -> T:
        if key not in self._cache:
            self._cache[key] = work()
        found: T = self._cache[key]
        return found


def minus(rates: ByLength, *others: ByLength) -> ByLength:
    """What is left of the rates; next to nothing is nothing."""
    left = rates - sum(others)
    return np.where(left > NEXT_TO_NOTHING * rates, left, 0.0)


def finite(seconds: np.ndarray) -> np.ndarray:
    """Seconds per request, none where a deployment is sent no requests of that length [bucket]."""
    return np.where(np.isfinite(seconds), seconds, 0.0)
