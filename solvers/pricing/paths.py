"""The paths that the master LP holds: single ones with one serving per slot, and open ones with several.

A recipe that the LP uses is opened: one column for the recipe and one for each serving that was ever worth it, so
that the LP recombines servings slot by slot. That is the same LP with far fewer rounds: single paths would have to be
generated one by one for every combination. Work that may wait is open from the start, because the LP moves it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.pricing import Prices, settled_path
from problems.recipes.deferral import counts_with_room
from problems.recipes.recipe import Recipe, joined
from solvers.cuts.picked import Picked

LEANS_ON = 0.01
"""share of a recipe in the LP that opens it"""
IDLE_ROUNDS = 6
"""LPs in a row that do without a path before it is left out"""
FEW_PATHS = 10
"""paths of a workload up to which those with one serving per slot stay: they may be of use again"""
LEVELS = (0.125, 0.375, 0.625, 0.875)
"""shares at which an open path is split into single ones, from few GPUs to many"""

Key = tuple[str, tuple[str, ...], str | None]


@dataclass(eq=False)
class Paths:
    """What the LP holds, and what it held before."""

    fleet: FleetProblem
    held: list[Recipe] = field(default_factory=list)
    opened: dict[Key, Recipe] = field(default_factory=dict)
    """recipes with all servings that were ever worth it"""
    idle: dict[Hashable, int] = field(default_factory=dict)
    """LPs in a row that did without a path, by its key where it is open"""

    def join(self, new: Iterable[Recipe]) -> list[Recipe]:
        """Add paths; those of an open recipe join it. What is new is returned."""
        added = []
        for path in new:
            if self._stays_single(path):
                self.held.append(path)
                added.append(path)
                continue
            before = self.opened.get(path.key)
            both = path if before is None else joined(before, path)
            at = next((k for k, p in enumerate(self.held) if p is before), None)
            if at is None:
                self.held.append(both)
            elif before is not None and both.servings > before.servings:
                self.held[at] = both
            else:
                continue
            self.opened[path.key] = both
            added.append(both)
        return added

    def _is_open(self, path: Recipe) -> bool:
        return path.deferral is not None or path.servings > len(self.fleet.slot_hours)

    def _stays_single(self, path: Recipe) -> bool:
        """Servings of work that may wait hang together once it is settled where it is done."""
        if self._is_open(path):
            return False
        return path.key not in self.opened or self.fleet.pools[path.pool].window is not None

    def after_lp(self, picked: list[Picked], stands: bool = False) -> None:
        """Open recipes that the LP uses in several ways; leave out paths that several LPs in a row did not use.

        As long as the LP costs the same none is left out: it would come back for ever.
        """
        ways: dict[Key, list[Picked]] = {}
        for p in picked:
            name = self._name(p.path)
            self.idle[name] = 0 if p.weight > 1e-6 else self.idle.get(name, 0) + 1
            if not self._is_open(p.path) and p.path.self_hosted and self.fleet.pools[p.path.pool].window is None:
                ways.setdefault(p.path.key, []).append(p)
        for key, paths in ways.items():
            if len(paths) > 1 and sum(p.weight for p in paths) > LEANS_ON:
                self._open(key)
        many = len(self.held) > FEW_PATHS * len(self.fleet.workloads)
        gone = {name for name, n in self.idle.items() if n >= IDLE_ROUNDS and not stands}
        self.held = [p for p in self.held if not ((many or self._is_open(p)) and self._name(p) in gone)]
        held = {self._name(path) for path in self.held}
        self.idle = {name: n for name, n in self.idle.items() if name in held}

    def is_idle(self, path: Recipe) -> bool:
        """Whether the last LP did without a path."""
        return self.idle.get(self._name(path), 0) > 0

    def doubt(self, paths: Iterable[Recipe]) -> None:
        """Leave paths out if the next LP does without them."""
        self.idle |= {self._name(path): IDLE_ROUNDS - 1 for path in paths}

    def _name(self, path: Recipe) -> Hashable:
        return path.key if self._is_open(path) else id(path)

    def _open(self, key: Key) -> None:
        ways = [path for path in self.held if path.key == key]
        self.held = [path for path in self.held if path.key != key]
        self.opened[key] = reduce(joined, ways)
        self.held.append(self.opened[key])

    def whole(
        self, recipe_of_key: dict[Key, Recipe], picked: list[Picked], prices: Prices
    ) -> tuple[tuple[Recipe, ...], np.ndarray]:
        """Paths with one serving per slot and whole counts of replicas, and their weights in the last LP."""
        paths: list[Recipe] = []
        weights: list[float] = []
        for p in picked:
            if p.path.deferral is not None:
                path = self._with_whole_counts(p, recipe_of_key[p.path.key], prices) if p.weight > 1e-6 else None
                if path is not None:
                    paths.append(path)
                    weights.append(p.weight)
            elif self._is_open(p.path):
                ways = single_paths(p)
                paths += ways
                weights += [p.weight / len(ways)] * len(ways)
            else:
                paths.append(p.path)
                weights.append(p.weight)
        known = {id(p.path) for p in picked}
        rest = [path for path in self.held if not self._is_open(path) and id(path) not in known]
        return (*paths, *rest), np.r_[weights, np.zeros(len(rest))]

    def _with_whole_counts(self, picked: Picked, recipe: Recipe, prices: Prices) -> Recipe | None:
        """Work that may wait with enough replicas for what the LP does in each slot, or near the cheapest way."""
        enough = counts_with_room(recipe, picked.mean(picked.path.uses[0].load), self.fleet.weight)
        return settled_path(self.fleet, recipe, prices) if enough is None else enough


def single_paths(picked: Picked) -> list[Recipe]:
    """Whole paths out of an open one: in each slot the serving at some share of what is picked, by its GPUs."""
    path = picked.path
    gpus = sum((use.gpus for use in path.uses), np.zeros(path.servings))
    order = np.lexsort((gpus, path.slot))
    ordered, shares = path.only(order), np.maximum(picked.shares[order], 0.0)
    slot = ordered.slot
    total = np.bincount(slot, weights=shares)
    up_to = np.cumsum(shares) - np.r_[0.0, np.cumsum(total)[:-1]][slot]
    paths: dict[tuple[Any, ...], Recipe] = {}
    for level in LEVELS if total.min() > 1e-9 else ():
        reached = up_to >= level * total[slot] - 1e-12
        whole = ordered.only(ordered.first_of_each_slot(~reached))
        paths.setdefault(whole.footprint, whole)
    return list(paths.values()) or [path.only(path.first_of_each_slot(gpus))]
