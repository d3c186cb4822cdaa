"""Plans of a horizon on the command line: their own reports, and one quarter of them for every other verb."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from planner.cli.common import (
    Stopwatch,
    note,
    refuse,
    saved_plan,
    with_what_is_left,
)
from planner.cli.emit import Outputs, emit
from planner.io.formatting import counted

if TYPE_CHECKING:
    from planner.case.case import Case
    from planner.plan.horizon.horizon_plan import HorizonPlan
    from planner.plan.plan import Plan
    from solvers.search.fleet_solution import Options

QuarterOption = Annotated[
    int | None, typer.Option("--quarter", min=1, max=12, help="Of the plan of a horizon: this quarter, from 1 on.")
]
ScenarioOption = Annotated[
    str | None, typer.Option("--scenario", help="Of the plan of a horizon: what is planned for this scenario.")
]


def is_horizon(file: Path) -> bool:
    """Whether a file is the saved plan of a horizon; whoever reads it says what else is wrong with it."""
    from planner.io.input_files import read_json_text

    if file.suffix.lower() != ".json":
        return False
    try:
        data = json.loads(read_json_text(file))
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and str(data.get("format")).startswith("fleetplan-horizon/")


def saved_horizon(file: Path) -> HorizonPlan:
    """A plan of a horizon that still passes its check."""
    from planner.checker.horizon import check_horizon
    from planner.plan.horizon.horizon_plan import read_horizon

    saved = read_horizon(file)
    broken = check_horizon(saved.as_json())
    if broken:
        refuse(str(file), f"not a plan of a horizon that holds: {broken[0]}", "Plan it again")
    return saved


def saved_quarter(file: Path, quarter: int | None, scenario: str | None, default: int | None = None) -> Plan:
    """A saved plan, or of a saved horizon the plan of one quarter; the first one is the same in every scenario."""
    if not is_horizon(file):
        for flag, given in (("--quarter", quarter), ("--scenario", scenario)):
            if given is not None:
                refuse(flag, f"is for the plan of a horizon, and {file} is a plan of one quarter", "Leave it out")
        return saved_plan(file)
    chosen = default if quarter is None else quarter
    if chosen is None:
        _ask_for_a_quarter(file)
    return quarter_of(saved_horizon(file), chosen, scenario)


def _ask_for_a_quarter(file: Path) -> NoReturn:
    remedy = "Add --quarter 1, or a later one with --scenario NAME; 'fleetplan report' shows the whole"
    refuse(str(file), "is the plan of a horizon, and this verb reads one quarter of it", remedy)


def quarter_of(horizon: HorizonPlan, quarter: int, scenario: str | None) -> Plan:
    """The plan of one quarter, from 1 on."""
    names = [s.name for s in horizon.scenarios]
    asked = blocks_asked(horizon, quarter, scenario)
    if scenario is None and quarter > 1 and len(names) > 1:
        refuse("--scenario", f"is needed: quarter {quarter} has a plan for each", f"Give one of {', '.join(names)}")
    return horizon.plan_of(*asked[0])


def blocks_asked(horizon: HorizonPlan, quarter: int | None, scenario: str | None) -> list[tuple[int, str]]:
    """Quarters, from 0 on, with a scenario each: all of them, or those that were asked for, scenario by scenario."""
    from planner.io.errors import did_you_mean, shown
    from planner.plan.horizon.horizon_view import quarters_of

    names = [s.name for s in horizon.scenarios]
    quarters = quarters_of(horizon)
    count = len(quarters)
    if quarter is not None and quarter > count:
        refuse("--quarter", f"the horizon has {counted(count, 'quarter')}", f"Give one from 1 to {count}")
    if scenario is not None and scenario not in names:
        remedy = did_you_mean(scenario, names) or f"there are {', '.join(names)}"
        refuse("--scenario", f"there is no scenario {shown(scenario)}", remedy)
    return [(q, name) for name in names for q in quarters if scenario in (None, name) and quarter in (None, q + 1)]


def months_of(file: Path, quarter: int | None, scenario: str | None) -> dict[int, int] | None:
    """Months of a quarter's plan that belong to a scenario, and for how many of the calendar each stands.

    None where the file is no horizon, or all months are meant.
    """
    from planner.plan.horizon.horizon_plan import read_horizon
    from planner.plan.horizon.horizon_view import months_in

    if scenario is None or not is_horizon(file):
        return None
    return months_in(read_horizon(file), (quarter or 1) - 1, scenario)


def planned_horizon(case: Case, options: Options, quiet: bool) -> HorizonPlan:
    """The plan of a horizon, within what is left of the time limit."""
    from planner.pipeline import plan_horizon
    from planner.reports.progress import progress_on_stderr

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with progress_on_stderr(quiet) as on_progress:
        return plan_horizon(case, with_what_is_left(options), on_progress)


def refuse_for_a_horizon(file: Path, asked: dict[str, bool]) -> None:
    """Refuse options that only plans of one quarter have."""
    for flag in (flag for flag, given in asked.items() if given):
        message = f"is for plans of one quarter, and {file} has a horizon or scenarios"
        remedy = f"Plan with --out h.json, then: fleetplan report h.json --quarter 1 --out q1.json, and {flag[2:]} that"
        refuse(flag, message, remedy)


def plan_of_horizon(case: Case, options: Options, outputs: Outputs, required_gap: float | None) -> None:
    """`fleetplan plan` of a demand file with a horizon or scenarios."""
    from planner.reports.horizon import horizon_document
    from solvers.backends.deadline import interruptions_held

    quiet = outputs.quiet
    with interruptions_held() as held:
        with held.let_in():
            horizon = planned_horizon(case, options, quiet)
        emit(horizon_document(horizon), outputs, Stopwatch.seconds())
    if horizon.interrupted or held.by_somebody:
        from planner.reports.phrases import best_so_far

        note(best_so_far(horizon), quiet)
        raise typer.Exit(130)
    if required_gap is not None and horizon.status != "optimal" and horizon.gap_frac > required_gap:
        note(f"proved within {horizon.gap_frac:.3%} only; {required_gap:.3%} was required", quiet)
        raise typer.Exit(4)
