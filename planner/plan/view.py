"""What follows from the case alone, or from one entry of the plan: time, demand, prices and what a replica is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from planner.candidates.replica import Replica
from planner.candidates.step_budget import replica_for
from planner.candidates.traffic import Traffic
from planner.case.case import Case, Workload, kinds_of
from planner.plan.plan import DeploymentRecord, Flow, Plan, PoolPlan, SlotRecord, WorkloadPlan

MONTH_HOURS = 730.0
QUARTER_MONTHS = 3
REL = 1e-6
"""figures may differ by a millionth"""
NEXT_TO_NOTHING = 1e-12
"""share of a rate that rounding may leave"""
BySlot = Sequence[float]
ByLength = list[list[float]]
"""requests a second [slot][bucket]"""


def near(a: float, b: float, of: float = 1.0) -> bool:
    """Equal but for rounding; `of` is the size of what was added or subtracted to get them."""
    return math.isclose(a, b, rel_tol=REL, abs_tol=1e-9 * of)


def differs(what: str, claimed: float | None, true: float | None, of: float = 1.0) -> Iterator[str]:
    """The sentence about a figure that is not so."""
    if claimed is None or true is None:
        if claimed is not true:
            yield f"{what} is {true}, not {claimed}"
    elif not near(claimed, true, of):
        yield f"{what} is {true:.10g}, not {claimed:.10g}"


def is_not(what: str, claimed: object, true: object) -> Iterator[str]:
    """Report a name or word that differs from the true one."""
    if claimed != true:
        yield f"{what} is {true}, not {claimed}"


def hours_of_slot(s: SlotRecord) -> float:
    """An hour of a weekday stands for that hour of five days in seven of a month."""
    return {"weekday": 5, "weekend": 2}[s.day] / 7 * MONTH_HOURS / 24


def replica_of(case: Case, traffic: Traffic, d: DeploymentRecord) -> Replica:
    """What one replica of a deployment does for its traffic, asked anew."""
    return replica_for(case, traffic, replace(d.variant, gpu=case.offers[d.offer].gpu))


def behind_its_caches(w: Workload, option: str) -> Workload:
    """Answers found whole never arrive, and of prompts only what is cached is found."""
    kinds = kinds_of(option)
    change: dict[str, Any] = {}
    if "semantic" in kinds:
        missed = 1 - w.semantic_hit_frac
        change["weekday_rps"] = tuple(rate * missed for rate in w.weekday_rps)
        change["weekend_rps"] = tuple(rate * missed for rate in w.weekend_rps)
    if "prefix" not in kinds:
        change |= {"shared_prefix_tokens": 0.0, "prefix_hit_frac": 0.0, "prefix_reuse": None}
    if "template" not in kinds:
        change |= {"template_tokens": 0.0, "template_hit_frac": 0.0}
    return w.model_copy(update=change)


def key_of(d: DeploymentRecord) -> str:
    return d.variant.key_on(d.offer)


@dataclass(frozen=True, eq=False)
class Served:
    """A workload of the case, and what the plan says of it."""

    w: Workload
    seen: Workload
    """as GPUs and APIs see it, behind its caches"""
    told: WorkloadPlan
    demand: ByLength
    """what comes through its caches"""
    kept: ByLength
    """what of that stays on the GPUs, whichever"""


@dataclass(frozen=True, eq=False)
class PlanView:
    """A plan whose names and lengths fit its case."""

    plan: Plan

    @property
    def case(self) -> Case:
        return self.plan.case

    @cached_property
    def served(self) -> list[Served]:
        return [self._served(w, told) for w, told in zip(self.case.workloads, self.plan.workloads, strict=True)]

    def _served(self, w: Workload, told: WorkloadPlan) -> Served:
        seen = behind_its_caches(w, told.caching)
        demand = self.by_length(seen)
        api, shed = self.flow(w, told.api_flows), self.flow(w, told.shed_flows)
        kept = [minus(*rates) for rates in zip(demand, api, shed, strict=True)]
        return Served(w, seen, told, demand, kept)

    def members(self, pool: PoolPlan) -> list[Served]:
        """In the order of the case, which is that of the pool."""
        return [s for s in self.served if s.w.name in pool.workloads]

    # -- time ---------------------------------------------------------------------------------------------

    @property
    def slots(self) -> range:
        return range(len(self.plan.slots))

    @cached_property
    def months(self) -> int:
        return len({s.month for s in self.plan.slots})

    def a_month(self, per_hour: BySlot) -> float:
        """What an hourly amount [slot] comes to in a month, on average over the months."""
        return sum(s.hours_per_month * x for s, x in zip(self.plan.slots, per_hour, strict=True)) / self.months

    def hour_before(self, t: int) -> int:
        """Hour before on the same kind of day, whose first hour follows its last."""
        return t - 1 if self.plan.slots[t].hour else t + 23

    # -- demand -------------------------------------------------------------------------------------------

    def rates_rps(self, w: Workload) -> list[float]:
        """Requests a second that are let in [slot]."""
        refused = w.length_limit.refused_frac if w.length_limit else 0.0
        return [rate * (1 - refused) for rate in self.arriving_rps(w)]

    def arriving_rps(self, w: Workload) -> list[float]:
        """Requests a second that arrive, those refused for their length included [slot]."""
        by_day = {"weekday": w.weekday_rps, "weekend": w.weekend_rps}
        growing = [(1 + w.growth_per_month_frac) ** month for month in range(self.months)]
        factors = growing if w.month_factors is None else w.month_factors
        return [by_day[s.day][s.hour] * factors[s.month] for s in self.plan.slots]

    def by_length(self, w: Workload) -> ByLength:
        return [[rate * b.share_frac for b in w.buckets] for rate in self.rates_rps(w)]

    def requests_per_month(self, w: Workload) -> float:
        return 3600 * self.a_month(self.rates_rps(w))

    def answered_per_month(self, s: Served) -> list[float]:
        """Requests of each length that are not shed, whoever answers them."""
        if s not in self._answered:
            shed = self.flow(s.w, s.told.shed_flows)
            left = [minus(*rates) for rates in zip(self.by_length(s.w), shed, strict=True)]
            self._answered[s] = [3600 * self.a_month([rates[b] for rates in left]) for b in range(len(s.w.buckets))]
        return self._answered[s]

    @cached_property
    def _answered(self) -> dict[Served, list[float]]:
        """What was asked for before."""
        return {}

    def tokens_per_month(self, s: Served) -> float:
        each = (b.input_tokens + b.output_tokens for b in s.w.buckets)
        return sum(n * tokens for n, tokens in zip(self.answered_per_month(s), each, strict=True))

    # -- where the requests go ----------------------------------------------------------------------------

    def flow(self, w: Workload, told: Sequence[Flow]) -> ByLength:
        flows = {flow.slot: list(flow.requests_per_s) for flow in told}
        return [flows.get(t, [0.0] * len(w.buckets)) for t in self.slots]

    def sent_per_month(self, s: Served, told: Sequence[Flow]) -> float:
        """Requests a month that take one way."""
        return 3600 * self.a_month([sum(rates) for rates in self.flow(s.w, told)])

    def carried(self, pool: PoolPlan, k: int) -> ByLength:
        """What the k-th deployment of a pool carries; the lengths of several workloads stand one after the other."""
        known = self._carried.get(id(pool))
        if known is None:
            return self._carried_by(pool, k)
        if k not in known:
            known[k] = self._carried_by(pool, k)
        return known[k]

    @cached_property
    def _carried(self) -> dict[int, dict[int, ByLength]]:
        """What was asked for before, by the identity of the plan's pools."""
        return {id(pool): {} for pool in self.plan.pools}

    def _carried_by(self, pool: PoolPlan, k: int) -> ByLength:
        members = self.members(pool)
        if len(members) == 1:
            flows = [self.flow(members[0].w, told) for told in members[0].told.deployment_flows]
            if k:
                return flows[k - 1]
            return [minus(*rates) for rates in zip(members[0].kept, *flows, strict=True)]
        return [[rate for rates in slot for rate in rates] for slot in zip(*(s.kept for s in members), strict=True)]

    def load(self, pool: PoolPlan, k: int) -> list[float]:
        """Replicas of the k-th deployment that are kept busy [slot], work that waits where it is done."""
        seconds = pool.deployments[k].deployment.seconds_per_request
        load = [busy(rates, seconds) for rates in self.carried(pool, k)]
        for s in self.members(pool):
            shares = [b.share_frac for b in s.w.buckets]
            each = busy(shares, seconds) / sum(shares) if s.told.moves else 0.0
            for move in s.told.moves:
                load[move.from_slot] -= move.requests_per_s * each
                load[move.to_slot] += move.requests_per_s * each
        return load

    def load_of(self, pool: PoolPlan, s: Served) -> list[float]:
        """Replicas of the first deployment of a pool that all the requests of one workload keep busy [slot]."""
        members = self.members(pool)
        start = sum(len(other.w.buckets) for other in members[: members.index(s)])
        seconds = pool.deployments[0].deployment.seconds_per_request[start : start + len(s.w.buckets)]
        return [busy(rates, seconds) for rates in s.kept]

    def share_of_load(self, pool: PoolPlan, s: Served) -> float:
        """Share of a workload in its pool's load-hours."""
        if len(pool.workloads) == 1:
            return 1.0
        hours = {other.w.name: self.a_month(self.load_of(pool, other)) for other in self.members(pool)}
        return hours[s.w.name] / sum(hours.values())


def minus(rates: Sequence[float], *others: Sequence[float]) -> list[float]:
    """What is left of the rates; next to nothing is nothing."""
    left = ((rate, rate - sum(taken)) for rate, *taken in zip(rates, *others, strict=True))
    return [rest if rest > NEXT_TO_NOTHING * rate else 0.0 for rate, rest in left]


def busy(rates: Sequence[float], seconds_per_request: Sequence[float | None]) -> float:
    """Replicas that these requests keep busy, without those that the deployment cannot serve."""
    return sum(rate * u for rate, u in zip(rates, seconds_per_request, strict=True) if u is not None)


def traffic_of(facts: PlanView, members: list[Served]) -> Traffic:
    """What comes to a replica: each workload with its share of the requests that get there."""
    requests = [facts.requests_per_month(s.seen) for s in members]
    return Traffic(tuple(s.seen for s in members), tuple(r / sum(requests) for r in requests))
