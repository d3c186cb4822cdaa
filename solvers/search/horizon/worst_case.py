"""The search for the least worst case over a horizon: Dantzig-Wolfe decomposition by blocks (problems/horizon).

Each round prices every block at what an instance committed to is worth there: its fleet problem, solved as any other
with a commitment for sale at that price. Its plan joins the restricted master, and what is proved of it makes a bound
on every plan of the horizon. The master's duals, smoothed by those of the best bound, are the next prices. What the
master signs, whole, is tried: each block is planned again with these instances on hand. So every figure comes from the
one search for fleets, whose bounds are those of whole plans, and the bound of the horizon is no weaker than its LP's.

The duals say how much each scenario counts, too. The first quarter, which scenarios share, is planned with these
weights as well as with the probabilities (block_plans.py).
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.horizon.horizon_problem import COMMITTED, Block, BlockPlan, Duals, HorizonProblem, even_prices
from problems.horizon.master import horizon_master
from problems.horizon.risk import Weights
from solvers.backends.result import Status
from solvers.backends.solve import solve_lp, solve_mip
from solvers.heuristics.incumbent import Incumbent, complete
from solvers.search.fleet_solution import FleetSolution, Options, Outcome, Progress, WarmStart
from solvers.search.fleet_solver import solve_fleet
from solvers.search.horizon.block_plans import BlockAnswer, Tried, same_weights, served_as, usd_in
from solvers.search.horizon.solution import HorizonSolution

MOST_ROUNDS = 40
SMOOTHING = 0.5
"""weight of the prices of the best bound in the next ones"""
CLOSE_FRAC = 1e-4
"""how near to the restricted master's LP the bound comes before nothing more is priced"""
BLOCK_NODES, BLOCK_ROUNDS = 1_000, 25
"""of a program, and of prices, for one block at one set of prices"""
PARTS_AND_BLOCKS, ROUNDS_OF_A_PART = 90, 4
"""parts of the plans that are divided, times blocks, and rounds of prices for each"""
QUICK_ROUNDS = 3
"""rounds of prices of a search that is to compare"""
MASTER_NODES = 5_000
LEAST_BLOCK_S, BLOCK_FRAC = 0.3, 0.5
"""seconds that a block has at least, and the share of the time left that one round may take"""


@dataclass(frozen=True, eq=False)
class _Known:
    """A plan of a block, and the paths that make it."""

    plan: BlockPlan
    best: Incumbent


class WorstCaseSearch:
    """One horizon; what was priced serves for other commitments that are decided, too."""

    def __init__(
        self,
        problem: HorizonProblem,
        options: Options,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        quick: bool = False,
    ) -> None:
        """`quick`: a few rounds of prices and nothing divided, for plans that are compared with others."""
        self.problem, self.options, self.on_progress, self.quick = problem, options, on_progress, quick
        self._start_the_clock()
        self.known: list[list[_Known]] = [[] for _ in problem.blocks]
        self.warm: list[WarmStart | None] = [None] * len(problem.blocks)
        self.tried: dict[tuple[int, tuple[tuple[str, int], ...], float], Tried] = {}
        self.solution = HorizonSolution()
        self.duals, self.least = Duals({}), tuple[float, ...]()
        """prices of the best bound, and what no plan of a block has less than at these"""
        self.without_a_plan = ""
        self.closed_usd = np.inf
        """least bound of parts that are good enough"""

    def _start_the_clock(self) -> None:
        limit_s = self.options.time_limit_s
        self.deadline = np.inf if limit_s is None else time.monotonic() + limit_s

    def run(self, at_least_usd: float = -np.inf) -> HorizonSolution:
        """Price, sign and try until the gap is reached, nothing more comes of it, or time is up; then branch.

        `at_least_usd` is proved of every plan already. Ctrl-C keeps the best plan.
        """
        self._start_the_clock()
        try:
            return self._run(at_least_usd)
        except KeyboardInterrupt:
            if not self.solution.blocks:
                raise
            self._finish()
            self.solution.outcome = Outcome.INTERRUPTED
            return self.solution

    def _run(self, at_least_usd: float) -> HorizonSolution:
        solution = self.solution
        root = _Part(self.problem, self.first_duals(), bound_usd=at_least_usd)
        if not self._close_in(root, QUICK_ROUNDS if self.quick else MOST_ROUNDS):
            solution.outcome, solution.without_a_plan = self._no_plan(), self.without_a_plan
            return solution
        self.duals, self.least = root.duals, root.least
        solution.bound_usd = root.bound_usd
        if not solution.blocks:
            self.try_signing([few for few, _ in self.problem.bounds])
        self._branch(root)
        self._adapt()
        self._finish()
        return solution

    def first_duals(self) -> Duals:
        """Prices to begin with; scenarios count as much as they are likely."""
        risk = self.problem.risk
        return Duals(even_prices(self.problem), weights=dict(risk.probabilities) if risk.worst_case else {})

    def _adapt(self) -> None:
        """Of plans that sign the same now, take the cheapest in every scenario, not in the worst one alone."""
        problem, solution = self.problem, self.solution
        if not problem.risk.worst_case or not solution.blocks or self._late():
            return
        for k, c in enumerate(problem.commitments):
            if c.scenario is None:
                problem = problem.with_bounds(k, solution.signed[k], solution.signed[k])
        expected = replace(problem, risk=replace(problem.risk, mean_frac=1.0))
        self.try_signing(self._whole(expected), self.duals.weights)

    def _branch(self, root: _Part) -> None:
        """Decide commitments one by one where the LP and whole plans are too far apart, the lowest bound first."""
        solution, count = self.solution, itertools.count()
        waiting = [(root.bound_usd, next(count), root)]
        for _ in range(0 if self.quick else PARTS_AND_BLOCKS // len(self.problem.blocks)):
            solution.bound_usd = max(solution.bound_usd, self._least_of(waiting))
            if not waiting or self._late() or solution.gap_frac <= self.options.gap_frac:
                return
            _, _, part = heapq.heappop(waiting)
            children = part.divided()
            if not children:  # all is decided: its bound is that of its blocks
                self.closed_usd = min(self.closed_usd, part.bound_usd)
                continue
            for child in children:
                child.priced_usd = child.bound_at_prices()
                child.bound_usd = max(part.bound_usd, child.priced_usd)
                if child.bound_usd < self._target():
                    self._close_in(child, ROUNDS_OF_A_PART)
                if child.bound_usd < self._target():
                    heapq.heappush(waiting, (child.bound_usd, next(count), child))
                else:
                    self.closed_usd = min(self.closed_usd, child.bound_usd)
            self._tell(f"horizon, {len(waiting)} parts left")
        solution.bound_usd = max(solution.bound_usd, self._least_of(waiting))

    def _least_of(self, waiting: list[tuple[float, int, _Part]]) -> float:
        """What is proved of all parts together."""
        return min(waiting[0][0] if waiting else np.inf, self.closed_usd, self.solution.usd)

    def _target(self) -> float:
        """a bound that is good enough"""
        return (1 - self.options.gap_frac) * self.solution.usd if self.solution.blocks else np.inf

    def _close_in(self, part: _Part, rounds: int) -> bool:
        """Raise the bound of a part of the plans, trying what its LP signs; False if a block has no plan at all."""
        problem = part.problem
        if all(few == most for few, most in problem.bounds):
            self._close_in_on_decided(part, rounds)
            return not self.without_a_plan or bool(self.solution.blocks)
        duals = part.duals
        for n in range(rounds):
            if n or not part.least:
                least = self._price(duals, n)
                if least is None:
                    return False
                part.learn(duals, least)
                if problem is self.problem:
                    self.solution.bound_usd = part.bound_usd
            self.solution.rounds += 1
            master = self._master_lp(problem)
            if master is None:
                part.bound_usd = np.inf  # what is decided breaks a limit on commitments
                return True
            usd, found, part.signed = master
            settled = usd - part.bound_usd <= CLOSE_FRAC * abs(usd)
            self.try_signing(self._whole(problem), found.weights)
            self._tell(f"horizon, round {n + 1}")
            if part.bound_usd >= self._target() or settled or self._late() or not problem.commitments:
                break
            duals = part.duals.towards(found, 1 - SMOOTHING)
        return True

    def _close_in_on_decided(self, part: _Part, rounds: int) -> None:
        """Where all commitments are decided, all that is left to choose is how much each scenario counts."""
        signed, weights = [few for few, _ in part.problem.bounds], part.duals.weights
        for _ in range(rounds if part.problem.risk.worst_case else 1):
            self.try_signing(signed, weights)
            part.bound_usd = max(part.bound_usd, self._bound_of(part.problem))
            if not weights or part.bound_usd >= self._target() or self._late() or not all(self.known):
                return
            master = self._master_lp(part.problem)
            if master is None or same_weights(master[1].weights, weights):
                return
            weights = master[1].weights

    def _bound_of(self, problem: HorizonProblem) -> float:
        """What is proved where all commitments are decided: of each block by itself, at any weights of scenarios."""
        signed = [few for few, _ in problem.bounds]
        tried = []
        for b in range(len(problem.blocks)):
            found = self.tried.get(self._key(b, signed))
            if found is None:
                return -np.inf
            if not found.answers:
                return np.inf if found.expected.outcome is Outcome.INFEASIBLE else -np.inf
            tried.append(found)
        bounds = []
        for weights, first in tried[0].proved:  # the only one that scenarios may share
            each = zip(problem.blocks, [first, *(of.expected for of in tried[1:])], strict=True)
            usd = sum(block.months_at(weights) * of.bound_usd_per_month for block, of in each)
            bounds.append(problem.commitments_usd(signed, weights) + usd)
        return max(bounds)

    def _finish(self) -> None:
        solution = self.solution
        if not solution.blocks:
            solution.outcome, solution.without_a_plan = Outcome.NOT_FOUND, self.without_a_plan
            return
        solution.conclude(self.options.gap_frac)

    def _no_plan(self) -> Outcome:
        return Outcome.NOT_FOUND if self._late() else Outcome.INFEASIBLE

    def _late(self) -> bool:
        return time.monotonic() >= self.deadline

    def _tell(self, phase: str) -> None:
        months = sum(block.months for block in self.problem.blocks)
        best = self.solution.usd / months if self.solution.blocks else None
        self.on_progress(Progress(phase, best, self.solution.bound_usd / months))

    def _block_options(self) -> Options:
        """For a block at some prices: limited by work, and by its share of the time left."""
        options = replace(
            self.options,
            gap_frac=self.options.gap_frac / 2,
            node_limit=min(BLOCK_NODES, self.options.node_limit),
            round_limit=BLOCK_ROUNDS,
            time_limit_s=None,
        )
        if self.deadline == np.inf:
            return options
        left = BLOCK_FRAC * (self.deadline - time.monotonic()) / len(self.problem.blocks)
        return replace(options, time_limit_s=max(LEAST_BLOCK_S, left), round_limit=None)

    def _price(self, duals: Duals, n: int) -> list[float] | None:
        """Plan every block at these prices: what no plan of it has less than; None if one has no plan."""
        least: list[float] = []
        weights = self._other_than_likely(duals.weights)
        for b, likely in enumerate(self.problem.blocks):
            block = likely.at(weights)
            self._tell(f"horizon, round {n + 1}, {block.name}")
            monthly = {g: duals.committed.get((b, g), 0.0) / block.months for g in self.problem.offers_of[b]}
            fleet = block.with_commitments_at(monthly)
            found = self._solved(b, fleet, shared=block.fleet is not likely.fleet)
            if found.best is None:
                self.without_a_plan = block.name
                return None
            least.append(block.months * found.bound_usd_per_month)
            committed = {g: p.reserved.get(COMMITTED, 0) for g, p in found.best.purchases.items()}
            if block.fleet is not likely.fleet:
                fleet = replace(likely.with_committed(committed, 0.0), budget_usd_per_month=None)
                if (plan := complete(fleet, found.best.paths)) is not None:
                    self._learn(b, likely, fleet, plan, committed)
                continue
            held_usd = sum(monthly[g] * n for g, n in committed.items() if n)
            self._learn(b, likely, fleet, found.best, committed, held_usd)
        return least

    def _other_than_likely(self, weights: Weights) -> Weights:
        """Weights of scenarios; none where they are the probabilities."""
        return {} if same_weights(weights, self.problem.risk.probabilities) else weights

    def _learn(
        self,
        b: int,
        block: Block,
        fleet: FleetProblem,
        best: Incumbent,
        committed: dict[str, int],
        held_usd_per_month: float = 0.0,
    ) -> None:
        """Give the master a plan of a block, less what its commitments cost in it."""
        used = {g: n for g, n in committed.items() if n}
        by_scenario = usd_in(block, fleet, best, held_usd_per_month)
        self.known[b].append(_Known(BlockPlan(best.objective - held_usd_per_month, used, by_scenario), best))

    def _solved(self, b: int, fleet: FleetProblem, shared: bool = False) -> FleetSolution:
        """A block's fleet, from what was known of it before.

        `shared`: scenarios count in it other than by their probabilities, so work that waits is of other amounts.
        """
        before = self.warm[b] or WarmStart()
        starts = [complete(fleet, known.best.paths) for known in self.known[b][-3:]]
        start = min((s for s in starts if s is not None), key=lambda s: s.objective, default=None)
        paths = tuple(p for p in before.paths if p.deferral is None) if shared else before.paths
        solution = self._fleet(fleet, WarmStart(paths=paths, start=start))
        if not shared:
            self.warm[b] = solution.known
        return solution

    def _likely_plans(self, tried: Tried, plan: Incumbent) -> list[Incumbent]:
        """A plan made with other weights in a fleet with the probabilities: as it is, and with its deployments alone.

        The second one has the counts that are cheapest in every month, however little it counted; one with the same
        deployments as a plan that is known has its counts.
        """
        found = [complete(tried.fleet, plan.paths)]
        if not tried.serves_as(plan):
            served = served_as(tried.fleet, plan)
            found.append(self._fleet(served, WarmStart(start=complete(served, plan.paths))).best)
        return [each for each in found if each is not None]

    def _fleet(self, fleet: FleetProblem, known: WarmStart) -> FleetSolution:
        solution = solve_fleet(fleet, self._block_options(), lambda progress: None, known)
        if solution.interrupted:
            raise KeyboardInterrupt  # half a search is no result
        return solution

    def _master_lp(self, problem: HorizonProblem) -> tuple[float, Duals, tuple[float, ...]] | None:
        """The restricted master's LP, its prices, and what it signs.

        None where commitments cannot be signed as decided.
        """
        model = horizon_master(problem, self._plans(), relaxed=True)
        lp = solve_lp(model)
        if lp.status is Status.INFEASIBLE:
            return None
        if lp.objective is None or lp.row_duals is None or lp.x is None:
            raise RuntimeError(f"the master of the horizon ended as {lp.status}; please report this case")
        duals = dict(zip(model.row_keys, lp.row_duals.tolist(), strict=True))
        worth = {(b, g): max(0.0, duals["committed", b, g]) for b, gs in enumerate(self.problem.offers_of) for g in gs}
        signed = tuple(lp.x[: len(problem.commitments)].tolist())
        owed = {s: max(0.0, -duals[key]) for s in problem.scenarios if (key := ("owed", s)) in duals}
        weights: Weights = {}
        if problem.risk.worst_case:
            paid = {s: duals["worst", s] / problem.too_much_usd for s in problem.risk.probabilities}
            weights = problem.risk.weights(paid)
        return lp.objective, Duals(worth, owed, weights), signed

    def _plans(self) -> list[list[BlockPlan]]:
        return [[known.plan for known in of_block] for of_block in self.known]

    def _whole(self, problem: HorizonProblem) -> list[int]:
        """The commitments of the restricted master's best whole solution."""
        model = horizon_master(problem, self._plans(), relaxed=False)
        left = None if self.deadline == np.inf else max(1.0, 0.1 * (self.deadline - time.monotonic()))
        result = solve_mip(model, solver=self.options.solver, node_limit=MASTER_NODES, time_limit_s=left)
        fewest = [few for few, _ in problem.bounds]
        return fewest if result.x is None else [round(result.x[k]) for k in range(len(self.problem.commitments))]

    def try_signing(self, signed: Sequence[int], weights: Weights | None = None) -> bool:
        """Plan every block with so many commitments, and scenarios that count so much; True if it is the best plan."""
        problem, solution, tried = self.problem, self.solution, []
        for b, block in enumerate(problem.blocks):
            tried.append(self._tried(b, signed, weights or {}))
            if not tried[-1].answers:
                self.without_a_plan = block.name
                return False
        before = solution.minimized_usd
        for answers in itertools.product(*(of.answers for of in tried)):  # only the first block may have several
            usd, minimized = self._usd(signed, answers)
            if minimized < solution.minimized_usd:
                solution.signed, solution.blocks = tuple(signed), tuple(answer.solution for answer in answers)
                solution.usd, solution.minimized_usd = usd, minimized
        return solution.minimized_usd < before

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

    def _tried(self, b: int, signed: Sequence[int], weights: Weights) -> Tried:
        """A block with so many commitments; once for any weights of scenarios that share it."""
        problem, block, key = self.problem, self.problem.blocks[b], self._key(b, signed)
        committed, paid = problem.committed_in(b, signed), problem.paid_in(b, signed)
        if key not in self.tried:
            fleet = block.with_committed(committed, paid)
            tried = self.tried[key] = Tried(block, fleet)
            found = self._solved(b, fleet)
            plans = [] if found.best is None else [found.best]
            tried.take(found, {}, plans, self.options)
            for plan in plans:
                self._learn(b, block, fleet, plan, committed)
        tried = self.tried[key]
        weights = self._other_than_likely(weights)
        if weights and len(block.times) > 1 and tried.answers and not tried.knows(weights):
            found = self._solved(b, block.at(weights).with_committed(committed, paid), shared=True)
            plans = [] if found.best is None else self._likely_plans(tried, found.best)
            tried.take(found, weights, plans, self.options)
            for plan in plans:
                self._learn(b, block, tried.fleet, plan, committed)
        return tried

    def compared(self, problem: HorizonProblem, options: Options) -> HorizonSolution:
        """The best plan, among those that known plans of blocks lead to, of a part of the plans; nothing is priced.

        The first block of the problem may be another one, if all that is signed with it is decided.
        """
        other = WorstCaseSearch(problem, options, self.on_progress, quick=True)
        other.known, other.warm = [list(known) for known in self.known], list(self.warm)
        same = problem.blocks[0] is self.problem.blocks[0]
        other.tried = {key: found for key, found in self.tried.items() if same or key[0]}
        if not same:
            other.known[0], other.warm[0] = [], None
            least = [few for few, _ in problem.bounds]
            if not other._tried(0, least, self.duals.weights).answers:
                other.solution.without_a_plan = problem.blocks[0].name
                return other.solution
        for signed in (other._whole(problem), problem.nearest(self.solution.signed)):
            other.try_signing(signed, self.duals.weights)
        other._adapt()
        other.solution.bound_usd = problem.bound_at(self.duals, self.least)
        other._finish()
        return other.solution

    def _key(self, b: int, signed: Sequence[int]) -> tuple[int, tuple[tuple[str, int], ...], float]:
        """What the plan of a block depends on."""
        limited = self.problem.blocks[b].fleet.budget_usd_per_month is not None
        paid = self.problem.paid_in(b, signed) if limited else 0.0
        return b, tuple(sorted(self.problem.committed_in(b, signed).items())), paid


@dataclass(eq=False)
class _Part:
    """A part of the plans, by what is decided of commitments, and the best bound on them."""

    problem: HorizonProblem
    duals: Duals
    least: tuple[float, ...] = ()
    bound_usd: float = -np.inf
    priced_usd: float = -np.inf
    """the best bound at prices"""
    signed: tuple[float, ...] = ()
    """by its LP"""

    def learn(self, duals: Duals, least: Sequence[float]) -> None:
        """Keep the prices of the best bound."""
        bound = self.problem.bound_at(duals, least)
        if not self.least or bound > self.priced_usd:
            self.duals, self.least, self.priced_usd = duals, tuple(least), bound
        self.bound_usd = max(self.bound_usd, bound)

    def bound_at_prices(self) -> float:
        return self.problem.bound_at(self.duals, self.least)

    def divided(self) -> list[_Part]:
        """Fewer, so many, or more of the commitment that is least decided, by what it costs."""
        bounds = self.problem.bounds
        open_ones = [k for k, (few, most) in enumerate(bounds) if few < most]
        if not open_ones:
            return []

        def undecided(k: int) -> tuple[float, float]:
            part = self.signed[k] % 1 if self.signed else 0.0
            usd = self.problem.usd_at(self.problem.commitments[k], self.duals.weights)
            return min(part, 1 - part) * usd, usd

        k = max(open_ones, key=lambda k: (*undecided(k), -k))
        few, most = bounds[k]
        here = min(max(round(self.signed[k]) if self.signed else few, few), most)
        ranges = [(few, here - 1), (here, here), (here + 1, most)]
        return [
            replace(self, problem=self.problem.with_bounds(k, low, high), signed=())
            for low, high in ranges
            if low <= high
        ]
