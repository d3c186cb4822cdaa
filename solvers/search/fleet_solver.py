"""Solve a fleet problem: the search of solvers/search/search.py, first without the budget.

The best plan without the budget may keep it anyway, or a bound may rule out every plan that does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from problems.fleet_problem import FleetProblem
from solvers.backends.cbc import cbc_trouble
from solvers.backends.clock import Stopped, TimeIsUp, limited_to
from solvers.backends.highs import require_highspy
from solvers.backends.scratch import prepare
from solvers.backends.trouble import MachineTrouble
from solvers.heuristics.incumbent import limits_are_kept
from solvers.pricing.budget_bounds import proved_within
from solvers.search.fleet_solution import COLD_START, FleetSolution, Options, Outcome, Progress, WarmStart, outcome_of
from solvers.search.narrower import searched

GRACE_S = 0.3
"""after its time limit that a search may take to end by itself"""
CLOSE_FRAC = 1e-4
"""gap without the budget that searches of limited work try first: cheaper than a proof that nothing keeps it"""


def solve_fleet(
    fleet: FleetProblem,
    options: Options | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    known: WarmStart = COLD_START,
) -> FleetSolution:
    """The cheapest fleet, as far as the limits of the search allow. A wish to stop and a full disk keep the best plan.

    `known` comes from searches over the same recipes under another budget. The search ends by itself when its time is
    up; what it cannot end in time is given up soon after.
    """
    require_highspy()
    prepare()
    solution, options = FleetSolution(), options or Options()
    trouble = cbc_trouble() if options.solver == "cbc" else None
    options = options if trouble is None else replace(options, solver="highs")
    notes = [] if trouble is None else [f"HiGHS was used, as CBC cannot run: {trouble}"]
    seconds = None if options.time_limit_s is None else options.time_limit_s + GRACE_S
    with limited_to(seconds) as limit:
        try:
            _within_budget(fleet, options, solution, on_progress, known)
        except TimeIsUp as stop:
            if not limit.ended(stop):
                raise
            solution.outcome = outcome_of(solution, options) if solution.best else Outcome.NOT_FOUND
        except Stopped:
            if solution.best is None:
                raise
            solution.outcome = Outcome.INTERRUPTED
        except MachineTrouble as stopped:
            if solution.best is None:
                raise
            solution.outcome, solution.cut_short = outcome_of(solution, options), str(stopped)
            notes.append(f"the search was cut short: {stopped}")
    solution.solver = options.solver
    solution.notes = list(dict.fromkeys([*notes, *solution.notes]))
    solution.withdraw_bound_refuted_by(solution.objective)
    return solution


def _within_budget(
    fleet: FleetProblem,
    options: Options,
    solution: FleetSolution,
    on_progress: Callable[[Progress], None],
    known: WarmStart,
) -> None:
    """Search without the budget first: its plan may keep the budget anyway, or its bound may rule every plan out."""
    budget = fleet.least_budget_usd
    if budget is not None:
        started = time.monotonic()
        free = known.free or FleetSolution()
        free_fleet = replace(fleet, budget_usd_per_month=None, budget_usd_on_average=None)
        may_shed = any(pool.shed_usd_per_request is not None for pool in fleet.pools.values())
        closest = options.gap_frac if options.round_limit is None else min(options.gap_frac, CLOSE_FRAC)
        for gap_frac in (options.gap_frac, closest):
            try:
                if known.free is None and (free.best is None or free.gap_frac > gap_frac):
                    closer, begun = replace(options, gap_frac=gap_frac), known if free.best is None else free.known
                    searched(free_fleet, closer, free, on_progress, begun)
            finally:
                if free.best is None or limits_are_kept(fleet, free.best):
                    vars(solution).update(vars(free))
            if solution.best is not None or free.best is None:
                return
            if not may_shed and free.bound_usd_per_month > budget * (1 + 1e-9):
                solution.outcome = Outcome.INFEASIBLE
                return
        if options.time_limit_s is not None:
            left = options.time_limit_s - (time.monotonic() - started)
            options = replace(options, time_limit_s=max(0.5, left))
        solution.raise_bound(max(free.bound_usd_per_month, proved_within(known.tangents, fleet.budget_usd_per_month)))
    searched(fleet, options, solution, on_progress, known)
