"""The result of a search for the cheapest commitments over a horizon."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.search.fleet_solution import OPTIMAL_FRAC, FleetSolution, Outcome


@dataclass(eq=False)
class HorizonSolution:
    """The best plan of a horizon so far and what is proved about it."""

    outcome: Outcome = Outcome.NOT_FOUND
    signed: tuple[int, ...] = ()
    """of each commitment"""
    blocks: tuple[FleetSolution, ...] = ()
    """the plan of each block with these instances on hand"""
    usd: float = np.inf
    """commitments as counted, and cost and penalties of the blocks, over the horizon: expected, or in the worst case"""
    minimized_usd: float = np.inf
    """the same, with what decides between plans of the same worst case"""
    bound_usd: float = 0.0
    rounds: int = 0
    without_a_plan: str = ""
    """the block that has none; empty where each has one, but no plan is known of all together"""

    @property
    def gap_frac(self) -> float:
        if not self.blocks or self.usd <= 0:
            return 0.0 if self.blocks else np.inf
        return max(0.0, (self.usd - self.bound_usd) / self.usd)

    def conclude(self, gap_frac: float) -> None:
        """Say what a plan is that was searched for to a gap."""
        self.bound_usd = min(self.bound_usd, self.usd)
        if self.gap_frac <= OPTIMAL_FRAC:
            self.outcome = Outcome.OPTIMAL
        else:
            self.outcome = Outcome.WITHIN_GAP if self.gap_frac <= gap_frac else Outcome.FEASIBLE
