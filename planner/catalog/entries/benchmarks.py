"""Shipped files as plain data, and the families of benchmarks that losses of quality are compared by."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import yaml

DEFAULT_BENCHMARK = "mmlu"
"""family that quality is held against unless a workload names another"""


def shipped_entries(name: str) -> dict[str, Any]:
    """A shipped YAML file as plain data; an empty mapping where none is shipped."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    file = resources.files("planner.data") / f"{name}.yaml"
    return yaml.load(file.read_text(encoding="utf-8"), Loader=loader)[name] if file.is_file() else {}


@cache
def benchmark_families() -> dict[str, tuple[str, ...]]:
    """The names of the benchmarks of each family."""
    return {family: tuple(entry["names"]) for family, entry in shipped_entries("benchmarks").items()}


def benchmark_family(benchmark: str) -> str:
    """The family of a benchmark; one that nobody knows is its own."""
    return next((family for family, names in benchmark_families().items() if benchmark in names), benchmark)


@cache
def nearest_families(family: str) -> tuple[str, ...]:
    """The family itself, then those that stand in for it."""
    return tuple(dict.fromkeys((family, *benchmark_families())))
