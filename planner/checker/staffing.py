"""Workloads on the same replicas: who may share, what they are together, and that none starves the others."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

from planner.candidates.traffic import Traffic
from planner.checker.checked import Checked
from planner.checker.figures import REL
from planner.plan.account.flows import Served
from planner.plan.plan import PoolPlan, RoutingRecord


def sharing_is_allowed(checked: Checked, pool: PoolPlan, members: list[Served]) -> Iterator[str]:
    if len(members) == 1:
        return
    for s in members:
        if not s.w.sharing:
            yield f"{s.w.name} may not share replicas"
        if s.w.deadline_h is not None:
            yield f"{s.w.name} may wait, and work that waits is not shared"
        yield from _objectives_are_kept(checked.account.traffic(pool), s)
    adapters, most = sum(s.w.adapter_gb is not None for s in members), checked.case.tenancy.adapters_per_replica
    if adapters > most:
        yield f"{adapters} adapters on a replica, {most} allowed"


def _objectives_are_kept(traffic: Traffic, s: Served) -> Iterator[str]:
    """Objectives of the pool are no looser than those of any workload in it."""
    for name, own, common in (
        ("TTFT", s.w.ttft, traffic.ttft),
        ("TPOT", s.w.tpot, traffic.tpot),
        ("E2E", s.w.e2e, traffic.e2e),
        ("E2E per token", s.w.e2e_per_token, traffic.e2e_per_token),
    ):
        if own is not None and (common is None or common.seconds > own.seconds or common.percentile < own.percentile):
            yield f"the {name} objective of {s.w.name} is not that of its pool"


def nobody_starves_the_others(checked: Checked, pool: PoolPlan, members: list[Served]) -> Iterator[str]:
    """Over the month, no workload is more of the load than it may be."""
    most = checked.case.tenancy.max_share_frac
    for s in members if len(members) > 1 else ():
        share = checked.account.share_of_load(pool, s)
        if share > most + REL:
            yield f"{s.w.name} is {share:.1%} of the load, {most:.1%} allowed"


def rate_cv_by_slot(checked: Checked, pool: PoolPlan, members: list[Served]) -> list[float]:
    """How far the load swings around the mean of each hour: swings of several workloads cancel in part."""
    if len(members) == 1:
        return [members[0].w.rate_cv] * len(checked.slots)
    loads = [checked.account.load_of(pool, s) for s in members]
    return [_rate_cv(checked, members, [load[t] for load in loads]) for t in checked.slots]


def _rate_cv(checked: Checked, members: list[Served], loads: list[float]) -> float:
    swings = [s.w.rate_cv * load for s, load in zip(members, loads, strict=True)]
    apart = sum(x**2 for x in swings)
    together = sum(x * y for i, x in enumerate(swings) for j, y in enumerate(swings) if i != j)
    return math.sqrt(apart + checked.case.tenancy.correlation * together) / sum(loads) if sum(loads) else 0.0


CAUTION, BURSTS = 0.95, 2.0
"""share of a limit that is planned with, and the variation of gaps from which on arrivals come in bursts"""
MOST_REPLICAS = 10**7
ROUNDING = 1e-10
"""replicas by which the same load, added up in another order, may differ"""


@dataclass(frozen=True)
class Rule:
    """Staffing of one deployment of a pool in one slot."""

    z: float
    arrival_scv: float
    rate_cv: float
    in_flight: float
    max_utilization: float
    minimum: int
    load_factor: float = 1.0
    """share of the load of this rule that replicas carry"""
    routing: RoutingRecord | None = None
    """how much more each of several carries"""

    @cached_property
    def highest_rate(self) -> float:
        """Over the mean, at the percentile of requests: log-normal, and weighed by how many arrive at it."""
        spread = math.sqrt(math.log(1 + self.rate_cv**2))
        return math.exp(spread * (self.z + spread / 2))

    def most_load(self, replicas: int) -> float:
        """The mean load of each of so many that TTFT allows."""
        lone, routing = self.max_utilization, self.routing
        if routing is None or lone >= 1:
            return lone
        root = math.sqrt(routing.prompt_share_frac)
        limits = [(1 - (1 - root * lone) / math.pow(replicas, routing.exponent)) / root]
        bursts = self.arrival_scv / replicas if routing.exponent else self.arrival_scv
        if bursts > BURSTS:
            apart = routing.burst_room_frac * math.gamma(1 + 1 / bursts)
            limits.append(bursts * apart**bursts / routing.prompt_share_frac)
        return min(1.0, CAUTION * min(limits))

    def _suffice(self, replicas: int, load: float, but: float) -> bool:
        """Whether so many and a part of one are enough for a load: for its swings, and none is too busy."""
        load, replicas_and = load / self.load_factor, replicas + but * max(1.0, replicas)
        arrivals = self.z * math.sqrt(load * (1 + self.arrival_scv) / (2 * self.in_flight))
        full = load + math.hypot(arrivals, (self.highest_rate - 1) * load) <= replicas_and
        return full and load <= self.most_load(replicas) * replicas_and + but * 1e-9

    def _first(self, load: float, but: float) -> int:
        """The fewest that suffice: more load never needs fewer."""
        low, high = self.minimum - 1, max(1, self.minimum)
        while not self._suffice(high, load, but):
            low, high = high, 2 * high
            if high > MOST_REPLICAS:
                return high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._suffice(middle, load, but) else (middle, high)
        return high

    def needed(self, load: float) -> tuple[int, int]:
        """Whole replicas, rounded in favour of few, then of many."""
        few = self._first(load, REL) if load > 1e-9 else 0
        many = self._first(load, ROUNDING) if load > 0 else 0
        return few, many

    def carried(self, replicas: int) -> float:
        """The largest load that so many may carry, by halving: more load never needs fewer."""
        if replicas < self.minimum:
            return 0.0
        low, high = 0.0, float(replicas)
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if self._suffice(replicas, middle, 0.0) else (low, middle)
        return low

    def firm(self, replicas: int, critical_load: float, zones: int) -> tuple[int, int]:
        """Replicas that must not be spot, rounded in favour of few, then of many.

        A reclaim takes the spot replicas of one zone, and what is left must be enough for the critical load.
        """
        few, many = (replicas - min(replicas, n) for n in self.needed(critical_load))
        return max(0, replicas - zones * few), max(0, replicas - zones * many)


def deviations(percentile: float) -> float:
    """Standard deviations that staffing covers: at least those of the 90th percentile."""
    return max(0.0, NormalDist().inv_cdf(max(percentile, 0.90)))
