"""From the paths of a solution to pools: who serves which requests, hour by hour."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planner.candidates.enumerate import Candidate, Candidates
from planner.candidates.pools import PoolSpec
from planner.candidates.prefix_cache import PrefixCache
from planner.case.case import Workload
from planner.case.costs import answered_per_month
from planner.case.horizon import Slot
from planner.plan.plan import DeploymentPlan, DeploymentRecord, PoolPlan, PrefixCacheRecord, RoutingRecord
from problems.fleet_problem import FleetProblem
from problems.recipes.pools import Deployment, Pool, firm_replicas
from problems.recipes.recipe import Recipe, Use
from problems.staffing import Routing, Staffing
from solvers.heuristics.incumbent import Incumbent
from solvers.pricing.routing import flows_of

NO_SHARE = 1e-9
"""of the work of an hour: less than this does not wait"""


@dataclass(frozen=True, eq=False)
class Hosted:
    """A deployment that a pool uses."""

    candidate: Candidate
    use: Use
    firm_replicas: np.ndarray
    flow: np.ndarray
    """requests a second as they arrive [slot, bucket of the pool]"""
    load: np.ndarray
    """replicas kept busy when the work is done [slot]"""
    staffing: Staffing
    in_a_mix: bool
    """it is staffed for some of the lengths, whichever"""


@dataclass(frozen=True, eq=False)
class ServedPool:
    """A pool with the path that was chosen for it, and where its requests go."""

    group: PoolSpec
    pool: Pool
    path: Recipe
    hosted: tuple[Hosted, ...]
    api: np.ndarray
    """requests a second [slot, bucket of the pool]"""
    shed: np.ndarray
    waiting: np.ndarray
    """share of what the GPUs do of one slot's work in another slot [arrival slot, slot], none in its own"""

    @cached_property
    def columns(self) -> dict[str, slice]:
        """the buckets of each workload among those of the pool"""
        ends = np.cumsum([len(w.buckets) for w in self.group.members]).tolist()
        return {w.name: slice(e - len(w.buckets), e) for w, e in zip(self.group.members, ends, strict=True)}

    @property
    def key(self) -> str:
        return self.group.key

    def answered_per_month(self, fleet: FleetProblem, slots: tuple[Slot, ...], workload: Workload) -> np.ndarray:
        """Requests of a workload that are not shed [bucket]."""
        shed = 3600 * fleet.weight @ self.shed[:, self.columns[workload.name]]
        return answered_per_month(workload, slots, shed)

    def share_of_load(self, fleet: FleetProblem, workload: str) -> float:
        """Share of the workload in the pool's load-hours."""
        if not self.group.shared:
            return 1.0
        hours = fleet.weight @ (self.hosted[0].flow * self.hosted[0].candidate.seconds_per_request)
        return float(hours[self.columns[workload]].sum() / hours.sum())


def served_pools(candidates: Candidates, fleet: FleetProblem, best: Incumbent) -> tuple[ServedPool, ...]:
    return tuple(_served(candidates, fleet, path) for path in best.paths)


def _served(candidates: Candidates, fleet: FleetProblem, path: Recipe) -> ServedPool:
    pool = fleet.pools[path.pool]
    flows = flows_of(pool, path, fleet.slot_hours)
    rate = pool.rate_rps
    api = flows.api if path.api is not None else np.zeros_like(rate)
    # Rounding in the routing leaves next to nothing unserved: what goes nowhere else is the deployments'.
    kept = rate - api - flows.shed
    routed = sum(flows.uses, np.zeros_like(rate))
    shares = [np.divide(flow, routed, out=np.zeros_like(rate), where=routed > 0) for flow in flows.uses]
    done = np.eye(pool.slots) if flows.moved is None else _done_in(flows.moved)
    used = [k for k, use in enumerate(path.uses) if use.replicas.any()]
    hosted = tuple(_hosted(candidates, fleet, path, k, kept * shares[k], done, len(used) > 1) for k in used)
    waiting = done * (1 - np.eye(pool.slots))
    return ServedPool(candidates.pools[path.pool], pool, path, hosted, api, flows.shed, waiting)


def _done_in(moved: np.ndarray) -> np.ndarray:
    """Share of the work of an arrival slot that is done in each slot, of what the GPUs do of it."""
    moved = np.where(moved > NO_SHARE, moved, 0.0)
    total = moved.sum(axis=1, keepdims=True)
    return np.divide(moved, total, out=np.eye(len(moved)), where=total > 0)


def _hosted(
    candidates: Candidates,
    fleet: FleetProblem,
    path: Recipe,
    k: int,
    flow: np.ndarray,
    done: np.ndarray,
    one_of_several: bool,
) -> Hosted:
    pool, use = fleet.pools[path.pool], path.uses[k]
    candidate = next(c for c in candidates.accepted[path.pool] if c.key == use.deployment)
    deployment: Deployment = next(d for d in pool.deployments if d.key == use.deployment)
    seconds = np.where(np.isfinite(deployment.seconds_per_request), deployment.seconds_per_request, 0.0)
    load = (flow @ seconds * fleet.slot_hours) @ done / fleet.slot_hours
    in_a_mix = one_of_several or not deployment.serves_all
    firm, staffing = use.firm_replicas, deployment.staffing
    if in_a_mix:
        assert deployment.staffing_in_a_mix is not None
        staffing = deployment.staffing_in_a_mix
    elif len(path.uses) > 1:
        # The other deployment of this mix is never used: what is left is a pool of one.
        firm = firm_replicas(pool, deployment, staffing, load, use.replicas)
    return Hosted(candidate, use, firm, flow, load, staffing, in_a_mix)


def pool_plan(fleet: FleetProblem, served: ServedPool) -> PoolPlan:
    return PoolPlan(
        key=served.key,
        workloads=served.group.workloads,
        deployments=tuple(_deployment_plan(fleet, served.group, h) for h in served.hosted),
    )


def _deployment_plan(fleet: FleetProblem, group: PoolSpec, h: Hosted) -> DeploymentPlan:
    replicas = h.use.replicas
    return DeploymentPlan(
        deployment=_record(fleet, group, h),
        replicas_by_slot=tuple(int(n) for n in replicas),
        firm_replicas_by_slot=tuple(int(n) for n in h.firm_replicas),
        load_by_slot=tuple(h.load.tolist()),
        utilization_frac=float(fleet.weight @ h.load / (fleet.weight @ replicas)),
    )


def _record(fleet: FleetProblem, group: PoolSpec, h: Hosted) -> DeploymentRecord:
    c, replica = h.candidate, h.candidate.replica
    ttft_s = replica.ttft_s_of_any if h.in_a_mix else replica.ttft_s
    running = np.flatnonzero(h.use.replicas)
    slots = zip(h.load[running].tolist(), h.use.replicas[running].tolist(), strict=True)
    heaviest = int(np.argmax(replica.load_shares))
    return DeploymentRecord(
        key=c.placed_key,
        model=c.model_key,
        quantization=c.quantization_key,
        offer=c.offer_key,
        gpu=c.offer.gpu,
        gpus_per_replica=c.machine.gpus,
        parallelism=c.on_gpus.other_parallelism,
        seconds_per_request=tuple(s if np.isfinite(s) else None for s in c.seconds_per_request.tolist()),
        requests_in_flight=_in_flight(fleet, h) if h.in_a_mix else replica.batch,
        staffing_in_flight=h.staffing.batch,
        kept_back_frac=replica.kept_back_frac,
        batched_tokens=c.machine.engine.chunk_tokens,
        ttft_ms=1e3 * max(ttft_s(load / n, n) for load, n in set(slots)) if group.deadline_h is None else None,
        most_load_frac=h.staffing.max_utilization,
        routing=_routing_record(h.staffing.routing),
        tpot_ms=1e3 * float(c.throughput.tpot_s[replica.serves].max()),
        e2e_ms=_slowest_answer_ms(c),
        bound_by=c.throughput.bound_by[heaviest],
        quality_loss_frac=c.quality_loss_frac,
        basis=replica.basis,
        error_frac=replica.error_frac,
        spot_zones=1 if h.in_a_mix else c.spot_zones,
        prefix_cache=_prefix_cache_record(replica.prefix_cache),
    )


def _in_flight(fleet: FleetProblem, h: Hosted) -> float:
    """Mean over the lengths that a deployment of a mix gets; staffing counts on the fewest of any length."""
    replica = h.candidate.replica
    load = fleet.weight @ h.flow * np.where(replica.serves, replica.seconds_per_request, 0.0)
    return float(load @ replica.throughput.in_flight / load.sum()) if load.any() else replica.batch


def _prefix_cache_record(cache: PrefixCache | None) -> PrefixCacheRecord | None:
    if cache is None:
        return None
    return PrefixCacheRecord(
        cache_tokens=cache.tokens,
        load_frac=cache.load,
        residence_s=cache.residence_s,
        spread_over=cache.spread,
        found_fracs=cache.found_fracs,
    )


def _routing_record(routing: Routing | None) -> RoutingRecord | None:
    if routing is None:
        return None
    return RoutingRecord(
        exponent=routing.exponent, prompt_share_frac=routing.prompt_share, burst_room_frac=routing.burst_room
    )


def _slowest_answer_ms(c: Candidate) -> float | None:
    """Slowest over the lengths that it can serve and the objective binds."""
    traffic = c.replica.traffic
    if traffic.e2e is None:
        return None
    bound = traffic.answered_in_time & c.replica.serves
    return 1e3 * float(c.throughput.e2e_s[bound].max(initial=0.0))
