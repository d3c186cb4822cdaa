"""Result files of benchmark tools, read into one kind of point."""

from __future__ import annotations

from planner.results.points import BenchPoint, Spread
from planner.results.reading import read_results

__all__ = ["BenchPoint", "Spread", "read_results"]
