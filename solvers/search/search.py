"""The search for the cheapest fleet: column generation, reduced-cost fixing, a mixed-integer program, and branching.

1. The best plan of each workload by itself, in closed form, gives a first incumbent U.
2. Column generation gives a lower bound L and, for every serving, a bound on any plan that uses it. Mixes of
   deployments are written down where they pay, and where a better plan may use them.
3. Servings whose bound exceeds U cannot be in a better plan. Those left, nearest first, go into the master MIP
   with whole boxes and commitments.
4. If all of them fitted, the MIP's bound is a bound on every plan. If some were cut for size, no plan with one
   of those costs less than the smallest bound among them. So in both cases

       bound = max(L, min(bound of the MIP, smallest bound of a serving left out, U))

Steps 2 to 4 are repeated with a tighter L until the gap is reached: the first program, over a rough selection,
finds a much better U, and with that the next selection is small. Where too many servings stay possible, what the LP
leaves undecided is decided both ways (solvers/search/branching.py), and each branch goes through the same steps.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from problems.constants import HOURS_PER_MONTH
from problems.dominance.offers import without_dominated_offers
from problems.dominance.recipes import without_dominated_recipes
from problems.fleet import master
from problems.fleet_problem import FleetProblem
from solvers.backends.clock import check
from solvers.backends.result import Status
from solvers.backends.solve import solve_mip
from solvers.cuts.beyond_commitments import always_beyond
from solvers.devices import uses
from solvers.heuristics.budget_heuristic import within_budget
from solvers.heuristics.columns import as_start, from_solution
from solvers.heuristics.incumbent import Incumbent, heaviest_paths, incumbent_of, limits_are_kept
from solvers.heuristics.local_search import improved, simplest_plan, with_fewer_offers, with_fewer_vendors
from solvers.heuristics.polishing import polished
from solvers.heuristics.rounding import MOST_NODES, near_paths, near_the_plan, rounded_plan
from solvers.pricing.column_generation import BEFORE_SHARPENING_FRAC, CONVERGED_FRAC, ColumnGeneration, Generated
from solvers.pricing.reduced_cost_fixing import (
    MOST_SERVINGS,
    count_possible,
    still_possible,
    without_what_limits_forbid,
)
from solvers.pricing.routing import flows_of
from solvers.search.branching import Branches, undecided
from solvers.search.fleet_solution import (
    OPTIMAL_FRAC,
    FleetSolution,
    Options,
    Outcome,
    Progress,
    Round,
    WarmStart,
    outcome_of,
)
from solvers.search.warm_start import restricted_master, warm_start_from
from solvers.search.worker import Worker, cores
from solvers.search.worker_messages import WorkerMessages

TOLERANCES = (5e-3, 1e-3, CONVERGED_FRAC)
"""how near to the LP the bound comes before each mixed-integer program; a better plan at hand makes the next smaller"""
HOPELESS = 3 * MOST_SERVINGS
"""servings that a better plan may use, of which the program would have so few that it proves nothing"""
BRANCH_FRAC = 2e-3
"""how near to its LP the bound of a branch comes"""
MOST_BRANCHES = 20
"""branches that are divided if no time limit is given"""
FEW_SERVINGS = 1_500
"""servings so few that the mixed-integer program is faster than another round of pricing"""
FIRST_FRAC = 0.15
"""share of the time that a first plan may take to get better"""
PRICING_FRAC = 0.5
"""share of the time left that prices may take before a plan is made of them"""
ROUNDED_WELL = 0.003
"""a gap at which a plan out of the LP is good enough to begin the exact program with"""
ROUNDING_S, ROUNDING_FRAC = 30.0, 0.3
"""the most that a program over paths may take, and the share of the time left: what it finds is still improved"""
FIRST_PLANS_FRAC = 0.35
"""share of the time left that plans may take before cuts about whole boxes are looked for"""
POLISHING_S = 120.0
"""the most that choosing counts again may take"""
BESIDE_SERVINGS = 4_000_000
"""servings up to which a worker process looks for plans: it needs little memory, but its messages do not"""
TO_END_S = 0.2
"""seconds left to receive its last plans"""
BOX_FRAC = 0.1
"""share of the cost from which one box matters so much that commitments are branched on first"""
BRANCH_SERVINGS = MOST_SERVINGS // 2
"""servings that the program of a branch has at most: dividing it proves more than a larger one"""
FAR_FRAC, FAR_PROGRAM_FRAC = 0.05, 0.15
"""a gap from which a program proves less than branches do, and the share of the time left that it then may take"""
BRANCH_PROGRAM_FRAC, LAST_PROGRAM_FRAC = 0.1, 0.3
"""share of the time left that the program of a branch may take, and where the branch cannot be divided"""
LOOK_FROM_ROUND = 2
"""round of pricing from which the worker has enough to start with, if a program would be far too large"""
BRANCHING_TAKES = 0.5
"""times as long as the cuts about whole boxes took, that there must be time for before it is worth it"""


@dataclass(frozen=True)
class _Program:
    """What the mixed-integer program over servings proves about all plans."""

    bound: float
    left_out: int
    columns: int = 0
    """none if it would have proved nothing and was not solved"""
    settled: bool = False
    """nothing better can come of more pricing"""
    infeasible: bool = False
    notes: list[str] = field(default_factory=list)


class Search:
    """One search: what it looks for, how long it may take, and the solution that it fills in."""

    def __init__(
        self,
        fleet: FleetProblem,
        options: Options,
        solution: FleetSolution,
        on_progress: Callable[[Progress], None],
        known: WarmStart,
    ) -> None:
        self.started = time.monotonic()
        self.deadline = np.inf if options.time_limit_s is None else self.started + options.time_limit_s
        self.options, self.solution, self.on_progress = options, solution, on_progress
        fleet = without_dominated_offers(fleet) if uses("dominated offers") else fleet
        self.fleet = without_dominated_recipes(replace(fleet, recipes=tuple(without_what_limits_forbid(fleet))))
        self.known = known.usable_in(self.fleet)
        self.polished: Incumbent | None = None
        """the plan whose counts were chosen again in vain"""
        self.second: WorkerMessages | None = None
        """for plans, where there is one"""
        self.hopeless = HOPELESS
        """servings that a better plan may use, beyond which no program is solved"""
        self.done = False
        """nothing more can be priced in the time or the rounds that are left"""

    def run(self) -> None:
        """Search, with a worker process for plans if there is a time limit, another core and enough memory."""
        alone = multiprocessing.current_process().daemon or cores() < 2
        if self.deadline == np.inf or alone or self.fleet.servings > BESIDE_SERVINGS:
            self._search()
            return
        self.deadline -= TO_END_S
        self.hopeless = MOST_SERVINGS  # plans come from there, and where servings are left out branches prove more
        with Worker() as beside:
            self.second = WorkerMessages(beside, self.fleet, self.solution, self.options.solver, self.deadline)
            self._search()

    def _search(self) -> None:
        solution = self.solution
        self._first_plan()
        self._tell("pricing")
        fleet = self.known.given_to(self.fleet)
        at_hand = solution.best.paths if solution.best else ()
        if any(offer.on_hand for offer in fleet.offers.values()):
            fleet = fleet.with_whole_boxes((), always_beyond(fleet))
        generation = ColumnGeneration(
            fleet, lambda n, bound: self._priced(generation, n, bound), known=(*at_hand, *self.known.paths)
        )
        solution.known = self.known  # where the search ends before any price is known
        if not all(generation.fleet.recipes_of[w] or generation.mixes.may_serve(w) for w in fleet.workloads):
            solution.outcome = Outcome.INFEASIBLE
            return
        settled = self._close_in(generation)
        if generation.feasible is False:
            solution.outcome = Outcome.FEASIBLE if solution.best is not None else Outcome.INFEASIBLE
            return
        done = settled or self._enough() or self._late() or self.options.round_limit is not None
        if solution.best is not None and generation.feasible and not done and uses("branching"):
            self._branch(generation)
        if self.second is not None:
            self.second.hear_to_the_end(self.options.gap_frac)
        if solution.best is not None:
            solution.not_covered = generation.mixes.not_covered()
            solution.best = _with_work_settled(self.fleet, solution.best)
            solution.outcome = outcome_of(solution, self.options)
            self._tell("end of the search", master=restricted_master(self.fleet, solution.known, solution.best))
        elif solution.outcome is Outcome.FEASIBLE:
            solution.outcome = Outcome.NOT_FOUND

    def _offer(self, plan: Incumbent | None) -> None:
        self.solution.offer(self.fleet, plan)

    def _late(self, needed_s: float = 0.0) -> bool:
        check()
        return self.done or time.monotonic() + needed_s >= self.deadline

    def _enough(self) -> bool:
        return self.solution.gap_frac <= self.options.gap_frac

    def _until(self, share: float) -> float:
        """when a share of the time left is over"""
        now = time.monotonic()
        return now + share * (self.deadline - now)

    def _left_s(self) -> float | None:
        return None if self.deadline == np.inf else max(0.5, self.deadline - time.monotonic())

    def _tell(
        self,
        phase: str,
        bound: float | None = None,
        round: Round | None = None,
        master: FleetProblem | None = None,
    ) -> None:
        best = self.solution.objective if self.solution.best else None
        proved = max(self.solution.bound_usd_per_month, min(bound or 0.0, self.solution.objective))
        self.on_progress(Progress(phase, best, proved, round, self.solution, master))

    def _priced(self, generation: ColumnGeneration, n: int, bound: float) -> None:
        self._hear()
        if self.second is not None:
            if not self.second.at_work and n >= LOOK_FROM_ROUND:
                self._look_early(generation, self.second)
            self.second.tell_again(generation)
        self.solution.raise_bound(bound)
        self.done = self.options.round_limit is not None and n >= self.options.round_limit
        made = Round(generation.lp_usd, len(generation.paths.held), len(generation.fleet.rounded))
        self._tell(f"pricing, round {n}", round=made)

    def _spent(self, phase: str, since: float) -> None:
        seconds = self.solution.seconds
        seconds[phase] = seconds.get(phase, 0.0) + time.monotonic() - since

    def _hear(self) -> None:
        if self.second is not None:
            self.second.hear()

    def _look_early(self, generation: ColumnGeneration, second: WorkerMessages) -> None:
        """Where the case is so hard that a second process is at work later on, it may begin at once."""
        if generation.feasible and count_possible(generation, self.solution.objective, self.hopeless) > self.hopeless:
            second.tell(generation)

    def _close_in(self, generation: ColumnGeneration) -> bool:
        """Prices, plans out of them, and the program over what is possible, each time nearer to the LP.

        True if the program had all that is possible and was solved.
        """
        solution = self.solution
        for tolerance_frac in (BEFORE_SHARPENING_FRAC, *TOLERANCES):
            if self._late(generation.next_s):
                break
            first = tolerance_frac == BEFORE_SHARPENING_FRAC
            alone = first or self.second is None
            to_divide = self.second is not None and not first
            before, until = time.monotonic(), self._until(PRICING_FRAC) if alone else self.deadline
            generated = generation.run(
                tolerance_frac,
                enough=lambda state: self._ready(state, to_divide),  # noqa: B023
                late=lambda needed_s, until=until: self.done or time.monotonic() + needed_s >= until,  # type: ignore[misc]
                sharpen=not first,
            )
            took = time.monotonic() - before
            self._hear()
            solution.rounds, solution.known = generated.rounds, warm_start_from(generation)
            self._spent("pricing", before)
            if generated.feasible is False:
                break
            possible = count_possible(generation, solution.objective, self.hopeless)
            if first and possible <= self.hopeless:
                continue
            before = time.monotonic()
            divide = (
                to_divide and possible > MOST_SERVINGS and self._boxes_matter() and self._ready_to_divide(generation)
            )
            if generated.feasible and self.second is not None and (possible > self.hopeless or divide):
                if not self.second.at_work:
                    self.second.tell(generation)
            elif generated.feasible:
                until = self._until(FIRST_PLANS_FRAC if first else 1.0)
                self._round_and_improve(generation, generated, until, program=not first)
                if possible > MOST_SERVINGS and self.options.round_limit is None and not first:
                    self._polish(generated, min(until, time.monotonic() + POLISHING_S))
            self._spent("rounding", before)
            if self._enough() or (divide and not self._late(BRANCHING_TAKES * took)):
                break
            if self._late() or first or count_possible(generation, solution.objective, self.hopeless) > self.hopeless:
                continue
            if self._solve_what_is_possible(generation, tolerance_frac):
                return True
            if self._enough():
                break
        return False

    def _ready(self, state: ColumnGeneration, to_divide: bool) -> bool:
        """Few servings are left that a better plan may use, or nothing more comes of prices before they are divided."""
        few = count_possible(state, self.solution.objective, FEW_SERVINGS) <= FEW_SERVINGS
        return few or (to_divide and self._boxes_matter() and self._ready_to_divide(state))

    def _boxes_matter(self) -> bool:
        """Whether one commitment is a good part of the cost: then little can be said before it is decided."""
        large = [o for o in self.fleet.offers.values() if o.box > 1 and o.reserved_usd_per_h and o.key in self._bought]
        largest_usd = max((min(o.reserved_usd_per_h.values()) for o in large), default=0.0) * HOURS_PER_MONTH
        return largest_usd > BOX_FRAC * self.solution.objective

    @property
    def _bought(self) -> set[str]:
        return set(self.solution.best.purchases) if self.solution.best else set()

    def _ready_to_divide(self, state: ColumnGeneration) -> bool:
        return state.nearly_settled(self.solution.objective) and undecided(state)

    def _first_plan(self) -> None:
        """Plans in closed form, and the one that is known, improved for a while."""
        fleet, start = self.fleet, self.known.start
        if start is not None and limits_are_kept(fleet, start):
            self._offer(start)
        else:
            self._offer(simplest_plan(fleet))
            self._offer(within_budget(fleet, self.deadline))
        if self.solution.best is not None:
            soon = self.started + FIRST_FRAC * (self.deadline - self.started)
            better = improved(fleet, self.solution.best, soon)
            self._offer(with_fewer_vendors(fleet, better, soon))

    def _round_and_improve(
        self, generation: ColumnGeneration, generated: Generated, until: float, program: bool
    ) -> None:
        """Plans out of the LP, improved; the program over paths only where the simpler ones leave too much.

        Before there are cuts about whole boxes it finds nothing where they matter.
        """
        fleet, solution = generated.fleet, self.solution
        for first in (heaviest_paths(generation.fleet, *generation.settled()), solution.best):
            if first is not None:
                self._offer(improved(fleet, first, until))
        left = until - time.monotonic()
        if program and solution.gap_frac > max(self.options.gap_frac, ROUNDED_WELL) and left > 0:
            limit_s = None if left == np.inf else min(left * ROUNDING_FRAC, ROUNDING_S)
            nodes = min(MOST_NODES, self.options.node_limit)
            rounded = rounded_plan(fleet, near_paths(generation), self.options.solver, limit_s, nodes)
            if rounded is not None:
                rounded = improved(fleet, rounded, until)
                self._offer(with_fewer_vendors(fleet, with_fewer_offers(fleet, rounded, until), until))

    def _polish(self, generated: Generated, until: float) -> None:
        """Choose the counts of the best plan again; that needs cuts about whole boxes first."""
        solution, before = self.solution, self.solution.best
        if before is None or self._enough() or before is self.polished:
            return
        near = near_the_plan(generated.fleet, generated.priced, before)
        self._offer(polished(near, before, self.options.solver, until))
        if solution.best is before and time.monotonic() < until:
            self.polished = before

    def _solve_what_is_possible(self, generation: ColumnGeneration, tolerance_frac: float) -> bool:
        """The program over servings that a better plan may use; True if nothing better can come of more pricing."""
        solution, before = self.solution, time.monotonic()
        generated = generation.with_mixes_within(solution.objective)
        self._spent("pricing", before)
        self._tell("solving")
        before = time.monotonic()
        rough_frac = 0.0 if tolerance_frac == TOLERANCES[-1] else tolerance_frac / 2
        nodes, limit_s = self.options.node_limit, self._left_s()
        if solution.gap_frac > FAR_FRAC and undecided(generation) and self.options.round_limit is None:
            nodes, limit_s = nodes // 10, None if limit_s is None else FAR_PROGRAM_FRAC * limit_s
        program = self._solved(generated, rough_frac, nodes, lambda best, bound: self._tell("solving", bound), limit_s)
        self._spent("solving", before)
        if program.columns:
            solution.columns, solution.servings_left_out = program.columns, program.left_out
            solution.notes = program.notes
        if solution.best is None:
            solution.outcome = Outcome.INFEASIBLE if program.infeasible else Outcome.NOT_FOUND
            return program.infeasible
        solution.raise_bound(program.bound)
        return program.settled

    def _solved(
        self,
        generated: Generated,
        rough_frac: float,
        nodes: int,
        on_progress: Callable[[float | None, float], None],
        limit_s: float | None,
        may_miss: int | None = None,
    ) -> _Program:
        """The program, to a rough gap where servings were left out and it will be solved again; plans are offered.

        It is not solved where more servings are left out than it may miss.
        """
        solution, options = self.solution, self.options
        kept, left_out, smallest_left_out = still_possible(
            generated, len(generated.fleet.slot_hours), generated.least_left, solution.objective
        )
        if left_out > (self.hopeless if may_miss is None else may_miss):
            return _Program(generated.bound, left_out)
        narrowed = replace(generated.fleet, recipes=kept).with_fewest_instances()
        if not all(narrowed.recipes_of.values()):  # nothing written down serves some workload for less
            proved = max(generated.bound, min(smallest_left_out, solution.objective))
            return _Program(proved, left_out, infeasible=not left_out)
        model, v = master(narrowed)
        last = not rough_frac or not left_out
        result = solve_mip(
            model,
            solver=options.solver,
            gap_frac=options.gap_frac / 2 if last else max(options.gap_frac / 2, rough_frac),
            time_limit_s=limit_s,
            node_limit=nodes if last else nodes // 10,
            warm_start=as_start(narrowed, v, solution.best, model.n_columns),
            on_progress=lambda best, bound: on_progress(best, min(bound, smallest_left_out)),
        )
        stopped = result.stopped_by.value if result.stopped_by is not None else None
        if result.x is not None:
            self._offer(from_solution(narrowed, v, result.x))
        infeasible = result.status is Status.INFEASIBLE and not left_out
        proved = np.inf if infeasible else min(result.bound, smallest_left_out)
        return _Program(
            bound=max(generated.bound, min(proved, solution.objective)),
            left_out=left_out,
            columns=generated.held + model.n_columns,
            settled=not left_out and stopped is None,
            infeasible=infeasible,
            notes=[*result.notes, *([f"the search stopped at its {stopped} limit"] if stopped and last else [])],
        )

    def _branch(self, root: ColumnGeneration) -> None:
        """Branch on what the LP leaves undecided, until the gap is reached or time is up."""
        before, solution = time.monotonic(), self.solution
        branches = Branches()
        branches.add(root, root.bound)
        most = MOST_BRANCHES if self.deadline == np.inf else np.inf
        while branches.divided < most and not self._late(root.next_s):
            self._tell(f"branching, {2 * branches.divided} branches")
            if not branches.go_on(self._bound_of_branch, self._target(), solution.objective, self._bound_at_last):
                break
            self._hear()
            solution.raise_bound(min(branches.bound, solution.objective))
        self._spent("branching", before)

    def _target(self) -> float:
        """a bound that is good enough: what is called optimal is, else a branch that rounding keeps below never ends"""
        return (1 - max(self.options.gap_frac, OPTIMAL_FRAC / 2)) * self.solution.objective

    def _bound_of_branch(self, branch: ColumnGeneration, until: float) -> tuple[float, bool]:
        """What no plan of a branch costs less than, and whether more prices would bring nothing.

        It is priced as far as asked, or until it rests; better plans are offered on the way.
        """

        def enough(state: ColumnGeneration) -> bool:
            return state.bound_at_prices >= until or self._ready_to_divide(state)

        if self._late(branch.next_s):
            self.done = True
            return -np.inf, False
        rounds = branch.rounds
        generated = branch.run(BRANCH_FRAC, enough, self._late)
        self.solution.rounds += branch.rounds - rounds
        if generated.feasible is False:
            return np.inf, True
        if generated.bound >= until or self._late(branch.next_s):
            return generated.bound, False
        first = heaviest_paths(branch.fleet, *branch.settled()) if generated.feasible else None
        self._offer(improved(generated.fleet, first, self.deadline) if first is not None else None)
        if self.second is not None:
            self.second.tell_again(branch, of_a_branch=True)
        if count_possible(branch, self.solution.objective, BRANCH_SERVINGS) > BRANCH_SERVINGS:
            return generated.bound, True
        generated = branch.with_mixes_within(self.solution.objective)
        return self._program_of_branch(generated, BRANCH_PROGRAM_FRAC, may_miss=0), True

    def _bound_at_last(self, branch: ColumnGeneration) -> float:
        """What prices prove of a branch that cannot be divided if they come nearer to the LP, and if that still leaves
        nothing to divide, the program, though it may miss servings.
        """
        if self._late(branch.next_s):
            return -np.inf
        generated = branch.run(CONVERGED_FRAC, lambda state: state.bound_at_prices >= self._target(), self._late)
        if generated.feasible is False:
            return np.inf
        if generated.bound >= self._target() or undecided(branch) or self._late(branch.next_s):
            return generated.bound
        return self._program_of_branch(branch.with_mixes_within(self.solution.objective), LAST_PROGRAM_FRAC, None)

    def _program_of_branch(self, generated: Generated, time_frac: float, may_miss: int | None) -> float:
        nodes, left_s = self.options.node_limit // 10, self._left_s()
        limit_s = None if left_s is None else time_frac * left_s
        program = self._solved(generated, 0.0, nodes, lambda best, bound: self._tell("solving"), limit_s, may_miss)
        return program.bound


def _with_work_settled(fleet: FleetProblem, plan: Incumbent) -> Incumbent:
    """The plan with as much of the work that may wait on its GPUs as fits there."""
    paths = []
    for path in plan.paths:
        pool = fleet.pools[path.pool]
        if pool.window is not None and path.uses and path.api is not None:
            price = next(a.usd_per_request for a in pool.apis if a.key == path.api)
            mean = float(pool.rate_rps.sum(axis=0) @ price) / float(pool.rate_rps.sum())
            sent = flows_of(pool, path, fleet.slot_hours).api.sum(axis=1)
            path = replace(path, usd_per_h=pool.fixed_by_slot + 3600 * sent * mean)
        paths.append(fleet.without_idle_api(path))
    return incumbent_of(fleet, tuple(paths), plan.purchases, (plan.signed,))
