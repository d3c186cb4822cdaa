"""Plans of a block of a horizon with some instances on hand, and what is proved of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.horizon.horizon_problem import Block, BlockPlan
from problems.horizon.risk import Weights
from solvers.heuristics.incumbent import Incumbent, penalty_by_month, usd_by_month
from solvers.search.fleet_solution import FleetSolution, Options, outcome_of

SAME_WEIGHTS = 1e-3
"""weights that differ by no more lead to the same plan, as far as it is worth another search"""


def same_weights(a: Weights, b: Weights, within: float = SAME_WEIGHTS) -> bool:
    return all(abs(a[s] - b[s]) <= within for s in a)


@dataclass(frozen=True, eq=False)
class BlockAnswer:
    """One plan of a block, and what it comes to in each scenario, over the block."""

    solution: FleetSolution
    usd_in: dict[str, float]


@dataclass(eq=False)
class Tried:
    """All that is known of a block with some instances on hand.

    Scenarios share the deployments of the first quarter. The cheapest ones depend on how much each scenario counts, so
    there is a plan for each set of weights tried; counts are always those that are cheapest month by month.
    """

    block: Block
    fleet: FleetProblem
    """with the instances on hand"""
    answers: list[BlockAnswer] = field(default_factory=list)
    proved: list[tuple[Weights, FleetSolution]] = field(default_factory=list)
    """weights of the scenarios, and the search with them; none: their probabilities, which came first"""

    @property
    def expected(self) -> FleetSolution:
        """the search with the probabilities"""
        return self.proved[0][1]

    def plans(self) -> list[BlockPlan]:
        """Plans as the master knows them; what they need is on hand."""
        return [BlockPlan(of.solution.objective, {}, of.usd_in) for of in self.answers]

    def knows(self, weights: Weights) -> bool:
        return any(same_weights(weights, tried) for tried, _ in self.proved[1:])

    def serves_as(self, plan: Incumbent) -> bool:
        """Whether a plan that is known has the same pools and deployments."""
        known = (answer.solution.best for answer in self.answers)
        return any(_served(best) == _served(plan) for best in known if best is not None)

    def take(self, found: FleetSolution, weights: Weights, plans: Sequence[Incumbent], options: Options) -> None:
        """Keep what a search with these weights proved, and the plans that it led to.

        Whatever it was made for, a plan stands here with the bound of the search with the probabilities.
        """
        if weights or not self.proved:
            self.proved.append((weights, found))
        else:  # again, and more closely
            self.proved[0] = ({}, found)
        for plan in plans:
            solution = self.expected
            if weights:
                solution = replace(solution, best=plan, earlier=[])
                solution.outcome = outcome_of(solution, options)
            self.answers.append(BlockAnswer(solution, usd_in(self.block, self.fleet, plan)))


def _served(plan: Incumbent) -> set[tuple[str, tuple[str, ...]]]:
    return {(path.pool, tuple(sorted(path.deployments))) for path in plan.paths}


def usd_in(block: Block, fleet: FleetProblem, plan: Incumbent, less_usd_per_month: float = 0.0) -> dict[str, float]:
    """What a plan comes to in each scenario, penalties included."""
    by_month = usd_by_month(fleet, plan) + penalty_by_month(fleet, plan.paths)
    return block.usd_in(np.asarray(by_month) - less_usd_per_month)


def served_as(fleet: FleetProblem, plan: Incumbent) -> FleetProblem:
    """The fleet with the pools and deployments of a plan; counts, and what goes to an API, are free."""
    used: dict[str, set[str]] = {}
    for path in plan.paths:
        used.setdefault(path.pool, set()).update(path.deployments)
    served = {w for path in plan.paths for w in path.workloads}
    pools = {key: pool for key, pool in fleet.pools.items() if served.isdisjoint(pool.workloads)}
    """of workloads that the plan does not know"""
    for key, several in used.items():
        pool = fleet.pools[key]
        pools[key] = replace(pool, deployments=tuple(d for d in pool.deployments if d.key in several))
    recipes = tuple(
        r for r in fleet.recipes if r.pool in pools and (r.pool not in used or set(r.deployments) <= used[r.pool])
    )
    return replace(fleet, pools=pools, recipes=recipes)
