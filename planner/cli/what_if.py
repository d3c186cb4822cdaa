"""The verb around changed copies of a case: budgets, any input, and grids of them."""

from __future__ import annotations

import signal
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.common import (
    CaseFile,
    PlanFormat,
    RootOption,
    Solver,
    examples,
    fraction,
    note,
    refuse,
    search_options,
)
from planner.cli.emit import Outputs, emit, shown

if TYPE_CHECKING:
    from planner.reports.document import Document
    from planner.studies.overrides import Override, Scenario
    from planner.studies.sweep import Sweep

verbs = typer.Typer()
PLAN_GAP, BUDGET_GAP = "0.1%", "1%"
"""as near as plan itself, and for the many points of a frontier, or for the many quarters of a horizon"""
SUFFIXES = (".csv", ".json", ".md", ".parquet")


class Priority(StrEnum):
    low = "low"
    normal = "normal"
    high = "high"


def _many(name: str, metavar: str, help: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(name, metavar=metavar, help=help)
    return option


Budgets = Annotated[
    list[str] | None, _many("--budget", "USD|FROM:TO:COUNT", "A monthly budget, or evenly spaced ones.")
]
Sets = Annotated[list[str] | None, _many("--set", "PATH=VALUE,...", "Other values of an input; +20% scales it.")]
Scales = Annotated[list[str] | None, _many("--scale", "demand=FROM:TO:COUNT", "Multiply demand, or one workload's.")]
Withouts = Annotated[list[str] | None, _many("--without", "NAME", "Leave out spot, api, a GPU, prefix, ...")]
Onlys = Annotated[list[str] | None, _many("--only", "LIST=A,B", "Allow only these gpus, quantizations, purchase, ...")]


@verbs.command(
    "what-if",
    epilog=examples(
        "fleetplan what-if demand.yaml --budget 20k:120k:12",
        "fleetplan what-if demand.yaml --set workloads.chat.slo.ttft_p95=1s,2s,4s --without spot",
        "fleetplan what-if growth.yaml --set 'policy.max_liability=$50k,$100k'",
    ),
)
def what_if(
    case_file: CaseFile,
    budget: Budgets = None,
    set_: Sets = None,
    scale: Scales = None,
    without: Withouts = None,
    only: Onlys = None,
    file: Annotated[Path | None, typer.Option("--file", help="A what-if file with named runs and a grid.")] = None,
    each: Annotated[bool, typer.Option("--each", help="Try one change at a time instead of all combinations.")] = False,
    shed: Annotated[Priority | None, typer.Option(help="Let requests be shed if the file does not say.")] = None,
    format: Annotated[PlanFormat, typer.Option(help="What to print on stdout.")] = PlanFormat.table,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the table: .csv, .json, .md, .parquet.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with pictures to this file.")] = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Write the frontier as a picture to this file.")] = None,
    executor: Annotated[str, typer.Option(help="Where runs are planned: in-process, processes:4, ...")] = "in-process",
    journal: Annotated[Path | None, typer.Option(help="Keep finished runs here; a second call resumes.")] = None,
    solver: Annotated[Solver, typer.Option(help="Mixed-integer solver.")] = Solver.cbc,
    gap: Annotated[
        str | None,
        typer.Option(
            help="Stop each search when proved within this; default: 0.1% as in plan, 1% for budgets and horizons."
        ),
    ] = None,
    require_gap: Annotated[str | None, typer.Option(help="Exit with 4 unless all are proved within this.")] = None,
    time_limit: Annotated[str, typer.Option(help="Stop each search after this.")] = "60s",
    root: RootOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no notes.")] = False,
) -> None:
    """Plan the case again with other budgets, prices, objectives or demand, and compare the plans in one table.

    Of a file with a horizon, a row says the expected cost, that of the worst scenario, and what to sign now.
    """
    from planner.io.named_files import NamedFiles
    from planner.reports.charts.what_if import frontier_svg
    from planner.reports.progress import progress_on_stderr
    from planner.reports.what_if import what_if_document
    from planner.studies.executing.executors import executor_from
    from planner.studies.overrides import Source
    from planner.studies.sweep import sweep

    required = fraction("--require-gap", require_gap)
    files = NamedFiles(root)
    if file is not None:
        files.check_given(file)
    runs, budgets = _asked(budget, [("set", set_), ("scale", scale), ("without", without), ("only", only)], file, each)
    runs = _shedding(runs, shed)
    _check(out, svg, budgets)
    source = Source(case_file, files)
    many = budgets or source.case.future is not None
    options = search_options(solver.value, gap or (BUDGET_GAP if many else PLAN_GAP), time_limit)
    outputs = Outputs(format, html=html, quiet=quiet)
    inputs = [case_file, *([file] if file else []), *files.paths]
    outputs.check(inputs, others={"--out": out, "--svg": svg, "--journal": journal})
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with executor_from(executor) as workers, progress_on_stderr(quiet) as show:
        swept = sweep(
            source, runs, budgets, options, workers, journal, _shape_shown(quiet), _progress(quiet, len(runs)), show
        )
    document = what_if_document(swept)
    picture = partial(frontier_svg, swept.frontier, "Share served against cost")
    emit(document, outputs, also=[(out, lambda: _table_file(swept, document, out)), (svg, picture)])
    _exit_code(swept, required, quiet)


def _asked(
    budget: list[str] | None, changes: list[tuple[str, list[str] | None]], file: Path | None, each: bool
) -> tuple[list[Scenario], list[float]]:
    from planner.studies.overrides import grid, options_of, steps
    from planner.studies.what_if_file import WhatIfFile, read_what_if

    read = read_what_if(file) if file is not None else WhatIfFile()
    inputs: list[tuple[Override, ...]] = [*read.grid]
    inputs += [tuple(options_of(kind, text)) for kind, texts in changes for text in texts or ()]
    budgets = [b for text in (*read.budgets, *(budget or ())) for b in steps(text, f"--budget {text}", log=False)]
    runs = grid(inputs, each, read.runs)
    if len(runs) == 1 and not budgets:
        refuse(
            "what-if", "nothing is changed", "Add --budget 40k, --set PATH=VALUE, --scale demand=2 or --without spot"
        )
    return runs, budgets


def _shedding(runs: list[Scenario], shed: Priority | None) -> list[Scenario]:
    from dataclasses import replace

    from planner.studies.overrides import Override

    if shed is None:
        return runs
    may = Override("shed", "shed", shed.value)
    return [replace(run, changes=(*run.changes, may), name=run.label) for run in runs]


def _check(out: Path | None, svg: Path | None, budgets: list[float]) -> None:
    if out is not None and out.suffix.lower() not in SUFFIXES:
        refuse(str(out), "the end of the name says no format", f"End it with {', '.join(SUFFIXES)}")
    if svg is not None and not budgets:
        refuse("--svg", "draws the frontier of budgets", "Add --budget 20k:120k:12")


def _shape_shown(quiet: bool):  # type: ignore[no-untyped-def]
    from planner.reports.what_if import shape_text

    return None if quiet else lambda shape: note(shape_text(shape))


def _progress(quiet: bool, runs: int):  # type: ignore[no-untyped-def]
    return lambda done, total: note(f"planned {done} of {total} runs", quiet or runs == 1)


def _table_file(found: Sweep, document: Document, out: Path | None) -> str | bytes:
    """The table in the format that the name of its file says."""
    suffix = out.suffix.lower()[1:] if out is not None else ""
    if suffix == "parquet":
        from planner.reports.what_if import what_if_parquet

        return what_if_parquet(found, str(out))
    return shown(document, suffix)


def _exit_code(found: Sweep, required: float | None, quiet: bool) -> None:
    """3 if no run has a plan; 4 if one is not proved within the required gap."""
    planned = [row for row in found.rows if row["cost_usd_per_month"] is not None]
    if not planned:
        note("no run has a plan", quiet)
        raise typer.Exit(3)
    if required is not None and any(row["gap_frac"] > required for row in planned):
        note(f"not every run is proved within {required:.3%}", quiet)
        raise typer.Exit(4)
