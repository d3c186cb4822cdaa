"""What is decided: instances, replicas, and where requests go. With its case, all figures of a plan follow from it."""

from __future__ import annotations

from dataclasses import dataclass

from planner.catalog.variant import TENSOR, Parallelism, Variant
from planner.plan.plan import DeploymentPlan, Flow, Move, Plan


@dataclass(frozen=True)
class Purchase:
    """Instances of one offer bought in one way."""

    offer: str
    purchase: str
    instances_by_slot: tuple[int, ...]


@dataclass(frozen=True)
class DeploymentDecision:
    """A deployment of a pool, hour by hour."""

    model: str
    quantization: str
    offer: str
    gpu: str
    gpus_per_replica: int
    parallelism: Parallelism | None
    """None: by tensor parallelism"""
    speculation: str | None
    """None: no drafts"""
    boxes_per_replica: int | None
    """None: one"""
    serves: tuple[bool, ...]
    """whether it takes requests of a length [bucket of the pool's workloads, one after the other]"""
    replicas_by_slot: tuple[int, ...]
    firm_replicas_by_slot: tuple[int, ...]

    @property
    def variant(self) -> Variant:
        how = self.parallelism or TENSOR, self.speculation or "", self.boxes_per_replica or 1
        return Variant(self.model, self.quantization, self.gpu, self.gpus_per_replica, *how)


@dataclass(frozen=True)
class PoolDecision:
    key: str
    workloads: tuple[str, ...]
    """in the order of the case"""
    deployments: tuple[DeploymentDecision, ...]


@dataclass(frozen=True)
class WorkloadDecision:
    name: str
    caching: str
    api: str | None
    api_flows: tuple[Flow, ...]
    shed_flows: tuple[Flow, ...]
    deployment_flows: tuple[tuple[Flow, ...], ...]
    """what the second deployment of its pool carries, the third...; the first takes the rest"""
    moves: tuple[Move, ...]


@dataclass(frozen=True)
class Decisions:
    purchases: tuple[Purchase, ...]
    pools: tuple[PoolDecision, ...]
    workloads: tuple[WorkloadDecision, ...]
    """in the order of the case"""
    signed: tuple[tuple[str, float], ...] = ()
    """units of each allowance, held ones included, in the order of the case"""


def decisions_of(plan: Plan) -> Decisions:
    """What of a plan was decided; of its figures, only which lengths a deployment has a time for is looked at."""
    return Decisions(
        purchases=tuple(Purchase(line.offer, line.purchase, line.instances_by_slot) for line in plan.fleet),
        pools=tuple(
            PoolDecision(pool.key, pool.workloads, tuple(_deployment(plan, d) for d in pool.deployments))
            for pool in plan.pools
        ),
        workloads=tuple(
            WorkloadDecision(
                name=w.name,
                caching=w.caching,
                api=w.api,
                api_flows=w.api_flows,
                shed_flows=w.shed_flows,
                deployment_flows=w.deployment_flows,
                moves=w.moves,
            )
            for w in plan.workloads
        ),
        signed=tuple((a.name, a.units) for a in plan.allowances or ()),
    )


def _deployment(plan: Plan, planned: DeploymentPlan) -> DeploymentDecision:
    d = planned.deployment
    return DeploymentDecision(
        model=d.model,
        quantization=d.quantization,
        offer=d.offer,
        gpu=plan.case.offers[d.offer].gpu,
        gpus_per_replica=d.gpus_per_replica,
        parallelism=d.parallelism,
        speculation=d.speculation,
        boxes_per_replica=d.boxes_per_replica,
        serves=tuple(seconds is not None for seconds in d.seconds_per_request),
        replicas_by_slot=planned.replicas_by_slot,
        firm_replicas_by_slot=planned.firm_replicas_by_slot,
    )
