"""The search for the cheapest commitments over a horizon (problems/horizon), expected or in the worst case.

Blocks share nothing but commitments, so all that is searched is single blocks (blocks.py): with commitments for sale at
some prices, or with some signed. What is proved of each makes the program of problems/horizon/bound.py: its optimum is
a bound on every plan of the horizon, and what it signs is tried next, since nothing known speaks against it. So bounds
rise and plans get better by the same step, until they meet.

1. All blocks are priced, each commitment spread evenly over its quarters.
2. What the restricted master signs, over the plans that are known, is tried: each block with these instances on hand.
3. What the bound's program signs near to that is tried, as long as it could be cheaper.
4. Blocks are priced again: more closely where most of the gap is theirs, else at the master's duals. Then 3 again.

For the worst case the master's duals say how much each scenario counts, too. The first block, which scenarios share, is
then planned with these weights as well as with the probabilities, and of its plans the best one is taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from problems.horizon.horizon_problem import HorizonProblem, Prices, even_prices
from problems.horizon.risk import Weights
from solvers.backends.clock import Stopped
from solvers.search.fleet_solution import FleetSolution, Options, Outcome, Progress
from solvers.search.horizon.block_plans import BlockAnswer, Tried, same_weights, usd_in
from solvers.search.horizon.blocks import BlockSearches, left_s
from solvers.search.horizon.programs import HorizonPrograms
from solvers.search.horizon.solution import HorizonSolution

MOST_ROUNDS, MOST_MISSES, LAST_MISSES = 40, 3, 8
"""in all; of what is tried in a row that is no better, before blocks are priced again, and before the search ends where
there is a plan and no time limit"""
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
BETWEEN = 6
"""halvings of what a plan exceeds budgets by, for one that exceeds them less"""
TOWARDS = (0.7, 0.999)
"""shares that a scenario counts by, whose budget no plan keeps to that was made with the probabilities"""
FIRST_GAP = 0.01
"""gap at which the search of a block ends at first"""


class HorizonSearch:
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
        self.blocks = BlockSearches(problem, options, self._tell_of_blocks)
        self._start_the_clock()
        self.solution = HorizonSolution()
        self.without_a_plan = ""
        """the block that has none, however much may be spent"""
        self.even: Prices = {}
        self.weights: Weights = {}
        """how much scenarios count; none: as much as they are likely"""
        self.priced: list[_Priced] = []
        self.closely: set[int] = set()
        """blocks that were planned again at the last prices"""
        self.misses = 0
        """what was tried since the last better plan, or since the last prices"""
        self.signed: set[tuple[int, ...]] = set()
        """all that was tried"""
        self.each_s = 0.0
        """seconds that a block had at the last prices of all"""
        self.impossible = False
        """proved: nothing that may be signed leaves every block a plan"""
        self.beyond: tuple[float, HorizonSolution] | None = None
        """the plan that breaks nothing but budgets, and exceeds one of them least; and by how much"""
        self.stop: Stopped | None = None
        """what ended the search early"""

    def run(self, at_least_usd: float = 0.0) -> HorizonSolution:
        """Price, sign and try until the gap is reached, nothing more comes of it, or time is up.

        `at_least_usd` is proved of every plan already. A wish to stop keeps the best plan.
        """
        self._start_the_clock()
        self.solution.bound_usd = max(0.0, at_least_usd)
        try:
            with self.blocks.searches:
                return self._run()
        except Stopped as stop:
            if not self.solution.blocks:
                raise
            self.stop = stop
            self._finish()
            self.solution.outcome = Outcome.INTERRUPTED
            return self.solution

    def _start_the_clock(self) -> None:
        limit_s = self.options.time_limit_s
        self.deadline = np.inf if limit_s is None else time.monotonic() + limit_s
        self.programs = HorizonPrograms(self.blocks, self.options, self.deadline)

    def _run(self) -> HorizonSolution:
        solution = self.solution
        self.even = even_prices(self.problem)
        if not self._price(self.even):
            self.impossible = any(found.outcome is Outcome.INFEASIBLE for found in self.priced[-1].found.values())
            self._finish()
            return solution
        self.weights = self.programs.weights()
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
        self._adapt()
        self._raise_bound()
        self._finish()
        return solution

    def _adapt(self) -> None:
        """Of plans that sign the same now, take the cheapest in every scenario, not in the worst one alone."""
        problem, solution = self.problem, self.solution
        if not problem.risk.worst_case or not solution.blocks or self._late():
            return
        for k, c in enumerate(problem.commitments):
            if c.scenario is None:
                problem = problem.with_bounds(k, solution.signed[k], solution.signed[k])
        self.try_signing(self.programs.whole(replace(problem, risk=replace(problem.risk, mean_frac=1.0))))

    def _go_on(self, signed: Sequence[int] | None) -> bool:
        """Try what could be better, but price blocks again after a few that were not; False where all was tried."""
        if self.misses < MOST_MISSES and self._try_what_is_possible():
            return True
        if self._price_again():
            self.misses = 0
            return True
        if self.deadline == np.inf and self.misses >= LAST_MISSES and self.solution.blocks:
            return False
        return self._try_what_is_possible() or self._try(signed) or self._weigh_again(signed)

    def _weigh_again(self, signed: Sequence[int] | None) -> bool:
        """Try what is signed with the weights that scenarios have in its worst case; False where that was done."""
        if not self.problem.risk.worst_case or not self.solution.blocks:
            return False
        for some in (signed or self.solution.signed, self.solution.signed):
            self.weights = self.programs.weights(some)
            if self.blocks.new(some, self.weights):
                return self._try(some)
        return False

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
        before = self.solution.minimized_usd
        if tuple(signed) not in self.signed or self.blocks.new(signed, self.weights):
            self.try_signing(signed)
            self.weights = self.programs.weights()
            self.try_signing(self.programs.whole())
        elif not self._look_closer(signed):
            return False
        self.misses = 0 if self.solution.minimized_usd < before else self.misses + 1
        return True

    def _price_again(self) -> bool:
        """Price blocks more closely where most of the gap is theirs, else all at the master's duals; False where that
        was done before, or there is less time for each than there was.
        """
        if self.quick or not self.solution.blocks:
            return False
        last = self.priced[-1]
        found, blocks, left = last.found, self.problem.blocks, left_s(self.deadline, PRICING_FRAC)
        own_usd = {
            b: blocks[b].months_at(last.weights) * (s.objective - s.bound_usd_per_month) for b, s in found.items()
        }
        open_ones = [b for b, s in found.items() if s.gap_frac > self._block_gap() and b not in self.closely]
        if sum(own_usd.values()) > OWN_FRAC * (self.solution.usd - self.solution.bound_usd):
            open_ones.sort(key=lambda b: -own_usd[b])
            if left is not None:
                open_ones = open_ones[: int(left * self.blocks.at_once / (AGAIN * self.each_s))]
            self.closely |= set(open_ones)
            return bool(open_ones) and self._price(last.prices, open_ones)
        duals = self.programs.dual_prices(self.even)
        if duals is None or any(before.is_like(*duals) for before in self.priced):
            return False
        if left is not None and left * self.blocks.at_once < len(blocks) * self.each_s:
            return False
        prices, self.weights = duals
        return self._price(prices)

    def _enough(self) -> bool:
        return self.solution.gap_frac <= self.options.gap_frac

    def _late(self) -> bool:
        return time.monotonic() >= self.deadline

    def _finish(self) -> None:
        solution = self.solution
        if not solution.blocks:
            solution.outcome = Outcome.INFEASIBLE if self.impossible else Outcome.NOT_FOUND
            solution.without_a_plan = self.without_a_plan or self._never_planned()
            return
        solution.conclude(self.options.gap_frac)

    def _never_planned(self) -> str:
        """The first block that had no plan, whatever was signed; none where each had one, but never all together."""
        planned = {key[0] for key, tried in self.blocks.tried.items() if tried.answers}
        return next((block.name for b, block in enumerate(self.problem.blocks) if b not in planned), "")

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
        weights = self.weights if some is None else self.priced[-1].weights
        found = self.blocks.price(prices, self._block_gap(), seconds, some, weights)
        if some is None:
            self.priced.append(_Priced(prices, weights, found))
            self.closely = set()
            self.each_s = 0.0 if seconds is None else seconds * self.blocks.at_once / len(self.problem.blocks)
        self.priced[-1].found.update(found)
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
        self.solution.bound_usd = max(self.solution.bound_usd, bound)
        return signed

    def try_signing(self, signed: Sequence[int]) -> bool:
        """Plan every block with so many commitments; True if it is the best plan so far."""
        solution, tried = self.solution, []
        self.signed.add(tuple(signed))
        self.blocks.plan(signed, self._block_gap(), left_s(self.deadline, PLANNING_FRAC))
        for b in range(len(self.problem.blocks)):
            tried.append(self.blocks.tried[self.blocks.key(b, signed)])
            if not tried[-1].answers:
                return False
        self.blocks.weigh(signed, self._block_gap(), left_s(self.deadline, PLANNING_FRAC), self.weights)
        before = solution.minimized_usd
        kept = self._take(signed, tried)
        for weights in () if kept else self._towards_budgets(signed, tried):
            self.blocks.weigh(signed, self._block_gap(), left_s(self.deadline, PLANNING_FRAC), weights)
        if not kept and self.problem.spending:
            self._take(signed, tried)
        return solution.minimized_usd < before

    def _take(self, signed: Sequence[int], tried: Sequence[Tried]) -> bool:
        """Take the best of the plans that are known with so many commitments; False where none keeps to budgets."""
        solution, rest, kept = self.solution, tuple(of.answers[-1] for of in tried[1:]), False
        for first in tried[0].answers:
            answers = (first, *rest)
            beyond = self.problem.beyond_budgets_usd(signed, [of.usd_in for of in answers])
            if beyond:
                self._remember(beyond, signed, answers)
                continue
            kept = True
            usd, minimized_usd = self._usd(signed, answers)
            if minimized_usd < solution.minimized_usd:
                solution.signed, solution.blocks = tuple(signed), tuple(answer.solution for answer in answers)
                solution.usd, solution.minimized_usd = usd, minimized_usd
        return kept

    def _remember(self, beyond_usd: float, signed: Sequence[int], answers: Sequence[BlockAnswer]) -> None:
        """Keep a plan that exceeds a budget while none is known that exceeds it less."""
        if self.solution.blocks or (self.beyond is not None and beyond_usd >= self.beyond[0]):
            return
        blocks, usd = tuple(answer.solution for answer in answers), self._usd(signed, answers)[0]
        self.beyond = beyond_usd, HorizonSolution(Outcome.FEASIBLE, tuple(signed), blocks, usd)

    def beyond_budgets(self, until: float) -> HorizonSolution | None:
        """A plan that breaks nothing but budgets over several blocks, and these by little, out of plans of blocks that
        are known; None where none is."""
        if not self.problem.spending or self.without_a_plan:
            return None
        free = replace(self.problem, spending=())
        self._plan_beyond(free, until)
        low = 0.0
        for _ in range(BETWEEN):
            if self.beyond is None or time.monotonic() >= until:
                break
            more = (low + self.beyond[0]) / 2
            limits = tuple(replace(limit, most_usd=limit.most_usd + more) for limit in self.problem.spending)
            low = low if self._plan_beyond(replace(self.problem, spending=limits), until) else more
        return None if self.beyond is None else self.beyond[1]

    def _plan_beyond(self, problem: HorizonProblem, until: float) -> bool:
        """Plan with more money, out of what is known; whether that was enough."""
        left = None if until == np.inf else max(0.5, (until - time.monotonic()) / 2)
        found = self.compared(problem, replace(self.options, time_limit_s=left))
        if not found.blocks:
            return False
        planned = [
            BlockAnswer(solution, usd_in(block, problem.fleet_with(b, found.signed), solution.best))
            for b, (block, solution) in enumerate(zip(problem.blocks, found.blocks, strict=True))
            if solution.best is not None
        ]
        beyond = self.problem.beyond_budgets_usd(found.signed, [answer.usd_in for answer in planned])
        self._remember(beyond, found.signed, planned)
        return True

    def _towards_budgets(self, signed: Sequence[int], tried: Sequence[Tried]) -> Iterator[Weights]:
        """Scenarios count more, up to nearly alone, whose budgets the first block's plans do not keep to."""
        usd_in = [of.answers[0].usd_in for of in tried]
        beyond = [limit.scenario for limit in self.problem.spending if not limit.is_kept(signed, usd_in)]
        for s in dict.fromkeys(beyond):
            for share in TOWARDS:
                others = 1.0 - self.problem.risk.probabilities[s]
                if others > 0:
                    rest = {t: (1 - share) * p / others for t, p in self.problem.risk.probabilities.items() if t != s}
                    yield {**rest, s: share}

    def _usd(self, signed: Sequence[int], answers: Sequence[BlockAnswer]) -> tuple[float, float]:
        """What a plan comes to, and what it is compared by."""
        problem = self.problem
        if not problem.risk.worst_case:
            months = (block.months * of.solution.objective for block, of in zip(problem.blocks, answers, strict=True))
            usd = problem.commitments_usd(signed) + sum(months)
            return usd, usd
        costs = {
            s: sum(n * problem.usd_in(c, s) for c, n in zip(problem.commitments, signed, strict=True))
            + sum(of.usd_in.get(s, 0.0) for of in answers)
            for s in problem.risk.probabilities
        }
        return problem.risk.usd(costs), problem.risk.minimized_usd(costs)

    def _look_closer(self, signed: Sequence[int]) -> bool:
        """Search blocks again whose plans are furthest from what is proved of them; False where nothing is open."""
        blocks, seconds = self.problem.blocks, left_s(self.deadline, PLANNING_FRAC)
        tried = [self.blocks.tried[self.blocks.key(b, signed)].expected for b in range(len(blocks))]
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
        other = HorizonSearch(problem, options, self.on_progress, quick=True)
        same = problem.blocks[0] is self.problem.blocks[0]
        other.blocks = self.blocks.copied(problem, options, other._tell_of_blocks, first_too=same)
        other.weights = self.weights
        other._start_the_clock()
        with other.blocks.searches:
            if not same:
                other.try_signing([few for few, _ in problem.bounds])
            if other.blocks.known[0]:
                near = [problem.nearest(self.solution.signed)] if self.solution.blocks else []
                for signed in (other.programs.whole(), *near):
                    other.try_signing(signed)
                other._adapt()
                other._raise_bound()
        other._finish()
        return other.solution


@dataclass(frozen=True, eq=False)
class _Priced:
    """Prices at which all blocks were planned, with scenarios that counted so much, and their plans."""

    prices: Prices
    weights: Weights
    found: dict[int, FleetSolution]

    def is_like(self, prices: Prices, weights: Weights) -> bool:
        """Whether others are no news."""
        close = all(
            abs(usd - self.prices.get(key, 0.0)) <= SAME_PRICE * max(abs(usd), 1.0) for key, usd in prices.items()
        )
        return close and bool(weights) == bool(self.weights) and same_weights(weights, self.weights)
