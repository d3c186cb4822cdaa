"""A candidate: one deployment as one pool may use it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.candidates.pools import PoolSpec
from planner.candidates.replica import Replica
from planner.catalog.entries import Offer
from planner.catalog.variant import Parallelism, Variant
from planner.performance.machine import Machine
from planner.performance.throughput import Throughput
from problems.staffing import Routing, Staffing

SOME_LENGTHS = ", some lengths"
"""in the key of a candidate of a mix that leaves lengths to others"""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A deployment that can serve a pool inside its SLO: all of it, or the lengths that it can, beside another one."""

    pool: PoolSpec
    offer_key: str
    offer: Offer
    model_key: str
    quantization_key: str
    parallelism: Parallelism
    speculation: str
    quality_loss_frac: float
    """the most that any of the workloads sees"""
    replica: Replica
    staffing_in_a_mix: Staffing | None
    """that of its worst length, as any may come to it; None: it is never one of several that serve the pool"""
    load_factors: tuple[float, ...]
    """share of the staffing rule's load that its replicas carry where they serve the pool alone [hour of the days]"""
    spot_allowed: bool
    """whether it starts fast enough to replace what a reclaim takes"""
    boxes: int = 1
    """that a replica spans"""
    alone: bool = True
    """False where it is of use in a mix only: it cannot serve all lengths, or another one beats it by itself"""
    some_lengths: bool = False
    """whether it is the part of a mix that leaves lengths to others which get their first token in time"""
    replaced_by: frozenset[str] = frozenset()
    """other variants that have one which is no worse in any mix"""

    @property
    def machine(self) -> Machine:
        return self.replica.machine

    @property
    def throughput(self) -> Throughput:
        return self.replica.throughput

    @property
    def key(self) -> str:
        """among all candidates of a pool"""
        return self.placed_key + SOME_LENGTHS * self.some_lengths

    @property
    def placed_key(self) -> str:
        """What a record is called."""
        return self.on_gpus.key_on(self.offer_key)

    @property
    def variant(self) -> str:
        return f"{self.model_key}/{self.quantization_key}"

    @property
    def on_gpus(self) -> Variant:
        """Without the offer."""
        replica = self.offer.gpu, self.machine.gpus, self.parallelism, self.speculation, self.boxes
        return Variant(self.model_key, self.quantization_key, *replica)

    @property
    def name(self) -> str:
        return str(self.on_gpus)

    @property
    def replica_name(self) -> str:
        """What one replica is, on whatever GPU."""
        return self.on_gpus.key_on("") + SOME_LENGTHS * self.some_lengths

    @property
    def max_utilization(self) -> float:
        """Mean load of a replica that serves the whole pool: what TTFT allows, or how far throughput may be off.

        Work that may wait has no TTFT, but a deadline: a replica that is slower than estimated must still catch up.
        """
        if self.pool.deadline_h is not None:
            return 1 / (1 + self.replica.error_frac)
        return self.replica.max_utilization

    @property
    def routing(self) -> Routing | None:
        """How much more each of several replicas carries; work that may wait is not routed by what is in flight."""
        return None if self.pool.deadline_h is not None else self.replica.routing

    @property
    def seconds_per_request(self) -> np.ndarray:
        """inf where it cannot serve that length [bucket]"""
        return self.replica.seconds_per_request

    @property
    def spot_zones(self) -> int:
        """Zones that count: a reclaim takes whole replicas only where an instance holds one."""
        return self.offer.spot_zones if self.offer.gpus == self.machine.gpus else 1
