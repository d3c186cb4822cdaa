"""What a replica draws: with one request in flight, and while it is as busy as it is planned to be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.candidates.replica import Replica
from planner.performance.power import PowerLaw, step_shares


@dataclass(frozen=True)
class ReplicaPower:
    """Shares of the TDP of its GPUs."""

    lone: float
    """with one request in flight"""
    full: float
    """at the load that it carries inside its objectives, mean over the lengths by their share of its time"""

    def frac(self, busy: float) -> float:
        """of a replica that is kept busy so much of the time, between 0 and 1"""
        return self.lone + (self.full - self.lone) * busy


def replica_power(law: PowerLaw, replica: Replica) -> ReplicaPower:
    found, lengths, shares = replica.throughput, replica.traffic.lengths, replica.load_shares

    def mean(in_flight: np.ndarray | float) -> float:
        drawn = step_shares(
            replica.machine, in_flight, lengths.input_tokens, lengths.output_tokens, np.maximum(found.new_tokens, 1.0)
        )
        return float(shares @ law.frac(drawn))

    return ReplicaPower(mean(1.0), mean(np.maximum(found.in_flight, 1.0)))
