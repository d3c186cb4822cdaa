"""How many replicas a load needs, and how many of them must not be spot: the rule, worked out again.

ceil(R + z sqrt(R (1 + c2) / (2 B) + (v R)^2)), or R / most_load where that is more, at least the minimum
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from planner.checker.facts import REL

ROUNDING = 1e-10
"""replicas by which the same load, added up in another order, may differ"""


@dataclass(frozen=True)
class Rule:
    """Staffing of one deployment of a pool in one slot."""

    z: float
    arrival_scv: float
    rate_cv: float
    in_flight: float
    most_load: float
    minimum: int

    def replicas(self, load: float) -> float:
        """Before they are made whole."""
        variance = load * (1 + self.arrival_scv) / (2 * self.in_flight) + (self.rate_cv * load) ** 2
        return max(load + self.z * math.sqrt(variance), load / max(self.most_load, 1e-9))

    def needed(self, load: float) -> tuple[int, int]:
        """Whole replicas, rounded in favour of few, then of many."""
        replicas = self.replicas(max(load, 0.0))
        few = max(self.minimum, math.ceil(replicas - REL * max(1.0, replicas))) if load > 1e-9 else 0
        many = max(self.minimum, math.ceil(replicas - ROUNDING)) if load > 0 else 0
        return few, many

    def carried(self, replicas: int) -> float:
        """The largest load that so many may carry, by halving: more load never needs fewer."""
        if replicas < self.minimum:
            return 0.0
        low, high = 0.0, float(replicas)
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if self.replicas(middle) <= replicas else (low, middle)
        return low

    def firm(self, replicas: int, critical_load: float, zones: int) -> tuple[int, int]:
        """Replicas that must not be spot, rounded in favour of few, then of many.

        A reclaim takes the spot replicas of one zone, and what is left must be enough for the critical load.
        """
        few, many = (replicas - min(replicas, n) for n in self.needed(critical_load))
        return max(0, replicas - zones * few), max(0, replicas - zones * many)


def deviations(percentile: float) -> float:
    """Standard deviations that staffing covers: at least those of the 90th percentile."""
    return max(0.0, NormalDist().inv_cdf(max(percentile, 0.90)))
