"""What a sweep of budgets costs beside one plan: `python benchmarks/budget_sweep.py [CASE] [LOW HIGH COUNT] [GAP]`.

The single plan is the case at the budget in the middle of the sweep, planned by itself; every point of the sweep is
proved to the same gap. The target is a sweep of 20 points in at most 4 times the seconds of the plan.
"""

from __future__ import annotations

import sys
import time

from planner.candidates import enumerate_candidates
from planner.formulation import formulate
from planner.loading import load_case
from planner.slots import slots_of
from planner.whatif.budgets import Frontier
from planner.why.changes import with_limits
from solvers.fleet_solver import Options, solve_fleet


def main(file: str, low: float, high: float, count: int, gap_frac: float) -> None:
    case = load_case(file)
    options = Options(gap_frac=gap_frac, time_limit_s=120.0)
    budgets = [low + (high - low) * k / (count - 1) for k in range(count)]
    singles = []
    for middle in (budgets[count // 4], budgets[count // 2], budgets[3 * count // 4]):
        started = time.monotonic()
        changed = with_limits(budget_usd_per_month=middle)(case)
        fleet = formulate(changed, enumerate_candidates(changed), slots_of(changed))
        alone = solve_fleet(fleet, options)
        singles.append(time.monotonic() - started)
        print(f"one plan at ${middle:,.0f}: {singles[-1]:.1f} s, gap {alone.gap_frac:.3%}", flush=True)
    started = time.monotonic()
    frontier = Frontier(case, options)
    frontier.shape(budgets)
    print(f"the LP's frontier of {count} budgets: {time.monotonic() - started:.1f} s", flush=True)
    points = frontier.plans(budgets)
    seconds = time.monotonic() - started
    proved = sum(p.plan is not None and p.plan.gap_frac <= gap_frac for p in points)
    mean = sum(singles) / len(singles)
    print(f"sweep of {count} budgets: {seconds:.1f} s, {proved} proved within {gap_frac:.2%}")
    print(f"ratio: {seconds / mean:.1f} times the mean of the single plans (target: 4)")


if __name__ == "__main__":
    given = sys.argv[1:]
    main(
        given[0] if given else "examples/budgets.yaml",
        float(given[1]) if len(given) > 1 else 6_000,
        float(given[2]) if len(given) > 2 else 14_000,
        int(given[3]) if len(given) > 3 else 20,
        float(given[4]) if len(given) > 4 else 0.01,
    )
