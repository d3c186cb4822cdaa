"""Hill climbing: change one recipe or one commitment at a time, as long as the LP gets cheaper.

With one recipe for every workload, the LP with cuts is a good estimate of what they cost. Reduced costs say which
change is worth solving the LP again: the most promising is tried first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from problems.fleet_problem import FleetProblem, Held
from problems.fleet_variables import Variables
from problems.recipes.recipe import RecipeKey
from solvers.backends.clock import check
from solvers.backends.highs import WarmLp

WORTH_FRAC = 1e-4
"""share of the cost that a change must save"""
RECIPE, BOXES = "recipe", "boxes"
Change = tuple[str, Any, Any]
"""another recipe at a place, or so many boxes of a commitment"""


def picks_by_key(fleet: FleetProblem, v: Variables) -> dict[RecipeKey, list[int]]:
    """The columns that pick a recipe, which may be there with several of its servings."""
    columns: dict[RecipeKey, list[int]] = {}
    for r, recipe in enumerate(fleet.recipes):
        columns.setdefault(recipe.key, []).append(v.pick[r])
    return columns


class Climb:
    """Recipes and commitments that are decided on in an LP, which knows of others."""

    def __init__(self, fleet: FleetProblem, v: Variables, lp: WarmLp, keys: list[RecipeKey], held: Held) -> None:
        """`fleet` has these recipes and others, by their keys; `held` are commitments to large boxes."""
        self.lp, self.keys, self.held = lp, list(keys), dict(held)
        self.columns = picks_by_key(fleet, v)
        self.workloads = {recipe.key: recipe.workloads for recipe in fleet.recipes}
        self.others: dict[tuple[str, ...], set[RecipeKey]] = {}
        """recipes by the workloads that they serve"""
        for key, workloads in self.workloads.items():
            self.others.setdefault(workloads, set()).add(key)
        self.reserved = {key: v.reserved[key] for key in held}
        lp.decide([c for key, columns in self.columns.items() if key not in set(keys) for c in columns], 0.0, 0.0)

    def up(self, until: float) -> bool:
        """Change what saves something until nothing does, or time is up; whether anything has changed.

        The LP was solved before, and is to be solved again: the last change that was tried is undone.
        """
        changed = False
        while self._changes_something(until):
            changed = True
        return changed

    def _changes_something(self, until: float) -> bool:
        """The first change that saves enough, of those that promise most."""
        usd = self.lp.objective
        saved = dict(self._changes(usd))
        for change in sorted(saved, key=lambda change: (-saved[change], str(change))):
            check()
            if time.monotonic() >= until:
                break
            back = self._do(change)
            if self.lp.solve() is not None and self.lp.objective < (1 - WORTH_FRAC) * usd:
                return True
            self._do(back)
        return False

    def _changes(self, usd: float) -> Iterator[tuple[Change, float]]:
        """Changes that save enough at the LP's prices, and how much."""
        reduced, least = self.lp.reduced_costs, WORTH_FRAC * usd
        for k, key in enumerate(self.keys):
            for other in self.others[self.workloads[key]] - {key}:
                saved = -float(reduced[self.columns[other]].min())
                if saved > least:
                    yield (RECIPE, k, other), saved
        for term, (boxes, _) in self.held.items():
            saved = float(reduced[self.reserved[term]])
            if saved < -least or (saved > least and boxes > 0):
                yield (BOXES, term, boxes + (1 if saved < 0 else -1)), abs(saved)

    def _do(self, change: Change) -> Change:
        """What undoes it."""
        kind, where, then = change
        if kind == BOXES:
            boxes, self.held[where] = self.held[where][0], (then, then)
            self.lp.decide([self.reserved[where]], float(then), float(then))
            return BOXES, where, boxes
        before, self.keys[where] = self.keys[where], then
        self.lp.decide(self.columns[before], 0.0, 0.0)
        self.lp.decide(self.columns[then], 0.0, 1.0)
        return RECIPE, where, before
