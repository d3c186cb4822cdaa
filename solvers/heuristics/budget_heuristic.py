"""Plans within a budget that shed the right requests, by Lagrangian relaxation of the budget.

A budget has a price: if a dollar of cost weighs more, the best plan without a budget costs less. Scaling all costs up
is scaling all penalties down, so closed-form plans without a budget lead to one within it: a lean plan that keeps the
budget, and a rich one that exceeds it. At the weight where both are equally good another one may lie between them,
until none does. What the lean one leaves of the budget is then spent on one workload after the other
(solvers/heuristics/budget_knapsack.py).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.recipes.recipe import Recipe
from solvers.backends.clock import check
from solvers.heuristics.budget_knapsack import BudgetKnapsack
from solvers.heuristics.incumbent import (
    Incumbent,
    complete,
    each_by_itself,
    incumbent_of,
    limits_are_kept,
    usd_by_month,
)

MOST_WEIGHTS = 14
DEAREST = 1e4
"""the most that a dollar may weigh: at more than this, no penalty is a reason to pay"""
CLOSE_FRAC = 0.03
"""a lean and a rich plan whose costs differ by no more than this: what lies between is found serving by serving"""
MOST_SPENT = 8
"""times that money is spent on a path, those with most penalty left first"""
UNITS_AROUND = 8
"""units of money more and less that are tried, as amounts are rounded"""
MOST_REMEMBERED = 8
"""spendings that are kept for other budgets"""


def within_budget(fleet: FleetProblem, deadline: float | None) -> Incumbent | None:
    """A plan that keeps the budget and uses it well; None if nothing may be shed.

    What keeps to a budget in every month keeps to it on average.
    """
    return BudgetHeuristic(fleet).within(fleet.least_budget_usd, deadline)


class BudgetHeuristic:
    """Plans of one fleet within any budget; what does not depend on the budget is worked out once."""

    def __init__(self, fleet: FleetProblem) -> None:
        self.fleet = replace(fleet, budget_usd_per_month=None, budget_usd_on_average=None)
        self.may_shed = any(r.penalty_usd_per_h.any() for r in fleet.recipes)
        self.recipes = {r.key: r for r in fleet.recipes if r.deferral is None}
        self.at_weights: dict[float, Incumbent | None] = {}
        """the best plan found where a dollar weighs so much"""
        self.spendings: dict[tuple[Any, ...], BudgetKnapsack] = {}

    def within(
        self, budget_usd_per_month: float | None, deadline: float | None = None, good_enough: float = 0.0
    ) -> Incumbent | None:
        """The best plan found within a budget; nothing more is tried when one costs, with its penalty, so little."""
        if budget_usd_per_month is None or not self.may_shed:
            return None
        fleet = replace(self.fleet, budget_usd_per_month=budget_usd_per_month)
        around = self._around(fleet, deadline)
        if around is None:
            return None
        best, rich = around
        quiet = 0
        for k in range(MOST_SPENT):
            check()
            spenders = sorted(best.paths, key=lambda p: -float(fleet.weight[p.slot] @ p.penalty_usd_per_h))
            late = deadline is not None and time.monotonic() >= deadline
            if late or quiet >= len(spenders) or best.objective <= good_enough:
                break
            before, spender = best.objective, spenders[k % len(spenders)]
            keys = [p.key for p in (spender, *rich.paths) if p.workloads == spender.workloads]
            for recipe in [self.recipes[key] for key in dict.fromkeys(keys) if key in self.recipes]:
                best = self._spent_on(fleet, best, recipe, good_enough)
            quiet = 0 if best.objective < before else quiet + 1
        return best

    def leanest(self) -> Incumbent | None:
        """The plan that turns away whatever may be."""
        return self.at_weight(DEAREST) if self.may_shed else None

    def _around(self, fleet: FleetProblem, deadline: float | None) -> tuple[Incumbent, Incumbent] | None:
        """The lean plan next to the budget and the rich one: the same where the richest keeps it."""
        ends = (self.at_weight(DEAREST), self.at_weight(1.0))
        plans = [plan for plan in (*ends, *self.at_weights.values()) if plan is not None]
        kept = [plan for plan in plans if limits_are_kept(fleet, plan)]
        if None in ends or not kept:
            return None
        broken = [plan for plan in plans if not limits_are_kept(fleet, plan)]
        lean = min(kept, key=lambda plan: plan.objective)
        rich = min(broken, key=lambda plan: plan.cost_usd_per_month, default=lean)
        for _ in range(MOST_WEIGHTS):
            check()
            more = rich.cost_usd_per_month - lean.cost_usd_per_month
            less = lean.penalty_usd_per_month - rich.penalty_usd_per_month
            late = deadline is not None and time.monotonic() >= deadline
            if late or more <= CLOSE_FRAC * rich.cost_usd_per_month or less <= 0:
                break
            weight = less / more
            plan = self.at_weight(weight)
            if plan is None or weighed(plan, weight) >= weighed(lean, weight) * (1 - 1e-9):
                break
            if limits_are_kept(fleet, plan):
                lean = plan
            else:
                rich = plan
        return lean, rich

    def at_weight(self, weight: float) -> Incumbent | None:
        """The plan without a budget where a dollar weighs so much, at its true penalties."""
        if weight not in self.at_weights:
            recipes = tuple(replace(r, penalty_usd_per_h=r.penalty_usd_per_h / weight) for r in self.fleet.recipes)
            plan = each_by_itself(replace(self.fleet, recipes=recipes))
            if plan is not None:
                paths = tuple(replace(p, penalty_usd_per_h=p.penalty_usd_per_h * weight) for p in plan.paths)
                plan = incumbent_of(self.fleet, paths, plan.purchases, (plan.signed,))
            self.at_weights[weight] = plan
        return self.at_weights[weight]

    def _spent_on(self, fleet: FleetProblem, plan: Incumbent, recipe: Recipe, good_enough: float) -> Incumbent:
        """The plan with what the other paths leave of the budget spent on this recipe, where that is better."""
        at = next(k for k, path in enumerate(plan.paths) if path.workloads == recipe.workloads)
        rest = (*plan.paths[:at], *plan.paths[at + 1 :])
        spending = self._spending(plan, rest, recipe)
        if not spending.possible:
            return plan

        def with_path(path: Recipe) -> tuple[Recipe, ...]:
            return (*plan.paths[:at], path, *plan.paths[at + 1 :])

        path, spent = spending.within(np.zeros(fleet.months))
        cheapest = complete(self.fleet, with_path(path))
        if cheapest is None or fleet.budget_usd_per_month is None:
            return plan
        elsewhere = usd_by_month(fleet, cheapest) - spent
        best = plan
        for units in range(UNITS_AROUND, -UNITS_AROUND - 1, -1):
            path, _ = spending.within(fleet.budget_usd_per_month - elsewhere + units * spending.unit_usd)
            tried = complete(fleet, with_path(path))
            if tried is not None and tried.objective < best.objective:
                best = tried
            if best.objective <= good_enough:
                break
        return best

    def _spending(self, plan: Incumbent, rest: tuple[Recipe, ...], recipe: Recipe) -> BudgetKnapsack:
        held = tuple(sum(plan.purchases[g].reserved.values()) if g in plan.purchases else 0 for g in recipe.offers)
        key = (recipe.key, held, *(path.footprint for path in rest))
        if key not in self.spendings:
            if len(self.spendings) >= MOST_REMEMBERED:
                del self.spendings[next(iter(self.spendings))]
            self.spendings[key] = BudgetKnapsack(self.fleet, rest, recipe, dict(zip(recipe.offers, held, strict=True)))
        return self.spendings[key]


def weighed(plan: Incumbent, weight: float) -> float:
    return plan.cost_usd_per_month * weight + plan.penalty_usd_per_month
