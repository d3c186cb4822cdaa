"""The spine, on one page: a case becomes a plan.

    YAML -> Case -> candidates -> recipes <-> master -> Plan -> report

A what-if is a changed copy of a case, planned again. Nothing here prints, and no plan leaves unchecked.
"""

from __future__ import annotations

from collections.abc import Callable

from planner.assembly import assemble_plan
from planner.candidates import Candidates, enumerate_candidates
from planner.case import Case
from planner.checker import check_plan
from planner.formulation import formulate
from planner.plan import Plan
from planner.slots import slots_of
from planner.why.remedies import explain_infeasibility
from solvers.fleet_solver import Options, Outcome, Progress, solve_fleet


class BrokenPlan(RuntimeError):
    """The checker refused what the optimizer made: a defect of fleetplan, never shown as a plan."""


def plan_fleet(
    case: Case,
    options: Options | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Plan:
    """The cheapest fleet for a case, verified; raises Infeasible where no fleet can do it."""
    options = options or Options()
    slots = slots_of(case)
    candidates: Candidates = enumerate_candidates(case)
    fleet = formulate(case, candidates, slots)
    solution = solve_fleet(fleet, options, on_progress)
    if solution.best is None:
        proved = solution.outcome is Outcome.INFEASIBLE
        raise explain_infeasibility(case, candidates, fleet, options, on_progress, proved)
    plan = assemble_plan(case, candidates, fleet, solution, slots, options)
    broken = check_plan(plan.as_json())
    if broken:
        raise BrokenPlan("the plan failed its own check: " + "; ".join(broken))
    return plan
