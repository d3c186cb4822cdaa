"""Warm starts: what one search leaves for the next over the same recipes; most of it holds under another budget."""

from __future__ import annotations

from solvers.pricing.column_generation import ColumnGeneration
from solvers.search.fleet_solution import WarmStart


def warm_start_from(generation: ColumnGeneration) -> WarmStart:
    """Work that may wait ties slots together, so only its settled paths are of use elsewhere."""
    paths = tuple(path for path in generation.paths.held if path.deferral is None)
    return WarmStart(paths, generation.fleet.own_boxes, generation.fleet.rounded, tangents=tuple(generation.tangents))
