"""Plans of a horizon on the command line: their own reports, and options that name one quarter of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.common import (
    PlanFormat,
    Stopwatch,
    note,
    put,
    refuse,
)
from planner.io.formatting import counted

if TYPE_CHECKING:
    from planner.plan.horizon.horizon_plan import HorizonPlan

QuarterOption = Annotated[
    int | None, typer.Option("--quarter", min=1, max=12, help="Of the plan of a horizon: this quarter, from 1 on.")
]
ScenarioOption = Annotated[
    str | None, typer.Option("--scenario", help="Of the plan of a horizon: what is planned for this scenario.")
]


def refuse_for_a_horizon(file: Path, asked: dict[str, bool]) -> None:
    """Refuse options that only plans of one quarter have."""
    for flag in (flag for flag, given in asked.items() if given):
        message = f"is for plans of one quarter, and {file} has a horizon or scenarios"
        remedy = f"Plan with --out h.json, then: fleetplan report h.json --quarter 1 --out q1.json, and {flag[2:]} that"
        refuse(flag, message, remedy)


def put_horizon(horizon: HorizonPlan, format: PlanFormat, table: str, seconds: float | None = None) -> None:
    """Print the plan of a horizon in a format."""
    from planner.reports.horizon.text import horizon_csv, horizon_markdown, horizon_text

    if format is PlanFormat.json:
        put(horizon.to_json())
    elif format is PlanFormat.md:
        put(horizon_markdown(horizon))
    elif format is PlanFormat.csv:
        put(horizon_csv(horizon, table))
    else:
        put(horizon_text(horizon, seconds))


def checked_table(table: str) -> str:
    """The table to print: what to sign now, unless another one is asked for."""
    from planner.io.errors import did_you_mean, shown
    from planner.reports.horizon.tables import NAMES

    name = "sign_now" if table == "fleet" else table
    if name not in NAMES:
        remedy = did_you_mean(name, NAMES) or f"there are {', '.join(NAMES)}"
        refuse("--table", f"the plan of a horizon has no table {shown(name)}", remedy)
    return name


def csv_files(folder: Path | None) -> list[Path]:
    """The files that --csv may write."""
    from planner.reports.horizon.tables import NAMES

    return [] if folder is None else [folder / f"{name}.csv" for name in NAMES]


def write_horizon(
    horizon: HorizonPlan,
    quiet: bool,
    out: Path | None = None,
    html: Path | None = None,
    markdown: Path | None = None,
    csv: Path | None = None,
    xlsx: Path | None = None,
) -> None:
    """Write the files that were asked for."""
    from planner.io.files import write_whole
    from planner.reports.horizon.tables import about, tables_of
    from planner.reports.horizon.text import horizon_markdown

    written: list[tuple[Path, str | bytes]] = []
    if out is not None:
        written.append((out, horizon.to_json()))
    if html is not None:
        from planner.reports.html.horizon import horizon_page

        written.append((html, horizon_page(horizon)))
    if markdown is not None:
        written.append((markdown, horizon_markdown(horizon)))
    if xlsx is not None:
        from planner.reports.tables.xlsx import tables_xlsx

        written.append((xlsx, tables_xlsx((about(horizon), *tables_of(horizon)))))
    for target, content in written:
        write_whole(target, content)
        note(f"wrote {target}", quiet)
    if csv is not None:
        from planner.reports.tables.csv import write_tables

        note(f"wrote {counted(len(write_tables(tables_of(horizon), csv)), 'table')} into {csv}", quiet)


def report_of_horizon(
    file: Path,
    format: PlanFormat | None,
    table: str,
    html: Path | None,
    markdown: Path | None,
    csv: Path | None,
    xlsx: Path | None,
    quiet: bool,
) -> None:
    """`fleetplan report` of a whole horizon; a page whose name ends in .json is the plan itself."""
    from planner.verbs.opening import saved_horizon

    horizon = saved_horizon(file)
    table = checked_table(table)
    as_json = html is not None and html.suffix.lower() == ".json"
    write_horizon(horizon, quiet, html if as_json else None, None if as_json else html, markdown, csv, xlsx)
    if format is not None:
        put_horizon(horizon, format, table)


def put_planned(
    horizon: HorizonPlan,
    format: PlanFormat,
    table: str,
    out: Path | None,
    html: Path | None,
    markdown: Path | None,
    csv: Path | None,
    xlsx: Path | None,
    quiet: bool,
) -> None:
    """What `fleetplan plan` writes and prints of a horizon."""
    took = Stopwatch.seconds()
    write_horizon(horizon, quiet, out, html, markdown, csv, xlsx)
    put_horizon(horizon, format, table, took)


def exit_of_horizon(horizon: HorizonPlan, interrupted: bool, required_gap: float | None, quiet: bool) -> None:
    """Exit as the work ended."""
    if interrupted:
        from planner.reports.phrases import best_so_far

        note(best_so_far(horizon), quiet)
        raise typer.Exit(130)
    if required_gap is not None and horizon.status != "optimal" and horizon.gap_frac > required_gap:
        note(f"proved within {horizon.gap_frac:.3%} only; {required_gap:.3%} was required", quiet)
        raise typer.Exit(4)
