"""Leave out offers that another one dominates as a whole: same optimum, a smaller problem.

Offer A dominates offer B when everything bought of B could be bought of A for no more, in the same way and at the same
time, and every deployment on B has a twin on A in its pool. Then everything on B, of all workloads, moves to A
together: boxes and commitments that were shared stay shared, so the argument also holds for mixes that are not written
down yet. A mix of a deployment and its twin becomes the twin alone with the replicas of both; its staffing rule must
allow that. A twin that cannot serve all lengths is never alone, so it needs another deployment to be mixed with.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from problems.fleet_problem import FleetProblem, Offer
from problems.recipes.pools import Deployment, Pool
from problems.staffing import Staffing, carries_no_less

SAME = 1e-12


def without_dominated_offers(fleet: FleetProblem) -> FleetProblem:
    """The fleet problem without the offers that another one dominates; of two equal offers the first stays."""
    on: dict[str, list[tuple[Pool, Deployment]]] = {}
    for pool in fleet.pools.values():
        for d in pool.deployments:
            on.setdefault(d.offer, []).append((pool, d))
    twins = {(pool.key, d.offer, *_likeness(d)): d for pool in fleet.pools.values() for d in pool.deployments}
    spot_matters = {g: any(pool.spot_allowed for pool, _ in used) for g, used in on.items()}
    kept = sorted(on)
    for b in sorted(on, reverse=True):

        def moves_to(a: str, b: str = b) -> bool:
            if not _no_more_expensive(fleet.offers[a], fleet.offers[b], spot_matters[b]):
                return False
            if not asks_no_more(fleet, a, b):
                return False
            pairs = [(pool, d, twins.get((pool.key, a, *_likeness(d)))) for pool, d in on[b]]
            box = fleet.offers[a].box
            return all(t is not None and _replaces(pool, t, d, box) and _merges(pool, t) for pool, d, t in pairs)

        if any(a != b and moves_to(a) for a in kept):
            kept.remove(b)
    stays = set(kept)
    if len(stays) == len(on):
        return fleet
    pools = {
        key: replace(pool, deployments=tuple(d for d in pool.deployments if d.offer in stays))
        for key, pool in fleet.pools.items()
    }
    return replace(fleet, pools=pools, recipes=tuple(r for r in fleet.recipes if stays.issuperset(r.offers)))


def _likeness(d: Deployment) -> tuple[str, int, str]:
    """What a twin has in common with a deployment, whatever the offer."""
    return (d.variant, d.gpus_per_replica, d.replica)


def _no_more_expensive(a: Offer, b: Offer, spot_matters: bool) -> bool:
    """Whether what is bought of b could be bought of a for no more, under every limit that b keeps."""
    if a.gpu != b.gpu or a.max_instances is not None or b.box % a.box or a.start_h > b.start_h or b.on_hand:
        return False
    if runs_more_at_least(a, b):
        return False
    ways = [(a.on_demand_usd_per_h, b.on_demand_usd_per_h)]
    ways += [(a.spot_usd_per_h, b.spot_usd_per_h)] if spot_matters else []
    ways += [(a.reserved_usd_per_h.get(term), usd) for term, usd in b.reserved_usd_per_h.items()]
    return no_way_costs_more(ways, a.box, b.box)


def asks_no_more(fleet: FleetProblem, a: str, b: str) -> bool:
    """Whether nothing but prices speaks for b: rules about vendors, power, energy, what allowances cover."""
    if fleet.offers[a].usd_per_gpu_h > fleet.offers[b].usd_per_gpu_h * (1 + SAME):
        return False
    return fleet.vendors.no_more(a, b) and _covered_no_worse(fleet, a, b) and _draws_no_more(fleet, a, b)


def _draws_no_more(fleet: FleetProblem, a: str, b: str) -> bool:
    """Whether what is bought of b draws no more if it is bought of a, where that is limited."""
    return fleet.power is None or fleet.power.no_more(a, fleet.offers[a].box, b, fleet.offers[b].box)


def _covered_no_worse(fleet: FleetProblem, a: str, b: str) -> bool:
    """Whether each allowance that covers instances of b covers as many GPUs of a for no more of it."""
    per_gpu = [[each.takes.get(g, np.inf) / fleet.offers[g].box for g in (a, b)] for each in fleet.cover.of(b)]
    return all(own <= others * (1 + SAME) for own, others in per_gpu)


def runs_more_at_least(a: Offer, b: Offer) -> bool:
    """Whether more GPUs of a than of b must run where any do."""
    return a.fewest * a.box > b.fewest * b.box or a.fewest_firm * a.box > b.fewest_firm * b.box


def no_way_costs_more(ways: list[tuple[float | None, float | None]], box: int, other_box: int) -> bool:
    """Whether the first of each pair of prices is at most the second, by GPU; None: not sold that way."""

    def per_gpu(price: float | None, box: int) -> float:
        return np.inf if price is None else price / box

    return all(per_gpu(x, box) <= per_gpu(y, other_box) * (1 + SAME) for x, y in ways)


def _replaces(pool: Pool, twin: Deployment, d: Deployment, box: int) -> bool:
    """Whether a twin does whatever a deployment does in a pool, by itself and in a mix."""
    if box % d.gpus_per_replica or not _no_slower(twin, d) or not _no_stricter(twin.staffing, d.staffing):
        return False
    if d.alone and not twin.alone:
        return False
    if pool.spot_allowed and (d.spot_allowed > twin.spot_allowed or d.spot_zones > twin.spot_zones):
        return False
    if d.staffing_in_a_mix is None or pool.max_deployments == 1:
        return True
    in_a_mix = twin.staffing_in_a_mix
    return in_a_mix is not None and _no_stricter(in_a_mix, d.staffing_in_a_mix) and twin.replaced_by <= d.replaced_by


def _merges(pool: Pool, twin: Deployment) -> bool:
    """Whether a twin can do alone what it does in a mix with the deployment that it replaces."""
    if twin.staffing_in_a_mix is None or pool.max_deployments == 1 or twin.replaced_by:
        return True  # they are never mixed
    if twin.serves_all:
        return _no_stricter(twin.staffing, twin.staffing_in_a_mix)  # where it is not alone, another one is better yet
    if not pool.apis and pool.shed_usd_per_request is None:
        return True  # two that cannot serve some length are no mix
    others = (e for e in pool.deployments if e.gpus_per_replica != twin.gpus_per_replica)
    return any(e.variant == twin.variant and e.staffing_in_a_mix is not None for e in others)


def _no_slower(a: Deployment, b: Deployment) -> bool:
    return bool((a.seconds_per_request <= b.seconds_per_request * (1 + SAME)).all())


def _no_stricter(a: Staffing, b: Staffing) -> bool:
    """Whether a rule needs no more replicas than another, whatever the load."""
    return (
        a.z <= b.z
        and a.arrival_scv <= b.arrival_scv
        and bool(np.all(np.asarray(a.rate_cv) <= np.asarray(b.rate_cv)))
        and a.batch >= b.batch * (1 - SAME)
        and a.min_replicas <= b.min_replicas
        and a.max_utilization >= b.max_utilization * (1 - SAME)
        and bool(np.all(np.asarray(a.load_factor) >= np.asarray(b.load_factor)))
        and (a.max_utilization >= 1 or _routes_no_worse(a, b))
    )


def _routes_no_worse(a: Staffing, b: Staffing) -> bool:
    if a.routing is None or b.routing is None:
        return a.routing is b.routing
    one, other = (np.array(s.routing.figures(s.max_utilization)) for s in (a, b) if s.routing is not None)
    return bool(carries_no_less(one, other, max(a.arrival_scv, b.arrival_scv)))
