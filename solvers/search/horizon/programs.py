"""The programs over a horizon as a whole: they put together what is known of its blocks, and what is proved of them.

They are small: a column for each commitment, and some for each block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from problems.horizon.bound import bound_program
from problems.horizon.horizon_problem import HorizonProblem, Prices
from problems.horizon.master import Trade, Trades, horizon_master
from problems.horizon.risk import Weights
from solvers.backends.highs import solve_lp
from solvers.backends.result import Status
from solvers.backends.solve import solve_mip
from solvers.search.fleet_solution import Options
from solvers.search.horizon.block_plans import same_weights
from solvers.search.horizon.blocks import BlockSearches, left_s

NODES, TIME_FRAC, LEAST_S = 5_000, 0.1, 0.5
"""of a program; the share of the time left that it may take, and the least seconds"""
LITTLE, FAR, UNUSED = 0.25, 2.5, 0.9
"""instances that the master trades at the even price, and how many times that price others may cost; the share of it
that offers cost which no plan uses"""


@dataclass(frozen=True, eq=False)
class HorizonPrograms:
    """The programs over what is known of blocks by now."""

    blocks: BlockSearches
    options: Options
    deadline: float

    def possible(self, problem: HorizonProblem, near: Sequence[int] | None = None) -> tuple[list[int] | None, float]:
        """What the bound's program signs, if anything can be, and the bound on all plans of a part of them.

        Near to what is signed it is what these commitments could cost at least.
        """
        model = bound_program(problem, self.blocks.proved, near)
        result = solve_mip(
            model,
            solver=self.options.solver,
            gap_frac=self.options.gap_frac / 4,
            node_limit=NODES,
            time_limit_s=self._limit_s,
        )
        if result.status is Status.INFEASIBLE:
            return None, np.inf
        if result.x is None:
            return None, result.bound
        signed = [round(n) for n in result.x[: len(problem.commitments)]]
        if near is None:
            return signed, result.bound
        real = [key[0] in ("sign", "theta", "worst") for key in model.column_keys]
        return signed, float(model.cost[real] @ result.x[real])

    def whole(self, problem: HorizonProblem | None = None) -> list[int]:
        """The commitments of the restricted master's best whole solution, of all plans or a part of them."""
        problem = problem or self.blocks.problem
        model = horizon_master(problem, self.blocks.plans(), relaxed=False)
        result = solve_mip(model, solver=self.options.solver, node_limit=NODES, time_limit_s=self._limit_s)
        fewest = [few for few, _ in problem.bounds]
        return fewest if result.x is None else [round(n) for n in result.x[: len(problem.commitments)]]

    def weights(self, signed: Sequence[int] | None = None) -> Weights:
        """How much scenarios count in the worst case; none: as much as they are likely.

        Where it is decided what is signed, only plans that were made with it are there to choose from.
        """
        problem, plans = self.blocks.problem, self.blocks.plans()
        if not problem.risk.worst_case:
            return {}
        if signed is not None:
            problem = replace(problem, decided=tuple((n, n) for n in signed))
            plans = [self.blocks.tried[self.blocks.key(b, signed)].plans() for b in range(len(problem.blocks))]
        if not all(plans):
            return {}
        model = horizon_master(problem, plans, relaxed=True)
        lp = solve_lp(model)
        if lp.row_duals is None:
            return {}
        return self._weights(dict(zip(model.row_keys, lp.row_duals.tolist(), strict=True)))

    def _weights(self, duals: dict[Any, float]) -> Weights:
        problem = self.blocks.problem
        if not problem.risk.worst_case:
            return {}
        paid = {s: duals["worst", s] / problem.too_much_usd for s in problem.risk.probabilities}
        found = problem.risk.weights(paid)
        return {} if same_weights(found, problem.risk.probabilities) else found

    def dual_prices(self, even_prices: Prices) -> tuple[Prices, Weights] | None:
        """The master's duals over the known plans, kept near to even prices, and how much scenarios count.

        A little of each instance is for sale, and can be sold, at the even price, and as much as anybody wants at
        prices far from it. Offers that no plan uses stay below: else any number of them might be signed for nothing.
        """
        in_use = self.blocks.offers_in_use
        trades: Trades = {}
        for b, offers in enumerate(self.blocks.problem.offers_of):
            for g in offers:
                even = even_prices.get((b, g), 0.0)
                trades[b, g] = (
                    (
                        Trade(even, LITTLE),
                        Trade(even, LITTLE, sold=True),
                        Trade(FAR * even),
                        Trade(even / FAR, sold=True),
                    )
                    if g in in_use
                    else (Trade(UNUSED * even), Trade(UNUSED * even, sold=True))
                )
        model = horizon_master(self.blocks.problem, self.blocks.plans(), relaxed=True, trades=trades)
        lp = solve_lp(model)
        if lp.row_duals is None:
            return None
        duals = dict(zip(model.row_keys, lp.row_duals.tolist(), strict=True))
        prices = {
            (b, g): max(0.0, duals["committed", b, g]) for b, gs in enumerate(self.blocks.problem.offers_of) for g in gs
        }
        return prices, self._weights(duals)

    @property
    def _limit_s(self) -> float | None:
        left = left_s(self.deadline, TIME_FRAC)
        return None if left is None else max(LEAST_S, left)
