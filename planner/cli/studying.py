"""The verb around studies of a plan: what each lever saves, from which volume on hosting pays, and other providers."""

from __future__ import annotations

import signal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.common import (
    Format,
    FormatOption,
    Solver,
    examples,
    note,
    refuse,
    search_options,
    with_what_is_left,
)
from planner.cli.emit import Outputs, emit
from planner.cli.horizon import QuarterOption, ScenarioOption, is_horizon, saved_quarter
from planner.io.formatting import counted

if TYPE_CHECKING:
    from planner.plan.plan import Plan
    from solvers.search.fleet_solution import Options

verbs = typer.Typer()


class Kind(StrEnum):
    waterfall = "waterfall"
    break_even = "break-even"
    providers = "providers"


KeepPlans = Annotated[Path | None, typer.Option(help="Write the plan of each step of the waterfall to this folder.")]


@verbs.command(
    epilog=examples(
        "fleetplan study plan.json --out plan.json",
        "fleetplan study growth.json --quarter 2 --scenario fast --out q2.json",
    )
)
def study(
    file: Annotated[Path, typer.Argument(metavar="PLAN.json", help="A saved plan.", show_default=False)],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the plan with its studies here.")] = None,
    only: Annotated[Kind | None, typer.Option(help="One study alone.")] = None,
    keep_plans: KeepPlans = None,
    quarter: QuarterOption = None,
    scenario: ScenarioOption = None,
    format: FormatOption = Format.table,
    solver: Annotated[Solver, typer.Option(help="Mixed-integer solver.")] = Solver.cbc,
    gap: Annotated[str, typer.Option(help="Stop each step when proved within this share of the cost.")] = "0.1%",
    time_limit: Annotated[str | None, typer.Option(help="The whole command takes no longer than this.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no notes.")] = False,
) -> None:
    """Study a plan: what each lever saves, from which volume hosting pays (break-even), and other providers' bills."""
    from planner.io.files import check_targets
    from planner.reports.studies import studies_document
    from solvers.backends.deadline import interruptions_held

    if keep_plans is not None and only not in (None, Kind.waterfall):
        refuse("--keep-plans", f"has nothing to keep beside --only {only.value}", "It is for the waterfall")
    options = search_options(solver.value, gap, time_limit)
    check_targets({}, [file], {"--keep-plans": kept_plans(keep_plans)})
    check_targets({"--out": out}, [], {"--keep-plans": kept_plans(keep_plans)})  # studies are added to the plan itself
    if is_horizon(file):
        check_targets({"--out": out}, [file])  # of a horizon, what is studied is one quarter
    plan = saved_quarter(file, quarter, scenario)
    with interruptions_held() as held:
        with held.let_in():
            studied = studied_plan(plan, with_what_is_left(options), keep_plans, quiet, only)
        emit(studies_document(studied), Outputs(format, out, quiet=quiet))
    if held.by_somebody or studies_interrupted(studied):
        note("interrupted: this is what is known so far", quiet)
        raise typer.Exit(130)


def studied_plan(plan: Plan, options: Options, keep_plans: Path | None, quiet: bool, only: Kind | None = None) -> Plan:
    """The plan with its studies; the plans of the waterfall's steps go where the user wants them."""
    from planner.io.files import write_whole
    from planner.reports.progress import progress_on_stderr
    from planner.studies.study import study as study_plan

    if keep_plans is not None:
        _make_folder(keep_plans)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with progress_on_stderr(quiet) as on_progress:
        studied, plans = study_plan(plan, options, on_progress, only.value if only else None)
    for key, step in plans.items() if keep_plans is not None else ():
        assert keep_plans is not None
        write_whole(keep_plans / f"{key}.json", step.to_json())
    if keep_plans is not None:
        note(f"wrote {counted(len(plans), 'plan')} to {keep_plans}", quiet)
    return studied


def kept_plans(folder: Path | None) -> list[Path]:
    """The files that --keep-plans may write."""
    from planner.studies.waterfall_steps import KEYS

    return [] if folder is None else [folder / f"{key}.json" for key in KEYS]


def _make_folder(folder: Path) -> None:
    from planner.io.files import check_writable, make_folder

    make_folder(folder)
    check_writable(folder / "naive.json")


def studies_interrupted(plan: Plan) -> bool:
    """Whether somebody ended the studies early."""
    return plan.studies is not None and plan.studies.interrupted
