"""Which rows about whole boxes an LP solution breaks: it buys parts of boxes wherever nothing forbids it."""

from __future__ import annotations

import numpy as np

from problems.fleet import Fleet, Variables, boxes_of
from problems.recipes import Recipe
from problems.rounding_up import Rounded, worth_saying

SHORT_OF_A_BOX = 0.01
"""boxes by which the LP must be short before a row is added"""
ROWS_OF_A_SLOT = 4
"""inequalities that are said of one offer in one slot at most"""
Own = tuple[str, str, str, int]
Key = tuple[str, str, int, int]


def parts_of_boxes(
    fleet: Fleet, paths: list[Recipe], v: Variables, x: np.ndarray, weights: np.ndarray
) -> tuple[set[Own], dict[Key, Rounded]]:
    """Workloads that get less than their own boxes, and offers that sell less than workloads together begin."""
    own: set[Own] = set()
    rounded: dict[Key, Rounded] = {}
    slots = len(fleet.slot_hours)
    used = [k for k in np.flatnonzero(weights > 1e-9).tolist() if paths[k].self_hosted]
    for g in sorted({g for k in used for g in paths[k].offers if fleet.offers[g].box > 1}):
        on = [k for k in used if g in paths[k].offers]
        for kind, of in (("in-use", v.bought), ("firm", v.firm)):
            has = np.array([sum(x[c] for c in of(fleet, g, t)) for t in range(slots)])
            needed: dict[str, np.ndarray] = {}
            for k in on:
                boxes = np.zeros(slots)
                boxes[paths[k].slot] = boxes_of(fleet, paths[k], g, kind)
                for w in paths[k].workloads:
                    needed[w] = needed.get(w, np.zeros(slots)) + weights[k] * boxes
            for w, boxes in needed.items():
                short = np.flatnonzero(boxes > has + SHORT_OF_A_BOX).tolist()
                own |= {(kind, w, g, t) for t in short}
            rounded |= _rounded(fleet, paths, weights, used, on, g, kind, has)
    return own - fleet.own_boxes, rounded


def _rounded(
    fleet: Fleet,
    paths: list[Recipe],
    weights: np.ndarray,
    used: list[int],
    on: list[int],
    g: str,
    kind: str,
    has: np.ndarray,
) -> dict[Key, Rounded]:
    """Rows around what each workload uses in the path that the LP leans on most."""
    gpus = {k: paths[k].gpus_on(g) if kind == "in-use" else paths[k].firm_gpus_on(g) for k in on}
    heaviest: dict[str, int] = {}
    for k in used:
        for w in paths[k].workloads:
            if weights[k] > weights[heaviest[w]] if w in heaviest else True:
                heaviest[w] = k
    leading = [k for k in dict.fromkeys(heaviest.values()) if k in gpus and len(paths[k].workloads) == 1]
    found: dict[Key, Rounded] = {}
    relevant = [*on, *(k for k in used if k not in gpus and len(paths[k].workloads) > 1)]
    for t in range(len(has)):
        number = next((n for n in range(ROWS_OF_A_SLOT) if (kind, g, t, n) not in fleet.rounded), None)
        base = {paths[k].workloads[0]: int(gpus[k][t]) for k in leading}
        cut = worth_saying(kind, g, t, fleet.offers[g].box, base) if number is not None else None
        if cut is None or number is None:
            continue
        activity = has[t]
        for k in relevant:
            own = gpus[k][t : t + 1] if k in gpus else np.zeros(1)
            activity -= weights[k] * float(cut.coefficients(paths[k].workloads, own)[0])
        if activity < cut.rhs - SHORT_OF_A_BOX:
            found[kind, g, t, number] = cut
    return found
