"""Boxes are bought whole: what that says about several workloads in one offer and slot.

Whatever the workloads use, box x bought >= sum of GPUs in use, with bought whole. For each workload let a step function
count full boxes, and for the rest of its GPUs a part of a box:

    step[w](n) = floor(n / box) + part[w][n mod box]

If no remainders of the workloads together have parts that add up to more than the boxes that they begin,

    sum_w part[w][r_w] <= ceil(sum_w r_w / box)        for all remainders r,        (*)

then every whole plan keeps bought >= sum_w step[w](n_w). All such functions together describe the convex hull of the
whole plans of a slot: in the LP, where parts of boxes are bought, they forbid whatever is no mixture of whole ones.
(*) is checked by adding up remainders workload by workload, modulo the box. A workload without parts counts its full
boxes only, which is always valid.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from problems.recipes import Recipe

PLAIN = 1e-5
"""parts are whole multiples of this: solvers drop what is much smaller"""


@dataclass(frozen=True, eq=False)
class Rounded:
    """One such inequality, for an offer and a slot."""

    kind: str
    """in-use, or firm: instances that are not spot"""
    offer: str
    slot: int
    box: int
    parts: dict[str, np.ndarray]
    """by workload [remainder, or GPUs where boxes beyond commitments are counted]"""
    beyond: int | None = None
    """commitments beyond which boxes are counted (problems/beyond_commitments.py)"""
    by_hour: bool = False
    """only what is bought by the hour counts: there are no more commitments than those"""

    @cached_property
    def rhs(self) -> float:
        """parts of workloads that use nothing, and what is held anyway"""
        held = 0 if self.by_hour else self.beyond or 0
        return held + float(sum(part[0] for part in self.parts.values()))

    def coefficients(self, workloads: tuple[str, ...], gpus: np.ndarray) -> np.ndarray:
        """What recipes of these workloads add that use so many GPUs of the offer; never below zero.

        Workloads that are served together count as their first: the others use nothing of their own.
        """
        return _as_arrays([self], self.slot + 1).table(workloads, gpus)[self.slot]


@dataclass(frozen=True, eq=False)
class RoundedSlots:
    """Such inequalities of one offer, at most one in each slot, as arrays."""

    kind: str
    offer: str
    box: int
    beyond: bool
    """whether boxes beyond commitments are counted"""
    there: np.ndarray
    """whether a slot has one [slot]"""
    parts: dict[str, np.ndarray]
    """by workload [slot, remainder or GPUs]"""

    def gpus(self, recipe: Recipe) -> np.ndarray:
        """what a recipe uses of the offer [serving]"""
        return recipe.used_on(self.kind, self.offer)

    def table(self, workloads: tuple[str, ...], gpus: np.ndarray) -> np.ndarray:
        """The coefficients of so many GPUs, and nothing in slots without an inequality [slot, one for each of them]."""
        use = np.zeros(len(gpus)) if self.beyond else gpus // self.box
        part = self.parts.get(workloads[0])
        if part is not None:
            known = np.minimum(gpus, part.shape[1] - 1) if self.beyond else gpus % self.box
            use = use + part[:, known] - part[:, :1]
        return self.there[:, None] * use

    def use(self, workloads: tuple[str, ...], slot: np.ndarray, gpus: np.ndarray) -> np.ndarray:
        """The coefficients of servings in these slots that use so many GPUs [serving]."""
        return self.table(workloads, np.arange(int(gpus.max(initial=0)) + 1))[slot, gpus]


def by_slot(cuts: dict[tuple[str, str, int, int], Rounded], slots: int) -> dict[tuple[str, str, int], RoundedSlots]:
    """Inequalities by (kind, offer, number); those of one number are all about commitments, or none is."""
    together: dict[tuple[str, str, int], list[Rounded]] = {}
    for (kind, offer, _, number), cut in cuts.items():
        together.setdefault((kind, offer, number), []).append(cut)
    return {key: _as_arrays(group, slots) for key, group in together.items()}


def _as_arrays(group: list[Rounded], slots: int) -> RoundedSlots:
    there = np.zeros(slots, dtype=bool)
    there[[cut.slot for cut in group]] = True
    most: dict[str, int] = {}
    for cut in group:
        for w, part in cut.parts.items():
            most[w] = max(most.get(w, 0), len(part))
    parts = {w: np.zeros((slots, size)) for w, size in most.items()}
    for cut in group:
        for w, part in cut.parts.items():
            parts[w][cut.slot, : len(part)] = part
            parts[w][cut.slot, len(part) :] = part[-1]
    first = group[0]
    return RoundedSlots(first.kind, first.offer, first.box, first.beyond is not None, there, parts)


def boxes_begun(box: int) -> np.ndarray:
    """What is left of a box, in boxes, that remainders with this sum begin [sum modulo the box]."""
    return (-np.arange(box) % box) / box


def most_together(beyond: Iterable[np.ndarray], box: int) -> np.ndarray:
    """The most that remainders of a given sum have beyond their GPUs, all workloads together [sum modulo the box].

    `beyond` is part[r] - r / box of each workload; -inf where a remainder cannot be.
    """
    most = np.full(box, -np.inf)
    most[0] = 0.0
    sums = np.arange(box)
    for own in beyond:
        most = np.max(most[(sums[:, None] - sums[None, :]) % box] + own[None, :], axis=1)
    return most


def made_valid(parts: dict[str, np.ndarray], can: dict[str, np.ndarray], box: int) -> dict[str, np.ndarray]:
    """Parts of the remainders that workloads can leave, lowered where they break (*) and raised as far as it allows.

    One workload after the other. Whoever uses more begins no fewer boxes: parts never fall from one count to the next.
    """
    linear, sums = np.arange(box) / box, np.arange(box)
    beyond = {w: part - linear for w, part in parts.items()}
    over = float((most_together(beyond.values(), box) - boxes_begun(box)).max())
    if over > 0:
        first = next(iter(beyond))
        beyond[first] = beyond[first] - over
    for w in beyond:
        others = most_together((own for other, own in beyond.items() if other != w), box)
        room = boxes_begun(box)[:, None] - others[(sums[:, None] - sums[None, :]) % box]
        beyond[w] = np.where(can[w], np.maximum(beyond[w], room.min(axis=0)), -np.inf)
    return {w: _never_falling(own + linear) for w, own in beyond.items()}


def _never_falling(part: np.ndarray) -> np.ndarray:
    """The most of any count up to each; a count a box lower has one box less. Rounded down to plain numbers."""
    never = np.maximum(np.maximum.accumulate(part), part.max() - 1.0)
    return np.floor(never / PLAIN + 1e-3) * PLAIN
