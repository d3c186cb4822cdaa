"""The search for the commitments with the least expected cost over a horizon (problems/horizon).

Blocks share nothing but commitments, so all that is searched is single blocks (blocks.py): with commitments for sale at
some prices, or with some signed. What is proved of each makes the program of problems/horizon/bound.py: its optimum is
a bound on every plan of the horizon, and what it signs is tried next, since nothing known speaks against it. So bounds
rise and plans get better by the same step, until they meet.

1. All blocks are priced, each commitment spread evenly over its quarters.
2. What the restricted master signs, over the plans that are known, is tried: each block with these instances on hand.
3. What the bound's program signs near to that is tried, as long as it could be cheaper.
4. Blocks are priced again: more closely where most of the gap is theirs, else at the master's duals. Then 3 again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from problems.horizon.horizon_problem import HorizonProblem, Prices, even_prices
from solvers.search.fleet_solution import FleetSolution, Options, Outcome, Progress
from solvers.search.horizon.blocks import BlockSearches, left_s
from solvers.search.horizon.programs import HorizonPrograms
from solvers.search.horizon.solution import HorizonSolution

MOST_ROUNDS, MOST_MISSES, LAST_MISSES = 40, 3, 8
"""in all; of what is tried in a row that is no better, before blocks are priced again, and before the search ends where
there is no time limit"""
QUICK_ROUNDS = 3
"""of a search that is to compare"""
SAME_PRICE = 0.01
"""share of a price that another one is no news within"""
PRICING_FRAC, PLANNING_FRAC = 0.4, 0.25
"""share of the time left that a round may take: prices of blocks, and plans with what is signed"""
AGAIN = 1.5
"""times as long as before that a block is searched for at least, if it is searched again"""
OWN_FRAC = 0.4
"""share of the gap from which it is that of single blocks"""
FIRST_GAP = 0.01
"""gap at which the search of a block ends at first"""


class ExpectedCostSearch:
    """One horizon; what is known of its blocks serves for other commitments that are decided, too."""

    def __init__(
        self,
        problem: HorizonProblem,
        options: Options,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        quick: bool = False,
    ) -> None:
        """`quick`: a few rounds, for plans that are compared with others."""
        self.problem, self.options, self.on_progress, self.quick = problem, options, on_progress, quick
        limit_s = options.time_limit_s
        self.deadline = np.inf if limit_s is None else time.monotonic() + limit_s
        self.blocks = BlockSearches(problem, options, self._tell_of_blocks)
        self.programs = HorizonPrograms(self.blocks, options, self.deadline)
        self.solution = HorizonSolution()
        self.without_a_plan = ""
        self.even: Prices = {}
        self.priced: list[tuple[Prices, dict[int, FleetSolution]]] = []
        """prices at which all blocks were planned, and their plans"""
        self.closely: set[int] = set()
        """blocks that were planned again at the last prices"""
        self.misses = 0
        """what was tried since the last better plan, or since the last prices"""
        self.each_s = 0.0
        """seconds that a block had at the last prices of all"""
        self.impossible = False
        """proved: nothing that may be signed leaves every block a plan"""

    def run(self, at_least_usd: float = 0.0) -> HorizonSolution:
        """Price, sign and try until the gap is reached, nothing more comes of it, or time is up.

        `at_least_usd` is proved of every plan already. Ctrl-C keeps the best plan.
        """
        self.solution.bound_usd = at_least_usd
        try:
            with self.blocks.searches:
                return self._run()
        except KeyboardInterrupt:
            if not self.solution.blocks:
                raise
            self._finish()
            self.solution.outcome = Outcome.INTERRUPTED
            return self.solution

    def _run(self) -> HorizonSolution:
        solution = self.solution
        self.even = even_prices(self.problem)
        if not self._price(self.even):
            self.impossible = any(found.outcome is Outcome.INFEASIBLE for found in self.priced[-1][1].values())
            self._finish()
            return solution
        self.try_signing(self.programs.whole())
        for n in range(QUICK_ROUNDS if self.quick else MOST_ROUNDS):
            if self._late():
                break
            solution.rounds += 1
            self._tell(f"horizon, round {n + 1}")
            signed = self._raise_bound()
            if self.impossible or self._enough() or self._late():
                break
            if not self._go_on(signed):
                break
        if not solution.blocks and not self.impossible:
            self.try_signing([few for few, _ in self.problem.bounds])
        self._raise_bound()
        self._finish()
        return solution

    def _go_on(self, signed: Sequence[int] | None) -> bool:
        """Try what could be better, but price blocks again after a few that were not; False where all was tried."""
        if self.misses < MOST_MISSES and self._try_what_is_possible():
            return True
        if self._price_again():
            self.misses = 0
            return True
        if self.deadline == np.inf and self.misses >= LAST_MISSES:
            return False
        return self._try_what_is_possible() or self._try(signed)

    def _try_what_is_possible(self) -> bool:
        """Try what could cost the least by all that is known, of offers that some plan uses; False where nothing new
        could be better.
        """
        narrowed = self.problem
        for k, (c, (few, most)) in enumerate(zip(self.problem.commitments, self.problem.bounds, strict=True)):
            if few < most and c.offer not in self.blocks.offers_in_use:
                narrowed = narrowed.with_bounds(k, few, few)
        signed, least = self.programs.possible(narrowed, self.solution.signed or None)
        return least < (1 - self.options.gap_frac) * self.solution.usd and self._try(signed)

    def _try(self, signed: Sequence[int] | None) -> bool:
        """Plan all blocks with so many commitments, or more closely where that was done before; False if it was."""
        if signed is None:
            return False
        before = self.solution.usd
        if self.blocks.new(signed):
            self.try_signing(signed)
            self.try_signing(self.programs.whole())
        elif not self._look_closer(signed):
            return False
        self.misses = 0 if self.solution.usd < before else self.misses + 1
        return True

    def _price_again(self) -> bool:
        """Price blocks more closely where most of the gap is theirs, else all at the master's duals; False where that
        was done before, or there is less time for each than there was.
        """
        if self.quick or not self.solution.blocks:
            return False
        prices, found = self.priced[-1]
        blocks, left = self.problem.blocks, left_s(self.deadline, PRICING_FRAC)
        own_usd = {b: blocks[b].months * (s.objective - s.bound_usd_per_month) for b, s in found.items()}
        open_ones = [b for b, s in found.items() if s.gap_frac > self._block_gap() and b not in self.closely]
        if sum(own_usd.values()) > OWN_FRAC * (self.solution.usd - self.solution.bound_usd):
            open_ones.sort(key=lambda b: -own_usd[b])
            if left is not None:
                open_ones = open_ones[: int(left * self.blocks.at_once / (AGAIN * self.each_s))]
            self.closely |= set(open_ones)
            return bool(open_ones) and self._price(prices, open_ones)
        duals = self.programs.dual_prices(self.even)
        if duals is None or any(_close(duals, before) for before, _ in self.priced):
            return False
        return (left is None or left * self.blocks.at_once >= len(blocks) * self.each_s) and self._price(duals)

    def _enough(self) -> bool:
        return self.solution.gap_frac <= self.options.gap_frac

    def _late(self) -> bool:
        return time.monotonic() >= self.deadline

    def _finish(self) -> None:
        solution = self.solution
        if not solution.blocks:
            solution.outcome = Outcome.INFEASIBLE if self.impossible else Outcome.NOT_FOUND
            solution.without_a_plan = self.without_a_plan
            return
        solution.conclude(self.options.gap_frac)

    def _tell(self, phase: str) -> None:
        months = sum(block.months for block in self.problem.blocks)
        best = self.solution.usd / months if self.solution.blocks else None
        self.on_progress(Progress(phase, best, self.solution.bound_usd / months))

    def _tell_of_blocks(self, done: int, of: int) -> None:
        self._tell(f"horizon, {done} of {of} quarters")

    def _price(self, prices: Prices, some: Sequence[int] | None = None) -> bool:
        """Plan every block at these prices, or some again; False if one has no plan."""
        self._tell("horizon, pricing")
        seconds = left_s(self.deadline, PRICING_FRAC)
        found = self.blocks.price(prices, self._block_gap(), seconds, some)
        if some is None:
            self.priced.append((prices, found))
            self.closely = set()
            self.each_s = 0.0 if seconds is None else seconds * self.blocks.at_once / len(self.problem.blocks)
        self.priced[-1][1].update(found)
        none = [self.problem.blocks[b].name for b, solution in found.items() if solution.best is None]
        self.without_a_plan = none[0] if none else self.without_a_plan
        return not none

    def _block_gap(self) -> float:
        """How closely blocks are searched: the more closely, the nearer the bound is."""
        return max(self.options.gap_frac / 2, min(FIRST_GAP, self.solution.gap_frac / 4))

    def _raise_bound(self) -> list[int] | None:
        """Raise the bound to what is proved of all plans; what could be signed at that."""
        signed, bound = self.programs.possible(self.problem)
        self.impossible = bound == np.inf
        self.solution.bound_usd = max(self.solution.bound_usd, min(bound, self.solution.usd))
        return signed

    def try_signing(self, signed: Sequence[int]) -> bool:
        """Plan every block with so many commitments; True if it is the best plan so far."""
        problem, solution = self.problem, self.solution
        self.blocks.plan(signed, self._block_gap(), left_s(self.deadline, PLANNING_FRAC))
        usd, found = problem.commitments_usd(signed), []
        for b, block in enumerate(problem.blocks):
            found.append(self.blocks.tried[self.blocks.key(b, signed)])
            if found[-1].best is None:
                self.without_a_plan = block.name
                return False
            usd += block.months * found[-1].objective
        if usd >= solution.usd:
            return False
        solution.signed, solution.blocks = tuple(signed), tuple(found)
        solution.usd = solution.minimized_usd = usd
        return True

    def _look_closer(self, signed: Sequence[int]) -> bool:
        """Search blocks again whose plans are furthest from what is proved of them; False where nothing is open."""
        blocks, seconds = self.problem.blocks, left_s(self.deadline, PLANNING_FRAC)
        tried = [self.blocks.tried[self.blocks.key(b, signed)] for b in range(len(blocks))]
        open_ones = [
            b
            for b, found in enumerate(tried)
            if found.best is not None
            and found.gap_frac > self._block_gap()
            and self.blocks.may_be_searched_again(self.blocks.key(b, signed), seconds, AGAIN)
        ]
        open_ones.sort(key=lambda b: blocks[b].months * (tried[b].bound_usd_per_month - tried[b].objective))
        if open_ones:
            self.blocks.plan(signed, self._block_gap(), seconds, closely=open_ones[: self.blocks.at_once])
            self.try_signing(signed)
        return bool(open_ones)

    def compared(self, problem: HorizonProblem, options: Options) -> HorizonSolution:
        """The best plan, among those that known plans of blocks lead to, of a part of the plans; nothing is priced.

        The first block of the problem may be another one, if all that is signed with it is decided.
        """
        other = ExpectedCostSearch(problem, options, self.on_progress, quick=True)
        same = problem.blocks[0] is self.problem.blocks[0]
        other.blocks = self.blocks.copied(problem, options, other._tell_of_blocks, first_too=same)
        other.programs = HorizonPrograms(other.blocks, options, other.deadline)
        with other.blocks.searches:
            if not same:
                other.try_signing([few for few, _ in problem.bounds])
            if other.blocks.known[0]:
                for signed in (other.programs.whole(), problem.nearest(self.solution.signed)):
                    other.try_signing(signed)
                other._raise_bound()
        other._finish()
        return other.solution


def _close(a: Prices, b: Prices) -> bool:
    return all(abs(usd - b.get(key, 0.0)) <= SAME_PRICE * max(abs(usd), 1.0) for key, usd in a.items())
