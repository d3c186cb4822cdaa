"""Searches of single blocks of a horizon, and what they leave: plans, proofs, and columns to begin the next one with.

A block is searched like any other fleet, either with commitments for sale at some prices, or with commitments that are
signed on hand. Every figure about a horizon comes from these two.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.horizon.bound import PlannedBlock, PricedBlock, Proved, counts_of
from problems.horizon.horizon_problem import COMMITTED, BlockPlan, HorizonProblem, Prices
from solvers.heuristics.incumbent import Incumbent, complete, limits_are_kept
from solvers.heuristics.local_search import simplest_plan
from solvers.search.fleet_solution import COLD_START, FleetSolution, Options, Outcome, WarmStart
from solvers.search.searches import FleetSearch, OnDone, Searches

BLOCK_NODES, BLOCK_ROUNDS = 1_000, 25
"""of a program, and of prices, for one block"""
LEAST_BLOCK_S = 0.3
"""seconds that a block has at least"""
STARTS = 3
"""plans of a block, the latest, of which the best is what a search begins with"""
Key = tuple[int, tuple[tuple[str, int], ...], float]
"""what the plan of a block with commitments depends on"""


@dataclass(frozen=True, eq=False)
class _Known:
    """A plan of a block, and the paths that make it."""

    plan: BlockPlan
    best: Incumbent


class BlockSearches:
    """What is known of the blocks of a horizon, and how to know more."""

    def __init__(self, problem: HorizonProblem, options: Options, on_done: OnDone) -> None:
        self.problem, self.options, self.on_done = problem, options, on_done
        self.known: list[list[_Known]] = [[] for _ in problem.blocks]
        self.warm: list[WarmStart] = [COLD_START] * len(problem.blocks)
        self.proved: list[Proved] = [Proved() for _ in problem.blocks]
        self.tried: dict[Key, FleetSolution] = {}
        self.seconds: dict[Key, float] = {}
        """that they were searched for the last time; infinite if they were searched with branches, without a limit"""
        self.searches = Searches()

    def copied(self, problem: HorizonProblem, options: Options, on_done: OnDone, first_too: bool) -> BlockSearches:
        """All that is known, for another problem with the same blocks; the first may be another one."""
        other = BlockSearches(problem, options, on_done)
        for b in range(0 if first_too else 1, len(problem.blocks)):
            other.known[b], other.warm[b] = list(self.known[b]), self.warm[b]
            other.proved[b] = Proved(list(self.proved[b].priced), dict(self.proved[b].planned))
        other.tried = {key: found for key, found in self.tried.items() if first_too or key[0]}
        other.seconds = dict(self.seconds)
        return other

    def plans(self) -> list[list[BlockPlan]]:
        return [[known.plan for known in of_block] for of_block in self.known]

    @property
    def offers_in_use(self) -> set[str]:
        """offers that some plan commits to"""
        return {g for of_block in self.known for known in of_block for g in known.plan.committed}

    def key(self, b: int, signed: Sequence[int]) -> Key:
        limited = self.problem.blocks[b].fleet.budget_usd_per_month is not None
        paid = self.problem.paid_in(b, signed) if limited else 0.0
        return b, tuple(sorted(self.problem.committed_in(b, signed).items())), paid

    def price(
        self, prices: Prices, gap_frac: float, seconds: float | None, some: Sequence[int] | None = None
    ) -> dict[int, FleetSolution]:
        """Plan all blocks, or some more closely, with commitments for sale; all of them in so many seconds."""
        blocks = self.problem.blocks
        monthly = {
            b: {g: prices.get((b, g), 0.0) / blocks[b].months for g in self.problem.offers_of[b]}
            for b in (range(len(blocks)) if some is None else some)
        }
        fleets = {b: blocks[b].with_commitments_at(usd_per_month) for b, usd_per_month in monthly.items()}
        solutions = self._solved(fleets, gap_frac, seconds, closely=some is not None)
        for b, found in solutions.items():
            self.proved[b].priced.append(PricedBlock(monthly[b], found.bound_usd_per_month))
            if found.best is not None:
                committed = {g: p.reserved.get(COMMITTED, 0) for g, p in found.best.purchases.items()}
                held_usd = sum(monthly[b][g] * n for g, n in committed.items() if n)
                self._learn(b, found.best.objective - held_usd, committed, found.best)
        return solutions

    @cached_property
    def at_once(self) -> int:
        """blocks that are searched at one time"""
        return self.searches.side_by_side([block.fleet for block in self.problem.blocks])

    def _each_s(self, blocks: int, seconds: float | None) -> float | None:
        """What each of some blocks has of so many seconds."""
        return None if seconds is None else max(LEAST_BLOCK_S, seconds / max(1, -(-blocks // self.at_once)))

    def may_be_searched_again(self, key: Key, seconds: float | None, times: float) -> bool:
        """Whether there is so many times as much time as there was."""
        return self.seconds.get(key, 0.0) * times <= (0.0 if seconds is None else seconds)

    def new(self, signed: Sequence[int]) -> list[int]:
        """Blocks that were not planned with so many commitments."""
        return [b for b in range(len(self.problem.blocks)) if self.key(b, signed) not in self.tried]

    def plan(self, signed: Sequence[int], gap_frac: float, seconds: float | None, closely: Sequence[int] = ()) -> None:
        """Plan the blocks that are new with what is signed on hand, and some again with more effort."""
        problem = self.problem
        some = closely or self.new(signed)
        fleets = {
            b: problem.blocks[b].with_committed(problem.committed_in(b, signed), problem.paid_in(b, signed))
            for b in some
        }
        starts = {b: self.tried[self.key(b, signed)].best for b in closely}
        for b, found in self._solved(fleets, gap_frac, seconds, starts, bool(closely)).items():
            key = self.key(b, signed)
            if key in self.tried:
                found.raise_bound(self.tried[key].bound_usd_per_month)
            self.tried[key] = found
            self.seconds[key] = self._each_s(len(fleets), seconds) or (np.inf if closely else 0.0)
            if found.best is not None:
                self._learn(b, found.best.objective, problem.committed_in(b, signed), found.best)
            least = np.inf if found.outcome is Outcome.INFEASIBLE else found.bound_usd_per_month
            if found.best is not None or least == np.inf:
                self.proved[b].learn(PlannedBlock(counts_of(problem, b, signed), least))

    def _learn(self, b: int, usd_per_month: float, committed: dict[str, int], best: Incumbent) -> None:
        used = {g: n for g, n in committed.items() if n}
        self.known[b].append(_Known(BlockPlan(usd_per_month, used), best))

    def _solved(
        self,
        fleets: dict[int, FleetProblem],
        gap_frac: float,
        seconds: float | None,
        starts: dict[int, Incumbent | None] | None = None,
        closely: bool = False,
    ) -> dict[int, FleetSolution]:
        """Fleets of blocks, from what was known of these before; all of them in so many seconds.

        Where no time is left there is no search: a plan that is known serves, or the simplest.
        """
        options = replace(
            self.options,
            gap_frac=gap_frac,
            node_limit=min(BLOCK_NODES, self.options.node_limit),
            round_limit=None if closely or seconds is not None else BLOCK_ROUNDS,
            time_limit_s=self._each_s(len(fleets), seconds),
        )
        searches = []
        for b, fleet in fleets.items():
            plans = [(starts or {}).get(b), *(complete(fleet, known.best.paths) for known in self.known[b][-STARTS:])]
            best = min((plan for plan in plans if plan is not None), key=lambda plan: plan.objective, default=None)
            searches.append(FleetSearch(fleet, options, WarmStart(paths=self.warm[b].paths, start=best)))
        if seconds is not None and seconds <= 0:
            return {b: _at_hand(search) for b, search in zip(fleets, searches, strict=True)}
        solutions = dict(zip(fleets, self.searches.run(searches, self.on_done), strict=True))
        if any(solution.interrupted for solution in solutions.values()):
            raise KeyboardInterrupt  # half a search is no result
        for b, solution in solutions.items():
            self.warm[b] = solution.known
        return solutions


def _at_hand(search: FleetSearch) -> FleetSolution:
    """The plan that a search would begin with."""
    solution = FleetSolution(known=search.known)
    start = search.known.start
    if start is None or not limits_are_kept(search.fleet, start):
        start = simplest_plan(search.fleet)
    solution.offer(start if start is not None and limits_are_kept(search.fleet, start) else None)
    solution.outcome = Outcome.NOT_FOUND if solution.best is None else Outcome.FEASIBLE
    return solution


def left_s(deadline: float, share: float) -> float | None:
    """A share of the time left; None where there is no limit."""
    return None if deadline == np.inf else share * (deadline - time.monotonic())
