"""Boxes beyond the commitments are bought by the hour: what that says about several workloads in one offer and slot.

An LP mixes plans. If one of them needs three boxes of an offer in a slot and the other one, two commitments seem to be
enough for both; but what stands idle in one plan is of no use to the other, which buys its third box by the hour.
Where at most k boxes are committed to, every whole plan keeps

    bought by the hour >= max(0, ceil(sum_w n_w / box) - k)

for the GPUs n_w that workloads use, and where at least k are, all that it buys together is at least k more than the
right side. For each workload let a function count boxes. If no counts of the workloads together add up to more,

    sum_w count[w](n_w) <= max(0, ceil(sum_w n_w / box) - k)        for all n,        (*)

then the right side may be replaced by sum_w count[w](n_w), which an LP understands. (*) is checked by adding up GPUs
workload by workload. A workload that uses more than a function knows counts as much as the most that it knows.

The boxes that each workload alone begins beyond k are such counts where k is at least one: of m workloads that begin
more than k, all together begin at most m - 1 boxes fewer than one by one, and m k - k is no less than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from problems.recipes.recipe import Recipe
from problems.rounding_up import PLAIN

Counts = dict[str, np.ndarray]
"""by workload [GPUs]; -inf where nothing is said"""
ALWAYS = -1
"""the number of rows that count what each workload alone begins: they stay, whether an LP breaks them or not"""


@dataclass(frozen=True, eq=False)
class Beyond:
    """One such inequality, for an offer and a slot."""

    kind: str
    """in-use, or firm: instances that are not spot"""
    offer: str
    slot: int
    counts: Counts
    held: int
    """the commitments, k"""
    by_hour: bool
    """only what is bought by the hour counts: there are no more commitments than those"""

    @cached_property
    def rhs(self) -> float:
        """counts of workloads that use nothing, and what is held anyway"""
        return (0 if self.by_hour else self.held) + float(sum(count[0] for count in self.counts.values()))

    @staticmethod
    def by_slot(group: list[Beyond], slots: int) -> BeyondSlots:
        """Inequalities of one offer, at most one in each slot, as arrays."""
        most: dict[str, int] = {}
        for cut in group:
            for w, count in cut.counts.items():
                most[w] = max(most.get(w, 0), len(count))
        counts = {w: np.zeros((slots, size)) for w, size in most.items()}
        for cut in group:
            for w, count in cut.counts.items():
                counts[w][cut.slot] = count[np.minimum(np.arange(most[w]), len(count) - 1)] - count[0]
        return BeyondSlots(group[0].kind, group[0].offer, counts)


@dataclass(frozen=True, eq=False)
class BeyondSlots:
    """Such inequalities of one offer, at most one in each slot."""

    kind: str
    offer: str
    counts: Counts
    """by workload [slot, GPUs]; nothing in slots without one"""

    def table(self, workloads: tuple[str, ...], gpus: np.ndarray) -> np.ndarray | None:
        """The coefficients of so many GPUs [slot, one for each of them]; None: these workloads have none.

        Workloads that are served together count as their first: the others use nothing of their own.
        """
        counts = self.counts.get(workloads[0])
        return None if counts is None else counts[:, np.minimum(gpus, counts.shape[1] - 1)]

    def use(self, recipe: Recipe) -> np.ndarray:
        """The coefficients of a recipe's servings, never below zero [serving]."""
        gpus = recipe.used_on(self.kind, self.offer)
        table = self.table(recipe.workloads, np.arange(int(gpus.max(initial=0)) + 1))
        return np.zeros(recipe.servings) if table is None else table[recipe.slot, gpus]


def boxes_beyond(box: int, held: int, most: int) -> np.ndarray:
    """Boxes beyond those held that so many GPUs fill or begin [GPUs, up to the most]."""
    return np.maximum(0.0, -(-np.arange(most + 1) // box) - held)


def each_alone(box: int, held: int, most: dict[str, int]) -> Counts:
    """Boxes beyond those held that each workload alone fills or begins, up to the most GPUs that it may use."""
    assert held > 0
    return {w: boxes_beyond(box, held, gpus) for w, gpus in most.items()}


def made_valid_beyond(counts: Counts, can: Counts, box: int, held: int) -> Counts:
    """Counts for all GPUs that workloads can use, lowered where they break (*) and raised as far as it allows.

    One workload after the other. Whoever uses more begins no fewer boxes: counts never fall.
    """
    order = list(counts)
    allowed = boxes_beyond(box, held, sum(len(own) - 1 for own in counts.values()))
    behind = _allowed_before([counts[w] for w in order], allowed)
    over = max(0.0, -float(behind[0][0]))
    counts = counts | {order[0]: counts[order[0]] - over}
    ahead = np.full(len(allowed), -np.inf)
    ahead[0] = 0.0
    raised: Counts = {}
    for w, left in zip(order, behind[1:], strict=True):
        later = np.r_[left, np.full(len(counts[w]) - 1, np.inf)]
        room = (sliding_window_view(later, len(ahead)) - ahead).min(axis=1)
        raised[w] = np.where(can[w], np.maximum(room, counts[w]), -np.inf)
        ahead = _together(ahead, raised[w])
    return {w: _never_falling(own) for w, own in raised.items()}


def _allowed_before(counts: list[np.ndarray], allowed: np.ndarray) -> list[np.ndarray]:
    """What those before a workload may count at most for their GPUs, so that all after them can [workload][GPUs]."""
    behind = [allowed]
    for own in reversed(counts):
        possible = own > -np.inf
        later = np.r_[behind[0], np.full(len(own) - 1, np.inf)]
        left = (sliding_window_view(later, len(own))[:, possible] - own[possible]).min(axis=1)
        behind.insert(0, left)
    return behind


def _together(ahead: np.ndarray, own: np.ndarray) -> np.ndarray:
    """The most that workloads count together for their GPUs [GPUs]."""
    possible = own > -np.inf
    before = np.r_[np.full(len(own) - 1, -np.inf), ahead]
    most: np.ndarray = (sliding_window_view(before, len(own))[:, ::-1][:, possible] + own[possible]).max(axis=1)
    return most


def _never_falling(count: np.ndarray) -> np.ndarray:
    return np.floor(np.maximum.accumulate(count) / PLAIN + 1e-3) * PLAIN
