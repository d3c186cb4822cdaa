"""What is known of power: GPUs, what stands around them, and the grids of regions."""

from __future__ import annotations

from functools import cache
from typing import Literal

from pydantic import Field

from planner.catalog.entries import Gpu, Sourced, shipped_entries
from planner.io.validation import Strict


class Law(Sourced):
    """Shares of its TDP that a GPU draws while it serves (planner/performance/power.py)."""

    waiting: float = Field(ge=0)
    reading: float = Field(ge=0)
    computing: float = Field(ge=0)
    most: float = Field(gt=0)
    points: int = Field(ge=0)
    error_frac: float = Field(ge=0)
    """mean error on groups that were left out of the fit"""


class ShareOfTdp(Sourced):
    frac_of_tdp: float = Field(ge=0)


class AnySite(Sourced):
    """What a region is taken to have where nothing is known of it."""

    pue: float = Field(ge=1)
    pue_source: str
    grid_g_per_kwh: float = Field(ge=0)
    grid_source: str


class Tdp(Sourced):
    tdp_w: float = Field(gt=0)


class Facts(Strict):
    laws: dict[str, Law]
    """by GPU, and one for all others"""
    idle: ShareOfTdp
    """of a GPU that no replica uses"""
    host: ShareOfTdp
    """of all else in a box, for each of its GPUs"""
    site: AnySite
    tdp_w: dict[str, Tdp]


class Grid(Sourced):
    """A region: what it takes for a kWh of its machines, and what a kWh of its grid emits."""

    pue: float = Field(ge=1)
    """power usage effectiveness: what the whole site draws for each W of its machines"""
    grid_g_per_kwh: float = Field(ge=0)
    """g CO2e, yearly average"""
    suspect: Literal["filled", "zero"] | None = None
    """filled: the source has the same value in unrelated regions; zero: the provider reports 0, not the grid"""


@cache
def power_facts() -> Facts:
    return Facts.model_validate(shipped_entries("power"), strict=False)


@cache
def grids() -> dict[str, Grid]:
    """By provider/region."""
    return {key: Grid.model_validate(entry, strict=False) for key, entry in shipped_entries("grids").items()}


def tdp_w_of(name: str, gpu: Gpu) -> float | None:
    """The user's own figure, else the catalog's; None: nobody published one."""
    known = power_facts().tdp_w.get(name)
    return gpu.tdp_w if gpu.tdp_w is not None else known.tdp_w if known else None


def law_of(name: str) -> Law:
    """Fitted to this GPU, else to all that were measured."""
    laws = power_facts().laws
    return laws.get(name, laws["default"])
