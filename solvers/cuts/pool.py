"""The cut pool: cuts about whole boxes join the master LP when it violates them, and leave when they stay slack.

Four of five have no price soon after they join. Those left out are kept, for LPs in which more is fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from problems.beyond_commitments import ALWAYS
from problems.fleet_problem import FleetProblem
from problems.fleet_variables import Variables
from problems.model import Key
from problems.rounding_up import BOTH, Rounded
from solvers.cuts.picked import Picked
from solvers.cuts.separation import Cut, Quiet, parts_of_boxes

ABOUT_BOXES = ("own-boxes", "rounded")
"""families of such rows"""
NO_PRICE_USD = 1e-2
"""a month, up to which a row of an LP is as good as not there"""
IDLE_ROUNDS = 2
"""LPs in a row that do without such a row before it is left out"""
MOST_FORGOTTEN = 12_000
"""cuts kept, times the number of workloads: the last ones, as they are passed on to other LPs"""


@dataclass(eq=False)
class CutPool:
    """The cuts' history from LP to LP."""

    quiet: Quiet = field(default_factory=dict)
    idle: dict[Key, int] = field(default_factory=dict)
    """LPs in a row that did without a row"""
    forgotten: list[Cut] = field(default_factory=list)
    """rows that were left out"""

    def separated(
        self, fleet: FleetProblem, v: Variables, x: np.ndarray, picked: list[Picked]
    ) -> tuple[FleetProblem, bool]:
        """The fleet problem with cuts that the solution of its LP violates, and whether there are any."""
        own, rounded = parts_of_boxes(fleet, picked, v, x, self.quiet)
        return fleet.with_whole_boxes(own, rounded), bool(own or rounded)

    def without_idle(self, fleet: FleetProblem, pays: Callable[[Key], bool]) -> FleetProblem:
        """The fleet without rows that some LPs in a row did without."""
        own = {row: ("own-boxes", *row) for row in fleet.own_boxes}
        rounded = {row: ("rounded", *row) for row in fleet.rounded if row[3] != ALWAYS}
        self.idle = {key: 0 if pays(key) else self.idle.get(key, 0) + 1 for key in (*own.values(), *rounded.values())}
        gone = {key for key, n in self.idle.items() if n >= IDLE_ROUNDS}
        self.forgotten += [fleet.rounded[row] for row, key in rounded.items() if key in gone]
        del self.forgotten[: -MOST_FORGOTTEN // len(fleet.workloads)]
        return replace(
            fleet,
            own_boxes=frozenset(row for row, key in own.items() if key not in gone),
            rounded={row: cut for row, cut in fleet.rounded.items() if rounded.get(row) not in gone},
        )

    def with_forgotten(self, fleet: FleetProblem) -> FleetProblem:
        """A fleet with rows that the LP does without, but not an LP where more is decided."""
        rounded = dict(fleet.rounded)
        for row in self.forgotten:
            kind = BOTH if isinstance(row, Rounded) else row.kind
            number = next(n for n in count() if (kind, row.offer, row.slot, n) not in rounded)
            rounded[kind, row.offer, row.slot, number] = row
        return replace(fleet, rounded=rounded)
