"""Replicas of a deployment do not all stand in one box: what that says about two workloads in one offer and slot.

Rounding up GPUs (problems/rounding_up.py) knows whole boxes and that two of them run where any does. Replicas of
several sizes may need another one (problems/packing.py): three of 4 GPUs and two of 2 fill two boxes of 8, but those
of 2 would all stand in the second. For two workloads a and b let functions count boxes, of n replicas of a size s. If
they never add up to more than the boxes that hold these replicas,

    count[a](s, n) + count[b](z, m) <= boxes(n of s, m of z)        for all s, n, z, m,        (*)

then every whole plan keeps bought >= count[a](s_a, n_a) + count[b](s_b, n_b), whatever else stands there: more replicas
never need fewer boxes. The same holds for replicas that must not be spot and instances that are not. Of a recipe with
several deployments on the offer the largest of their counts is taken, and one that uses more replicas than a function
knows counts as much as the most that it knows, both for that reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from problems.packing import boxes_apart
from problems.recipes.recipe import Recipe

APART = "apart"
"""how the kind of such rows begins"""
PLAIN = 1e-5
"""counts are whole multiples of this: solvers drop what is much smaller"""


class Standing(NamedTuple):
    """Replicas of one deployment of a workload on an offer; none: of size 0."""

    size: int
    replicas: int


NOBODY = Standing(0, 0)
Counts = dict[str, dict[int, np.ndarray]]
"""by workload and size of a replica [replicas]"""


@dataclass(frozen=True, eq=False)
class Apart:
    """One such inequality, for an offer and a slot."""

    of: str
    """in-use, or firm: replicas that must not be spot, and instances that are not"""
    offer: str
    slot: int
    counts: Counts

    @property
    def kind(self) -> str:
        return f"{APART} {self.of}"

    @cached_property
    def rhs(self) -> float:
        """counts of workloads that use nothing"""
        return float(sum(next(iter(of_size.values()))[0] for of_size in self.counts.values()))

    @staticmethod
    def by_slot(group: list[Apart], slots: int) -> ApartSlots:
        """Inequalities of one offer, at most one in each slot, as arrays."""
        most: dict[tuple[str, int], int] = {}
        for cut in group:
            for w, of_size in cut.counts.items():
                for size, count in of_size.items():
                    most[w, size] = max(most.get((w, size), 0), len(count))
        counts: Counts = {}
        for (w, size), n in most.items():
            counts.setdefault(w, {})[size] = np.zeros((slots, n))
        for cut in group:
            for w, of_size in cut.counts.items():
                for size, count in of_size.items():
                    into = counts[w][size]
                    into[cut.slot] = count[np.minimum(np.arange(into.shape[1]), len(count) - 1)] - count[0]
        return ApartSlots(group[0].of, group[0].offer, counts)


@dataclass(frozen=True, eq=False)
class ApartSlots:
    """Such inequalities of one offer, at most one in each slot."""

    of: str
    offer: str
    counts: Counts
    """by workload and size of a replica [slot, replicas]; nothing in slots without one"""

    def of_replicas(self, workloads: tuple[str, ...], size: int, slot: np.ndarray, replicas: np.ndarray) -> np.ndarray:
        """The coefficients of so many replicas of a size.

        Workloads that are served together count as their first: the others use nothing of their own.
        """
        table = self.counts.get(workloads[0], {}).get(size)
        if table is None:
            return np.zeros(np.broadcast_shapes(slot.shape, replicas.shape))
        coefficients: np.ndarray = table[slot, np.minimum(replicas, table.shape[1] - 1)]
        return coefficients

    def use(self, recipe: Recipe) -> np.ndarray:
        """The coefficients of a recipe's servings, never below zero [serving]."""
        most = np.zeros(recipe.servings)
        for use in recipe.uses:
            if use.offer == self.offer:
                replicas = use.replicas if self.of == "in-use" else use.firm_replicas
                own = self.of_replicas(recipe.workloads, use.gpus_per_replica, recipe.slot, replicas)
                most = np.maximum(most, own)
        return most


def boxes_of_two(box: int, fewest: int, one: Standing, other: Standing) -> int:
    """The fewest boxes that hold replicas of two deployments, or of one that both are of, each in two of them."""
    here = [each for each in (one, other) if each.replicas]
    boxes = -(-sum(each.size * each.replicas for each in here) // box)
    boxes = max(boxes, fewest if here else 0)
    if len({each.size for each in here}) > 1:
        boxes = max(boxes, boxes_apart(box, tuple((each.size, each.replicas, int(each.replicas > 1)) for each in here)))
    return boxes


@lru_cache(maxsize=128)
def boxes_of_all(box: int, fewest: int, ones: tuple[Standing, ...], others: tuple[Standing, ...]) -> np.ndarray:
    """Boxes of any two [one, other]."""
    boxes = np.array([[boxes_of_two(box, fewest, one, other) for other in others] for one in ones], dtype=float)
    boxes.setflags(write=False)
    return boxes


def made_valid_apart(first: np.ndarray, boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Counts of both workloads for which (*) holds, as large as it allows where the first has some [one], [other].

    The first has a count where it is above -inf.
    """
    other = (boxes - first[:, None])[first > -np.inf].min(axis=0)
    other = np.floor(other / PLAIN) * PLAIN
    return (boxes - other[None, :]).min(axis=1), other


def standings(sizes: Iterable[int], gpus: int) -> tuple[Standing, ...]:
    """Nobody, and replicas of each size up to so many GPUs."""
    return (NOBODY, *(Standing(s, n) for s in sorted(sizes) for n in range(1, gpus // s + 1)))


def counts_by_size(standing: tuple[Standing, ...], counts: np.ndarray) -> dict[int, np.ndarray]:
    """Counts of standings as in `standings`, by size [replicas]."""
    of_size: dict[int, list[float]] = {}
    for (size, _), count in zip(standing[1:], counts[1:].tolist(), strict=True):
        of_size.setdefault(size, [float(counts[0])]).append(count)
    return {size: np.array(count) for size, count in of_size.items()}
