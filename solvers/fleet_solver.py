"""Solve a fleet: bound by column generation, then a mixed-integer program over what can still matter.

1. The best plan of each workload by itself, in closed form, gives a first incumbent U.
2. Column generation gives a lower bound L and, for every serving, a bound on any plan that uses it.
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
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from problems.dominance import without_beaten_recipes
from problems.fleet import Fleet, master
from problems.pricing import Priced
from problems.recipes import Recipe
from solvers.column_generation import CONVERGED_FRAC, ColumnGeneration, Generated
from solvers.incumbent import Incumbent, as_start, each_by_itself, from_solution, heaviest_paths, limits_are_kept
from solvers.result import Status
from solvers.solve import SolverName, solve_mip

TOLERANCES = (5e-3, 1e-3, CONVERGED_FRAC)
"""how near to the LP the bound comes before each mixed-integer program; a better plan at hand makes the next smaller"""
MOST_SERVINGS = 12_000
"""servings that the mixed-integer program is given at most"""
FEW_SERVINGS = 1_500
"""servings so few that the mixed-integer program is faster than another round of pricing"""


class Outcome(StrEnum):
    OPTIMAL = "optimal"
    """no cheaper plan exists, within two millionths of its cost"""
    WITHIN_GAP = "within-gap"
    """proved within the gap that was asked for"""
    FEASIBLE = "feasible"
    """a plan that holds, with the gap that was reached when a limit stopped the search"""
    INTERRUPTED = "interrupted"
    INFEASIBLE = "infeasible"
    """proved: no plan meets the limits"""
    NOT_FOUND = "not-found"
    """no plan was found within the limits of the search, nor proved impossible"""


@dataclass(frozen=True)
class Options:
    solver: SolverName = "cbc"
    gap_frac: float = 0.001
    time_limit_s: float | None = None
    node_limit: int = 20_000


@dataclass(frozen=True)
class Progress:
    phase: str
    best_usd_per_month: float | None
    bound_usd_per_month: float | None


@dataclass(eq=False)
class FleetSolution:
    """The best plan found so far and what is proved about it."""

    outcome: Outcome = Outcome.FEASIBLE
    best: Incumbent | None = None
    bound_usd_per_month: float = 0.0
    coarse_usd_per_month: float = 0.0
    """what loads between those that were tried could save: every bound is lowered by it"""
    rounds: int = 0
    columns: int = 0
    servings_left_out: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def cost_usd_per_month(self) -> float:
        return self.best.cost_usd_per_month if self.best else np.inf

    def raise_bound(self, usd_per_month: float) -> None:
        """Take a bound on the plans that were tried as one on all plans, where it is better than the one at hand."""
        self.bound_usd_per_month = max(self.bound_usd_per_month, usd_per_month - self.coarse_usd_per_month)

    @property
    def gap_frac(self) -> float:
        if self.best is None or self.cost_usd_per_month <= 0:
            return 0.0 if self.best else np.inf
        return max(0.0, (self.cost_usd_per_month - self.bound_usd_per_month) / self.cost_usd_per_month)


def solve_fleet(
    fleet: Fleet,
    options: Options | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> FleetSolution:
    """The cheapest fleet, as far as the limits of the search allow. Ctrl-C keeps the best plan."""
    solution = FleetSolution()
    try:
        _within_budget(fleet, options or Options(), solution, on_progress)
    except KeyboardInterrupt:
        if solution.best is None:
            raise
        solution.outcome = Outcome.INTERRUPTED
    return solution


def _within_budget(
    fleet: Fleet, options: Options, solution: FleetSolution, on_progress: Callable[[Progress], None]
) -> None:
    """Search without the budget first: its plan may keep the budget anyway, or its bound may rule every plan out."""
    budget = fleet.budget_usd_per_month
    if budget is not None:
        started = time.monotonic()
        free = FleetSolution()
        try:
            _search(replace(fleet, budget_usd_per_month=None), options, free, on_progress)
        finally:
            if free.best is None or limits_are_kept(fleet, free.best):
                vars(solution).update(vars(free))
        if solution.best is not None or free.best is None:
            return
        if free.bound_usd_per_month > budget * (1 + 1e-9):
            solution.outcome = Outcome.INFEASIBLE
            return
        if options.time_limit_s is not None:
            left = options.time_limit_s - (time.monotonic() - started)
            options = replace(options, time_limit_s=max(0.5, left))
    _search(fleet, options, solution, on_progress)


def _search(fleet: Fleet, options: Options, solution: FleetSolution, on_progress: Callable[[Progress], None]) -> None:
    started = time.monotonic()
    deadline = None if options.time_limit_s is None else started + options.time_limit_s

    def tell(phase: str, bound: float | None = None) -> None:
        best = solution.cost_usd_per_month if solution.best else None
        on_progress(Progress(phase, best, max(solution.bound_usd_per_month, bound or 0.0)))

    def priced(n: int, bound: float) -> None:
        solution.raise_bound(bound)
        tell(f"pricing, round {n}")

    fleet = replace(fleet, recipes=tuple(r for r in fleet.recipes if r.offer is None or fleet.offers[r.offer].for_sale))
    if not all(fleet.recipes_of[w] for w in fleet.workloads):
        solution.outcome = Outcome.INFEASIBLE
        return
    solution.coarse_usd_per_month = _coarse_usd_per_month(fleet)
    fleet = without_beaten_recipes(fleet)
    _offer(solution, each_by_itself(fleet))
    tell("pricing")
    generation = ColumnGeneration(fleet, priced, known=solution.best.paths if solution.best else ())
    for tolerance_frac in TOLERANCES:
        before = time.monotonic()
        generated = generation.run(
            tolerance_frac,
            enough=lambda bound, recipes: (
                (deadline is not None and time.monotonic() > deadline)
                or _count_possible(fleet, bound, recipes, solution) <= FEW_SERVINGS
            ),
        )
        solution.rounds = generated.rounds
        _spent(solution, "pricing", before)
        if not generated.feasible:
            solution.outcome = _without_bound(solution, generated)
            return
        _offer(solution, heaviest_paths(fleet, generated))
        tell("solving")
        before = time.monotonic()
        settled = _solve_what_is_possible(fleet, generated, options, solution, deadline, tolerance_frac, tell)
        _spent(solution, "solving", before)
        late = deadline is not None and time.monotonic() >= deadline
        if settled or late or solution.gap_frac <= options.gap_frac:
            break
    if solution.best is not None:
        solution.outcome = _outcome(solution, options)


def _coarse_usd_per_month(fleet: Fleet) -> float:
    """At most one step of API cost in every hour, for each workload."""
    widest = (max(fleet.recipes[r].coarse_usd_per_h for r in of) for of in fleet.recipes_of.values())
    return sum(widest) * float(fleet.weight.sum())


def _solve_what_is_possible(
    fleet: Fleet,
    generated: Generated,
    options: Options,
    solution: FleetSolution,
    deadline: float | None,
    tolerance_frac: float,
    tell: Callable[[str, float | None], None],
) -> bool:
    """The program over servings that a better plan may use; True where nothing better can come of more pricing."""
    kept, left_out, smallest_left_out = _still_possible(fleet, generated, solution.cost_usd_per_month)
    narrowed = replace(fleet, recipes=kept)
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
    proved = min(result.bound, smallest_left_out, solution.cost_usd_per_month)
    solution.raise_bound(max(generated.bound, proved))
    return not left_out and stopped is None


def _without_bound(solution: FleetSolution, generated: Generated) -> Outcome:
    if solution.best is not None:
        return Outcome.FEASIBLE
    return Outcome.INFEASIBLE if generated.feasible is False else Outcome.NOT_FOUND


def _spent(solution: FleetSolution, phase: str, since: float) -> None:
    solution.seconds[phase] = solution.seconds.get(phase, 0.0) + time.monotonic() - since


def _outcome(solution: FleetSolution, options: Options) -> Outcome:
    if solution.gap_frac <= 2e-6:
        return Outcome.OPTIMAL
    return Outcome.WITHIN_GAP if solution.gap_frac <= options.gap_frac else Outcome.FEASIBLE


def _offer(solution: FleetSolution, candidate: Incumbent | None) -> None:
    if candidate is not None and candidate.cost_usd_per_month < solution.cost_usd_per_month:
        solution.best = candidate


def _cheapest_values(fleet: Fleet, priced: tuple[Priced, ...]) -> dict[str, float]:
    return {w: min(priced[r].value for r in fleet.recipes_of[w]) for w in fleet.workloads}


def _serving_bounds(fleet: Fleet, bound: float, priced: tuple[Priced, ...]) -> list[np.ndarray]:
    """For each serving of each recipe, a lower bound on any plan that uses it."""
    cheapest = _cheapest_values(fleet, priced)
    return [bound + p.with_serving - cheapest[p.recipe.workloads[0]] for p in priced]


def _count_possible(fleet: Fleet, bound: float, priced: tuple[Priced, ...], solution: FleetSolution) -> int:
    bounds = _serving_bounds(fleet, bound, priced)
    return int(sum((b <= solution.cost_usd_per_month).sum() for b in bounds))


def _still_possible(fleet: Fleet, generated: Generated, best_cost: float) -> tuple[tuple[Recipe, ...], int, float]:
    """Recipes narrowed to the servings a better plan may use; how many were cut for size, and their bound."""
    bounds = _serving_bounds(fleet, generated.bound, generated.priced)
    cheapest = _cheapest_values(fleet, generated.priced)
    threshold = best_cost + 1e-9 * abs(best_cost)
    every = np.sort(np.concatenate(bounds))
    possible = every[every <= threshold]
    smallest_left_out = np.inf
    if len(possible) > MOST_SERVINGS:
        smallest_left_out = float(possible[MOST_SERVINGS])
        threshold = np.nextafter(smallest_left_out, -np.inf)
    kept = []
    for priced, bound in zip(generated.priced, bounds, strict=True):
        mask = bound <= threshold
        if priced.value <= cheapest[priced.recipe.workloads[0]]:
            mask[priced.best] = True  # there is always one way to serve a workload, however many were cut
        if len(np.unique(priced.recipe.slot[mask])) == len(fleet.slot_hours):
            kept.append(priced.recipe.only(mask))
    return tuple(kept), int((possible > threshold).sum()), smallest_left_out
