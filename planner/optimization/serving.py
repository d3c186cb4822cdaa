"""From a solution to decisions: who serves which requests, hour by hour, and what is bought."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planner.candidates.candidate import Candidate
from planner.candidates.enumerate import Candidates
from planner.candidates.pools import PoolSpec
from planner.case.case import Case, Workload
from planner.case.prices import HELD, price_of
from planner.plan.decisions import Decisions, DeploymentDecision, PoolDecision, Purchase, WorkloadDecision
from planner.plan.plan import Flow, Move
from problems.fleet_problem import FleetProblem
from problems.recipes.pools import Deployment, Pool, firm_replicas
from problems.recipes.recipe import Recipe, Use
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
    firm = use.firm_replicas
    if len(path.uses) > 1 and not one_of_several and deployment.serves_all:
        # The other deployment of this mix is never used: what is left is a pool of one.
        load = (flow @ deployment.seconds_per_request * fleet.slot_hours) @ done / fleet.slot_hours
        firm = firm_replicas(pool, deployment, deployment.staffing, load, use.replicas)
    return Hosted(candidate, use, firm, flow)


def decisions(case: Case, fleet: FleetProblem, best: Incumbent, pools: tuple[ServedPool, ...]) -> Decisions:
    """What a solution decides, in the words of a plan."""
    of_workload = {w.name: _workload(fleet, pool, w) for pool in pools for w in pool.group.members}
    return Decisions(
        purchases=tuple(_purchases(case, fleet, best)),
        signed=tuple((a.name, n) for a in case.allowances or () if (n := best.signed.get(a.name, 0.0))),
        pools=tuple(
            PoolDecision(pool.key, pool.group.workloads, tuple(_deployment(h) for h in pool.hosted)) for pool in pools
        ),
        workloads=tuple(of_workload[w.name] for w in case.workloads),
    )


def _purchases(case: Case, fleet: FleetProblem, best: Incumbent) -> Iterator[Purchase]:
    slots = len(fleet.slot_hours)
    for key, bought in sorted(best.purchases.items()):
        if fleet.offers[key].on_hand:
            yield Purchase(key, HELD, (fleet.offers[key].on_hand,) * slots)
        ways = [
            *((term, np.full(slots, n)) for term, n in bought.reserved.items()),
            ("on-demand", bought.on_demand),
            ("spot", bought.spot),
        ]
        for purchase, instances in ways:
            if instances.any() and price_of(case, key, purchase) is not None:
                yield Purchase(key, purchase, tuple(int(n) for n in instances))


def _deployment(h: Hosted) -> DeploymentDecision:
    c = h.candidate
    return DeploymentDecision(
        model=c.model_key,
        quantization=c.quantization_key,
        offer=c.offer_key,
        gpu=c.offer.gpu,
        gpus_per_replica=c.machine.gpus,
        parallelism=c.on_gpus.other_parallelism,
        speculation=c.speculation or None,
        boxes_per_replica=c.on_gpus.several_boxes,
        serves=tuple(np.isfinite(c.seconds_per_request).tolist()),
        replicas_by_slot=tuple(int(n) for n in h.use.replicas),
        firm_replicas_by_slot=tuple(int(n) for n in h.firm_replicas),
    )


def _workload(fleet: FleetProblem, served: ServedPool, workload: Workload) -> WorkloadDecision:
    mine = served.columns[workload.name]
    api_rps = served.api[:, mine]
    return WorkloadDecision(
        name=workload.name,
        caching=served.group.caching[served.group.members.index(workload)],
        api=served.path.api if float(fleet.weight @ api_rps.sum(axis=1)) else None,
        api_flows=_flows(api_rps),
        shed_flows=_flows(served.shed[:, mine]),
        deployment_flows=tuple(_flows(h.flow[:, mine]) for h in served.hosted[1:]),
        moves=_moves(served, mine),
    )


def _flows(rps: np.ndarray) -> tuple[Flow, ...]:
    return tuple(Flow(slot=int(t), requests_per_s=tuple(rps[t].tolist())) for t in np.flatnonzero(rps.any(axis=1)))


def _moves(served: ServedPool, mine: slice) -> tuple[Move, ...]:
    """Hours of one kind of day stand for as many hours of the month, so a rate is the same at both ends."""
    if not served.waiting.any():
        return ()
    arriving = (served.pool.rate_rps - served.api - served.shed)[:, mine].sum(axis=1)
    rps = arriving[:, None] * served.waiting
    return tuple(
        Move(from_slot=int(h), to_slot=int(t), requests_per_s=float(rps[h, t]))
        for h, t in zip(*np.nonzero(rps), strict=True)
    )
