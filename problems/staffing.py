"""How many replicas a load needs: the one place where queueing risk is paid for.

The load R of a pool is counted in replicas kept busy (rate x seconds of a replica per request). What varies
around it, within the hour that a slot stands for:

* arrivals: with B requests in flight per replica and arrivals whose gaps have a squared coefficient of
  variation c2, the requests in flight of an infinite-server system have variance R B (1 + c2) / 2
  (peakedness), that is R (1 + c2) / (2 B) in replicas;
* the rate itself: days differ from the representative day and minutes from their hour, with a coefficient of
  variation v, that is (v R)^2.

Replicas cover the mean plus z standard deviations, z taken from the percentile of the SLO. That keeps places free; a
tight TTFT objective may need replicas that are less busy on average, whatever the fleet: the larger of the two counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np


def z_of(percentile: float) -> float:
    """Standard deviations that a percentile of a normal distribution covers, at least none."""
    return max(0.0, NormalDist().inv_cdf(percentile))


def staffing_z(percentile: float) -> float:
    """z for staffing, at least that of the 90th percentile: a fleet that is full half the time queues without end."""
    return z_of(max(percentile, 0.90))


@dataclass(frozen=True, slots=True)
class Staffing:
    """The staffing rule of one pool on one deployment."""

    z: float
    """standard deviations covered [-]"""
    arrival_scv: float
    """squared coefficient of variation of the gaps between arrivals, c2 [-]"""
    rate_cv: float | np.ndarray
    """coefficient of variation of the rate around the slot's mean, v [-]; of several workloads together [slot]"""
    batch: float
    """requests in flight per replica, B [-]"""
    min_replicas: int
    """replicas below which the pool is never run, when it is run at all"""
    max_utilization: float = 1.0
    """mean load of a replica beyond which its own queue of prompts breaks the TTFT objective"""
    load_factor: float = 1.0
    """share of the load of this rule that replicas carry: below 1 where serving a plan showed that it is too much"""

    def in_slots(self, slot: np.ndarray) -> Staffing:
        """The rule for loads of these slots, one after the other."""
        return replace(self, rate_cv=self.rate_cv[slot]) if isinstance(self.rate_cv, np.ndarray) else self

    def margin(self, load: np.ndarray) -> np.ndarray:
        """Replicas on top of the mean load: z sqrt(R (1 + c2) / (2 B) + (v R)^2)."""
        variance = load * (1 + self.arrival_scv) / (2 * self.batch) + (self.rate_cv * load) ** 2
        return self.z * np.sqrt(variance)

    def replicas(self, load: np.ndarray) -> np.ndarray:
        """Whole replicas for a load: max(minimum, ceil(R + margin), ceil(R / most_load)), and none for no load.

        The margin and the limit on a replica's mean load answer different risks, a full fleet and a busy replica, so
        the larger counts, never their sum.
        """
        load = np.asarray(load, dtype=float) / self.load_factor
        needed = np.ceil(np.maximum(load + self.margin(load), load / self.max_utilization) - 1e-9).astype(int)
        return np.where(load > 0, np.maximum(needed, self.min_replicas), 0)

    def carried_load(self, replicas: np.ndarray) -> np.ndarray:
        """The largest load that so many replicas may carry: the inverse of R + margin(R), at most n x most_load.

        R + z sqrt(k' R + v^2 R^2) = n with k' = (1 + c2) / (2 B) is a quadratic in R. With k = z^2 k', its root in
        the form that loses no digits is n^2 / (n + k/2 + sqrt(k n + k^2/4 + (z v n)^2)).
        """
        n = np.asarray(replicas, dtype=float)
        k = self.z**2 * (1 + self.arrival_scv) / (2 * self.batch)
        below = n + k / 2 + np.sqrt(k * n + k**2 / 4 + (self.z * self.rate_cv * n) ** 2)
        load = np.minimum(np.divide(n**2, below, out=np.zeros_like(n), where=below > 0), n * self.max_utilization)
        return np.where(n >= self.min_replicas, self.load_factor * load, 0.0)
