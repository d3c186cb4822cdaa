"""The verb around changed copies of a case: budgets, any input, and grids of them."""

from __future__ import annotations

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
    begin_work,
    examples,
    fraction,
    note,
    refuse,
    search_options,
)
from planner.cli.emit import Outputs, emit, shown

if TYPE_CHECKING:
    from planner.reports.document import Document
    from planner.studies.sweep import Sweep

verbs = typer.Typer()
SUFFIXES = (".csv", ".json", ".md", ".parquet")


class Priority(StrEnum):
    low = "low"
    normal = "normal"
    high = "high"


def _many(name: str, metavar: str, help: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(name, metavar=metavar, help=help)
    return option


Budgets = Annotated[
    list[str] | None, _many("--budget", "USD|FROM:TO:COUNT", "A monthly budget, or a range of evenly spaced ones.")
]
Sets = Annotated[list[str] | None, _many("--set", "PATH=VALUE,...", "Other values for an input; +20% scales it.")]
Scales = Annotated[
    list[str] | None,
    _many(
        "--scale",
        "demand=FROM:TO:COUNT",
        "Multiply demand, that of one workload, gpu-prices, api-prices, ttft or tpot.",
    ),
]
Withouts = Annotated[list[str] | None, _many("--without", "NAME", "Leave something out: spot, api, a GPU, prefix, ...")]
Onlys = Annotated[
    list[str] | None,
    _many("--only", "LIST=A,B", "Allow only these entries of a list: gpus, quantizations, purchase, ..."),
]


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
    shed: Annotated[
        Priority | None,
        typer.Option(help="Allow requests to be shed, with this priority, where the file does not say."),
    ] = None,
    format: Annotated[PlanFormat, typer.Option(help="What to print on stdout.")] = PlanFormat.table,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the table to this file: .csv, .json, .md or .parquet.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write the report as a page to this file.")] = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Draw the frontier to this SVG file.")] = None,
    executor: Annotated[str, typer.Option(help="Where runs are planned: in-process, processes:4, ...")] = "in-process",
    journal: Annotated[
        Path | None, typer.Option(help="Keep finished runs in this file; a second call resumes.")
    ] = None,
    solver: Annotated[Solver, typer.Option(help="Mixed-integer solver.")] = Solver.cbc,
    gap: Annotated[
        str | None,
        typer.Option(
            help=(
                "Stop each search once proved within this share of the cost; default: 0.1%, but 1% for budgets and "
                "horizons."
            )
        ),
    ] = None,
    require_gap: Annotated[
        str | None, typer.Option(help="Exit with code 4 unless every run is proved within this share.")
    ] = None,
    time_limit: Annotated[str, typer.Option(help="Time limit of each search.")] = "60s",
    root: RootOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print neither progress nor notes.")] = False,
) -> None:
    """Plan the case again with other budgets, prices, objectives or demand, and compare the plans in one table.

    For a file with a horizon, each row shows the expected cost, the cost of the worst scenario and what to sign now.
    """
    from dataclasses import replace

    from planner.io.named_files import NamedFiles
    from planner.reports.charts.what_if import frontier_svg
    from planner.reports.progress import progress_on_stderr
    from planner.reports.what_if import what_if_document
    from planner.studies.overrides import Source
    from planner.studies.what_if_file import WhatIfFile, read_what_if
    from planner.verbs.planning import what_if as what_if_as_asked
    from planner.verbs.planning import what_if_gap

    required = fraction("--require-gap", require_gap)
    files = NamedFiles(root)
    of_file = WhatIfFile()
    if file is not None:
        files.check_given(file)
        of_file = read_what_if(file)
    has_budgets = bool(budget or of_file.budgets)
    _check(out, svg, has_budgets)
    source = Source(case_file, files)
    options = search_options(solver.value, gap or "0%", time_limit)
    if gap is None:
        options = replace(options, gap_frac=what_if_gap(source.case, has_budgets))
    outputs = Outputs(format, html=html, quiet=quiet)
    inputs = [case_file, *([file] if file else []), *files.paths]
    outputs.check(inputs, others={"--out": out, "--svg": svg, "--journal": journal})
    begin_work()
    with progress_on_stderr(quiet) as show:
        swept = what_if_as_asked(
            source,
            budgets=budget or (),
            changes=set_ or (),
            scale=scale or (),
            without=without or (),
            only=only or (),
            file=of_file,
            each=each,
            shed=None if shed is None else shed.value,
            options=options,
            executor=executor,
            journal=journal,
            on_shape=_shape_shown(quiet),
            on_done=_progress(quiet),
            on_progress=show,
        )
    document = what_if_document(swept)
    picture = partial(frontier_svg, swept.frontier, "Share served against cost")
    emit(document, outputs, also=[(out, lambda: _table_file(swept, document, out)), (svg, picture)])
    _exit_code(swept, required, quiet)


def _check(out: Path | None, svg: Path | None, budgets: bool) -> None:
    if out is not None and out.suffix.lower() not in SUFFIXES:
        refuse(str(out), "unknown file extension", f"End the name with {', '.join(SUFFIXES)}")
    if svg is not None and not budgets:
        refuse("--svg", "draws the frontier of budgets", "Add --budget 20k:120k:12")


def _shape_shown(quiet: bool):  # type: ignore[no-untyped-def]
    from planner.reports.what_if import shape_text

    return None if quiet else lambda shape: note(shape_text(shape))


def _progress(quiet: bool):  # type: ignore[no-untyped-def]
    return lambda done, total: note(f"planned {done} of {total} runs", quiet or total == 1)


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
