"""Solve a fleet: bound by column generation, then a mixed-integer program over what can still matter.

1. The best plan of each workload by itself, in closed form, gives a first incumbent U.
2. Column generation gives a lower bound L and, for every serving, a bound on any plan that uses it.
3. Servings whose bound exceeds U cannot be in a better plan. Those left, nearest first, go into the master MIP
   with whole boxes and commitments.
4. If all of them fitted, the MIP's bound is a bound on every plan. If some were cut for size, no plan with one
   of those costs less than the smallest bound among them. So in both cases

       bound = max(L, min(bound of the MIP, smallest bound of a serving left out, U))
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from problems.dominance import without_beaten_recipes
from problems.fleet import HOURS_PER_MONTH, Fleet, Variables, master
from problems.purchase import Purchase, cheapest_alone, cheapest_purchase
from problems.recipes import Recipe
from solvers.column_generation import Generated, generate
from solvers.result import Status
from solvers.solve import solve_mip

MOST_SERVINGS = 12_000


class Outcome(StrEnum):
    OPTIMAL = "optimal"
    """no cheaper plan exists, within the solver's tolerance of a millionth"""
    WITHIN_GAP = "within-gap"
    """proved within the gap that was asked for"""
    FEASIBLE = "feasible"
    """a plan that holds, with the gap that was reached when a limit stopped the search"""
    INTERRUPTED = "interrupted"
    INFEASIBLE = "infeasible"


@dataclass(frozen=True)
class Options:
    solver: str = "cbc"
    gap_frac: float = 0.001
    time_limit_s: float | None = None
    node_limit: int = 20_000


@dataclass(frozen=True)
class Progress:
    phase: str
    best_usd_per_month: float | None
    bound_usd_per_month: float | None


@dataclass(frozen=True, eq=False)
class Incumbent:
    """A complete plan: one path per workload and the instances bought."""

    paths: tuple[Recipe, ...]
    purchases: dict[str, Purchase]
    cost_usd_per_month: float


@dataclass(eq=False)
class FleetSolution:
    """The best plan found so far and what is proved about it."""

    outcome: Outcome = Outcome.FEASIBLE
    best: Incumbent | None = None
    bound_usd_per_month: float = 0.0
    rounds: int = 0
    columns: int = 0
    servings_left_out: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def cost_usd_per_month(self) -> float:
        return self.best.cost_usd_per_month if self.best else np.inf

    @property
    def gap_frac(self) -> float:
        if self.best is None or self.cost_usd_per_month <= 0:
            return 0.0 if self.best else np.inf
        return max(0.0, (self.cost_usd_per_month - self.bound_usd_per_month) / self.cost_usd_per_month)


def solve_fleet(
    fleet: Fleet, options: Options = Options(), on_progress: Callable[[Progress], None] = lambda p: None  # noqa: B008
) -> FleetSolution:
    """The cheapest fleet, as far as the limits of the search allow. Ctrl-C keeps the best plan."""
    solution = FleetSolution()
    try:
        _search(fleet, options, solution, on_progress)
    except KeyboardInterrupt:
        if solution.best is None:
            raise
        solution.outcome = Outcome.INTERRUPTED
    return solution


def _search(fleet: Fleet, options: Options, solution: FleetSolution, on_progress: Callable[[Progress], None]) -> None:
    started = time.monotonic()
    deadline = None if options.time_limit_s is None else started + options.time_limit_s

    def tell(phase: str, bound: float | None = None) -> None:
        best = solution.cost_usd_per_month if solution.best else None
        on_progress(Progress(phase, best, max(solution.bound_usd_per_month, bound or 0.0)))

    if not all(fleet.recipes_of[w] for w in fleet.workloads):
        solution.outcome = Outcome.INFEASIBLE
        return
    fleet = without_beaten_recipes(fleet)
    _offer(solution, _each_by_itself(fleet))
    tell("pricing")
    generated = generate(fleet, lambda n, bound: tell(f"pricing, round {n}", bound))
    solution.rounds, solution.columns = generated.rounds, len(generated.paths)
    solution.seconds["pricing"] = time.monotonic() - started
    if not generated.feasible:
        solution.outcome, solution.best = Outcome.INFEASIBLE, None
        return
    solution.bound_usd_per_month = generated.bound
    _offer(solution, _heaviest_paths(fleet, generated))
    tell("solving")

    kept, left_out, smallest_left_out = _still_possible(fleet, generated, solution.cost_usd_per_month)
    solution.servings_left_out = left_out
    narrowed = replace(fleet, recipes=kept)
    model, v = master(narrowed)
    solution.columns += model.n_columns
    result = solve_mip(
        model,
        solver=options.solver,
        gap_frac=options.gap_frac / 2,
        time_limit_s=None if deadline is None else max(0.5, deadline - time.monotonic()),
        node_limit=options.node_limit,
        warm_start=_as_start(narrowed, v, solution.best, model.n_columns),
        on_progress=lambda best, bound: tell("solving", bound),
    )
    solution.seconds["solving"] = time.monotonic() - started - solution.seconds["pricing"]
    solution.notes += result.notes
    if result.x is not None:
        _offer(solution, _from_solution(narrowed, v, result.x))
    if solution.best is None:
        infeasible = result.status is Status.INFEASIBLE and not left_out
        solution.outcome = Outcome.INFEASIBLE if infeasible else Outcome.FEASIBLE
        return
    proved = min(result.bound, smallest_left_out, solution.cost_usd_per_month)
    solution.bound_usd_per_month = max(generated.bound, proved)
    solution.outcome = _outcome(solution, options)


def _outcome(solution: FleetSolution, options: Options) -> Outcome:
    if solution.gap_frac <= 2e-6:
        return Outcome.OPTIMAL
    return Outcome.WITHIN_GAP if solution.gap_frac <= options.gap_frac else Outcome.FEASIBLE


def _offer(solution: FleetSolution, candidate: Incumbent | None) -> None:
    if candidate is not None and candidate.cost_usd_per_month < solution.cost_usd_per_month:
        solution.best = candidate


def complete(fleet: Fleet, paths: tuple[Recipe, ...]) -> Incumbent | None:
    """Buy what these paths need, in closed form; None where that breaks a limit."""
    purchases: dict[str, Purchase] = {}
    slots = len(fleet.slot_hours)
    for g in sorted({p.offer for p in paths if p.offer is not None}):
        gpus, firm = np.zeros(slots), np.zeros(slots)
        for path in paths:
            if path.offer == g:
                np.add.at(gpus, path.slot, path.gpus)
                np.add.at(firm, path.slot, path.firm_gpus)
        bought = cheapest_purchase(fleet.offers[g], gpus, firm, fleet.weight)
        if bought is None:
            return None
        purchases[g] = bought
    plan = Incumbent(paths, purchases, cost_of(fleet, paths, purchases))
    return plan if limits_are_kept(fleet, plan) else None


def cost_of(fleet: Fleet, paths: tuple[Recipe, ...], purchases: dict[str, Purchase]) -> float:
    """USD per month, averaged over the months."""
    return float(np.mean(_cost_by_month(fleet, paths, purchases)))


def _cost_by_month(fleet: Fleet, paths: tuple[Recipe, ...], purchases: dict[str, Purchase]) -> np.ndarray:
    by_slot = np.zeros(len(fleet.slot_hours))
    fixed = fleet.team_usd_per_month if any(p.self_hosted for p in paths) else 0.0
    for path in paths:
        np.add.at(by_slot, path.slot, path.api_usd_per_h)
    for g, bought in purchases.items():
        offer = fleet.offers[g]
        by_slot += bought.on_demand * (offer.on_demand_usd_per_h or 0.0)
        by_slot += bought.spot * (offer.spot_usd_per_h or 0.0)
        fixed += sum(n * offer.reserved_usd_per_h[k] * HOURS_PER_MONTH for k, n in bought.reserved.items())
    return np.bincount(fleet.slot_month, by_slot * fleet.slot_hours, fleet.months) + fixed


def limits_are_kept(fleet: Fleet, plan: Incumbent) -> bool:
    total: dict[str, np.ndarray] = {}
    for g, bought in plan.purchases.items():
        offer = fleet.offers[g]
        instances = sum(bought.reserved.values()) + bought.on_demand + bought.spot
        if offer.max_instances is not None and instances.max() > offer.max_instances:
            return False
        total[offer.gpu] = total.get(offer.gpu, np.zeros(len(fleet.slot_hours))) + offer.box * instances
    if any(gpus.max() > fleet.max_gpus.get(gpu, np.inf) for gpu, gpus in total.items()):
        return False
    budget = fleet.budget_usd_per_month
    return budget is None or _cost_by_month(fleet, plan.paths, plan.purchases).max() <= budget * (1 + 1e-9)


def alone(fleet: Fleet, recipe: Recipe) -> Incumbent | None:
    """The cheapest plan for one recipe that has its offer to itself; None where a limit forbids it."""
    path: Recipe | None = recipe
    if recipe.offer is not None:
        path = cheapest_alone(fleet.offers[recipe.offer], recipe, fleet.weight)
    return complete(fleet, (path,)) if path is not None else None


def _each_by_itself(fleet: Fleet) -> Incumbent | None:
    """Each workload with the recipe that is cheapest for it alone."""
    chosen: list[Recipe] = []
    for w in fleet.workloads:
        plans = [plan for r in fleet.recipes_of[w] if (plan := alone(fleet, fleet.recipes[r]))]
        if not plans:
            return None
        chosen += min(plans, key=lambda plan: plan.cost_usd_per_month).paths
    return complete(fleet, tuple(chosen))


def _heaviest_paths(fleet: Fleet, generated: Generated) -> Incumbent | None:
    """The path of each workload that the LP leans on most."""
    chosen = []
    for w in fleet.workloads:
        of = [k for k, p in enumerate(generated.paths) if w in p.workloads]
        chosen.append(generated.paths[max(of, key=lambda k: (generated.weights[k], -k))])
    return complete(fleet, tuple(chosen))


def _still_possible(fleet: Fleet, generated: Generated, best_cost: float) -> tuple[tuple[Recipe, ...], int, float]:
    """Recipes narrowed to the servings a better plan may use; how many were cut for size, and their bound."""
    cheapest = {w: min(generated.priced[r].value for r in fleet.recipes_of[w]) for w in fleet.workloads}
    bounds = [generated.bound + p.with_serving - cheapest[p.recipe.workloads[0]] for p in generated.priced]
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
        if len(np.unique(priced.recipe.slot[mask])) == len(fleet.slot_hours):
            kept.append(priced.recipe.only(mask))
    return tuple(kept), int((possible > threshold).sum()), smallest_left_out


def _as_start(fleet: Fleet, v: Variables, plan: Incumbent | None, n_columns: int) -> np.ndarray | None:
    """An incumbent as values of the columns, where the narrowed recipes still hold it."""
    if plan is None:
        return None
    x = np.zeros(n_columns)
    by_key = {recipe.key: r for r, recipe in enumerate(fleet.recipes)}
    for path in plan.paths:
        r = by_key.get(path.key)
        if r is None:
            return None
        x[v.pick[r]] = 1
        recipe = fleet.recipes[r]
        for t, replicas in zip(path.slot, path.replicas, strict=True):
            same = np.flatnonzero((recipe.slot == t) & (recipe.replicas == replicas))
            if not len(same):
                return None
            if (r, int(same[0])) in v.serve:
                x[v.serve[r, int(same[0])]] = 1
    for g, bought in plan.purchases.items():
        for term, n in bought.reserved.items():
            x[v.reserved[g, term]] = n
        for by_slot, columns in ((bought.on_demand, v.on_demand), (bought.spot, v.spot)):
            for t in np.flatnonzero(by_slot).tolist():
                x[columns[g, t]] = by_slot[t]
    if v.team is not None and any(p.self_hosted for p in plan.paths):
        x[v.team] = 1
    return x


def _from_solution(fleet: Fleet, v: Variables, x: np.ndarray) -> Incumbent | None:
    """A plan from the values of a verified solution, with its purchases improved in closed form if possible."""
    paths = []
    for r, recipe in enumerate(fleet.recipes):
        if x[v.pick[r]] > 0.5:
            chosen = np.array([x[v.serving(r, i)] for i in range(len(recipe.slot))])
            paths.append(recipe.only(recipe.first_of_each_slot(-chosen)))
    order = {w: k for k, w in enumerate(fleet.workloads)}
    paths.sort(key=lambda p: order[p.workloads[0]])
    improved = complete(fleet, tuple(paths))
    return improved or _with_purchases(fleet, v, x, tuple(paths))


def _with_purchases(fleet: Fleet, v: Variables, x: np.ndarray, paths: tuple[Recipe, ...]) -> Incumbent:
    slots = range(len(fleet.slot_hours))

    def by_slot(columns: dict[tuple[str, int], int], g: str) -> np.ndarray:
        return np.array([int(np.ceil(x[columns[g, t]] - 1e-6)) if (g, t) in columns else 0 for t in slots])

    purchases = {}
    for g in sorted({p.offer for p in paths if p.offer is not None}):
        terms = {k: round(x[v.reserved[g, k]]) for k in fleet.offers[g].reserved_usd_per_h}
        held = {k: n for k, n in terms.items() if n}
        purchases[g] = Purchase(held, by_slot(v.on_demand, g), by_slot(v.spot, g))
    return Incumbent(paths, purchases, cost_of(fleet, paths, purchases))
