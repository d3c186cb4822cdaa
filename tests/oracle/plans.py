"""A plan read against the rules: who is served where, what is bought, what it costs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from planner.checker.packing import stand_apart
from problems.allowance import Item
from problems.recipes.pools import Deployment, Pool
from problems.recipes.recipe import Recipe
from problems.staffing import Staffing
from solvers.heuristics.incumbent import Incumbent
from solvers.pricing.routing import Flows, flows_of
from tests.oracle.rules import SIZES, boxes_for, firm_count, in_slot, max_utilization
from tests.support.fleets import Case

ROUNDING = 1e-6
"""of a load or a bill; routes come out of linear programs"""


def check_plan(case: Case, plan: Incumbent) -> None:
    """Everyone is served in every slot, all GPUs are bought, every limit is kept, and the cost is the sum of it all."""
    assert sorted(w for path in plan.paths for w in path.workloads) == sorted(case.workloads)
    pools = {pool.key: pool for pool in case.pools}
    slots, months = len(case.slot_hours), int(case.slot_month.max()) + 1
    gpus, firm = ({g: np.zeros((slots, len(SIZES)), dtype=int) for g in case.offers} for _ in range(2))
    usd_per_h, penalty = np.zeros(slots), np.zeros(slots)
    for path in plan.paths:
        money, shed = _check_path(case, pools[path.pool], path)
        usd_per_h, penalty = usd_per_h + money, penalty + shed
        for use in path.uses:
            size = SIZES.index(use.gpus_per_replica)
            gpus[use.offer][:, size] += use.gpus
            firm[use.offer][:, size] += use.firm_gpus
    fixed = case.team_usd_per_month if any(path.uses for path in plan.paths) else 0.0
    fixed += _check_vendors(case, pools, plan)
    by_type: dict[str, np.ndarray] = {}
    for g, bought in plan.purchases.items():
        offer = case.offers[g]
        safe = offer.on_hand + sum(bought.reserved.values()) + bought.on_demand
        every = safe + bought.spot
        assert (every >= boxes_for(gpus[g], offer.box, offer.fewest)).all()
        assert (safe >= boxes_for(firm[g], offer.box, offer.fewest_firm)).all()
        if offer.fewest > 1:
            _check_spread(plan, g, offer.box, every, firm_only=False)
            _check_spread(plan, g, offer.box, safe, firm_only=True)
        assert offer.max_instances is None or (every <= offer.max_instances).all()
        by_type[offer.gpu] = by_type.get(offer.gpu, np.zeros(slots, dtype=int)) + offer.box * every
        for n, price in ((bought.on_demand, offer.on_demand_usd_per_h), (bought.spot, offer.spot_usd_per_h)):
            assert (n >= 0).all()
            assert price is not None or not n.any()
            started = np.zeros(slots) if case.slot_before is None else np.maximum(0, n - n[case.slot_before])
            usd_per_h = usd_per_h + (n + offer.start_h * started) * (price or 0.0)
        fixed += 730 * sum(n * offer.reserved_usd_per_h[term] for term, n in bought.reserved.items())
    for g, offer in case.offers.items():
        usd_per_h = usd_per_h + offer.usd_per_gpu_h * gpus[g].sum(axis=1)
        if g not in plan.purchases:
            assert (boxes_for(gpus[g], offer.box, offer.fewest) <= offer.on_hand).all()
            by_type[offer.gpu] = by_type.get(offer.gpu, np.zeros(slots, dtype=int)) + offer.box * offer.on_hand
    assert all((by_type[gpu] <= limit).all() for gpu, limit in case.max_gpus.items() if gpu in by_type)
    types = {case.offers[use.offer].gpu for path in plan.paths for use in path.uses}
    assert case.max_gpu_types is None or len(types) <= case.max_gpu_types
    usd_per_h = usd_per_h - _covered_usd_per_h(case, pools, plan)
    fixed += 730 * sum(a.usd_per_h * plan.signed.get(a.key, 0.0) for a in case.allowances if not a.held)
    cost = fixed + np.bincount(case.slot_month, usd_per_h * case.slot_hours)
    assert plan.cost_usd_per_month == pytest.approx(cost.mean(), rel=ROUNDING)
    assert plan.penalty_usd_per_month == pytest.approx(
        float(penalty @ case.slot_hours) / months, rel=ROUNDING, abs=1e-6
    )
    assert case.budget_usd_per_month is None or cost.max() <= case.budget_usd_per_month * (1 + ROUNDING)


def _covered_usd_per_h(case: Case, pools: dict[str, Pool], plan: Incumbent) -> np.ndarray:
    """What allowances cover of a plan, one after the other, the largest share saved first [slot]."""
    saved = np.zeros(len(case.slot_hours))
    usage: dict[Item, tuple[float, np.ndarray]] = {}
    for g, bought in plan.purchases.items():
        usage[g] = (case.offers[g].on_demand_usd_per_h or 0.0, bought.on_demand.astype(float))
    for path in plan.paths:
        if path.api is not None and pools[path.pool].window is None:
            usage[path.pool, path.api] = (1.0, path.usd_per_h - pools[path.pool].fixed_by_slot)
    for a in case.allowances:
        units = plan.signed.get(a.key, 0.0)
        assert not a.held or units == a.held
        assert units <= a.most * (1 + ROUNDING)
        if units and not a.held and a.step is not None:
            steps = (units - a.fewest) / a.step
            assert steps > -ROUNDING
            assert steps == pytest.approx(round(steps), abs=ROUNDING)
        for t in range(len(saved)):
            some = units * a.covers if a.there is None or a.there[t] else 0.0
            for item in sorted(
                (i for i in a.takes if i in usage), key=lambda i: (a.takes[i] / usage[i][0], a.takes[i])
            ):
                part = min(float(usage[item][1][t]), some / a.takes[item])
                some, saved[t] = some - part * a.takes[item], saved[t] + part * usage[item][0]
                usage[item][1][t] -= part
    return saved


def _check_spread(plan: Incumbent, g: str, box: int, boxes: np.ndarray, firm_only: bool) -> None:
    """The replicas of no deployment all stand in one box."""
    uses = [use for path in plan.paths for use in path.uses if use.offer == g]
    for t, there in enumerate(boxes.tolist()):
        counts = [int((use.firm_replicas if firm_only else use.replicas)[t]) for use in uses]
        there -= sum(
            n * u.gpus_per_replica // box for u, n in zip(uses, counts, strict=True) if u.gpus_per_replica > box
        )
        small = [(u.gpus_per_replica, n) for u, n in zip(uses, counts, strict=True) if n and u.gpus_per_replica <= box]
        assert stand_apart(box, there, small)


def _check_vendors(case: Case, pools: dict[str, Pool], plan: Incumbent) -> float:
    """What the vendors cost that instances are bought or requests are answered of; no more of a kind than allowed."""
    offers = {use.offer for path in plan.paths for use in path.uses if use.replicas.any()}
    used = {vendor for g in offers for vendor in case.vendors.of_offer.get(g, ())}
    for path in plan.paths if case.vendors.of_api else ():
        if path.api is not None and flows_of(pools[path.pool], path, case.slot_hours).api.any():
            used |= set(case.vendors.of_api[path.api])
    for kind, most in case.vendors.at_most.items():
        assert sum(k == kind for k, _ in used) <= most
    return sum(case.vendors.usd_per_month.get(vendor, 0.0) for vendor in used)


def _check_path(case: Case, pool: Pool, path: Recipe) -> tuple[np.ndarray, np.ndarray]:
    """Money and penalty of a pool by slot, from its flows [USD/h]."""
    assert path.slot.tolist() == list(range(pool.slots))
    assert len(path.uses) <= pool.max_deployments
    by_key = {d.key: d for d in pool.deployments}
    members = [by_key[use.deployment] for use in path.uses]
    outlet = path.api is not None or pool.shed_usd_per_request is not None
    assert len(members) != 1 or members[0].serves_all or outlet
    flows = flows_of(pool, path, case.slot_hours)
    every = sum(flows.uses, flows.api + flows.shed)
    assert every == pytest.approx(pool.rate_rps, rel=ROUNDING, abs=1e-9)
    assert all((flow >= 0).all() for flow in (*flows.uses, flows.api, flows.shed))
    assert pool.shed_usd_per_request is not None or not flows.shed.any()
    assert path.api is not None or not flows.api.any()
    if pool.window is not None and members:
        _check_waiting(case, pool, path, members[0], flows)
    else:
        for k, d in enumerate(members):
            _check_load(pool, path, k, d, flows)
    usd = next((api.usd_per_request for api in pool.apis if api.key == path.api), np.zeros(pool.rate_rps.shape[1]))
    shed_usd = pool.shed_usd_per_request if pool.shed_usd_per_request is not None else np.zeros_like(usd)
    fixed = np.broadcast_to(pool.fixed_usd_per_h, (pool.slots,))
    return 3600 * flows.api @ usd + fixed, 3600 * flows.shed @ shed_usd


def _check_load(pool: Pool, path: Recipe, k: int, d: Deployment, flows: Flows) -> None:
    mixed = len(path.uses) > 1 or not d.serves_all
    staffing = d.staffing_in_a_mix if mixed else d.staffing
    assert staffing is not None
    use = path.uses[k]
    can = np.isfinite(d.seconds_per_request)
    assert not flows.uses[k][:, ~can].any()
    load = flows.uses[k][:, can] @ d.seconds_per_request[can]
    whole = pool.rate_rps[:, can] @ d.seconds_per_request[can]
    for t, n in enumerate(use.replicas.tolist()):
        rule = in_slot(staffing, t, pool.slots)
        assert n == 0 or n >= rule.min_replicas
        room = min(max_utilization(rule, n), float(whole[t]))
        assert load[t] <= room * (1 + ROUNDING) + 1e-9
        assert use.firm_replicas[t] == _firm(pool, d, rule, float(load[t]), room, n, mixed)


def _firm(pool: Pool, d: Deployment, rule: Staffing, load: float, room: float, n: int, mixed: bool) -> int:
    """In a mix, for all that the replicas could carry, in one zone; else for what they do carry."""
    if mixed:
        return firm_count(pool, replace(d, spot_zones=1), rule, room, n)
    return firm_count(pool, d, rule, load * (1 - 1e-9), n)


def _check_waiting(case: Case, pool: Pool, path: Recipe, d: Deployment, flows: Flows) -> None:
    assert flows.moved is not None
    assert pool.window is not None
    assert not flows.moved[~pool.window].any()
    work = pool.rate_rps @ d.seconds_per_request * case.slot_hours
    done = (flows.moved * work[:, None]).sum(axis=0) / case.slot_hours
    use = path.uses[0]
    for t, n in enumerate(use.replicas.tolist()):
        rule = in_slot(d.staffing, t, pool.slots)
        assert n == 0 or n >= rule.min_replicas
        room = max_utilization(rule, n)
        assert done[t] <= room * (1 + ROUNDING) + 1e-9
        assert use.firm_replicas[t] == firm_count(pool, d, rule, room * (1 - 1e-9), n)
    asked = pool.rate_rps.sum(axis=1) > 0
    on_gpus = np.where(asked, flows.uses[0].sum(axis=1) / np.where(asked, pool.rate_rps.sum(axis=1), 1.0), 0.0)
    assert flows.moved.sum(axis=1)[asked] == pytest.approx(on_gpus[asked], rel=ROUNDING, abs=1e-6)
    assert math.isclose(float(flows.shed.sum()), 0.0)
