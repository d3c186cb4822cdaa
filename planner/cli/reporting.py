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
    QuarterOption,
    ReportFormat,
    ScenarioOption,
    SummaryOption,
    TableOption,
    XlsxOption,
    examples,
    note,
    put,
)
from planner.cli.emit import Outputs, emit
from planner.io.formatting import counted

verbs = typer.Typer()
TARGETS = (
    "kubernetes, keda, karpenter, gateway, kserve, aibrix, dynamo, llm-d, production-stack, ray, skypilot or compose"
)
EXPORT_EXAMPLES = examples(
    "fleetplan export plan.json --to kubernetes --out k8s",
    "fleetplan export plan.json --to kubernetes --weights pvc:weights --out k8s",
    "fleetplan export plan.json --to keda --time-zone Europe/Berlin --headroom 20% --out keda",
    "fleetplan export plan.json --to gateway --namespace llm --out gateway",
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
            help=(
                "html writes a page next to the plan; the others go to stdout. focus is a budget in the rows of a "
                "FOCUS bill."
            )
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            "--out",
            "-o",
            help="The page to write; default: next to the plan. A name ending in .json writes the plan.",
        ),
    ] = None,
    explanation: Annotated[
        Path | None,
        typer.Option(
            help="Show this explanation on the page: the output of 'fleetplan explain PLAN.json --format json'."
        ),
    ] = None,
    table: TableOption = None,
    starts: Annotated[
        str | None,
        typer.Option(metavar="DAY", help="With --format focus: first day of the quarter, such as 2026-10-01."),
    ] = None,
    markdown: MarkdownOption = None,
    csv: CsvOption = None,
    xlsx: XlsxOption = None,
    summary: SummaryOption = None,
    quarter: QuarterOption = None,
    scenario: ScenarioOption = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show all options and reasons.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no notes.")] = False,
) -> None:
    """Show a saved plan as a page, text, Markdown, CSV, a workbook, JSON or a FOCUS budget. Nothing is planned again.

    A multi-quarter plan is shown as a whole, or only the quarter that --quarter names. A budget and an explanation are
    for one quarter, by default the first. --out q1.json writes that quarter as a plan of its own.
    """
    from planner.explanations.records import read_explanation
    from planner.plan.blocks import block_of, part_of
    from planner.plan.plan import Plan
    from planner.reports.plan import plan_document
    from planner.verbs.opening import opened
    from planner.verbs.showing import first_day_of

    whole = opened(file)
    budget = format is ReportFormat.focus
    plan = (block_of if explanation is not None or budget else part_of)(whole, quarter, scenario)
    explained = read_explanation(explanation, plan) if explanation and isinstance(plan, Plan) else None
    page = html is not None or explained is not None or format is ReportFormat.html
    page = page or (format is None and all(file is None for file in (markdown, csv, xlsx, summary)))
    first_day = first_day_of(starts, budget)
    target = html or (file.with_suffix(".html") if page else None)
    as_json = target is not None and target.suffix.lower() == ".json"
    printed = None if budget or format in (None, ReportFormat.html) else format
    outputs = Outputs(
        printed, target if as_json else None, None if as_json else target, markdown, csv, xlsx, summary, table, quiet
    )
    outputs.check([file, *([explanation] if explanation else [])], table_names(not isinstance(plan, Plan)))
    emit(plan_document(plan, explained, verbose), outputs)
    if first_day is not None and isinstance(plan, Plan):
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
    """Show what changed between two plans, and why the cost changed: demand, prices, fleet and choices."""
    from planner.reports.diff import diff_document
    from planner.verbs.judging import diff as diff_as_asked

    changes = diff_as_asked(before, after, quarter=quarter, scenario=scenario)
    emit(diff_document(changes), Outputs(format))
    if exit_code and not changes.same:
        raise typer.Exit(1)


@verbs.command(epilog=EXPORT_EXAMPLES)
def export(
    file: PlanFile,
    to: Annotated[str, typer.Option(metavar="TARGET", help=f"The system that runs the fleet: {TARGETS}.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="The folder to write to; created if missing.")
    ],
    month: Annotated[int, typer.Option(help="Month of the plan, starting at 1; a plan with growth has three.")] = 1,
    time_zone: Annotated[
        str | None,
        typer.Option(help="Time zone of the plan's hours, such as Europe/Berlin; default: that of its demand file."),
    ] = None,
    image: Annotated[str | None, typer.Option(help="Container image of the engine, such as one in your registry.")] = (
        None
    ),
    headroom: Annotated[
        str,
        typer.Option(
            metavar="PERCENT",
            help="How many replicas an autoscaler may add beyond the plan's busiest hour, such as 20%.",
        ),
    ] = "0%",
    months: Annotated[
        str | None,
        typer.Option(
            metavar="MONTHS", help="Several months, each in a folder of its own: all, or a range such as 1..3."
        ),
    ] = None,
    namespace: Annotated[str | None, typer.Option(help="Kubernetes namespace of everything that is exported.")] = None,
    registry: Annotated[
        str | None, typer.Option(help="Registry that has copies of the images, such as registry.internal/mirror.")
    ] = None,
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
    """Write a plan as files for the system that runs the fleet, with a README. Nothing is applied."""
    from planner.verbs.showing import export as export_as_asked

    exported = export_as_asked(
        file,
        to,
        month=month,
        time_zone=time_zone,
        image=image,
        headroom=headroom,
        weights=weights,
        months=months,
        namespace=namespace,
        registry=registry,
        quarter=quarter,
        scenario=scenario,
    )
    for remark in exported.write(out, force):
        note(remark, quiet)
    first = out / next(path for path in exported.files if path.endswith("README.md"))
    note(f"wrote {counted(len(exported.files), 'file')} into {out}: start with {first}", quiet)
