"""Boxes are bought whole: what that says about several workloads in one offer and slot.

box x bought >= sum of GPUs in use, with bought whole and one recipe picked per workload, implies a stronger inequality
by mixed-integer rounding around any usage n*[w] that the workloads might have. With beta = sum_w n*[w] / box, f its
fractional part and C(a) = floor(a) + min(frac(a) / f, 1):

    bought - sum_r D[r] pick[r] >= ceil(beta) - sum_w C(n*[w] / box)
    D[r] = sum_{w in r} C(n*[w] / box) - C((sum_{w in r} n*[w] - n[r]) / box)

It says nothing new of whole plans. In the LP, where parts of boxes are bought, it forbids most of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from problems.recipes import Recipe

PLAIN = (0.02, 0.98)
"""fractional parts outside these make coefficients that solvers cannot be trusted with"""


@dataclass(frozen=True, eq=False)
class Rounded:
    """One such inequality, for an offer and a slot."""

    kind: str
    """in-use, or firm: instances that are not spot"""
    offer: str
    slot: int
    box: int
    base: dict[str, int]
    """GPUs that workloads might use, n*; the others use none"""

    @property
    def part(self) -> float:
        """f"""
        return sum(self.base.values()) / self.box % 1.0

    @property
    def rhs(self) -> float:
        beta = sum(self.base.values()) / self.box
        each = [float(stepped(np.array(n / self.box), self.part)) for n in self.base.values()]
        return float(np.ceil(beta)) - sum(each)

    def coefficients(self, workloads: tuple[str, ...], gpus: np.ndarray) -> np.ndarray:
        """D of recipes of these workloads that use so many GPUs of the offer; never below zero."""
        return rounded_use(gpus, [np.array(self.base.get(w, 0)) for w in workloads], self.box, np.array(self.part))


@dataclass(frozen=True, eq=False)
class RoundedSlots:
    """Such inequalities of one offer, at most one in each slot, as arrays."""

    kind: str
    offer: str
    box: int
    there: np.ndarray
    """whether a slot has one [slot]"""
    part: np.ndarray
    """[slot]"""
    base: dict[str, np.ndarray]
    """by workload [slot]"""

    def gpus(self, recipe: Recipe) -> np.ndarray:
        """what a recipe uses of the offer [serving]"""
        return recipe.gpus_on(self.offer) if self.kind == "in-use" else recipe.firm_gpus_on(self.offer)

    def use(self, workloads: tuple[str, ...], slot: np.ndarray, gpus: np.ndarray) -> np.ndarray:
        """D, and nothing in slots without an inequality."""
        none = np.zeros(len(self.part))
        base = [self.base.get(w, none)[slot] for w in workloads]
        return self.there[slot] * rounded_use(gpus, base, self.box, self.part[slot])


def by_slot(cuts: dict[tuple[str, str, int, int], Rounded], slots: int) -> dict[tuple[str, str, int], RoundedSlots]:
    """Inequalities by (kind, offer, number)."""
    found: dict[tuple[str, str, int], RoundedSlots] = {}
    for (kind, offer, t, number), cut in cuts.items():
        if (kind, offer, number) not in found:
            nowhere = np.zeros(slots, dtype=bool)
            found[kind, offer, number] = RoundedSlots(kind, offer, cut.box, nowhere, np.ones(slots), {})
        group = found[kind, offer, number]
        group.there[t], group.part[t] = True, cut.part
        for w, n in cut.base.items():
            group.base.setdefault(w, np.zeros(slots))[t] = n
    return found


def stepped(a: np.ndarray, part: np.ndarray | float) -> np.ndarray:
    """C(a): stairs with a ramp of width f before each step."""
    whole = np.floor(a + 1e-9)
    return whole + np.minimum(np.maximum(a - whole, 0.0) / part, 1.0)


def rounded_use(gpus: np.ndarray, base: list[np.ndarray], box: int, part: np.ndarray) -> np.ndarray:
    """D for usage and bases that may differ from entry to entry."""
    together = sum(base, np.zeros(()))
    return np.maximum(sum(stepped(n / box, part) for n in base) - stepped((together - gpus) / box, part), 0.0)


def worth_saying(kind: str, offer: str, slot: int, box: int, base: dict[str, int]) -> Rounded | None:
    """None where the usage fills its boxes, or nearly so."""
    found = Rounded(kind, offer, slot, box, {w: n for w, n in sorted(base.items()) if n})
    return found if PLAIN[0] <= found.part <= PLAIN[1] else None
