"""What verbs are given: a case or its demand file; a plan, that of a horizon, or the file of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

from planner.case.case import Case
from planner.case.demand.load import load_case
from planner.checker import check_plan
from planner.checker.horizon import check_horizon
from planner.io.errors import did_you_mean, input_error, shown
from planner.io.formatting import counted
from planner.io.input_files import read_json_text
from planner.io.named_files import NamedFiles
from planner.plan.horizon.horizon_plan import HorizonPlan, read_horizon
from planner.plan.horizon.horizon_view import months_in, quarters_of
from planner.plan.plan import Plan, read_plan

CaseOrFile = Case | Path | str
PlanOrFile = Plan | Path | str
AnyPlan = Plan | HorizonPlan | Path | str


def case_of(source: CaseOrFile, root: Path | str | None = None) -> Case:
    """A case, or that of a demand file."""
    return source if isinstance(source, Case) else load_case(source, NamedFiles(None if root is None else Path(root)))


def is_horizon(source: AnyPlan) -> bool:
    """Whether it is the plan of a horizon; whoever reads a file says what else is wrong with it."""
    if isinstance(source, Plan | HorizonPlan):
        return isinstance(source, HorizonPlan)
    file = Path(source)
    if file.suffix.lower() != ".json":
        return False
    try:
        data = json.loads(read_json_text(file))
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and str(data.get("format")).startswith("fleetplan-horizon/")


def saved_plan(source: PlanOrFile) -> Plan:
    """A plan; one of a file must still pass its check."""
    if isinstance(source, Plan):
        return source
    saved = read_plan(source)
    broken = check_plan(saved.as_json())
    if broken:
        raise input_error(source, f"not a plan that holds: {broken[0]}", "Plan it again")
    return saved


def saved_horizon(source: HorizonPlan | Path | str) -> HorizonPlan:
    """The plan of a horizon; one of a file must still pass its check."""
    if isinstance(source, HorizonPlan):
        return source
    saved = read_horizon(source)
    broken = check_horizon(saved.as_json())
    if broken:
        raise input_error(source, f"not a plan of a horizon that holds: {broken[0]}", "Plan it again")
    return saved


def any_plan(source: AnyPlan) -> Plan | HorizonPlan:
    """The whole of what is given, whichever of the two it is."""
    if is_horizon(source):
        assert not isinstance(source, Plan)
        return saved_horizon(source)
    assert not isinstance(source, HorizonPlan)
    return saved_plan(source)


def one_quarter(source: AnyPlan, quarter: int | None, scenario: str | None, default: int | None = None) -> Plan:
    """A plan, or of a horizon the plan of one quarter; the first one is the same in every scenario."""
    if is_horizon(source):
        assert not isinstance(source, Plan)
        chosen = default if quarter is None else quarter
        if chosen is None:
            _ask_for_a_quarter(source)
        return quarter_of(saved_horizon(source), chosen, scenario)
    assert not isinstance(source, HorizonPlan)
    for flag, given in (("--quarter", quarter), ("--scenario", scenario)):
        if given is not None:
            message = f"is for the plan of a horizon, and {name_of(source)} is a plan of one quarter"
            raise input_error(flag, message, "Leave it out")
    return saved_plan(source)


def name_of(source: AnyPlan) -> str:
    """What an error calls it."""
    return source.name if isinstance(source, Plan | HorizonPlan) else str(source)


def _ask_for_a_quarter(source: HorizonPlan | Path | str) -> NoReturn:
    remedy = "Add --quarter 1, or a later one with --scenario NAME; 'fleetplan report' shows the whole"
    raise input_error(name_of(source), "is the plan of a horizon, and this verb reads one quarter of it", remedy)


def quarter_of(horizon: HorizonPlan, quarter: int, scenario: str | None) -> Plan:
    """The plan of one quarter, from 1 on."""
    names = [s.name for s in horizon.scenarios]
    asked = blocks_asked(horizon, quarter, scenario)
    if scenario is None and quarter > 1 and len(names) > 1:
        message = f"is needed: quarter {quarter} has a plan for each"
        raise input_error("--scenario", message, f"Give one of {', '.join(names)}")
    return horizon.plan_of(*asked[0])


def blocks_asked(horizon: HorizonPlan, quarter: int | None, scenario: str | None) -> list[tuple[int, str]]:
    """Quarters, from 0 on, with a scenario each: all of them, or those that were asked for, scenario by scenario."""
    names = [s.name for s in horizon.scenarios]
    quarters = quarters_of(horizon)
    count = len(quarters)
    if quarter is not None and not 1 <= quarter <= count:
        message = f"the horizon has {counted(count, 'quarter')}"
        raise input_error("--quarter", message, f"Give one from 1 to {count}")
    if scenario is not None and scenario not in names:
        remedy = did_you_mean(scenario, names) or f"there are {', '.join(names)}"
        raise input_error("--scenario", f"there is no scenario {shown(scenario)}", remedy)
    return [(q, name) for name in names for q in quarters if scenario in (None, name) and quarter in (None, q + 1)]


def months_of(source: AnyPlan, quarter: int | None, scenario: str | None) -> dict[int, int] | None:
    """Months of a quarter's plan that belong to a scenario, and for how many of the calendar each stands.

    None where it is no horizon, or the months of several scenarios are meant.
    """
    if not is_horizon(source):
        return None
    assert not isinstance(source, Plan)
    horizon = source if isinstance(source, HorizonPlan) else read_horizon(source)
    names = [scenario] if scenario is not None else [s.name for s in horizon.scenarios]
    return months_in(horizon, (quarter or 1) - 1, names[0]) if len(names) == 1 else None
