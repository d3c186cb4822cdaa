"""What a sweep of budgets costs beside single plans: `python benchmarks/budget_sweep.py [CASE] [LOW HIGH COUNT] [GAP]`.

Every budget of the sweep is planned by itself too, from the case on, with nothing shared, and so is the case without a
budget. All plans are assembled and checked, on both sides, and asked for the same gap. The target is a sweep of 20
points in at most 4 times the seconds of one plan.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence

from planner.candidates.enumerate import enumerate_candidates
from planner.case.case import Case
from planner.case.changes import with_limits
from planner.case.demand.load import load_case
from planner.case.slots import slots_of
from planner.optimization.assemble import assemble_plan
from planner.optimization.formulate import formulate
from planner.pipeline import checked
from planner.plan.plan import Plan
from planner.studies.frontier import Frontier
from solvers.search.fleet_solution import Options
from solvers.search.fleet_solver import solve_fleet

TARGET = 4


def main(file: str, low: float, high: float, count: int, gap_frac: float) -> None:
    case = load_case(file)
    options = Options(gap_frac=gap_frac, time_limit_s=120.0)
    budgets = [low + (high - low) * k / (count - 1) for k in range(count)]
    free_s, _ = planned(with_limits(budget_usd_per_month=None)(case), options)
    print(f"the plan without a budget: {free_s:.2f} s")
    singles = [planned(with_limits(budget_usd_per_month=budget)(case), options) for budget in budgets]
    points, shape_s, sweep_s = swept(case, budgets, options)
    print("\n  budget     alone   cost + penalty     gap    in the sweep     gap")
    for budget, (seconds, alone), point in zip(budgets, singles, points, strict=True):
        print(f"{budget:8,.0f}  {seconds:6.2f} s {told(alone)} {told(point)}")
    seconds = [single_s for single_s, _ in singles]
    mean, median = statistics.mean(seconds), statistics.median(seconds)
    print(f"\nsingle plans: mean {mean:.2f} s, median {median:.2f} s, sum {sum(seconds):.1f} s")
    print(f"sweep of {count} budgets: {sweep_s:.2f} s, of which {shape_s:.2f} s until the LP's frontier is seen")
    for where, plans in (("in the sweep", points), ("alone", [plan for _, plan in singles])):
        proved = sum(plan is not None and plan.gap_frac <= gap_frac for plan in plans)
        print(f"proved within {gap_frac:.2%} {where}: {proved} of {count}")
    print(f"the sweep / the mean single plan: {sweep_s / mean:.1f} (target: {TARGET})")
    print(f"the sweep / the median single plan: {sweep_s / median:.1f}")
    print(f"the sweep / the plan without a budget: {sweep_s / free_s:.1f}")
    print(f"the sweep / all single plans: {sweep_s / sum(seconds):.2f}")


def planned(case: Case, options: Options) -> tuple[float, Plan | None]:
    """Seconds of one plan, and the plan, if there is one; like a point of a sweep, without a range of costs."""
    started = time.monotonic()
    candidates = enumerate_candidates(case)
    fleet = formulate(case, candidates, slots_of(case))
    solution = solve_fleet(fleet, options)
    plan = None
    if solution.best is not None:
        plan = checked(assemble_plan(case, candidates, fleet, solution, options))
    return time.monotonic() - started, plan


def swept(case: Case, budgets: Sequence[float], options: Options) -> tuple[list[Plan | None], float, float]:
    """The plans of a sweep, and its seconds: until its shape is known, and in all."""
    started = time.monotonic()
    frontier = Frontier(case, options)
    frontier.shape(budgets)
    shape_s = time.monotonic() - started
    plans = [point.plan for point in frontier.plans(budgets)]
    return plans, shape_s, time.monotonic() - started


def told(plan: Plan | None) -> str:
    if plan is None:
        return f"{'no plan':>16} {'':>7}"
    return f"{plan.cost_usd_per_month + plan.penalty_usd_per_month:16,.0f} {plan.gap_frac:7.3%}"


if __name__ == "__main__":
    given = sys.argv[1:]
    main(
        given[0] if given else "examples/budgets.yaml",
        float(given[1]) if len(given) > 1 else 6_000,
        float(given[2]) if len(given) > 2 else 14_000,
        int(given[3]) if len(given) > 3 else 20,
        float(given[4]) if len(given) > 4 else 0.01,
    )
