"""What the plan says of each workload: where its requests go, and what it costs."""

from __future__ import annotations

import numpy as np

from planner.case.case import Case, Workload
from planner.case.costs import cache_usd_per_h, request_usd, tokens_of
from planner.case.horizon import Slot, refused_per_month, requests_per_month
from planner.optimization.serving import ServedPool
from planner.plan.plan import FleetLine, Flow, Move, WorkloadPlan
from problems.fleet_problem import FleetProblem


def workload_plans(
    case: Case,
    fleet: FleetProblem,
    pools: tuple[ServedPool, ...],
    lines: tuple[FleetLine, ...],
    slots: tuple[Slot, ...],
) -> list[WorkloadPlan]:
    """In the order of the case."""
    of_pool = _gpu_usd_per_month(fleet, pools, lines)
    plans = {}
    for served in pools:
        for k, workload in enumerate(served.group.members):
            gpu_usd = of_pool[served.key] * served.share_of_load(fleet, workload.name)
            plans[workload.name] = _workload_plan(case, fleet, served, k, gpu_usd, slots)
    return [plans[workload.name] for workload in case.workloads]


def _gpu_usd_per_month(
    fleet: FleetProblem, pools: tuple[ServedPool, ...], lines: tuple[FleetLine, ...]
) -> dict[str, float]:
    """GPU cost of each pool: deployments on the same offer share its cost by the GPU-hours they use."""
    paid: dict[str, float] = {}
    for line in lines:
        paid[line.offer] = paid.get(line.offer, 0.0) + line.cost_usd_per_month
    hours = [(served.key, h.use.offer, float(fleet.weight @ h.use.gpus)) for served in pools for h in served.hosted]
    on_offer: dict[str, float] = {}
    for _, offer, used in hours:
        on_offer[offer] = on_offer.get(offer, 0.0) + used
    usd = {served.key: 0.0 for served in pools}
    for key, offer, used in hours:
        usd[key] += paid[offer] * used / on_offer[offer]
    return usd


def _workload_plan(
    case: Case, fleet: FleetProblem, served: ServedPool, k: int, gpu_usd: float, slots: tuple[Slot, ...]
) -> WorkloadPlan:
    workload, caching, seen = served.group.members[k], served.group.caching[k], served.group.seen[k]
    mine, limit = served.columns[workload.name], workload.length_limit
    api_rps, shed_rps = served.api[:, mine], served.shed[:, mine]
    requests = requests_per_month(workload, slots)
    to_api, shed = (3600 * float(fleet.weight @ rps.sum(axis=1)) for rps in (api_rps, shed_rps))
    tokens = tokens_of(workload, served.answered_per_month(fleet, slots, workload))
    api = served.path.api if to_api else None
    api_usd = 3600 * float(fleet.weight @ (api_rps @ request_usd(case, workload, api))) if api else 0.0
    caching_usd = float(fleet.weight @ cache_usd_per_h(case, workload, caching, slots))
    usd = gpu_usd + api_usd + caching_usd
    return WorkloadPlan(
        name=workload.name,
        pool=served.key,
        caching=caching,
        models=tuple(h.candidate.model_key for h in served.hosted),
        quantizations=tuple(h.candidate.quantization_key for h in served.hosted),
        api=api,
        api_flows=_flows(api_rps),
        shed_flows=_flows(shed_rps),
        deployment_flows=tuple(_flows(h.flow[:, mine]) for h in served.hosted[1:]),
        moves=_moves(served, workload, mine),
        requests_per_month=requests,
        longest_request_tokens=limit.tokens if limit else None,
        refused_share_frac=limit.refused_frac if limit and limit.refused_frac else None,
        refused_requests_per_month=refused_per_month(workload, slots) or None,
        tokens_per_month=tokens,
        cache_share_frac=1 - requests_per_month(seen, slots) / requests,
        api_share_frac=to_api / requests,
        shed_share_frac=shed / requests,
        shed_requests_per_month=shed,
        penalty_usd_per_month=shed * (workload.shed_usd_per_request or 0.0),
        gpu_cost_usd_per_month=gpu_usd,
        api_cost_usd_per_month=api_usd,
        caching_cost_usd_per_month=caching_usd,
        cost_usd_per_month=usd,
        usd_per_1m_tokens=1e6 * usd / tokens if tokens else 0.0,
    )


def _flows(rps: np.ndarray) -> tuple[Flow, ...]:
    return tuple(Flow(slot=int(t), requests_per_s=tuple(rps[t].tolist())) for t in np.flatnonzero(rps.any(axis=1)))


def _moves(served: ServedPool, workload: Workload, mine: slice) -> tuple[Move, ...]:
    """Hours of one kind of day stand for as many hours of the month, so a rate is the same at both ends."""
    if not served.waiting.any():
        return ()
    arriving = (served.pool.rate_rps - served.api - served.shed)[:, mine].sum(axis=1)
    rps = arriving[:, None] * served.waiting
    return tuple(
        Move(from_slot=int(h), to_slot=int(t), requests_per_s=float(rps[h, t]))
        for h, t in zip(*np.nonzero(rps), strict=True)
    )
