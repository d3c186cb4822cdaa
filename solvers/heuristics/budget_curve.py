"""Plans of one fleet for all budgets at once: as a dollar weighs more, one after the other is the best.

Where a dollar of cost weighs so much, each workload has a plan that is best for it without a budget
(solvers/heuristics/budget_heuristic.py). Between two of those lie all that spend a part of what they differ by, hour by
hour, on one workload after the other: a knapsack along the hours of a day is solved once for all amounts
(solvers/heuristics/budget_knapsack.py). Nothing is proved here; each plan costs what it costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise

from problems.fleet_problem import FleetProblem
from problems.recipes.recipe import Recipe
from solvers.backends.clock import check
from solvers.heuristics.budget_heuristic import DEAREST, BudgetHeuristic, weighed
from solvers.heuristics.budget_knapsack import BudgetKnapsack
from solvers.heuristics.incumbent import Incumbent, complete, usd_by_month

MOST_WEIGHTS = 24
"""values of a dollar that are tried"""
UNITS = 2048
"""distinct amounts of money: the curve is made of many plans, and none has to meet a budget"""
Curve = list[tuple[float, Incumbent]]
"""plans with the dearest month of each, the leanest first; each is better than all before it"""


def budget_curve(heuristic: BudgetHeuristic, step_frac: float) -> Curve:
    """Plans whose cost + penalty differs by no more than this share from one to the next, as far as there are such."""
    if not heuristic.may_shed:
        return []
    corners = best_by_budget(heuristic.fleet, _corners(heuristic, step_frac))
    plans = [plan for _, plan in corners]
    between = [_between(heuristic, lean, rich, step_frac) for lean, rich in pairwise(plans)]
    return best_by_budget(heuristic.fleet, chain(plans, *between))


def best_by_budget(fleet: FleetProblem, plans: Iterable[Incumbent]) -> Curve:
    by_budget = [(float(usd_by_month(fleet, plan).max()), plan) for plan in plans]
    best: Curve = []
    for usd, plan in sorted(by_budget, key=lambda at: (at[0], at[1].objective)):
        if not best or plan.objective < best[-1][1].objective * (1 - 1e-9):
            best.append((usd, plan))
    return best


def thinned(curve: Curve, step_frac: float) -> Curve:
    """The ends, and of the others as few as leave no larger steps between them."""
    kept = curve[:1]
    for at, after in pairwise(curve[1:]):
        if after[1].objective < (1 - step_frac) * kept[-1][1].objective:
            kept.append(at)
    return kept + curve[1:][-1:]


def _corners(heuristic: BudgetHeuristic, step_frac: float) -> list[Incumbent]:
    """The best plans where a dollar weighs what makes two neighbours equally good, until there is no other."""
    ends = [plan for weight in (DEAREST, 1.0) if (plan := heuristic.at_weight(weight)) is not None]
    plans, pairs = list(ends), list(pairwise(ends))
    for _ in range(MOST_WEIGHTS):
        check()
        if not pairs:
            break
        lean, rich = pairs.pop(max(range(len(pairs)), key=lambda k: pairs[k][0].objective - pairs[k][1].objective))
        more = rich.cost_usd_per_month - lean.cost_usd_per_month
        less = lean.penalty_usd_per_month - rich.penalty_usd_per_month
        if more <= 0 or less - more <= step_frac * rich.objective:
            continue
        plan = heuristic.at_weight(less / more)
        if plan is not None and weighed(plan, less / more) < weighed(lean, less / more) * (1 - 1e-9):
            plans.append(plan)
            pairs += [(lean, plan), (plan, rich)]
    return plans


def _penalty(fleet: FleetProblem, path: Recipe) -> float:
    return float(fleet.weight[path.slot] @ path.penalty_usd_per_h)


def _between(heuristic: BudgetHeuristic, lean: Incumbent, rich: Incumbent, step_frac: float) -> Iterator[Incumbent]:
    """Plans on the way from a lean one to a rich one: one workload after the other served as there."""
    workloads = [path.workloads for path in lean.paths]
    by_workloads = {path.workloads: path for path in rich.paths}
    if by_workloads.keys() != set(workloads) or lean.objective - rich.objective <= step_frac * rich.objective:
        return
    kept = {path.footprint for path in lean.paths}
    workloads = [each for each in workloads if by_workloads[each].footprint not in kept]
    for order in (workloads, workloads[::-1]) if len(workloads) > 1 else (workloads,):
        paths = lean.paths
        for each in order:
            check()
            at, goal = next(k for k, path in enumerate(paths) if path.workloads == each), by_workloads[each]
            recipe = heuristic.recipes.get(goal.key)
            if recipe is not None:
                yield from _spending(heuristic.fleet, paths, at, recipe, rich, step_frac)
            paths = (*paths[:at], goal, *paths[at + 1 :])


def _spending(
    fleet: FleetProblem, paths: tuple[Recipe, ...], at: int, recipe: Recipe, rich: Incumbent, step_frac: float
) -> Iterator[Incumbent]:
    """Plans that spend more and more on one workload, beside what the rich plan has signed for it."""
    held = {g: sum(rich.purchases[g].reserved.values()) if g in rich.purchases else 0 for g in recipe.offers}
    rest = (*paths[:at], *paths[at + 1 :])
    spending = BudgetKnapsack(fleet, rest, recipe, held, UNITS)
    if not spending.possible:
        return
    left = (_penalty(fleet, next(p for p in rich.paths if p.workloads == recipe.workloads)), _penalty(fleet, paths[at]))
    for amounts in spending.amounts(left, sum(_penalty(fleet, path) for path in rest), step_frac):
        path, _ = spending.within(amounts)
        plan = complete(fleet, (*paths[:at], path, *paths[at + 1 :]))
        if plan is not None:
            yield plan
