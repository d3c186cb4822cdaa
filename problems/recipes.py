"""Recipes: the exact ways to serve a pool, computed outside the mixed-integer program.

A recipe names who serves a pool: one deployment, one API, or a deployment with an API for what it does not
carry. In each slot it offers a few **servings**: so many replicas, so many of them firm (not spot), and what
the API costs for the rest. All that is non-linear (staffing, spot safety, routing by length) is inside the
serving, so the master only adds up numbers.

Within a recipe the slots are independent: any choice of one serving per slot is a complete way to serve the
pool. So pricing takes the cheapest serving of each slot, and the master may recombine them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from problems.staffing import Staffing

MOST_STEPS = 400
"""counts of replicas at which API overflow is tried"""


@dataclass(frozen=True, eq=False)
class Deployment:
    """A model variant on GPUs of one offer, as one pool sees it."""

    key: str
    offer: str
    gpus_per_replica: int
    seconds_per_request: np.ndarray
    """replica-seconds that a request of each length bucket takes, u [bucket]"""
    staffing: Staffing


@dataclass(frozen=True, eq=False)
class Api:
    """An API model: no replicas, a price per request."""

    key: str
    usd_per_request: np.ndarray
    """[bucket]"""


@dataclass(frozen=True, eq=False)
class Pool:
    """Workloads served together, and all that may serve them."""

    key: str
    workloads: tuple[str, ...]
    rate_rps: np.ndarray
    """mean request rate [slot, bucket]"""
    critical_share: float
    """share of the load that must be served when spot capacity is reclaimed"""
    spot_allowed: bool
    deployments: tuple[Deployment, ...]
    apis: tuple[Api, ...]


@dataclass(frozen=True, eq=False)
class Routing:
    """Which requests stay on the GPUs: those dearest at the API per unit of load, up to a load.

    Exact for linear prices: it is a continuous knapsack whose size is the load kept.
    """

    rate_rps: np.ndarray
    """[slot, bucket]"""
    seconds_per_request: np.ndarray
    order: np.ndarray
    """buckets, the first to keep first"""

    def api_rps(self, slot: np.ndarray, kept_load: np.ndarray) -> np.ndarray:
        """requests/s that the API takes [serving, bucket]"""
        bucket_load = (self.rate_rps * self.seconds_per_request)[slot][:, self.order]
        before = np.cumsum(bucket_load, axis=1) - bucket_load
        kept = np.clip(kept_load[:, None] - before, 0.0, bucket_load)
        share_kept = np.divide(kept, bucket_load, out=np.zeros_like(kept), where=bucket_load > 0)
        api_rps = np.empty_like(kept)
        api_rps[:, self.order] = self.rate_rps[slot][:, self.order] * (1 - share_kept)
        return api_rps


@dataclass(frozen=True, eq=False)
class Recipe:
    """One way to serve a pool, with its servings slot by slot (arrays of one length, sorted by slot)."""

    pool: str
    workloads: tuple[str, ...]
    deployment: str | None
    offer: str | None
    api: str | None
    gpus_per_replica: int
    slot: np.ndarray
    replicas: np.ndarray
    firm_replicas: np.ndarray
    """replicas that must not be spot"""
    api_usd_per_h: np.ndarray
    kept_load: np.ndarray
    """load that stays on the GPUs"""
    routing: Routing
    coarse_usd_per_h: float = 0.0
    """what a step between the loads that are tried may cost, where not all are: the bound is lowered by it"""

    @property
    def api_rps(self) -> np.ndarray:
        """requests/s sent to the API [serving, bucket]"""
        return self.routing.api_rps(self.slot, self.kept_load)

    @property
    def key(self) -> tuple[str, str | None, str | None]:
        return (self.pool, self.deployment, self.api)

    @property
    def gpus(self) -> np.ndarray:
        return self.replicas * self.gpus_per_replica

    @property
    def firm_gpus(self) -> np.ndarray:
        return self.firm_replicas * self.gpus_per_replica

    @property
    def self_hosted(self) -> bool:
        return self.deployment is not None

    def only(self, servings: np.ndarray) -> Recipe:
        """The same recipe with a part of its servings (indices or a mask)."""
        return replace(
            self,
            slot=self.slot[servings],
            replicas=self.replicas[servings],
            firm_replicas=self.firm_replicas[servings],
            api_usd_per_h=self.api_usd_per_h[servings],
            kept_load=self.kept_load[servings],
        )

    def first_of_each_slot(self, order: np.ndarray) -> np.ndarray:
        """Indices of the serving with the lowest `order` value in each slot (ties: the first)."""
        ranked = np.lexsort((np.arange(len(order)), order, self.slot))
        starts = np.flatnonzero(np.r_[True, np.diff(self.slot[ranked]) != 0])
        return ranked[starts]


def recipes_of(pool: Pool) -> list[Recipe]:
    """Every recipe of a pool: each API alone, and each deployment with each API, or alone where none may help.

    A deployment with an API may carry everything in every slot, so it includes the deployment alone.
    """
    bought = [_api_alone(pool, api) for api in pool.apis]
    if not pool.apis:
        return [_deployment_alone(pool, d) for d in pool.deployments]
    return bought + [_deployment_with_api(pool, d, api) for d in pool.deployments for api in pool.apis]


def load_by_slot(pool: Pool, deployment: Deployment) -> np.ndarray:
    """Replicas kept busy by the whole demand [slot]."""
    return pool.rate_rps @ deployment.seconds_per_request


def firm_replicas(pool: Pool, deployment: Deployment, load: np.ndarray, replicas: np.ndarray) -> np.ndarray:
    """Replicas that must survive a spot reclaim: those the critical share of the load needs by itself."""
    if not pool.spot_allowed:
        return replicas
    return np.minimum(replicas, deployment.staffing.replicas(load * pool.critical_share))


def _api_alone(pool: Pool, api: Api) -> Recipe:
    slots = len(pool.rate_rps)
    nothing = np.zeros(slots, dtype=int)
    return Recipe(
        pool=pool.key, workloads=pool.workloads, deployment=None, offer=None, api=api.key, gpus_per_replica=0,
        slot=np.arange(slots), replicas=nothing, firm_replicas=nothing,
        api_usd_per_h=3600 * pool.rate_rps @ api.usd_per_request, kept_load=np.zeros(slots),
        routing=Routing(pool.rate_rps, np.ones(pool.rate_rps.shape[1]), np.arange(pool.rate_rps.shape[1])),
    )  # fmt: skip


def _deployment_alone(pool: Pool, d: Deployment, api: Api | None = None) -> Recipe:
    """The whole demand on the GPUs in every slot."""
    load = load_by_slot(pool, d)
    value = np.zeros(len(d.seconds_per_request)) if api is None else api.usd_per_request / d.seconds_per_request
    replicas = d.staffing.replicas(load)
    return Recipe(
        pool=pool.key, workloads=pool.workloads, deployment=d.key, offer=d.offer, api=api.key if api else None,
        gpus_per_replica=d.gpus_per_replica, slot=np.arange(len(load)), replicas=replicas,
        firm_replicas=firm_replicas(pool, d, load, replicas), api_usd_per_h=np.zeros(len(load)),
        kept_load=np.full(len(load), np.inf),
        routing=Routing(pool.rate_rps, d.seconds_per_request, np.argsort(-value, kind="stable")),
    )  # fmt: skip


def _deployment_with_api(pool: Pool, d: Deployment, api: Api) -> Recipe:
    """The GPUs carry up to a load and the API the rest, in every slot.

    Of all loads only those matter beyond which one more replica, or one more firm replica, would be needed; plus
    none, plus the whole demand. Above MOST_STEPS replicas not every count is tried.
    """
    whole = _deployment_alone(pool, d, api)
    most = int(whole.replicas.max(initial=0))
    counts = np.arange(d.staffing.min_replicas, most + 1)
    coarse_usd_per_h = 0.0
    if len(counts) > MOST_STEPS:
        counts = np.unique(np.linspace(d.staffing.min_replicas, most, MOST_STEPS).astype(int))
        widest = float(np.diff(d.staffing.carried_load(counts)).max())
        coarse_usd_per_h = 3600 * widest * float((api.usd_per_request / d.seconds_per_request).max())
    steps = d.staffing.carried_load(counts)
    if pool.spot_allowed and 0 < pool.critical_share < 1:
        steps = np.concatenate([steps, steps / pool.critical_share])
    loads = np.unique(np.r_[0.0, steps])
    slot, choice = np.nonzero(loads[None, :] < load_by_slot(pool, d)[:, None] * (1 - 1e-12))
    kept = loads[choice]
    replicas = d.staffing.replicas(kept)
    api_usd_per_h = 3600 * whole.routing.api_rps(slot, kept) @ api.usd_per_request
    order = np.argsort(np.r_[slot, whole.slot], kind="stable")

    def join(part: np.ndarray, rest: np.ndarray) -> np.ndarray:
        return np.concatenate([part, rest])[order]

    return replace(
        whole,
        slot=join(slot, whole.slot),
        replicas=join(replicas, whole.replicas),
        firm_replicas=join(firm_replicas(pool, d, kept, replicas), whole.firm_replicas),
        api_usd_per_h=join(api_usd_per_h, whole.api_usd_per_h),
        kept_load=join(kept, whole.kept_load),
        coarse_usd_per_h=coarse_usd_per_h,
    )
