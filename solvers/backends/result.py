"""What a solve returns: a status that is only as strong as its proof, and a checked point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from problems.model import Floats, Model

# Called with the best objective so far (None before the first) and the best proved lower bound.
Progress = Callable[[float | None, float], None]

OBJECTIVE_TOLERANCE = 1e-6


class Status(StrEnum):
    OPTIMAL = "optimal"  # proved, to the gap asked for
    FEASIBLE = "feasible"  # checked, but not proved to the gap asked for
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    NO_SOLUTION = "no solution"  # stopped before any point was found
    FAILED = "failed"  # no answer that can be trusted


class StoppedBy(StrEnum):
    TIME = "time"
    NODES = "nodes"


@dataclass(frozen=True)
class Solution:
    """The answer to a mixed-integer model. `x` is None unless it was checked against every row."""

    status: Status
    x: Floats | None
    objective: float | None
    bound: float
    stopped_by: StoppedBy | None
    seconds: float
    solver: str
    notes: tuple[str, ...] = ()

    @property
    def gap_frac(self) -> float:
        """(objective - bound) / |objective|; infinite without a point or a bound."""
        if self.objective is None:
            return inf
        distance = self.objective - self.bound
        if distance <= 0.0:
            return 0.0
        return distance / abs(self.objective) if self.objective != 0.0 else inf


@dataclass(frozen=True)
class LpSolution:
    """The answer to a linear program, with its prices.

    A row's dual is the change of the optimum per unit of its right-hand side: >= 0 on a >= row.
    """

    status: Status
    x: Floats | None
    objective: float | None
    row_duals: Floats | None
    reduced_costs: Floats | None
    seconds: float


@dataclass(frozen=True)
class Request:
    """What one run of one solver is asked to do."""

    model: Model
    gap_frac: float = 0.0
    time_limit_s: float | None = None
    node_limit: int | None = None
    warm_start: Floats | None = None
    again: bool = False
    """after a run whose answer failed a check: CBC without its preprocessing, HiGHS from another seed"""
    on_progress: Progress | None = None


@dataclass(frozen=True)
class Claim:
    """What one run of one solver says; nothing in it has been checked yet."""

    status: Status
    x: Floats | None = None
    bound: float = -inf
    stopped_by: StoppedBy | None = None
    notes: tuple[str, ...] = ()


def objective_slack(objective: float) -> float:
    """How far two objective values may differ and still count as equal."""
    return OBJECTIVE_TOLERANCE * max(1.0, abs(objective))


def cost_scale(model: Model) -> float:
    """A power of two that lifts the largest cost to about 1000.

    Solvers prune with absolute tolerances (CBC: 1e-5): with costs near 1e-4 CBC called an answer 0.5% above
    the optimum optimal. A power of two changes no digit.
    """
    largest = float(abs(model.cost).max(initial=0.0))
    scale = 1.0
    while 0.0 < largest * scale < 512.0 and scale < 2.0**60:
        scale *= 2.0
    return scale
