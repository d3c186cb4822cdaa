"""An LP with rows about whole boxes: those that it breaks are added, from corner to corner, until it breaks no more.

After a few more rows simplex goes on from where it was, in a tenth of the time that the LP took at first.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from problems.fleet import Fleet, Variables, boxes_are_rounded_up, own_boxes_are_whole
from problems.model import Model
from solvers.solve import WarmLp
from solvers.whole_boxes import Picked, Quiet, parts_of_boxes, picked_of


@dataclass(frozen=True, eq=False)
class Sharpened:
    """What came of it."""

    fleet: Fleet
    """with the rows"""
    picked: list[Picked] | None
    """of each recipe at the last corner; None where the rows leave nothing, or time was up before the first"""
    usd: float
    """what the LP costs there"""


def sharpened(fleet: Fleet, model: Model, v: Variables, times: int, until: float = np.inf) -> Sharpened:
    """Add rows at most so many times. The model is that of the fleet."""
    quiet: Quiet = {}
    lp = WarmLp(model)
    at_last = Sharpened(fleet, None, np.inf)
    for n in range(times + 1):
        x = lp.solve() if time.monotonic() < until else None
        if x is None:
            return at_last if time.monotonic() >= until else Sharpened(fleet, None, np.inf)
        picked = [picked_of(v, x, r, recipe) for r, recipe in enumerate(fleet.recipes)]
        at_last = Sharpened(fleet, picked, model.objective(x))
        own, rounded = parts_of_boxes(fleet, picked, v, x, quiet) if n < times else (set(), {})
        new = replace(fleet, own_boxes=frozenset(own), rounded=rounded)
        rows = [*own_boxes_are_whole(new, v), *boxes_are_rounded_up(new, v)]
        if not rows:
            break
        fleet, model = fleet.with_whole_boxes(own, rounded), model.with_rows(rows)
        lp.add_rows_of(model)
    return at_last
