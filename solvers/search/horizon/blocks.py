"""Searches of single blocks of a horizon, and what they leave: plans, proofs, and columns to begin the next one with.

A block is searched like any other fleet, either with commitments for sale at some prices, or with commitments that are
signed on hand. Every figure about a horizon comes from these two. Where the worst case is minimized, the first block,
which scenarios share, is searched with weights of scenarios other than their probabilities, too (block_plans.py).
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
from problems.horizon.risk import Weights
from problems.recipes.recipe import Recipe
from solvers.backends.clock import Stopped
from solvers.heuristics.incumbent import Incumbent, complete, limits_are_kept
from solvers.heuristics.local_search import simplest_plan
from solvers.search.fleet_solution import COLD_START, FleetSolution, Options, Outcome, WarmStart
from solvers.search.horizon.block_plans import Tried, served_as, usd_in
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
        self.tried: dict[Key, Tried] = {}
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
        self,
        prices: Prices,
        gap_frac: float,
        seconds: float | None,
        some: Sequence[int] | None = None,
        weights: Weights | None = None,
    ) -> dict[int, FleetSolution]:
        """Plan all blocks, or some more closely, with commitments for sale; all of them in so many seconds."""
        blocks = [block.at(weights or {}) for block in self.problem.blocks]
        monthly = {
            b: {g: prices.get((b, g), 0.0) / blocks[b].months for g in self.problem.offers_of[b]}
            for b in (range(len(blocks)) if some is None else some)
        }
        fleets = {b: blocks[b].with_commitments_at(usd_per_month) for b, usd_per_month in monthly.items()}
        solutions = self._solved(fleets, gap_frac, seconds, closely=some is not None)
        for b, found in solutions.items():
            likely = self.problem.blocks[b]
            as_likely = blocks[b].fleet is likely.fleet
            proved = PricedBlock(monthly[b], found.bound_usd_per_month, {} if as_likely else weights or {})
            self.proved[b].priced.append(proved)
            if found.best is None:
                continue
            committed = {g: p.reserved.get(COMMITTED, 0) for g, p in found.best.purchases.items()}
            committed |= {g: round(found.best.signed.get(g, 0.0) / lot) for g, lot in likely.lots.items()}
            if as_likely:
                held_usd = sum(monthly[b][g] * n for g, n in committed.items() if n)
                self._learn(b, fleets[b], found.best, committed, held_usd)
                continue
            fleet = replace(likely.with_committed(committed, 0.0), budget_usd_per_month=None)
            if (plan := complete(fleet, found.best.paths)) is not None:
                self._learn(b, fleet, plan, committed)
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

    def new(self, signed: Sequence[int], weights: Weights | None = None) -> list[int]:
        """Blocks that were not planned with so many commitments, or with scenarios that count so much."""
        blocks = range(len(self.problem.blocks))
        return [b for b in blocks if self.key(b, signed) not in self.tried or self._unweighed(b, signed, weights or {})]

    def _unweighed(self, b: int, signed: Sequence[int], weights: Weights) -> bool:
        """Whether a block has a plan, but was not planned with scenarios that count so much."""
        tried = self.tried.get(self.key(b, signed))
        known = not weights or not self.problem.blocks[b].differs or tried is None or not tried.answers
        return not known and tried is not None and not tried.knows(weights)

    def plan(self, signed: Sequence[int], gap_frac: float, seconds: float | None, closely: Sequence[int] = ()) -> None:
        """Plan the blocks that are new with what is signed on hand, and some again with more effort."""
        problem = self.problem
        some = closely or self.new(signed)
        fleets = {b: problem.fleet_with(b, signed) for b in some}
        starts = {b: self.tried[self.key(b, signed)].expected.best for b in closely}
        for b, found in self._solved(fleets, gap_frac, seconds, starts, bool(closely)).items():
            key = self.key(b, signed)
            if key in self.tried:
                found.raise_bound(self.tried[key].expected.bound_usd_per_month)
            else:
                self.tried[key] = Tried(problem.blocks[b], fleets[b])
            self.tried[key].take(found, {}, [] if found.best is None else [found.best], self.options)
            self.seconds[key] = self._each_s(len(fleets), seconds) or (np.inf if closely else 0.0)
            if found.best is not None:
                self._learn(b, fleets[b], found.best, problem.committed_in(b, signed))
            self._prove(b, signed, found, {})

    def weigh(self, signed: Sequence[int], gap_frac: float, seconds: float | None, weights: Weights) -> None:
        """Plan blocks that scenarios share with what is signed on hand, and scenarios that count so much."""
        problem = self.problem
        for b in (b for b in range(len(problem.blocks)) if self._unweighed(b, signed, weights)):
            committed, tried = problem.committed_in(b, signed), self.tried[self.key(b, signed)]
            fleet = problem.fleet_with(b, signed, weights)
            found = self._solved({b: fleet}, gap_frac, seconds)[b]
            plans = [] if found.best is None else self._as_likely(b, tried, found.best, gap_frac, seconds)
            tried.take(found, weights, plans, self.options)
            for plan in plans:
                self._learn(b, tried.fleet, plan, committed)
            self._prove(b, signed, found, weights)

    def _as_likely(
        self, b: int, tried: Tried, plan: Incumbent, gap_frac: float, seconds: float | None
    ) -> list[Incumbent]:
        """A plan made with other weights in a fleet with the probabilities: as it is, and with its deployments alone.

        The second one has the counts that are cheapest in every month, however little it counted; one with the same
        deployments as a plan that is known has its counts.
        """
        found = [complete(tried.fleet, plan.paths)]
        if not tried.serves_as(plan):
            served = served_as(tried.fleet, plan)
            start = complete(served, plan.paths)
            found.append(self._solved({b: served}, gap_frac, seconds, {b: start}, alone=True)[b].best)
        return [each for each in found if each is not None and limits_are_kept(tried.fleet, each)]

    def _prove(self, b: int, signed: Sequence[int], found: FleetSolution, weights: Weights) -> None:
        least = np.inf if found.outcome is Outcome.INFEASIBLE else found.bound_usd_per_month
        if found.best is not None or least == np.inf:
            self.proved[b].learn(PlannedBlock(counts_of(self.problem, b, signed, weights), least, weights))

    def _learn(
        self, b: int, fleet: FleetProblem, best: Incumbent, committed: dict[str, int], held_usd_per_month: float = 0.0
    ) -> None:
        """Give the master a plan of a block, less what its commitments cost in it."""
        used = {g: n for g, n in committed.items() if n}
        by_scenario = usd_in(self.problem.blocks[b], fleet, best, held_usd_per_month)
        self.known[b].append(_Known(BlockPlan(best.objective - held_usd_per_month, used, by_scenario), best))

    def _solved(
        self,
        fleets: dict[int, FleetProblem],
        gap_frac: float,
        seconds: float | None,
        starts: dict[int, Incumbent | None] | None = None,
        closely: bool = False,
        alone: bool = False,
    ) -> dict[int, FleetSolution]:
        """Fleets of blocks, from what was known of these before, or `alone`; all of them in so many seconds.

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
            before = [] if alone else self.known[b][-STARTS:]
            plans = [(starts or {}).get(b), *(complete(fleet, known.best.paths) for known in before)]
            best = min((plan for plan in plans if plan is not None), key=lambda plan: plan.objective, default=None)
            searches.append(FleetSearch(fleet, options, WarmStart(() if alone else self._paths(b, fleet), start=best)))
        if seconds is not None and seconds <= 0:
            return {b: _at_hand(search) for b, search in zip(fleets, searches, strict=True)}
        solutions = dict(zip(fleets, self.searches.run(searches, self.on_done), strict=True))
        if any(solution.interrupted for solution in solutions.values()):
            raise Stopped  # half a search is no result
        for b, solution in solutions.items():
            if not alone and self._as_long(b, fleets[b]):
                self.warm[b] = solution.known
        return solutions

    def _paths(self, b: int, fleet: FleetProblem) -> tuple[Recipe, ...]:
        """Paths to begin with. Work that waits is of other amounts where scenarios count other than they are likely."""
        paths = self.warm[b].paths
        return paths if self._as_long(b, fleet) else tuple(path for path in paths if path.deferral is None)

    def _as_long(self, b: int, fleet: FleetProblem) -> bool:
        return fleet.slot_hours is self.problem.blocks[b].fleet.slot_hours


def _at_hand(search: FleetSearch) -> FleetSolution:
    """The plan that a search would begin with."""
    solution = FleetSolution(known=search.known)
    solution.offer(search.fleet, search.known.start)
    if solution.best is None:
        solution.offer(search.fleet, simplest_plan(search.fleet))
    solution.outcome = Outcome.NOT_FOUND if solution.best is None else Outcome.FEASIBLE
    return solution


def left_s(deadline: float, share: float) -> float | None:
    """A share of the time left; None where there is no limit."""
    return None if deadline == np.inf else share * (deadline - time.monotonic())
