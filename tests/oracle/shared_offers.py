"""Tiny fleets where offers cost nearly the same: who shares a box, a commitment or a running instance decides.

Mixes, time to start and offers that several workloads may use come together; the same fleet for the same seed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from problems.fleet_problem import Offer
from problems.recipes.pools import Api, Deployment, Pool
from problems.staffing import Staffing
from tests.support.fleets import Case, hours_of

EXACT = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=16.0, min_replicas=1)
SPEEDS = ((1.0, 1.0), (1.0, 1.0), (1.2, 1.2), (0.5, 2.5), (2.5, 0.5))
"""replica-seconds of a short and a long request on one GPU"""


def shared_case(seed: int, boxes: tuple[int, ...] = (1, 1, 2)) -> Case:
    """Two workloads in two or three slots, with loads so small that one box more or less matters."""
    rng = np.random.default_rng([seed, 2])
    slots = int(rng.integers(2, 4))
    month = np.zeros(slots, dtype=int)
    offers = _offers(rng, boxes)
    pools = [_pool(rng, f"w{k}", slots, offers) for k in range(2)]
    if rng.random() < 0.15:
        pools[1] = _waiting(rng, pools[1])
    plain = rng.random() < 0.6
    return Case(
        pools=tuple(pools),
        offers=offers,
        slot_hours=hours_of(rng, month),
        slot_month=month,
        slot_before=np.roll(np.arange(slots), 1) if rng.random() < 0.7 else None,
        max_gpus={"x": int(rng.integers(2, 6))} if not plain and rng.random() < 0.2 else {},
        max_gpu_types=1 if not plain and rng.random() < 0.2 else None,
        team_usd_per_month=float(rng.uniform(100, 1000)) if not plain and rng.random() < 0.3 else 0.0,
    )


def _offers(rng: np.random.Generator, boxes: tuple[int, ...]) -> dict[str, Offer]:
    """Half of the time all are sold on demand alone, without a limit, and take the same time to start."""
    count, plain, start_h = int(rng.integers(2, 4)), rng.random() < 0.5, float(rng.choice([0.0, 0.9]))
    offers = {}
    for g in (f"g{k}" for k in range(count)):
        box = int(rng.choice(boxes))
        usd = float(rng.uniform(0.95, 1.05)) * box
        offer = Offer(g, str(rng.choice(["x", "y"])), box, on_demand_usd_per_h=usd, start_h=start_h)
        if not plain:
            sold = rng.random(3) < (0.9, 0.4, 0.4)
            sold[0] |= not sold.any()
            offer = replace(
                offer,
                on_demand_usd_per_h=usd if sold[0] else None,
                spot_usd_per_h=usd * float(rng.uniform(0.4, 1.0)) if sold[1] else None,
                reserved_usd_per_h={"1y": usd * float(rng.uniform(0.5, 0.9))} if sold[2] else {},
                max_instances=int(rng.integers(1, 4)) if rng.random() < 0.15 else None,
                start_h=float(rng.choice([0.0, 0.2, 0.9])),
            )
        offers[g] = offer
    return offers


def _pool(rng: np.random.Generator, key: str, slots: int, offers: dict[str, Offer]) -> Pool:
    """At work in some slots only, on some offers; deployments that are fast at one length are best mixed."""
    busy = rng.random(slots) < 0.4
    busy[int(rng.integers(slots))] = True
    rate = busy[:, None] * rng.choice([0.0, 0.5, 0.5, 1.0], (slots, 2)) + 0.4 * busy[:, None]
    staffing = EXACT
    if rng.random() < 0.3:
        staffing = replace(EXACT, min_replicas=int(rng.choice([1, 2])), max_utilization=float(rng.choice([1.0, 0.8])))
    deployments = []
    for k, g in enumerate(sorted(offers)):
        if rng.random() < 0.7 or not (deployments or k + 1 < len(offers)):
            seconds = np.array(SPEEDS[int(rng.integers(len(SPEEDS)))])
            if rng.random() < 0.1:
                seconds[int(rng.integers(2))] = np.inf
            gpus = 2 if offers[g].box == 2 and rng.random() < 0.2 else 1
            if offers[g].box > 2:
                gpus = int(rng.choice([n for n in (1, 2, 4) if n <= offers[g].box]))
            mixes = staffing if rng.random() < 0.9 else None
            deployments.append(Deployment(f"d{k}", g, gpus, seconds / gpus, staffing, staffing_in_a_mix=mixes))
    return Pool(
        key=key,
        workloads=(key,),
        rate_rps=rate,
        critical_share=float(rng.choice([0.0, 0.5, 1.0])),
        spot_allowed=bool(rng.random() < 0.7),
        deployments=tuple(deployments),
        apis=(Api("api", rng.uniform(1.0, 3.0, 2) / 3600),) if rng.random() < 0.2 else (),
        max_deployments=2 if rng.random() < 0.75 else 1,
    )


def _waiting(rng: np.random.Generator, pool: Pool) -> Pool:
    """Work of the same lengths in every slot, which may be done a slot later."""
    slots = np.arange(pool.slots)
    window = np.eye(pool.slots, dtype=bool)
    window[slots, np.roll(slots, -1)] = True
    rate = pool.rate_rps.sum(axis=1)[:, None] * rng.dirichlet(np.ones(2) * 3)
    whole = tuple(
        replace(d, staffing=replace(d.staffing, max_utilization=1.0), staffing_in_a_mix=None)
        for d in pool.deployments
        if d.serves_all
    )
    return replace(pool, rate_rps=rate, deployments=whole, window=window, max_deployments=1)
