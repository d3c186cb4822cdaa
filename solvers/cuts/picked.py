"""What an LP solution picks of a path."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from problems.fleet_variables import Variables
from problems.recipes.recipe import Recipe


@dataclass(frozen=True, eq=False)
class Picked:
    """A path in an LP solution."""

    path: Recipe
    weight: float
    shares: np.ndarray
    """how much of each serving is picked: the weight, where a slot has one [serving]"""

    def sum(self, values: np.ndarray) -> np.ndarray:
        """what its servings have, as far as they are picked [slot]"""
        return np.bincount(self.path.slot, weights=self.shares * values)

    def mean(self, values: np.ndarray) -> np.ndarray:
        return self.sum(values) / max(self.weight, 1e-300)

    @property
    def means(self) -> list[np.ndarray]:
        """replicas of each use [slot]"""
        return [self.mean(use.replicas) for use in self.path.uses]


def picked_of(v: Variables, x: np.ndarray, r: int, path: Recipe) -> Picked:
    """Path r of a program in its solution."""
    return Picked(path, float(x[v.pick[r]]), np.array([x[v.serving(r, i)] for i in range(path.servings)]))
