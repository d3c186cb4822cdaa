"""Boxes are bought whole: what that says about several workloads in one offer and slot.

Whatever the workloads use, box x bought >= sum of GPUs in use, and box x (bought and not spot) >= sum of firm GPUs,
both with whole boxes. Weights 1 - f and f count both at once. For each workload let a step function of its GPUs in use,
n, and the firm ones among them, m, count full boxes, and for the rest a part of a box:

    step[w](n, m) = (1 - f) floor(n / box) + f floor(m / box) + part[w][n mod box, m mod box]

If no remainders of the workloads together have parts that add up to more than the boxes that they begin,

    sum_w part[w][r_w, q_w] <= (1 - f) ceil(sum_w r_w / box) + f ceil(sum_w q_w / box)        for all remainders,    (*)

then every whole plan keeps (1 - f) bought + f (bought and not spot) >= sum_w step[w](n_w, m_w). All such functions
together describe the convex hull of the whole plans of a slot: in the LP, where parts of boxes are bought, they forbid
whatever is no mixture of whole ones. Both kinds of boxes are counted at once because they must come from the same
mixture: one in which few boxes are begun may need more that are not spot. (*) is checked by adding up remainders
workload by workload, modulo the box. A workload without parts counts its full boxes only, which is always valid.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from problems.recipes.recipe import Recipe

PLAIN = 1e-5
"""parts are whole multiples of this: solvers drop what is much smaller"""
BOTH = "both"
"""the kind of rows that count boxes in use and firm ones at once"""
Parts = dict[str, np.ndarray]
"""by workload [remainder of GPUs in use, remainder of firm GPUs]"""


@dataclass(frozen=True, eq=False)
class Rounded:
    """One such inequality, for an offer and a slot."""

    offer: str
    slot: int
    box: int
    parts: Parts
    firm_frac: float = 0.0
    """weight of the boxes that are not spot, f"""

    @cached_property
    def rhs(self) -> float:
        """parts of workloads that use nothing"""
        return float(sum(part[0, 0] for part in self.parts.values()))

    @staticmethod
    def by_slot(group: list[Rounded], slots: int) -> RoundedSlots:
        """Inequalities of one offer, at most one in each slot, as arrays."""
        in_use, firm = np.zeros(slots), np.zeros(slots)
        parts = {w: np.zeros((slots, cut.box**2)) for cut in group for w in cut.parts}
        for cut in group:
            in_use[cut.slot], firm[cut.slot] = 1 - cut.firm_frac, cut.firm_frac
            for w, part in cut.parts.items():
                parts[w][cut.slot] = (part - part[0, 0]).ravel()
        return RoundedSlots(group[0].offer, group[0].box, in_use, firm, parts)


@dataclass(frozen=True, eq=False)
class RoundedSlots:
    """Such inequalities of one offer, at most one in each slot, or a sum of them at some prices."""

    offer: str
    box: int
    in_use: np.ndarray
    """weight of a full box [slot]"""
    firm: np.ndarray
    """and of one that is not spot [slot]"""
    parts: Parts
    """what remainders add, by workload [slot, remainder in use x box + firm remainder]"""

    def use(self, recipe: Recipe) -> np.ndarray:
        """The coefficients of a recipe's servings, never below zero; nothing in slots without one [serving]."""
        return self.of(recipe.workloads, recipe.slot, recipe.gpus_on(self.offer), recipe.firm_gpus_on(self.offer))

    def of(self, workloads: tuple[str, ...], slot: np.ndarray, gpus: np.ndarray, firm_gpus: np.ndarray) -> np.ndarray:
        """The coefficients of so many GPUs in use and firm ones.

        Workloads that are served together count as their first: the others use nothing of their own.
        """
        boxes, rest = np.divmod(gpus, self.box)
        firm_boxes, firm_rest = np.divmod(firm_gpus, self.box)
        use: np.ndarray = self.in_use[slot] * boxes + self.firm[slot] * firm_boxes
        part = self.parts.get(workloads[0])
        if part is not None:
            use = use + part[slot, rest * self.box + firm_rest]
        return use

    def at_least(
        self, workloads: tuple[str, ...], slot: np.ndarray, gpus: np.ndarray, firm_gpus: np.ndarray
    ) -> np.ndarray:
        """What some GPUs have at least if others may fill the same boxes: for all together it is no more than of all.

        In straight lines, less what the remainders that leave most may be below them.
        """
        lines = (self.in_use[slot] * gpus + self.firm[slot] * firm_gpus) / self.box
        least: np.ndarray = lines + np.where(gpus > 0, self._below_lines(workloads[0])[slot], 0.0)
        return least

    def _below_lines(self, workload: str) -> np.ndarray:
        """How far remainders may be below the straight lines [slot]."""
        if workload not in self._below:
            part = self.parts.get(workload, np.zeros((len(self.in_use), self.box**2)))
            rest, firm_rest = np.divmod(np.arange(self.box**2), self.box)
            below = part - (self.in_use[:, None] * rest + self.firm[:, None] * firm_rest) / self.box
            self._below[workload] = below.min(axis=1)
        return self._below[workload]

    @cached_property
    def _below(self) -> dict[str, np.ndarray]:
        return {}

    @staticmethod
    def priced(cuts: Iterable[tuple[RoundedSlots, np.ndarray]]) -> RoundedSlots:
        """All inequalities of an offer at prices by slot, added up."""
        cuts = list(cuts)
        first, slots = cuts[0][0], len(cuts[0][1])
        total = RoundedSlots(first.offer, first.box, np.zeros(slots), np.zeros(slots), {})
        for cut, usd in cuts:
            total.in_use[:] += usd * cut.in_use
            total.firm[:] += usd * cut.firm
            for w, part in cut.parts.items():
                total.parts[w] = total.parts.get(w, 0.0) + usd[:, None] * part
        return total


def boxes_begun(box: int) -> np.ndarray:
    """What is left of a box, in boxes, that remainders with this sum begin [sum modulo the box]."""
    return (-np.arange(box) % box) / box


def weighed(in_use: np.ndarray, firm: np.ndarray, firm_frac: float) -> np.ndarray:
    """Something about remainders in use and something about firm ones, both together [remainder, firm remainder]."""
    return (1 - firm_frac) * in_use[:, None] + firm_frac * firm[None, :]


@cache
def differences(box: int) -> np.ndarray:
    """The two remainders that are left of a sum without two others, each as one number [sum, others]."""
    minus = (np.arange(box)[:, None] - np.arange(box)[None, :]) % box
    return (minus[:, None, :, None] * box + minus[None, :, None, :]).reshape(box**2, box**2)


def most_together(one: np.ndarray, other: np.ndarray, box: int) -> np.ndarray:
    """The most that two have beyond their GPUs, for each sum of their remainders modulo the box [sum]."""
    return np.asarray((one[differences(box)] + other[None, :]).max(axis=1))


def made_valid(parts: Parts, can: Parts, box: int, firm_frac: float) -> Parts:
    """Parts of the remainders that workloads can leave, lowered where they break (*) and raised as far as it allows.

    One workload after the other. Whoever uses more begins no fewer boxes: parts never fall from one count to the next.
    """
    linear = weighed(np.arange(box) / box, np.arange(box) / box, firm_frac)
    begun = weighed(boxes_begun(box), boxes_begun(box), firm_frac).ravel()
    beyond = {w: (part - linear).ravel() for w, part in parts.items()}
    nobody = np.where(np.arange(box**2) == 0, 0.0, -np.inf)
    behind = [nobody]
    for own in reversed(beyond.values()):
        behind.insert(0, most_together(behind[0], own, box))
    over = max(0.0, float((behind[0] - begun).max()))
    ahead, valid = nobody, {}
    for (w, own), after in zip(beyond.items(), behind[1:], strict=True):
        lowered, over = own - over, 0.0  # the first makes room for all
        others = most_together(ahead, after, box)
        room = (begun[:, None] - others[differences(box)]).min(axis=0)
        own = np.where(can[w].ravel(), np.maximum(lowered, room), -np.inf)
        ahead = most_together(ahead, own, box)
        valid[w] = _never_falling(own.reshape(box, box) + linear, firm_frac)
    return valid


def _never_falling(part: np.ndarray, firm_frac: float) -> np.ndarray:
    """The most of any count up to each; a count a box lower has one box less. Rounded down to plain numbers."""
    for axis, a_box in ((0, 1 - firm_frac), (1, firm_frac)):
        part = np.maximum(np.maximum.accumulate(part, axis), part.max(axis, keepdims=True) - a_box)
    return np.floor(part / PLAIN + 1e-3) * PLAIN
