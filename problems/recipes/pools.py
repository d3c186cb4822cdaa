"""Pools: workloads served together, and all that may serve them.

A deployment carries a **load**, counted in replicas kept busy: the sum over length buckets of the request rate times
the replica-seconds that a request takes. What the GPUs do not carry goes to an API, or is shed at a penalty.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from problems.staffing import Staffing


@dataclass(frozen=True, eq=False)
class Deployment:
    """A model variant on GPUs of one offer, as one pool sees it."""

    key: str
    offer: str
    gpus_per_replica: int
    seconds_per_request: np.ndarray
    """replica-seconds that a request of each length bucket takes, u [bucket]; inf where it cannot serve that length"""
    staffing: Staffing
    variant: str = ""
    """model and quantization: a mix is of one variant, so that an answer does not depend on who gives it"""
    replica: str = ""
    """what one replica is, whatever the offer: deployments of the same are twins"""
    staffing_in_a_mix: Staffing | None = None
    """the rule where it serves some of the lengths only, whichever: that of its worst bucket. None: no mixes"""
    spot_allowed: bool = True
    """False if it takes too long to start"""
    alone: bool = True
    """False if another one dominates it alone, so that it is of use in a mix only"""
    replaced_by: frozenset[str] = frozenset()
    """other variants that have one which is no worse in any mix: two that the same one replaces are not mixed"""
    spot_zones: int = 1
    """zones over which its spot replicas are spread; a reclaim takes one of them"""

    @property
    def serves_all(self) -> bool:
        return bool(np.isfinite(self.seconds_per_request).all())


@dataclass(frozen=True, eq=False)
class Api:
    """An API model: no replicas, a price per request."""

    key: str
    usd_per_request: np.ndarray
    """[bucket]"""


@dataclass(frozen=True, eq=False)
class Pool:
    """Workloads served together under one choice of caching, and all that may serve them."""

    key: str
    workloads: tuple[str, ...]
    rate_rps: np.ndarray
    """mean request rate [slot, bucket]; the buckets of several workloads stand one after the other"""
    critical_share: float
    """share of the load that must be served when spot capacity is reclaimed"""
    spot_allowed: bool
    deployments: tuple[Deployment, ...]
    apis: tuple[Api, ...]
    caching: str = "none"
    fixed_usd_per_h: np.ndarray = field(default_factory=lambda: np.zeros(1))
    """cost of the caches, with any deployment [slot], or one figure for all slots"""
    shed_usd_per_request: np.ndarray | None = None
    """penalty of turning a request away [bucket]; None: everything must be served"""
    max_deployments: int = 1
    """deployments that may serve it together, K"""
    window: np.ndarray | None = None
    """work that may wait: whether what arrives in a slot may be done in another [arrival slot, slot]"""
    may_do_without_api: bool = False
    """whether a deployment by itself differs from one with an API that has nothing to do: where an API costs something
    or counts for something by being there"""

    @property
    def apis_beside_gpus(self) -> tuple[Api | None, ...]:
        """what may take the requests that GPUs do not carry; None: no API"""
        return (*self.apis, None) if self.may_do_without_api and self.apis else self.apis or (None,)

    @property
    def slots(self) -> int:
        return len(self.rate_rps)

    @property
    def fixed_by_slot(self) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.fixed_usd_per_h, dtype=float), (self.slots,))


def load_by_slot(pool: Pool, deployment: Deployment) -> np.ndarray:
    """Replicas kept busy by all the demand that the deployment can serve [slot]."""
    seconds = deployment.seconds_per_request
    return pool.rate_rps @ np.where(np.isfinite(seconds), seconds, 0.0)


def firm_replicas(
    pool: Pool, deployment: Deployment, staffing: Staffing, load: np.ndarray, replicas: np.ndarray
) -> np.ndarray:
    """Replicas that must not be spot: those without which a reclaim would leave too few for the critical load.

    Spread over Z zones, spot replicas may be Z times those that can be spared; a reclaim takes one zone.
    """
    if not pool.spot_allowed or not (deployment.spot_allowed or pool.critical_share == 0):
        return replicas
    spared = replicas - np.minimum(replicas, staffing.replicas(load * pool.critical_share))
    firm: np.ndarray = np.maximum(0, replicas - deployment.spot_zones * spared)
    return firm
