"""Verbs that show or pass on saved plans: report, diff, export."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from planner.cli.common import (
    CsvOption,
    DiffFormat,
    MarkdownOption,
    PlanFile,
    ReportFormat,
    TableOption,
    XlsxOption,
    examples,
    note,
    put,
    refuse,
)
from planner.cli.emit import Outputs, emit
from planner.cli.horizon import QuarterOption, ScenarioOption
from planner.io.formatting import counted

verbs = typer.Typer()
EXPORT_EXAMPLES = examples(
    "fleetplan export plan.json --to kubernetes --out k8s",
    "fleetplan export plan.json --to kubernetes --weights pvc:weights --out k8s",
    "fleetplan export plan.json --to keda --time-zone Europe/Berlin --headroom 20% --out keda",
)


REPORT_EXAMPLES = examples(
    "fleetplan report plan.json",
    "fleetplan report plan.json --format md > plan.md",
    "fleetplan report plan.json --format focus --starts 2026-10-01 > budget.csv",
)


@verbs.command(epilog=REPORT_EXAMPLES)
def report(
    file: PlanFile,
    format: Annotated[
        ReportFormat | None,
        typer.Option(
            help="html writes a page, beside the plan; the others go to stdout. focus: a budget as rows of a bill."
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", "--out", "-o", help="The page to write; default: beside the plan. A name.json: the plan."
        ),
    ] = None,
    explanation: Annotated[
        Path | None, typer.Option(help="Show this on the page: from 'fleetplan explain PLAN.json --format json'.")
    ] = None,
    table: TableOption = None,
    starts: Annotated[
        str | None, typer.Option(metavar="DAY", help="With --format focus: first day of the quarter, as 2026-10-01.")
    ] = None,
    markdown: MarkdownOption = None,
    csv: CsvOption = None,
    xlsx: XlsxOption = None,
    quarter: QuarterOption = None,
    scenario: ScenarioOption = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every option and reason.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no notes.")] = False,
) -> None:
    """Show a saved plan as a page, text, Markdown, CSV, a workbook, JSON or a FOCUS budget. Plans nothing.

    With --quarter, one quarter of the plan of a horizon; --out q1.json makes it a plan that every other verb reads.
    """
    from planner.explanations.records import read_explanation
    from planner.verbs.opening import is_horizon, one_quarter, saved_horizon
    from planner.verbs.showing import first_day_of

    whole = quarter is None and is_horizon(file)
    budget = format is ReportFormat.focus
    given = {"--scenario": scenario is not None, "--explanation": explanation is not None, "--format focus": budget}
    for flag in (flag for flag, is_given in given.items() if whole and is_given):
        refuse(flag, "is for one quarter of the plan of a horizon", "Add --quarter 1, or a later one")
    plan = None if whole else one_quarter(file, quarter, scenario)
    explained = read_explanation(explanation, plan) if explanation and plan else None
    page = html is not None or explained is not None or format is ReportFormat.html
    page = page or (format is None and markdown is None and csv is None and xlsx is None)
    first_day = first_day_of(starts, budget)
    target = html or (file.with_suffix(".html") if page else None)
    as_json = target is not None and target.suffix.lower() == ".json"
    printed = None if budget or format in (None, ReportFormat.html) else format
    outputs = Outputs(
        printed, target if as_json else None, None if as_json else target, markdown, csv, xlsx, table, quiet
    )
    outputs.check([file, *([explanation] if explanation else [])], table_names(whole))
    if plan is None:
        from planner.reports.horizon import horizon_document

        emit(horizon_document(saved_horizon(file)), outputs)
        return
    from planner.reports.plan import plan_document

    emit(plan_document(plan, explained, verbose), outputs)
    if first_day is not None:
        from planner.reports.focus import focus_csv

        put(focus_csv(plan, first_day))


def table_names(of_a_horizon: bool) -> Sequence[str]:
    """Names of the tables that a plan may have."""
    if of_a_horizon:
        from planner.reports.tables.horizon import NAMES as OF_A_HORIZON

        return OF_A_HORIZON
    from planner.reports.tables.plan import NAMES

    return NAMES


@verbs.command(
    epilog=examples(
        "fleetplan diff last-quarter.json plan.json --format md",
        "fleetplan diff h1.json h2.json --quarter 2 --scenario fast",
    )
)
def diff(
    before: Annotated[Path, typer.Argument(metavar="A.json", help="A saved plan.", show_default=False)],
    after: Annotated[Path, typer.Argument(metavar="B.json", help="The plan to compare with it.", show_default=False)],
    quarter: QuarterOption = None,
    scenario: ScenarioOption = None,
    format: Annotated[DiffFormat, typer.Option(help="What to print on stdout.")] = DiffFormat.table,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 if they differ.")] = False,
) -> None:
    """Show what changed between two plans, and why the cost did: demand, prices, fleet and choices."""
    from planner.reports.diff import diff_document
    from planner.verbs.judging import diff as diff_as_asked

    changes = diff_as_asked(before, after, quarter=quarter, scenario=scenario)
    emit(diff_document(changes), Outputs(format))
    if exit_code and not changes.same:
        raise typer.Exit(1)


@verbs.command(epilog=EXPORT_EXAMPLES)
def export(
    file: PlanFile,
    to: Annotated[str, typer.Option(metavar="TARGET", help="kubernetes, keda, karpenter, skypilot or compose.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The folder to write; made if missing.")],
    month: Annotated[int, typer.Option(help="Month of the plan, from 1 on; a plan that grows has three.")] = 1,
    time_zone: Annotated[
        str | None, typer.Option(help="Time zone of the plan's hours, as Europe/Berlin; that of its demand file.")
    ] = None,
    image: Annotated[str | None, typer.Option(help="Container image of the engine, such as that of your registry.")] = (
        None
    ),
    headroom: Annotated[
        str,
        typer.Option(
            metavar="PERCENT",
            help="Replicas that KEDA may add under load beyond those of the plan's busiest hour, such as 20%.",
        ),
    ] = "0%",
    weights: Annotated[
        str, typer.Option(help="Source of weights: pvc:NAME, hostPath[:PATH], image[:REF], stream[:URI] or download.")
    ] = "download",
    quarter: QuarterOption = None,
    scenario: ScenarioOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an earlier export in DIR; other files are never touched.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no notes.")] = False,
) -> None:
    """Write a plan as Kubernetes, KEDA, Karpenter, SkyPilot or Compose files with a README. Applies nothing."""
    from planner.verbs.showing import export as export_as_asked

    exported = export_as_asked(
        file,
        to,
        month=month,
        time_zone=time_zone,
        image=image,
        headroom=headroom,
        weights=weights,
        quarter=quarter,
        scenario=scenario,
    )
    for remark in exported.write(out, force):
        note(remark, quiet)
    note(f"wrote {counted(len(exported.files), 'file')} into {out}: start with {out / 'README.md'}", quiet)
