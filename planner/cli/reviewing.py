"""The verb around quarters: review."""

from __future__ import annotations

import signal
from collections.abc import Callable
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
    examples,
    note,
    put,
    search_options,
)
from planner.io.formatting import counted

if TYPE_CHECKING:
    from planner.review.review import Reviewed
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
    plan: Annotated[Path | None, typer.Option("--plan", help="Write the next plan to this file.")] = None,
    horizon_plan: Annotated[
        Path | None, typer.Option("--horizon-plan", help="Write the plan of next: horizon: to this file.")
    ] = None,
    format: Annotated[DiffFormat, typer.Option(help="What to print on stdout.")] = DiffFormat.table,
    solver: Annotated[Solver, typer.Option(help="Mixed-integer solver.")] = Solver.cbc,
    gap: Annotated[str, typer.Option(help="Stop each plan when proved within this share of the cost.")] = "0.1%",
    time_limit: Annotated[str | None, typer.Option(help="Stop the search of each plan after this.")] = None,
    root: RootOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no notes.")] = False,
) -> None:
    """Review a quarter: plan against actual, hindsight, the next plan, a cost bridge, commitments and decisions.

    Folders of the files to write are made where they are missing.
    """
    from planner.io.errors import input_error
    from planner.io.files import check_targets, make_folder, write_whole
    from planner.io.named_files import NamedFiles
    from planner.reports.csv import write_tables
    from planner.reports.tables.review import NAMES, review_tables
    from planner.review.review_file import read_review

    options = search_options(solver.value, gap, time_limit)
    files = NamedFiles(root)
    inputs = read_review(file, files)
    if horizon_plan is not None and not inputs.spec.next.looks_ahead:
        raise input_error("--horizon-plan", f"{file} asks for no horizon", "Write next: {horizon: 4 quarters} in it")
    for target in (out, html, markdown, plan, horizon_plan):
        if target is not None:
            make_folder(target.parent)
    targets = {"--out": out, "--html": html, "--markdown": markdown, "--plan": plan}
    targets["--horizon-plan"] = horizon_plan
    tables = [] if csv is None else [csv / f"{name}.csv" for name in NAMES]
    check_targets(targets, [file, *files.paths], {"--csv": tables})
    reviewed = _reviewed(inputs, options, quiet)
    _write(reviewed, out, html, markdown, plan, quiet)
    if horizon_plan is not None and reviewed.horizon_plan is not None:
        write_whole(horizon_plan, reviewed.horizon_plan.to_json())
        note(f"wrote {horizon_plan}", quiet)
    if csv is not None:
        note(f"wrote {counted(len(write_tables(review_tables(reviewed.review), csv)), 'table')} into {csv}", quiet)
    put(_rendered(reviewed, format))


def _reviewed(inputs: ReviewInputs, options: Options, quiet: bool) -> Reviewed:
    from planner.reports.progress import progress_on_stderr
    from planner.review.review import review_fleet

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with progress_on_stderr(quiet) as on_progress:
        return review_fleet(inputs, options, on_progress)


def _rendered(found: Reviewed, format: DiffFormat) -> str:
    from planner.reports.review import review_markdown, review_text

    if format is DiffFormat.json:
        return found.review.to_json()
    return review_markdown(found.review) if format is DiffFormat.md else review_text(found.review)


def _write(
    reviewed: Reviewed, out: Path | None, html: Path | None, markdown: Path | None, plan: Path | None, quiet: bool
) -> None:
    from planner.io.files import write_whole
    from planner.reports.html.review import review_page
    from planner.reports.review import review_markdown

    texts: tuple[tuple[Path | None, Callable[[], str]], ...] = (
        (out, lambda: reviewed.review.to_json()),
        (html, lambda: review_page(reviewed.review)),
        (markdown, lambda: review_markdown(reviewed.review)),
        (plan, lambda: reviewed.next_plan.to_json()),
    )
    for target, text in texts:
        if target is not None:
            write_whole(target, text())
            note(f"wrote {target}", quiet)
