"""What is minimized over scenarios: their expected cost, or the largest of their costs.

    expected      sum_s p[s] cost[s]
    worst case    (1 - e) max_s cost[s]  +  e sum_s p[s] cost[s]        with e = TIE_FRAC

The second term of the worst case is there for ties: scenarios that are not the worst are planned for, too, and of plans
with the same worst case the one with the lower expected cost is taken. Since no mean exceeds the largest, a bound on
this sum is one on the worst case itself; it lies at most e x (worst case - expected cost) below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TIE_FRAC = 1e-4
"""a dollar of the worst case weighs as much as ten thousand of the expected cost"""
Weights = dict[str, float]
"""scenario -> how much it counts; they add up to 1"""


@dataclass(frozen=True)
class Risk:
    """Probabilities of the scenarios, and how much their mean counts beside the largest: all, or next to nothing."""

    probabilities: Weights = field(default_factory=dict)
    mean_frac: float = 1.0

    @property
    def worst_case(self) -> bool:
        return self.mean_frac < 1.0

    def expected(self, costs: Mapping[str, float]) -> float:
        return sum(p * costs[s] for s, p in self.probabilities.items())

    def usd(self, costs: Mapping[str, float]) -> float:
        """What is reported and proved."""
        return max(costs.values()) if self.worst_case else self.expected(costs)

    def minimized_usd(self, costs: Mapping[str, float]) -> float:
        """What plans are compared by."""
        return (1 - self.mean_frac) * max(costs.values()) + self.mean_frac * self.expected(costs)

    def weights(self, duals: Mapping[str, float]) -> Weights:
        """How much scenarios count in the bound, where so much is paid for each in the largest cost."""
        counts = {s: self.mean_frac * p + max(0.0, duals[s]) for s, p in self.probabilities.items()}
        total = sum(counts.values())
        return {s: n / total for s, n in counts.items()}


EXPECTED = Risk()
"""the mean, where no scenario is asked for by its name"""


def worst_case_of(probabilities: Weights) -> Risk:
    """The largest cost; with one scenario there is nothing to choose."""
    return Risk(probabilities, TIE_FRAC if len(probabilities) > 1 else 1.0)
