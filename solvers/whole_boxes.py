"""Which rows about whole boxes an LP solution breaks: it buys parts of boxes wherever nothing forbids it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from problems.fleet import Fleet, Variables, boxes_of
from problems.recipes import Recipe
from problems.rounding_up import Rounded, by_slot, worth_saying

SHORT_OF_A_BOX = 0.01
"""boxes by which the LP must be short before a row is added"""
DRAWS = 8
"""usages that are tried for a row"""
ROWS_OF_A_SLOT = 8
"""inequalities that are said of one offer in one slot at most"""
Own = tuple[str, str, str, int]
Key = tuple[str, str, int, int]


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

    def foremost(self, values: np.ndarray) -> np.ndarray:
        """what the serving has that is picked most [slot]"""
        return values[self.path.first_of_each_slot(-self.shares)]


def parts_of_boxes(
    fleet: Fleet, picked: list[Picked], v: Variables, x: np.ndarray
) -> tuple[set[Own], dict[Key, Rounded]]:
    """Workloads that get less than their own boxes, and offers that sell less than workloads together begin."""
    own: set[Own] = set()
    rounded: dict[Key, Rounded] = {}
    slots = len(fleet.slot_hours)
    used = [p for p in picked if p.weight > 1e-9 and p.path.self_hosted]
    for g in sorted({g for p in used for g in p.path.offers if fleet.offers[g].box > 1}):
        on = [p for p in used if g in p.path.offers]
        for kind, of in (("in-use", v.bought), ("firm", v.firm)):
            has = np.array([sum(x[c] for c in of(fleet, g, t)) for t in range(slots)])
            needed: dict[str, np.ndarray] = {}
            for p in on:
                boxes = p.sum(boxes_of(fleet, p.path, g, kind))
                for w in p.path.workloads:
                    needed[w] = needed.get(w, np.zeros(slots)) + boxes
            for w, boxes in needed.items():
                short = np.flatnonzero(boxes > has + SHORT_OF_A_BOX).tolist()
                own |= {(kind, w, g, t) for t in short}
            rounded |= _rounded(fleet, used, on, g, kind, has)
    return own - fleet.own_boxes, rounded


def _rounded(
    fleet: Fleet, used: list[Picked], on: list[Picked], g: str, kind: str, has: np.ndarray
) -> dict[Key, Rounded]:
    """The row of each slot that the LP breaks most, around what each workload uses in some path of the LP.

    First in the path that it leans on most, then in paths drawn by their weights.
    """
    gpus = {id(p): p.path.gpus_on(g) if kind == "in-use" else p.path.firm_gpus_on(g) for p in on}
    paths_of: dict[str, list[Picked]] = {}
    for p in used:
        for w in p.path.workloads:
            paths_of.setdefault(w, []).append(p)
    relevant = [*on, *(p for p in used if id(p) not in gpus and len(p.path.workloads) > 1)]
    free = {
        t: n
        for t in range(len(has))
        if (n := next((n for n in range(ROWS_OF_A_SLOT) if (kind, g, t, n) not in fleet.rounded), None)) is not None
    }
    found: dict[Key, Rounded] = {}
    worst = np.full(len(has), SHORT_OF_A_BOX)
    drawn = np.random.default_rng(len(fleet.rounded))
    for draw in range(DRAWS if free else 0):
        base: dict[str, np.ndarray] = {}
        for w, paths in paths_of.items():
            weights = np.array([p.weight for p in paths])
            p = paths[
                int(np.argmax(weights)) if draw == 0 else int(drawn.choice(len(paths), p=weights / weights.sum()))
            ]
            if id(p) in gpus and p.path.workloads[0] == w:
                base[w] = p.foremost(gpus[id(p)])
        cuts = {
            (kind, g, t, n): cut
            for t, n in free.items()
            if (cut := worth_saying(kind, g, t, fleet.offers[g].box, {w: int(n[t]) for w, n in base.items()}))
        }
        short = -has
        for rows in by_slot({(kind, g, t, 0): cut for (_, _, t, _), cut in cuts.items()}, len(has)).values():
            for p in relevant:
                own = gpus[id(p)] if id(p) in gpus else np.zeros(p.path.servings)
                short = short + p.sum(rows.use(p.path.workloads, p.path.slot, own))
        for key, cut in cuts.items():
            t = key[2]
            if cut.rhs + short[t] > worst[t]:
                worst[t] = cut.rhs + short[t]
                found[key] = cut
    return found
