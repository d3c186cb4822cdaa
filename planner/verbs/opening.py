"""What verbs are given: a case or its demand file; a plan of one block or of several, or its file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from planner.case.case import Case
from planner.case.demand.load import load_case
from planner.io.named_files import NamedFiles

if TYPE_CHECKING:
    from planner.plan.blocks import AnyPlan
    from planner.plan.plan import Plan

CaseOrFile = Case | Path | str
PlanOrFile: TypeAlias = "AnyPlan | Path | str"


def case_of(source: CaseOrFile, root: Path | str | None = None) -> Case:
    """A case, or that of a demand file."""
    return source if isinstance(source, Case) else load_case(source, NamedFiles(None if root is None else Path(root)))


def opened(source: PlanOrFile, screened: bool = True) -> AnyPlan:
    """The whole of a plan; one of a file must still pass its check.

    Why the rest of the menu cannot serve is taken as read, since nothing rests on it, unless it is not `screened`.
    """
    from planner.checker import check_plan
    from planner.io.errors import input_error
    from planner.plan.saved import read_plan

    if not isinstance(source, Path | str):
        return source
    plan = read_plan(source)
    broken = check_plan(plan.as_json(), screened)
    if broken:
        raise input_error(source, f"this plan fails its check: {broken[0]}", "Plan it again")
    return plan


def block(source: PlanOrFile, quarter: int | None, scenario: str | None) -> Plan:
    """The plan of one quarter, from 1 on: the first where none is asked for."""
    from planner.plan.blocks import block_of

    return block_of(opened(source), quarter, scenario)


def months_of(plan: AnyPlan, quarter: int | None, scenario: str | None) -> dict[int, float] | None:
    """Months of a quarter's plan that belong to a scenario, and for how many of the calendar each stands.

    None where the plan is of one quarter, or the months of several scenarios are meant.
    """
    from planner.plan.horizon.horizon_view import months_in
    from planner.plan.plan import Plan

    if isinstance(plan, Plan):
        return None
    names = [scenario] if scenario is not None else [s.name for s in plan.scenarios]
    return months_in(plan, (quarter or 1) - 1, names[0]) if len(names) == 1 else None
