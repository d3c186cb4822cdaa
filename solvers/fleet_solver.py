"""Solve a fleet: bound by column generation, then a mixed-integer program over what can still matter.

1. The best plan of each workload by itself, in closed form, gives a first incumbent U.
2. Column generation gives a lower bound L and, for every serving, a bound on any plan that uses it. Mixes of
   deployments are written down where they pay, and where a better plan may use them.
3. Servings whose bound exceeds U cannot be in a better plan. Those left, nearest first, go into the master MIP
   with whole boxes and commitments.
4. If all of them fitted, the MIP's bound is a bound on every plan. If some were cut for size, no plan with one
   of those costs less than the smallest bound among them. So in both cases

       bound = max(L, min(bound of the MIP, smallest bound of a serving left out, U))

Steps 2 to 4 are repeated with a tighter L until the gap is reached: the first program, over a rough selection,
finds a much better U, and with that the next selection is small.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from problems.dominance import without_beaten_recipes
from problems.fleet import Fleet, master
from solvers.column_generation import BEFORE_SHARPENING_FRAC, CONVERGED_FRAC, ColumnGeneration, Generated
from solvers.columns import as_start, from_solution
from solvers.fleet_solution import FleetSolution, Options, Outcome, Progress, outcome_of
from solvers.improving import built_up, improved, with_fewer_offers, with_other_commitments
from solvers.incumbent import Incumbent, each_by_itself, heaviest_paths, incumbent_of, limits_are_kept
from solvers.known import NOTHING, Known, known_from
from solvers.result import Status
from solvers.rounding import rounded_plan
from solvers.routing import flows_of
from solvers.shaking import shaken, worth_shaking
from solvers.solve import solve_mip
from solvers.tangents import proved_within
from solvers.thrift import within_budget
from solvers.what_matters import MOST_SERVINGS, count_possible, still_possible, without_what_limits_forbid

TOLERANCES = (5e-3, 1e-3, CONVERGED_FRAC)
"""how near to the LP the bound comes before each mixed-integer program; a better plan at hand makes the next smaller"""
HOPELESS = 3
"""times as many servings left out as taken, and the program would prove nothing"""
FEW_SERVINGS = 1_500
"""servings so few that the mixed-integer program is faster than another round of pricing"""
FIRST_FRAC = 0.15
"""share of the time that a first plan may take to get better"""
PRICING_FRAC = 0.6
"""share of the time left that prices may take before a plan is made of them"""
ROUNDED_WELL = 0.003
"""a gap at which a plan out of the LP is good enough to begin the exact program with"""
ROUNDING_S, ROUNDING_FRAC = 30.0, 0.3
"""the most that a program over paths may take, and the share of the time left: what it finds is still improved"""
FIRST_PLANS_FRAC = 0.45
"""share of the time left that plans may take before rows about whole boxes are looked for"""
SHAKING_S = 120.0
"""the most that workloads are taken out and put back for"""


def solve_fleet(
    fleet: Fleet,
    options: Options | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    known: Known = NOTHING,
) -> FleetSolution:
    """The cheapest fleet, as far as the limits of the search allow. Ctrl-C keeps the best plan.

    `known` comes from searches over the same recipes under another budget.
    """
    solution = FleetSolution()
    try:
        _within_budget(fleet, options or Options(), solution, on_progress, known)
    except KeyboardInterrupt:
        if solution.best is None:
            raise
        solution.outcome = Outcome.INTERRUPTED
    return solution


def _within_budget(
    fleet: Fleet, options: Options, solution: FleetSolution, on_progress: Callable[[Progress], None], known: Known
) -> None:
    """Search without the budget first: its plan may keep the budget anyway, or its bound may rule every plan out."""
    budget = fleet.budget_usd_per_month
    if budget is not None:
        started = time.monotonic()
        free = known.free or FleetSolution()
        try:
            if known.free is None:
                _search(replace(fleet, budget_usd_per_month=None), options, free, on_progress, known)
        finally:
            if free.best is None or limits_are_kept(fleet, free.best):
                vars(solution).update(vars(free))
        if solution.best is not None or free.best is None:
            return
        may_shed = any(pool.shed_usd_per_request is not None for pool in fleet.pools.values())
        if not may_shed and free.bound_usd_per_month > budget * (1 + 1e-9):
            solution.outcome = Outcome.INFEASIBLE
            return
        if options.time_limit_s is not None:
            left = options.time_limit_s - (time.monotonic() - started)
            options = replace(options, time_limit_s=max(0.5, left))
        solution.raise_bound(max(free.bound_usd_per_month, proved_within(known.tangents, budget)))
    _search(fleet, options, solution, on_progress, known)


def _search(
    fleet: Fleet, options: Options, solution: FleetSolution, on_progress: Callable[[Progress], None], known: Known
) -> None:
    started = time.monotonic()
    deadline = None if options.time_limit_s is None else started + options.time_limit_s

    def late() -> bool:
        return deadline is not None and time.monotonic() >= deadline

    def tell(phase: str, bound: float | None = None) -> None:
        best = solution.objective if solution.best else None
        on_progress(Progress(phase, best, max(solution.bound_usd_per_month, bound or 0.0)))

    def priced(n: int, bound: float) -> None:
        solution.raise_bound(bound)
        tell(f"pricing, round {n}")

    fleet = replace(fleet, recipes=tuple(without_what_limits_forbid(fleet)))
    fleet = without_beaten_recipes(fleet)
    _first_plan(fleet, solution, known, started, deadline)
    tell("pricing")
    at_hand = solution.best.paths if solution.best else ()
    generation = ColumnGeneration(known.given_to(fleet), priced, known=(*at_hand, *known.paths))
    solution.known = known  # where the search ends before any price is known
    if not all(generation.fleet.recipes_of[w] for w in fleet.workloads):
        solution.outcome = Outcome.INFEASIBLE
        return
    rounded = False
    for tolerance_frac in (BEFORE_SHARPENING_FRAC, *TOLERANCES):
        if late():
            break
        before = time.monotonic()
        until = np.inf if deadline is None else before + PRICING_FRAC * (deadline - before)
        first = tolerance_frac == BEFORE_SHARPENING_FRAC
        generated = generation.run(
            tolerance_frac,
            enough=lambda state: count_possible(state, solution) <= FEW_SERVINGS,
            late=lambda until=until: time.monotonic() >= until,  # type: ignore[misc]
            sharpen=not first,
        )
        solution.rounds, solution.known = generated.rounds, known_from(generation)
        _spent(solution, "pricing", before)
        if generated.feasible is False:
            solution.outcome = Outcome.FEASIBLE if solution.best is not None else Outcome.INFEASIBLE
            return
        possible = count_possible(generation, solution)
        hopeless = possible > HOPELESS * MOST_SERVINGS
        if first and not hopeless:
            continue
        before = time.monotonic()
        if generated.feasible:
            share = FIRST_PLANS_FRAC if first else 1.0
            until = np.inf if deadline is None else before + share * (deadline - before)
            if not (hopeless and rounded):
                _round_and_improve(generation, generated, options, solution, until)
                rounded = True
            if possible > MOST_SERVINGS:
                _shake(generated, options, solution, min(until, before + SHAKING_S))
        _spent(solution, "rounding", before)
        if solution.gap_frac <= options.gap_frac:
            break
        before = time.monotonic()
        if late() or first or count_possible(generation, solution) > HOPELESS * MOST_SERVINGS:
            continue
        generated = generation.with_mixes_within(solution.objective)
        _spent(solution, "pricing", before)
        tell("solving")
        before = time.monotonic()
        settled = _solve_what_is_possible(generated, options, solution, deadline, tolerance_frac, tell)
        _spent(solution, "solving", before)
        if settled or late() or solution.gap_frac <= options.gap_frac:
            break
    if solution.best is not None:
        left_aside = generation.mixes.not_covered()
        solution.notes += [left_aside] if left_aside else []
        solution.best = _with_work_settled(fleet, solution.best)
        solution.outcome = outcome_of(solution, options)


def _first_plan(fleet: Fleet, solution: FleetSolution, known: Known, started: float, deadline: float | None) -> None:
    """Plans in closed form, and the one that is known, improved for a while."""
    _offer(solution, each_by_itself(fleet) or built_up(fleet))
    _offer(solution, within_budget(fleet, deadline))
    if known.start is not None and limits_are_kept(fleet, known.start):
        _offer(solution, known.start)
    if solution.best is not None:
        soon = None if deadline is None else started + FIRST_FRAC * (deadline - started)
        _offer(solution, improved(fleet, solution.best, soon))


def _round_and_improve(
    generation: ColumnGeneration, generated: Generated, options: Options, solution: FleetSolution, until: float
) -> None:
    """Plans out of the LP, improved; the program over paths only where the simpler ones leave too much."""
    fleet = generated.fleet
    for first in (heaviest_paths(fleet, generated), solution.best):
        if first is not None:
            _offer(solution, improved(fleet, first, until))
    left = until - time.monotonic()
    if solution.gap_frac > max(options.gap_frac, ROUNDED_WELL) and left > 0:
        rounded = rounded_plan(generation, options.solver, min(left * ROUNDING_FRAC, ROUNDING_S))
        if rounded is not None:
            rounded = improved(fleet, rounded, until)
            _offer(solution, with_fewer_offers(fleet, rounded, until))
    if solution.best is not None and solution.gap_frac > options.gap_frac:
        near = replace(fleet, recipes=generation.near_recipes(solution.best.paths))
        _offer(solution, with_other_commitments(near, solution.best, until))


def _shake(generated: Generated, options: Options, solution: FleetSolution, until: float) -> None:
    if solution.best is not None and solution.gap_frac > options.gap_frac:
        near = worth_shaking(generated.fleet, generated.priced, solution.best)
        _offer(solution, shaken(near, solution.best, until, seed=generated.rounds))


def _with_work_settled(fleet: Fleet, plan: Incumbent) -> Incumbent:
    """The plan with as much of the work that may wait on its GPUs as fits there."""
    paths = []
    for path in plan.paths:
        pool = fleet.pools[path.pool]
        if pool.window is not None and path.uses and path.api is not None:
            price = next(a.usd_per_request for a in pool.apis if a.key == path.api)
            mean = float(pool.rate_rps.sum(axis=0) @ price) / float(pool.rate_rps.sum())
            sent = flows_of(pool, path, fleet.slot_hours).api.sum(axis=1)
            path = replace(path, usd_per_h=pool.fixed_by_slot + 3600 * sent * mean)
        paths.append(path)
    return incumbent_of(fleet, tuple(paths), plan.purchases)


def _solve_what_is_possible(
    generated: Generated,
    options: Options,
    solution: FleetSolution,
    deadline: float | None,
    tolerance_frac: float,
    tell: Callable[[str, float | None], None],
) -> bool:
    """The program over servings that a better plan may use; True where nothing better can come of more pricing."""
    kept, left_out, smallest_left_out = still_possible(generated, solution.objective)
    if left_out > HOPELESS * MOST_SERVINGS:
        solution.raise_bound(generated.bound)
        return False
    narrowed = replace(generated.fleet, recipes=kept)
    model, v = master(narrowed)
    last = tolerance_frac == TOLERANCES[-1] or not left_out
    result = solve_mip(
        model,
        solver=options.solver,
        gap_frac=options.gap_frac / 2 if last else max(options.gap_frac / 2, tolerance_frac / 2),
        time_limit_s=None if deadline is None else max(0.5, deadline - time.monotonic()),
        node_limit=options.node_limit if last else options.node_limit // 10,
        warm_start=as_start(narrowed, v, solution.best, model.n_columns),
        on_progress=lambda best, bound: tell("solving", bound),
    )
    solution.columns, solution.servings_left_out = len(generated.paths) + model.n_columns, left_out
    stopped = result.stopped_by.value if result.stopped_by is not None else None
    solution.notes = [*result.notes, *([f"the search stopped at its {stopped} limit"] if stopped and last else [])]
    if result.x is not None:
        _offer(solution, from_solution(narrowed, v, result.x))
    if solution.best is None:
        infeasible = result.status is Status.INFEASIBLE and not left_out
        solution.outcome = Outcome.INFEASIBLE if infeasible else Outcome.NOT_FOUND
        return infeasible
    proved = min(result.bound, smallest_left_out, solution.objective)
    solution.raise_bound(max(generated.bound, proved))
    return not left_out and stopped is None


def _spent(solution: FleetSolution, phase: str, since: float) -> None:
    solution.seconds[phase] = solution.seconds.get(phase, 0.0) + time.monotonic() - since


def _offer(solution: FleetSolution, candidate: Incumbent | None) -> None:
    if candidate is not None and candidate.objective < solution.objective:
        solution.best = candidate
