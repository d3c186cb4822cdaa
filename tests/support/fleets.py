"""Small fleets for tests: random ones from a seed, made so that every rule bites now and then."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from problems.allowance import Allowance
from problems.api_limits import ApiLimit
from problems.constants import HOURS_PER_MONTH
from problems.fleet_problem import FleetProblem, Offer, fleet_of
from problems.power import PowerLimit
from problems.recipes.pools import Api, Deployment, Pool
from problems.recipes.recipe import Recipe
from problems.recipes.vendors import NO_VENDORS, Vendors
from problems.staffing import Staffing


@dataclass(frozen=True, eq=False)
class Case:
    """A fleet problem before recipes: who asks for what, who may serve it, and what can be bought."""

    pools: tuple[Pool, ...]
    offers: dict[str, Offer]
    slot_hours: np.ndarray
    slot_month: np.ndarray
    slot_before: np.ndarray | None = None
    max_gpus: dict[str, int] = field(default_factory=dict)
    max_gpu_types: int | None = None
    budget_usd_per_month: float | None = None
    power: PowerLimit | None = None
    api_limits: tuple[ApiLimit, ...] = ()
    team_usd_per_month: float = 0.0
    vendors: Vendors = NO_VENDORS
    allowances: tuple[Allowance, ...] = ()

    @property
    def workloads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(w for pool in self.pools for w in pool.workloads))

    @property
    def fleet(self) -> FleetProblem:
        return fleet_of(
            self.workloads,
            self.pools,
            self.offers,
            self.slot_hours,
            self.slot_month,
            slot_before=self.slot_before,
            max_gpus=self.max_gpus,
            max_gpu_types=self.max_gpu_types,
            budget_usd_per_month=self.budget_usd_per_month,
            power=self.power,
            api_limits=self.api_limits,
            team_usd_per_month=self.team_usd_per_month,
            vendors=self.vendors,
            allowances=self.allowances,
        )

    def with_offer(self, key: str, offer: Offer) -> Case:
        return replace(self, offers={**self.offers, key: offer})

    def without_limits(self) -> Case:
        offers = {k: replace(offer, max_instances=None) for k, offer in self.offers.items()}
        return replace(self, offers=offers, max_gpus={}, max_gpu_types=None, budget_usd_per_month=None, power=None,
                       api_limits=())  # fmt: skip


def random_case(seed: int, *, limits: bool = True, max_utilization: float = 3.0) -> Case:
    """One to two workloads, two to three slots, boxes of 1, 2 and 4; the same case for the same seed."""
    rng = np.random.default_rng(seed)
    slots = int(rng.integers(2, 4))
    months = int(rng.integers(1, 3))
    slot_month = np.sort(np.r_[np.arange(months), rng.integers(0, months, slots - months)])
    offers: dict[str, Offer] = {}
    for k in range(int(rng.integers(1, 4))):
        offers[f"g{k}"] = random_offer(rng, f"g{k}", limits)
        if k and rng.random() < 0.5:
            offers[f"g{k}"] = cheaper_twin(rng, offers[f"g{k - 1}"], f"g{k}")
    pools = tuple(random_pool(rng, f"w{k}", slots, offers, max_utilization) for k in range(int(rng.integers(1, 3))))
    max_gpus = {"h": int(rng.integers(1, 6))} if limits and rng.random() < 0.4 else {}
    return Case(
        pools=pools,
        offers=offers,
        slot_hours=hours_of(rng, slot_month),
        slot_month=slot_month,
        max_gpus=max_gpus,
        team_usd_per_month=float(rng.uniform(100, 3000)) if rng.random() < 0.4 else 0.0,
    )


def hours_of(rng: np.random.Generator, slot_month: np.ndarray) -> np.ndarray:
    """Slots of uneven length that fill each month."""
    share = rng.uniform(0.2, 1.0, len(slot_month))
    return HOURS_PER_MONTH * share / np.bincount(slot_month, share)[slot_month]


def random_offer(rng: np.random.Generator, key: str, limits: bool = True) -> Offer:
    """Any purchase option may be missing, but not all of them; prices per GPU near 2 USD/h."""
    box = int(rng.choice([1, 2, 4]))
    list_price = float(rng.uniform(1.2, 3.0) * box)
    sold = rng.random(3) < (0.8, 0.6, 0.6)
    if not sold.any():
        sold[0] = True
    reserved = {"1y": float(list_price * rng.uniform(0.4, 0.9))} if sold[2] else {}
    if reserved and rng.random() < 0.3:
        reserved["3y"] = float(list_price * rng.uniform(0.4, 0.9))
    return Offer(
        key=key,
        gpu=str(rng.choice(["h", "a"])),
        box=box,
        on_demand_usd_per_h=list_price if sold[0] else None,
        spot_usd_per_h=float(list_price * rng.uniform(0.25, 1.1)) if sold[1] else None,
        reserved_usd_per_h=reserved,
        max_instances=int(rng.integers(0, 4)) if limits and rng.random() < 0.45 else None,
    )


def cheaper_twin(rng: np.random.Generator, offer: Offer, key: str) -> Offer:
    """The same kind of instance for less in every way of buying it, and without a limit."""
    factor = float(rng.uniform(0.8, 1.0))
    od, spot = offer.on_demand_usd_per_h, offer.spot_usd_per_h
    return replace(
        offer,
        key=key,
        gpu=f"{offer.gpu}2",
        on_demand_usd_per_h=None if od is None else od * factor,
        spot_usd_per_h=None if spot is None else spot * factor,
        reserved_usd_per_h={k: usd * factor for k, usd in offer.reserved_usd_per_h.items()},
        max_instances=None,
    )


def random_staffing(rng: np.random.Generator) -> Staffing:
    return Staffing(
        z=float(rng.choice([0.0, 1.0, 1.645, 2.326])),
        arrival_scv=float(rng.choice([0.5, 1.0, 4.0])),
        rate_cv=float(rng.choice([0.0, 0.1, 0.3])),
        batch=float(rng.choice([4, 16, 64])),
        min_replicas=int(rng.choice([1, 1, 2])),
    )


def random_pool(
    rng: np.random.Generator, key: str, slots: int, offers: dict[str, Offer], max_utilization: float
) -> Pool:
    """Demand of up to `most_load` replicas in a slot, sometimes none; API prices near those of the GPUs."""
    buckets = int(rng.integers(1, 3))
    seconds = rng.uniform(0.05, 0.4, buckets)
    load = rng.uniform(0.1, max_utilization, (slots, 1)) * rng.dirichlet(np.ones(buckets) * 3, slots)
    load[rng.random(slots) < 0.1] = 0.0
    deployments = []
    for k in range(int(rng.integers(1, 4))):
        offer = offers[str(rng.choice(sorted(offers)))]
        gpus = int(rng.choice([g for g in (1, 2, 4) if offer.box % g == 0]))
        speed = rng.uniform(0.7, 1.4, buckets) / gpus**0.8
        deployments.append(Deployment(f"d{k}", offer.key, gpus, seconds * speed, random_staffing(rng)))
        if k and rng.random() < 0.4:
            elsewhere = offers[str(rng.choice(sorted(offers)))]
            if elsewhere.box % deployments[0].gpus_per_replica == 0:
                deployments[-1] = replace(deployments[0], key=f"d{k}", offer=elsewhere.key)
    apis = [
        Api(f"api{k}", seconds * rng.uniform(2.0, 14.0, buckets) / 3600) for k in range(int(rng.choice([0, 1, 1, 2])))
    ]
    return Pool(
        key=key,
        workloads=(key,),
        rate_rps=load / seconds,
        critical_share=float(rng.choice([0.0, 0.3, 0.6, 1.0])),
        spot_allowed=bool(rng.random() < 0.8),
        deployments=tuple(deployments),
        apis=tuple(apis),
    )


def same_servings(one: Recipe, other: Recipe) -> bool:
    return len(one.slot) == len(other.slot) and all(
        (a.replicas == b.replicas).all() and (a.firm_replicas == b.firm_replicas).all()
        for a, b in zip(one.uses, other.uses, strict=True)
    )
