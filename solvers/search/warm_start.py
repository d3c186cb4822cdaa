"""Warm starts: what one search leaves for the next over the same recipes; most of it holds under another budget."""

from __future__ import annotations

from dataclasses import replace

from problems.fleet_problem import FleetProblem
from solvers.heuristics.incumbent import Incumbent
from solvers.pricing.column_generation import ColumnGeneration
from solvers.search.fleet_solution import WarmStart


def warm_start_from(generation: ColumnGeneration) -> WarmStart:
    """Work that may wait ties slots together, so only its settled paths are of use elsewhere."""
    paths = tuple(path for path in generation.paths.held if path.deferral is None)
    return WarmStart(paths, generation.fleet.own_boxes, generation.fleet.rounded, tangents=tuple(generation.tangents))


def restricted_master(fleet: FleetProblem, known: WarmStart, best: Incumbent) -> FleetProblem:
    """What a search knows at its end: the ways to serve that it holds, those of its plan, and its cuts."""
    return replace(
        known.given_to(fleet), recipes=tuple({path.footprint: path for path in (*known.paths, *best.paths)}.values())
    )
