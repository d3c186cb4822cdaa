"""Tiny fleets whose replicas stand apart in boxes they share: how their sizes fit decides what they cost.

Offers cost nearly the same by the GPU, and so do sizes for what they carry; the same fleet for the same seed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from problems.fleet_problem import Offer
from problems.recipes.pools import Api, Deployment, Pool
from tests.oracle.shared_offers import EXACT
from tests.support.fleets import Case

TWO = replace(EXACT, min_replicas=2)
SECONDS = {1: 1.0, 2: 0.7, 4: 0.4}
"""replica-seconds of a request, by the GPUs of a replica"""


def apart_case(seed: int) -> Case:
    """Two or three workloads, now and then two of them served together, in one or two slots."""
    rng = np.random.default_rng([seed, 3])
    slots, several = int(rng.integers(1, 3)), int(rng.choice([2, 2, 3]))
    offers = {g: _offer(rng, g) for g in ("g", "h")[: int(rng.integers(1, 3))]}
    pools = [_pool(rng, f"w{k}", slots, offers, mixes=several == 2) for k in range(several)]
    if rng.random() < 0.3:
        rate = np.concatenate([pool.rate_rps for pool in pools[:2]], axis=1) * 0.8
        alone = tuple(replace(d, seconds_per_request=d.seconds_per_request.repeat(2)) for d in pools[0].deployments)
        pools.append(Pool("both", ("w0", "w1"), rate, 1.0, False, alone, ()))
    return Case(
        tuple(pools),
        offers,
        np.full(slots, 730.0 / slots),
        np.zeros(slots, dtype=int),
        max_gpus={"x": 8 * int(rng.integers(3, 7))} if rng.random() < 0.2 else {},
    )


def _offer(rng: np.random.Generator, key: str) -> Offer:
    box = int(rng.choice([4, 8]))
    usd = box * float(rng.uniform(0.9, 1.1))
    return Offer(
        key,
        "x",
        box,
        on_demand_usd_per_h=usd,
        spot_usd_per_h=usd * float(rng.uniform(0.3, 0.8)) if rng.random() < 0.5 else None,
        reserved_usd_per_h={"1y": usd * float(rng.uniform(0.5, 0.8))} if rng.random() < 0.5 else {},
        on_hand=int(rng.random() < 0.15),
        fewest=2,
        fewest_firm=2,
    )


def _pool(rng: np.random.Generator, key: str, slots: int, offers: dict[str, Offer], mixes: bool) -> Pool:
    mixes = mixes and rng.random() < 0.4
    deployments = [
        Deployment(
            f"{key}-{g}-{size}",
            g,
            size,
            rng.uniform(0.8, 1.25, 1) * SECONDS[size],
            TWO,
            staffing_in_a_mix=TWO if mixes else None,
        )
        for g in offers
        for size in rng.choice(sorted(SECONDS), int(rng.integers(1, 4)), replace=False).tolist()
    ]
    return Pool(
        key=key,
        workloads=(key,),
        rate_rps=rng.uniform(1.0, 4.5, (slots, 1)),
        critical_share=float(rng.choice([0.0, 0.5, 1.0])),
        spot_allowed=bool(rng.random() < 0.5),
        deployments=tuple(deployments),
        apis=(Api("api", rng.uniform(1.0, 3.0, 1) / 3600),) if rng.random() < 0.2 else (),
        max_deployments=2 if mixes else 1,
    )
