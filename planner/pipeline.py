"""The spine, on one page: a case becomes a plan.

    YAML -> Case -> candidates -> recipes <-> master -> Plan -> report

A what-if is a changed copy of a case, planned again. Nothing here prints, and no plan leaves unchecked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.assembly import assemble_plan
from planner.candidates import Candidates, enumerate_candidates
from planner.case import Case
from planner.checker import check_plan
from planner.formulation import formulate
from planner.plan import Plan
from planner.slots import slots_of
from planner.why.remedies import explain_infeasibility
from problems.fleet_data import Fleet
from solvers.fleet_solution import Options, Outcome, Progress
from solvers.fleet_solver import solve_fleet


class BrokenPlan(RuntimeError):
    """The checker refused what the optimizer made: a defect of fleetplan, never shown as a plan."""


def plan_fleet(
    case: Case,
    options: Options | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Plan:
    """The cheapest fleet for a case, verified; raises Infeasible where no fleet can do it."""
    options = options or Options()
    tried = attempt(case, options, on_progress)
    if tried.plan is None:
        proved = tried.outcome is Outcome.INFEASIBLE
        raise explain_infeasibility(case, tried.candidates, tried.fleet, options, on_progress, proved)
    return tried.plan


@dataclass(frozen=True, eq=False)
class Attempt:
    """What came of planning a case."""

    outcome: Outcome
    plan: Plan | None
    """verified; None where there is none, or none was found"""
    candidates: Candidates
    fleet: Fleet


def attempt(
    case: Case,
    options: Options,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Attempt:
    """The same where "there is none" is an answer like any other."""
    slots = slots_of(case)
    candidates = enumerate_candidates(case)
    fleet = formulate(case, candidates, slots)
    solution = solve_fleet(fleet, options, on_progress)
    if solution.best is None:
        return Attempt(solution.outcome, None, candidates, fleet)
    plan = assemble_plan(case, candidates, fleet, solution, slots, options)
    verified(plan)
    return Attempt(solution.outcome, plan, candidates, fleet)


def verified(plan: Plan) -> Plan:
    """The plan, once the checker has nothing against it."""
    broken = check_plan(plan.as_json())
    if broken:
        raise BrokenPlan("the plan failed its own check: " + "; ".join(broken))
    return plan
