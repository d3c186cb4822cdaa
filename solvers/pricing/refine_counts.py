"""Counts of replicas that large recipes leave out: tried after all, where they matter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.pricing import Priced
from problems.recipes.recipe import Recipe
from problems.recipes.singles import with_every_count
from solvers.pricing.reduced_cost_fixing import without_what_limits_forbid

MOST_COUNTS, COUNTS_OF_ALL = 50_000, 2_000_000
"""counts of replicas over all slots up to which every one is tried of a recipe that turns out to matter, and of all"""


@dataclass(eq=False)
class RefinedCounts:
    left: int = COUNTS_OF_ALL
    """counts that may still be tried"""

    def that_matter(self, fleet: FleetProblem, ranked: Mapping[tuple[str, ...], list[Priced]]) -> dict[int, Recipe]:
        """Recipes with every count, by the identity of the one that they replace: the cheapest of a pool, if counts
        between those that it has may be cheaper still.
        """
        firsts = [first for first, *_ in ranked.values() if first.recipe.between is not None]
        return self.every(fleet, [p.recipe for p in firsts if p.with_skipped.min(initial=np.inf) <= p.value])

    def every(self, fleet: FleetProblem, recipes: Iterable[Recipe]) -> dict[int, Recipe]:
        """Recipes with every count, by the identity of the one that they replace; very large ones stay as they are."""
        finer: dict[int, Recipe] = {}
        for recipe in recipes:
            most = int(recipe.uses[0].replicas.max()) * len(fleet.slot_hours)
            if most <= MOST_COUNTS and self.left >= most:
                self.left -= most
                every = with_every_count(fleet.pools[recipe.pool], recipe, fleet.slot_hours)
                finer |= {id(recipe): r for r in without_what_limits_forbid(replace(fleet, recipes=(every,)))}
        return finer
