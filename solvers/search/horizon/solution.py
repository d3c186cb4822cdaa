"""The result of a search for the cheapest commitments over a horizon."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from solvers.search.fleet_solution import OPTIMAL_FRAC, FleetSolution, Outcome, contradiction, gap_of


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
    notes: list[str] = field(default_factory=list)

    @property
    def gap_frac(self) -> float:
        return gap_of(self.usd, self.bound_usd) if self.blocks else np.inf

    def conclude(self, gap_frac: float) -> None:
        """Say what a plan is that was searched for to a gap; a bound that it refutes is withdrawn."""
        defect = contradiction(self.usd, self.bound_usd)
        if defect is not None:
            self.bound_usd, self.notes = 0.0, [defect]
        self.bound_usd = min(self.bound_usd, self.usd)
        if self.gap_frac <= OPTIMAL_FRAC:
            self.outcome = Outcome.OPTIMAL
        else:
            self.outcome = Outcome.WITHIN_GAP if self.gap_frac <= gap_frac else Outcome.FEASIBLE
