"""The verb around a page that can be asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

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
    search_options,
)
from planner.cli.emit import Outputs, emit

verbs = typer.Typer()
TOLD_EVERY = 0.05
"""of all settings"""


class Detail(StrEnum):
    few = "few"
    normal = "normal"
    many = "many"


@verbs.command(
    epilog=examples(
        "fleetplan explore demand.yaml --out explore.html",
        "fleetplan explore demand.yaml --detail many --jobs 8 --journal explore.jsonl --out explore.html",
    )
)
def explore(
    case_file: CaseFile,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the page to this file.")] = None,
    detail: Annotated[Detail, typer.Option(help="How many settings are planned.")] = Detail.normal,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, max=512, help="Processes that plan; default: one for each core.")
    ] = None,
    executor: Annotated[
        str | None, typer.Option(help="Where settings are planned instead: in-process, dask://HOST:PORT, ...")
    ] = None,
    journal: Annotated[
        Path | None, typer.Option(help="Keep finished settings in this file; a second call resumes.")
    ] = None,
    format: Annotated[PlanFormat, typer.Option(help="What to print on stdout.")] = PlanFormat.table,
    solver: Annotated[Solver, typer.Option(help="Mixed-integer solver.")] = Solver.cbc,
    gap: Annotated[str, typer.Option(help="Stop each search once proved within this share of the cost.")] = "1%",
    require_gap: Annotated[
        str | None, typer.Option(help="Exit with code 4 unless every setting is proved within this share.")
    ] = None,
    time_limit: Annotated[str, typer.Option(help="Time limit of each search.")] = "60s",
    root: RootOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print neither progress nor notes.")] = False,
) -> None:
    """Plan hundreds of settings and write a page with sliders: demand, prices, targets, commitments, budget.

    The page is one file, works offline, and answers at once. Between the settings that were planned it shows the range
    in which the least cost is proved to lie.
    """
    from planner.io.named_files import NamedFiles
    from planner.reports.explore import explore_document, explore_page
    from planner.reports.progress import progress_on_stderr
    from planner.studies.explore import plans, unlimited
    from planner.studies.overrides import Source
    from planner.verbs.exploring import explore as explore_settings

    required = fraction("--require-gap", require_gap)
    options = search_options(solver.value, gap, time_limit)
    files = NamedFiles(root)
    source = Source(case_file, files)
    outputs = Outputs(format, quiet=quiet)
    outputs.check([case_file, *files.paths], others={"--out": out, "--journal": journal})
    where = executor or ("processes" if jobs is None else f"processes:{jobs}" if jobs > 1 else "in-process")
    begin_work()
    with progress_on_stderr(quiet) as show:
        explored = explore_settings(
            source,
            detail=detail.value,
            options=options,
            executor=where,
            journal=journal,
            on_done=_progress(quiet),
            on_progress=show,
        )
    from dataclasses import replace

    explored = replace(explored, file=str(case_file))
    emit(explore_document(explored), outputs, also=[(out, lambda: explore_page(explored))])
    if out is None:
        note("no page was written: add --out explore.html", quiet)
    if required is not None and any(_gap_frac(p.result) > required for p in plans(unlimited(explored.points))):
        note(f"not every setting is proved within {required:.3%}", quiet)
        raise typer.Exit(4)


def _gap_frac(result: dict[str, float]) -> float:
    usd = result["cost"] + result["penalty"]
    return max(0.0, 1 - result["bound"] / usd) if usd else 0.0


def _progress(quiet: bool) -> Callable[[int, int], None]:
    """How many are planned, and how long the rest takes at this pace; what a journal had counts for nothing."""
    started = time.monotonic()
    first: list[int] = []
    told: list[int] = []

    def show(done: int, total: int) -> None:
        if not first:
            first.append(done - 1)
        if told and done < total and done - told[-1] < TOLD_EVERY * total:
            return
        told.append(done)
        left_s = (time.monotonic() - started) / (done - first[0]) * (total - done)
        rest = f", about {_duration(left_s)} left" if done < total else ""
        note(f"planned {done} of {total} settings{rest}", quiet)

    return show


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
