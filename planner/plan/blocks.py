"""The blocks of a plan: quarters that are planned by themselves. Verbs act on the one asked for, else on the first.

An ordinary plan is a plan of one block. Of several, the first quarter is one for all scenarios together, and each later
quarter is one in each scenario.
"""

from __future__ import annotations

from planner.io.errors import did_you_mean, input_error, shown
from planner.io.formatting import counted
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.horizon.horizon_view import quarters_of
from planner.plan.plan import Plan

AnyPlan = Plan | HorizonPlan


def block_of(plan: AnyPlan, quarter: int | None = None, scenario: str | None = None) -> Plan:
    """The plan of a quarter, from 1 on, in a scenario; raises InputError where there is none, or each has one."""
    quarter = 1 if quarter is None else quarter
    asked = blocks_asked(plan, quarter, scenario)
    if isinstance(plan, Plan):
        return plan
    if scenario is None and quarter > 1 and len(plan.scenarios) > 1:
        names = ", ".join(s.name for s in plan.scenarios)
        raise input_error(
            "--scenario", f"is needed: quarter {quarter} has a plan for each scenario", f"Give one of {names}"
        )
    return plan.plan_of(*asked[0])


def part_of(plan: AnyPlan, quarter: int | None, scenario: str | None) -> AnyPlan:
    """The whole plan, or the quarter that is asked for."""
    if quarter is None and scenario is None:
        return plan
    if quarter is None and isinstance(plan, HorizonPlan):
        raise input_error(
            "--scenario",
            "applies to one quarter only",
            "Add --quarter 2 or later; the first quarter is the same in all scenarios",
        )
    return block_of(plan, quarter, scenario)


def blocks_asked(plan: AnyPlan, quarter: int | None, scenario: str | None) -> list[tuple[int, str]]:
    """Quarters, from 0 on, with a scenario each: all of them, or those that were asked for, scenario by scenario."""
    names = [s.name for s in plan.scenarios] if isinstance(plan, HorizonPlan) else [""]
    quarters = quarters_of(plan) if isinstance(plan, HorizonPlan) else range(1)
    if quarter is not None and quarter - 1 not in quarters:
        raise input_error("--quarter", f"the plan has {counted(len(quarters), 'quarter')}", _from_1_to(len(quarters)))
    if scenario is not None and isinstance(plan, Plan):
        raise input_error(
            "--scenario", f"there is no scenario {shown(scenario)}", "The plan has no scenarios: leave it out"
        )
    if scenario is not None and scenario not in names:
        remedy = did_you_mean(scenario, names) or f"The scenarios are {', '.join(names)}"
        raise input_error("--scenario", f"there is no scenario {shown(scenario)}", remedy)
    return [(q, name) for name in names for q in quarters if scenario in (None, name) and quarter in (None, q + 1)]


def _from_1_to(count: int) -> str:
    return "Leave it out" if count == 1 else f"Give one from 1 to {count}"
