"""The recipes of the same workloads side by side: what all of them cost is worked out in a few steps on long arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from problems.recipes.recipe import Recipe


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Recipes whose slots are independent, one after the other."""

    recipes: tuple[Recipe, ...]

    @cached_property
    def slot(self) -> np.ndarray:
        """[serving of all recipes]"""
        return np.concatenate([recipe.slot for recipe in self.recipes])

    @cached_property
    def usd_per_h(self) -> np.ndarray:
        """beside GPUs, with penalties [serving of all recipes]"""
        return np.concatenate([recipe.usd_per_h + recipe.penalty_usd_per_h for recipe in self.recipes])

    @cached_property
    def used(self) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """By offer the servings of the recipes that use it, their GPUs and those that must not be spot."""
        used: dict[str, list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}
        for first, recipe in zip(self._first, self.recipes, strict=True):
            for g in recipe.offers:
                at = first + np.arange(recipe.servings)
                used.setdefault(g, []).append((at, recipe.gpus_on(g), recipe.firm_gpus_on(g)))
        return {g: (*(np.concatenate(part) for part in zip(*parts, strict=True)),) for g, parts in used.items()}  # type: ignore[misc]

    @cached_property
    def _first(self) -> list[int]:
        """number of each recipe's first serving"""
        first: list[int] = np.r_[0, np.cumsum([recipe.servings for recipe in self.recipes])[:-1]].astype(int).tolist()
        return first

    @cached_property
    def _slots(self) -> tuple[np.ndarray, np.ndarray]:
        """where each slot of each recipe begins, and with which of these each recipe does"""
        begins = np.diff(self.slot, prepend=-1) != 0
        begins[self._first] = True
        slots = np.flatnonzero(begins)
        return slots, np.searchsorted(slots, self._first)

    def least(self, cost: np.ndarray) -> np.ndarray:
        """What each recipe costs with the cheapest serving of each slot [recipe]."""
        slots, recipes = self._slots
        return np.add.reduceat(np.minimum.reduceat(cost, slots), recipes)

    def cheapest(self, k: int, cost: np.ndarray) -> Recipe:
        """A recipe narrowed to these servings."""
        recipe, first = self.recipes[k], self._first[k]
        return recipe.only(recipe.first_of_each_slot(cost[first : first + recipe.servings]))
