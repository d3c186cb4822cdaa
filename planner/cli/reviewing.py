"""The verb around quarters: review."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.common import (
    CsvOption,
    DiffFormat,
    HtmlOption,
    MarkdownOption,
    RootOption,
    Solver,
    XlsxOption,
    begin_work,
    examples,
    search_options,
)
from planner.cli.emit import Content, Outputs, emit

if TYPE_CHECKING:
    from planner.review.quarter import Reviewed
    from planner.review.review_file import ReviewInputs
    from solvers.search.fleet_solution import Options

verbs = typer.Typer()


@verbs.command(epilog=examples("fleetplan review REVIEW.yaml --html review.html --out reviews/2026-q3.json"))
def review(
    file: Annotated[Path, typer.Argument(metavar="REVIEW.yaml", help="The review file.", show_default=False)],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the review as JSON to this file.")] = None,
    html: HtmlOption = None,
    markdown: MarkdownOption = None,
    csv: CsvOption = None,
    xlsx: XlsxOption = None,
    plan: Annotated[Path | None, typer.Option("--plan", help="Write the next plan to this file.")] = None,
    horizon_plan: Annotated[
        Path | None,
        typer.Option(
            "--horizon-plan", help="Write the multi-quarter plan (next: horizon: in the review file) to this file."
        ),
    ] = None,
    format: Annotated[DiffFormat, typer.Option(help="What to print on stdout.")] = DiffFormat.table,
    solver: Annotated[Solver, typer.Option(help="Mixed-integer solver.")] = Solver.cbc,
    gap: Annotated[str, typer.Option(help="Stop each search once proved within this share of the cost.")] = "0.1%",
    time_limit: Annotated[str | None, typer.Option(help="Time limit of the search for each plan.")] = None,
    root: RootOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print neither progress nor notes.")] = False,
) -> None:
    """Review a quarter: plan against actual, hindsight, the next plan, a cost bridge, commitments and decisions.

    Missing folders for the output files are created.
    """
    from planner.io.errors import input_error
    from planner.io.files import make_folder
    from planner.io.named_files import NamedFiles
    from planner.reports.review import review_document
    from planner.reports.tables.review import NAMES
    from planner.review.review_file import read_review

    options = search_options(solver.value, gap, time_limit)
    files = NamedFiles(root)
    inputs = read_review(file, files)
    if horizon_plan is not None and not inputs.spec.next.looks_ahead:
        raise input_error("--horizon-plan", f"{file} asks for no horizon", "Write next: {horizon: 4 quarters} in it")
    for target in (out, html, markdown, xlsx, plan, horizon_plan):
        if target is not None:
            make_folder(target.parent)
    outputs = Outputs(format, out, html, markdown, csv, xlsx, quiet=quiet)
    outputs.check([file, *files.paths], NAMES, {"--plan": plan, "--horizon-plan": horizon_plan})
    reviewed = _reviewed(inputs, options, quiet)
    also: list[tuple[Path | None, Content]] = [(plan, reviewed.next_plan.to_json)]
    if reviewed.horizon_plan is not None:
        also.append((horizon_plan, reviewed.horizon_plan.to_json))
    emit(review_document(reviewed.review), outputs, also=also)


def _reviewed(inputs: ReviewInputs, options: Options, quiet: bool) -> Reviewed:
    from planner.reports.progress import progress_on_stderr
    from planner.verbs.judging import review as review_as_asked

    begin_work()
    with progress_on_stderr(quiet) as on_progress:
        return review_as_asked(inputs, options, on_progress)
