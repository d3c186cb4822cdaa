"""Replica counts of all workloads at once: the slot LP, then relax and fix, then rolling windows."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from problems.fleet import master
from problems.fleet_problem import FleetProblem
from solvers.backends.highs import WarmLp
from solvers.backends.solve import SolverName
from solvers.devices import uses
from solvers.heuristics.incumbent import Incumbent
from solvers.heuristics.relax_and_fix import one_for_each_slot
from solvers.heuristics.rolling_windows import chosen_in_windows
from solvers.heuristics.slot_lp import SlotLp

MAY_SAVE_FRAC = 0.006
"""share of the cost that rolling windows may save"""
WINDOWS_TAKE = 1.0
"""times as long as deciding slot by slot, that choosing plans of several slots together may take"""
SURELY_FRAC = 0.01
"""share of the cost by which integer plans hardly ever exceed their slot LP"""


@dataclass(frozen=True, eq=False)
class Counted:
    """A plan, and what its recipes and commitments would cost if slots could mix plans."""

    plan: Incumbent
    lp_usd: float


def counts_by_slot(
    ways: Iterable[FleetProblem], solver: SolverName, until: float, below: float = np.inf
) -> Counted | None:
    """A plan with the recipes and commitments of the cheapest of some fleets, near the cheapest there is.

    Every workload has one recipe there, and commitments to large boxes are decided. None if no LP costs less. Where
    one costs so much less that its plan will as well, no others are asked for.
    """
    best: SlotLp | None = None
    for fleet in ways:
        if time.monotonic() >= until:
            break
        model, v = master(fleet)
        lp = WarmLp(model)
        if lp.solve() is None or lp.objective > below:
            continue
        together = SlotLp(fleet, model, v, lp.prices, lp.objective)
        usd = together.priced(until)
        if usd is not None and usd < min(below, best.usd if best is not None else np.inf):
            best = together
            if usd < (1 - SURELY_FRAC) * below < np.inf:
                break
    plan = _whole(best, solver, until, (1 + MAY_SAVE_FRAC) * below) if best is not None else None
    return Counted(plan, best.usd) if plan is not None and best is not None else None


def _whole(together: SlotLp, solver: SolverName, until: float, below: float) -> Incumbent | None:
    """One plan for every slot; rolling windows follow only if they cost less than `below`."""
    began = time.monotonic()
    chosen = one_for_each_slot(together, until)
    if chosen is not None and together.lp.objective < below and uses("rolling windows"):
        now = time.monotonic()
        chosen = chosen_in_windows(together, chosen, min(until, now + WINDOWS_TAKE * (now - began)))
    return together.whole(chosen, solver) if chosen is not None else None
