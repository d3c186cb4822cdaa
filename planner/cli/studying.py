"""The verb around studies of a plan: what each lever saves, from which volume on hosting pays, and other providers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.common import (
    Format,
    FormatOption,
    QuarterOption,
    ScenarioOption,
    Solver,
    begin_work,
    examples,
    note,
    refuse,
    search_options,
    with_what_is_left,
)
from planner.cli.emit import Outputs, emit
from planner.io.formatting import counted

if TYPE_CHECKING:
    from planner.plan.plan import Plan

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
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the plan with its studies to this file.")
    ] = None,
    only: Annotated[Kind | None, typer.Option(help="Run this study only.")] = None,
    keep_plans: KeepPlans = None,
    quarter: QuarterOption = None,
    scenario: ScenarioOption = None,
    format: FormatOption = Format.table,
    solver: Annotated[Solver, typer.Option(help="Mixed-integer solver.")] = Solver.cbc,
    gap: Annotated[str, typer.Option(help="Stop each step once proved within this share of the cost.")] = "0.1%",
    time_limit: Annotated[str | None, typer.Option(help='Time limit of the whole command, such as "60s".')] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print neither progress nor notes.")] = False,
) -> None:
    """Study a plan: what each lever saves, where hosting breaks even, and what other providers would charge."""
    from planner.io.files import check_targets
    from planner.plan.plan import Plan
    from planner.reports.progress import progress_on_stderr
    from planner.reports.studies import studies_document
    from planner.verbs.opening import opened
    from planner.verbs.planning import study as study_as_asked
    from solvers.backends.clock import stop_is_asked, undisturbed

    if keep_plans is not None and only not in (None, Kind.waterfall):
        refuse("--keep-plans", f"has nothing to keep with --only {only.value}", "It is for the waterfall")
    options = search_options(solver.value, gap, time_limit)
    check_targets({}, [file], {"--keep-plans": kept_plans(keep_plans)})
    check_targets({"--out": out}, [], {"--keep-plans": kept_plans(keep_plans)})  # studies are added to the plan itself
    whole = opened(file)
    if not isinstance(whole, Plan):
        check_targets({"--out": out}, [file])  # what is studied is one of them
    if keep_plans is not None:
        make_plans_folder(keep_plans)
    begin_work(options.time_limit_s)
    with progress_on_stderr(quiet) as on_progress:
        studied = study_as_asked(
            whole,
            with_what_is_left(options),
            on_progress,
            only.value if only else None,
            quarter=quarter,
            scenario=scenario,
        )
    with undisturbed():
        if keep_plans is not None:
            write_steps(studied.steps, keep_plans, quiet)
        emit(studies_document(studied.plan), Outputs(format, out, quiet=quiet))
    if stop_is_asked() or studied.interrupted:
        note("interrupted: these are the results so far", quiet)
        raise typer.Exit(130)


def write_steps(steps: Mapping[str, Plan], folder: Path, quiet: bool) -> None:
    """Write the plans of the waterfall's steps where the user wants them."""
    from planner.io.files import write_whole

    for key, step in steps.items():
        write_whole(folder / f"{key}.json", step.to_json())
    note(f"wrote {counted(len(steps), 'plan')} to {folder}", quiet)


def kept_plans(folder: Path | None) -> list[Path]:
    """The files that --keep-plans may write."""
    from planner.levers import STEP_KEYS

    return [] if folder is None else [folder / f"{key}.json" for key in STEP_KEYS]


def make_plans_folder(folder: Path) -> None:
    from planner.io.files import check_writable, make_folder

    make_folder(folder)
    check_writable(folder / "naive.json")
