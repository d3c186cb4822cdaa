"""What one search leaves for the next one over the same recipes: under another budget most of it holds again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from problems.beyond_commitments import Beyond
from problems.fleet_data import Fleet
from problems.recipes import Recipe
from problems.rounding_up import Rounded
from solvers.column_generation import ColumnGeneration
from solvers.incumbent import Incumbent
from solvers.tangents import Tangent

if TYPE_CHECKING:
    from solvers.fleet_solution import FleetSolution


@dataclass(frozen=True, eq=False)
class Known:
    """Columns to begin with, rows that hold for every whole plan, a plan, and what is proved without the budget.

    None of it can make a bound wrong: paths are ways to serve that exist, and rows about whole boxes say nothing new of
    whole plans.
    """

    paths: tuple[Recipe, ...] = ()
    own_boxes: frozenset[tuple[str, str, str, int]] = frozenset()
    rounded: dict[tuple[str, str, int, int], Rounded | Beyond] = field(default_factory=dict)
    start: Incumbent | None = None
    """a plan that keeps the limits; one that does not is passed over"""
    free: FleetSolution | None = None
    """the same fleet without a budget, searched to the same gap: it is not searched again"""
    tangents: tuple[Tangent, ...] = ()
    """bounds at every budget"""

    def given_to(self, fleet: Fleet) -> Fleet:
        """The fleet with the rows that are known; limits and recipes are its own."""
        return fleet.with_whole_boxes(self.own_boxes, self.rounded)


NOTHING = Known()


def known_from(generation: ColumnGeneration) -> Known:
    """Work that may wait ties slots together, so only its settled paths are of use elsewhere."""
    paths = tuple(path for path in generation.paths.held if path.deferral is None)
    return Known(paths, generation.fleet.own_boxes, generation.fleet.rounded, tangents=tuple(generation.tangents))
