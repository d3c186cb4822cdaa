"""Tiny random fleets with every lever, many of them at once; the same fleet for the same seed."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from problems.fleet_problem import Offer
from problems.recipes.pools import Api, Deployment, Pool
from problems.staffing import Routing, Staffing
from tests.oracle.brute_force import Truth, brute_force
from tests.support.fleets import Case, hours_of, random_case, random_offer

LEVERS = {
    "mix": 0.5,
    "partial": 0.5,
    "overflow": 0.55,
    "caching": 0.35,
    "sharing": 0.5,
    "deferral": 0.25,
    "start": 0.4,
    "types": 0.25,
    "shedding": 0.25,
    "zones": 0.35,
    "slow start": 0.2,
    "fixed": 0.3,
    "quotas": 0.35,
    "team": 0.3,
    "budget": 0.2,
}
"""how often each is drawn; some only make sense together with others, and are rarer in the end"""
ROUTING = Routing(exponent=0.6, prompt_share=0.5, burst_room=0.5)
"""for some of the deployments that TTFT binds; with c2 = 4 bursts bind a lone replica"""


@dataclass(frozen=True)
class LeverCase:
    case: Case
    levers: frozenset[str]
    """those that the case really has"""


@cache
def lever_case(seed: int) -> LeverCase:
    case, levers = _Draw(seed).case()
    if levers & {"budget", "shedding"}:
        free = brute_force(case)
        if free.objective < math.inf:
            low, high = (0.6, 1.0) if "shedding" in levers else (0.97, 1.3)
            share = float(np.random.default_rng([seed, 1]).uniform(low, high))
            case = replace(case, budget_usd_per_month=free.cost * share)
            levers = levers | {"budget"}
        else:
            levers = levers - {"budget"}
    return LeverCase(case, frozenset(levers))


def drawn_levers(seed: int) -> set[str]:
    """The levers of a case, before a budget is worked out for it, which takes an enumeration."""
    return _Draw(seed).case()[1]


def case_of(seed: int) -> Case:
    """A case of any kind: simple ones have seeds below 1000, those with levers the others."""
    return random_case(seed, max_utilization=6.0) if seed < 1000 else lever_case(seed).case


@cache
def case_with_holdings(seed: int) -> Case:
    """A case with levers, some instances of which are there anyway; now and then months that do not count alike."""
    case, rng = lever_case(seed).case, np.random.default_rng([seed, 2])

    def some(offer: Offer) -> int:
        most = 3 if offer.max_instances is None else offer.max_instances
        return int(min(most, rng.choice([0, 1, 1, 2, 3])))

    offers = {g: replace(offer, on_hand=some(offer)) for g, offer in case.offers.items()}
    held = {gpu: sum(o.box * o.on_hand for o in offers.values() if o.gpu == gpu) for gpu in case.max_gpus}
    max_gpus = {gpu: max(limit, held[gpu]) for gpu, limit in case.max_gpus.items()}
    return replace(case, offers=offers, max_gpus=max_gpus)


@cache
def truth_of(seed: int) -> Truth:
    return brute_force(lever_case(seed).case)


class _Draw:
    """One case, drawn piece by piece."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 0])
        self.wanted = {lever for lever, often in LEVERS.items() if self.rng.random() < often}
        self.found: set[str] = self.wanted & {"team", "budget", "quotas"}

    def case(self) -> tuple[Case, set[str]]:
        rng = self.rng
        months = 1 if rng.random() < 0.65 else 2
        self.slots = int(rng.integers(2, 4 if months == 1 else 5))
        self.slot_month = np.sort(np.r_[np.arange(months), rng.integers(0, months, self.slots - months)])
        self.hours = hours_of(rng, self.slot_month)
        self.offers = {f"g{k}": self._offer(f"g{k}") for k in range(int(rng.integers(2, 4)))}
        workloads = int(rng.choice([1, 2, 3], p=[0.3, 0.4, 0.3]))
        self.most_deployments = 3 if workloads == 1 else 2
        self.max_utilization = 3.0 if workloads == 1 else 2.0
        self.seconds: dict[str, np.ndarray] = {}
        single = [self._pool(f"w{k}") for k in range(workloads)]
        if "deferral" in self.wanted:
            single[-1] = self._deferrable(f"w{workloads - 1}")
        pools = list(single)
        if "caching" in self.wanted:
            pools += [cached for pool in single if rng.random() < 0.7 for cached in self._cached(pool)]
        if "sharing" in self.wanted:
            together = [pool for pool in single if pool.window is None]
            for size in range(2, len(together) + 1):
                for some in itertools.combinations(together, size):
                    if size < 3 or rng.random() < 0.5:
                        pools.append(self._shared(some))
        quotas = "quotas" in self.wanted
        case = Case(
            pools=tuple(pools),
            offers=self.offers,
            slot_hours=self.hours,
            slot_month=self.slot_month,
            slot_before=self._before() if "start" in self.wanted else None,
            max_gpus={"h": int(rng.integers(2, 7))} if quotas and rng.random() < 0.6 else {},
            max_gpu_types=self._gpu_types() if "types" in self.wanted else None,
            team_usd_per_month=float(rng.uniform(100, 3000)) if "team" in self.wanted else 0.0,
        )
        return case, self.found

    def _offer(self, key: str) -> Offer:
        offer = random_offer(self.rng, key, limits="quotas" in self.wanted)
        if "types" in self.wanted:
            offer = replace(offer, gpu="ha"[int(key[1:]) % 2])
        if "zones" in self.wanted and offer.spot_usd_per_h is None:
            offer = replace(offer, spot_usd_per_h=float(self.rng.uniform(0.5, 1.0) * offer.box))
        if offer.max_instances is not None:
            offer = replace(offer, max_instances=max(1, offer.max_instances))
        if "start" in self.wanted and self.rng.random() < 0.8:
            offer = replace(offer, start_h=float(self.rng.choice([0.1, 0.3, 0.6, 0.9])))
        return offer

    def _before(self) -> np.ndarray:
        """Slots of a month follow one another, round and round; now and then the last is a day of its own."""
        before = np.arange(self.slots)
        for month in range(int(self.slot_month.max()) + 1):
            of_month = np.flatnonzero(self.slot_month == month)
            if len(of_month) > 2 and self.rng.random() < 0.4:
                of_month = of_month[:-1]
            before[of_month] = np.roll(of_month, 1)
        if any(offer.start_h for offer in self.offers.values()) and (before != np.arange(self.slots)).any():
            self.found.add("start")
        return before

    def _gpu_types(self) -> int:
        self.found.add("types")
        return 1

    def _staffing(self) -> Staffing:
        rng = self.rng
        drawn = Staffing(
            z=float(rng.choice([0.0, 1.0, 1.645])),
            arrival_scv=float(rng.choice([0.5, 1.0, 4.0])),
            rate_cv=float(rng.choice([0.0, 0.1, 0.3])),
            batch=float(rng.choice([16, 64])),
            min_replicas=int(rng.choice([1, 1, 1, 2])),
            max_utilization=float(rng.choice([1.0, 1.0, 0.8])),
        )
        if drawn.max_utilization < 1 and drawn.batch == 16:
            return replace(drawn, max_utilization=0.4, routing=ROUTING)
        return drawn

    def _pool(self, key: str) -> Pool:
        rng = self.rng
        mix = "mix" in self.wanted
        buckets = 2 if mix else int(rng.integers(1, 3))
        seconds = self.seconds[key] = rng.uniform(0.05, 0.4, buckets)
        load = rng.uniform(0.2, self.max_utilization, (self.slots, 1)) * rng.dirichlet(np.ones(buckets) * 3, self.slots)
        load[rng.random(self.slots) < 0.1] = 0.0
        load[int(rng.integers(self.slots)), 0] += 0.1
        count = (
            int(rng.integers(2, self.most_deployments + 1)) if mix else int(rng.integers(1, self.most_deployments + 1))
        )
        deployments = [self._deployment(f"d{k}", seconds, mix) for k in range(count)]
        if mix:
            self.found.add("mix")
            for k in range(1, count):
                if rng.random() < 0.5:
                    deployments[k] = replace(
                        deployments[k], offer=deployments[0].offer, gpus_per_replica=deployments[0].gpus_per_replica,
                        spot_zones=deployments[0].spot_zones,
                    )  # fmt: skip
            if count == 3 and rng.random() < 0.3:
                deployments[1] = replace(deployments[1], variant="other")
            if "partial" in self.wanted:
                self.found.add("partial")
                deployments[-1] = self._only_one_length(deployments[-1])
                if rng.random() < 0.25:
                    deployments[0] = self._only_one_length(deployments[0])
        pool = Pool(
            key=key,
            workloads=(key,),
            rate_rps=load / seconds,
            critical_share=float(rng.choice([0.3, 0.6, 1.0] if "zones" in self.wanted else [0.0, 0.3, 0.6, 1.0])),
            spot_allowed=bool(rng.random() < 0.85),
            deployments=tuple(deployments),
            apis=self._apis(seconds),
            fixed_usd_per_h=self._fixed(),
            max_deployments=2 if mix else 1,
        )
        if "shedding" in self.wanted and rng.random() < 0.8:
            self.found.add("shedding")
            pool = replace(pool, shed_usd_per_request=seconds * rng.uniform(2.0, 20.0, buckets) / 3600)
        return pool

    def _deployment(self, key: str, seconds: np.ndarray, mix: bool) -> Deployment:
        rng = self.rng
        offer = self.offers[str(rng.choice(sorted(self.offers)))]
        gpus = int(rng.choice([g for g in (1, 2, 4) if offer.box % g == 0]))
        if "zones" in self.wanted and rng.random() < 0.6:
            gpus = offer.box
        speed = rng.uniform(0.7, 1.4, len(seconds))
        if mix and rng.random() < 0.8:
            speed = np.where(np.arange(len(seconds)) == int(key[1:]) % 2, 0.6, 1.7) * speed
        staffing = self._staffing()
        worst = replace(
            staffing, batch=staffing.batch / 2, max_utilization=staffing.max_utilization * float(rng.uniform(0.85, 1.0))
        )
        d = Deployment(
            key, offer.key, gpus, seconds * speed / gpus**0.8, staffing,
            staffing_in_a_mix=worst if mix else None,
        )  # fmt: skip
        if "zones" in self.wanted and gpus == offer.box:
            self.found.add("zones")
            d = replace(d, spot_zones=int(rng.choice([2, 3])))
        if "slow start" in self.wanted and rng.random() < 0.6:
            self.found.add("slow start")
            d = replace(d, spot_allowed=False)
        return d

    def _only_one_length(self, d: Deployment) -> Deployment:
        seconds = d.seconds_per_request.copy()
        seconds[int(self.rng.integers(len(seconds)))] = np.inf
        return replace(d, seconds_per_request=seconds)

    def _apis(self, seconds: np.ndarray) -> tuple[Api, ...]:
        rng = self.rng
        if "overflow" not in self.wanted or rng.random() < 0.15:
            return ()
        self.found.add("overflow")
        count = 2 if self.most_deployments == 3 and rng.random() < 0.3 else 1
        return tuple(Api(f"api{k}", seconds * rng.uniform(2.0, 12.0, len(seconds)) / 3600) for k in range(count))

    def _fixed(self) -> np.ndarray:
        if "fixed" not in self.wanted:
            return np.zeros(1)
        self.found.add("fixed")
        return self.rng.uniform(0.0, 0.5, self.slots)

    def _cached(self, pool: Pool) -> list[Pool]:
        """The same workload with a cache of keys and values, or of answers: less load for a fixed cost."""
        rng = self.rng
        if pool.window is not None:
            return []
        self.found.add("caching")
        less = float(rng.uniform(0.5, 0.9))
        faster = tuple(
            replace(d, seconds_per_request=d.seconds_per_request * less * rng.uniform(0.9, 1.0))
            for d in pool.deployments
        )
        cached = replace(
            pool, key=f"{pool.key}/prefix", caching="prefix", deployments=faster,
            fixed_usd_per_h=pool.fixed_usd_per_h + rng.uniform(0.05, 0.6),
        )  # fmt: skip
        missed = float(rng.uniform(0.5, 0.9))
        asked = pool.rate_rps.sum(axis=1)
        answered = replace(
            pool, key=f"{pool.key}/semantic", caching="semantic", rate_rps=pool.rate_rps * missed,
            fixed_usd_per_h=pool.fixed_usd_per_h + rng.uniform(0.02, 0.3) + asked * rng.uniform(0.0, 0.1),
        )  # fmt: skip
        return [[cached], [answered], [cached, answered]][int(rng.integers(3))]

    def _shared(self, pools: tuple[Pool, ...]) -> Pool:
        """All these workloads on the same replicas; how much their rate varies together depends on the slot."""
        rng = self.rng
        self.found.add("sharing")
        correlation, swings = float(rng.uniform(0, 1)), rng.choice([0.05, 0.1, 0.3], len(pools))
        seconds = np.concatenate([self.seconds[pool.key] for pool in pools])
        rates = np.concatenate([pool.rate_rps for pool in pools], axis=1)
        owner = np.concatenate([np.full(pool.rate_rps.shape[1], k) for k, pool in enumerate(pools)])
        deployments = []
        for k in range(int(rng.integers(1, 3))):
            d = self._deployment(f"s{k}", seconds, mix=False)
            loads = np.stack([(rates * d.seconds_per_request)[:, owner == j].sum(axis=1) for j in range(len(pools))])
            swing = swings[:, None] * loads
            variance = (1 - correlation) * (swing**2).sum(axis=0) + correlation * swing.sum(axis=0) ** 2
            total = loads.sum(axis=0)
            v = np.divide(np.sqrt(variance), total, out=np.zeros(self.slots), where=total > 0)
            deployments.append(replace(d, staffing=replace(d.staffing, rate_cv=v)))
        return Pool(
            key="+".join(pool.key for pool in pools),
            workloads=tuple(w for pool in pools for w in pool.workloads),
            rate_rps=rates,
            critical_share=max(pool.critical_share for pool in pools),
            spot_allowed=all(pool.spot_allowed for pool in pools),
            deployments=tuple(deployments),
            apis=(),
            fixed_usd_per_h=sum((pool.fixed_usd_per_h for pool in pools), np.zeros(1)),
        )

    def _deferrable(self, key: str) -> Pool:
        """Batch work that may be done in the slots after its own, round and round within the month."""
        rng = self.rng
        self.found.add("deferral")
        buckets = int(rng.integers(1, 3))
        seconds = self.seconds[key] = rng.uniform(0.05, 0.4, buckets)
        load = rng.uniform(0.1, self.max_utilization, (self.slots, 1)) * rng.dirichlet(np.ones(buckets) * 3)
        window = np.eye(self.slots, dtype=bool)
        for month in range(int(self.slot_month.max()) + 1):
            of_month = np.flatnonzero(self.slot_month == month)
            for wait in range(1, int(rng.integers(1, 4))):
                window[of_month, np.roll(of_month, -wait)] = True
        deployments = tuple(
            replace(d, staffing=replace(d.staffing, z=0.0, min_replicas=1), staffing_in_a_mix=None)
            for d in (self._deployment(f"d{k}", seconds, False) for k in range(int(rng.integers(1, 3))))
        )
        return Pool(
            key=key,
            workloads=(key,),
            rate_rps=load / seconds,
            critical_share=float(rng.choice([0.0, 0.0, 0.4])),
            spot_allowed=True,
            deployments=deployments,
            apis=self._apis(seconds),
            fixed_usd_per_h=self._fixed(),
            window=window,
        )
