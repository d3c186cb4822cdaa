"""The bound of a saved plan, worked out again: its case is planned anew, as far as it takes to reach that bound."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from planner.checker.claims import PROVED_GAP
from planner.checker.proof import BoundCheck, bound_check
from planner.pipeline import BrokenPlan, attempt, attempt_horizon
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.plan import Plan
from solvers.search.fleet_solution import Options, Outcome, Progress

ROUNDING = PROVED_GAP / 2
"""of a gap that is asked for, so that a search ends where the recorded one did"""
SHORTEST_S = 0.001
OnProgress = Callable[[Progress], None]


@dataclass(frozen=True)
class _Proof:
    """What was minimized, and what is proved of it."""

    objective_usd: float
    bound_usd: float
    gap_frac: float


def prove_again(
    plan: Plan | HorizonPlan, options: Options, on_progress: OnProgress = lambda progress: None
) -> BoundCheck:
    """Plan the case of a checked plan again, to the gap that the file records, and compare the bounds.

    At that gap, a new plan that is cheaper than the recorded one leaves its bound open; then the gap is asked for that
    decides. Raises BrokenPlan where the new bound is above the recorded plan, which passed its check.
    """
    recorded, started = _proof_of(plan), time.monotonic()
    gap_frac = recorded.gap_frac + ROUNDING
    while True:
        left_s = options.time_limit_s
        if left_s is not None:
            left_s = max(SHORTEST_S, left_s - (time.monotonic() - started))
        outcome, found = _planned_again(plan, replace(options, gap_frac=gap_frac, time_limit_s=left_s), on_progress)
        if found is None:
            return bound_check(recorded.bound_usd, None, None, outcome is Outcome.INTERRUPTED)
        if found.bound_usd > recorded.objective_usd * (1 + PROVED_GAP):
            what = f"no plan for this case costs less than ${found.bound_usd:,.2f}"
            raise BrokenPlan(f"{what}, says a search, but a plan for ${recorded.objective_usd:,.2f} passes its check")
        check = bound_check(recorded.bound_usd, found.bound_usd, found.objective_usd, outcome is Outcome.INTERRUPTED)
        decides_frac = 1 - recorded.bound_usd / found.objective_usd if found.objective_usd else 0.0
        cut_short = outcome not in (Outcome.OPTIMAL, Outcome.WITHIN_GAP)
        if check.verdict != "not-confirmed" or cut_short or decides_frac >= gap_frac - ROUNDING:
            return check
        gap_frac = max(0.0, decides_frac)


def _planned_again(
    plan: Plan | HorizonPlan, options: Options, on_progress: OnProgress
) -> tuple[Outcome, _Proof | None]:
    again = attempt_horizon if isinstance(plan, HorizonPlan) else attempt
    tried = again(plan.case, options, on_progress)
    if tried.outcome is Outcome.INFEASIBLE:
        raise BrokenPlan("there is no plan for this case, says a search, but the saved one passes its check")
    return tried.outcome, None if tried.plan is None else _proof_of(tried.plan)


def _proof_of(plan: Plan | HorizonPlan) -> _Proof:
    if isinstance(plan, HorizonPlan):
        return _Proof(plan.counted_usd, plan.bound_usd, plan.gap_frac)
    return _Proof(plan.objective_usd_per_month, plan.bound_usd_per_month, plan.gap_frac)
