"""Verbs around a demand file and its plan: plan, explain, report, init, validate, schema."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.common import (
    MISSED,
    NOT_SERVED,
    CaseFile,
    CsvOption,
    Format,
    FormatOption,
    HtmlOption,
    MarkdownOption,
    PlanFormat,
    PlanFormatOption,
    RootOption,
    Solver,
    Stopwatch,
    TableOption,
    XlsxOption,
    case_in_time,
    examples,
    fraction,
    note,
    put,
    put_json,
    refuse,
    require_numba,
    search_options,
    with_what_is_left,
)
from planner.cli.emit import Outputs, emit
from planner.cli.horizon import QuarterOption, ScenarioOption, plan_of_horizon, refuse_for_a_horizon, saved_quarter
from planner.cli.reporting import table_names

if TYPE_CHECKING:
    from planner.case.case import Case
    from planner.explanations.records import Explanation
    from planner.plan.plan import Plan
    from solvers.search.fleet_solution import Options, Progress

PLAN_FRAC = 0.6
"""share of what is left of a time limit that comes first, where more is asked for after it"""
verbs = typer.Typer()


@verbs.command(epilog=examples("fleetplan plan examples/quickstart.yaml --out plan.json"))
def plan(
    case_file: CaseFile,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the plan as JSON to this file.")] = None,
    html: HtmlOption = None,
    format: PlanFormatOption = PlanFormat.table,
    table: TableOption = None,
    markdown: MarkdownOption = None,
    csv: CsvOption = None,
    xlsx: XlsxOption = None,
    solver: Annotated[Solver, typer.Option(help="Mixed-integer solver.")] = Solver.cbc,
    gap: Annotated[str, typer.Option(help="Stop when proved within this share of the cost.")] = "0.1%",
    require_gap: Annotated[str | None, typer.Option(help="Exit with 4 unless proved within this share.")] = None,
    time_limit: Annotated[
        str | None, typer.Option(help='The whole command takes no longer than this, such as "60s".')
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say what each lever saves and each limit costs.")] = False,
    study: Annotated[
        bool | None,
        typer.Option("--study/--no-study", help="Add waterfall, break-even and other providers; on with --html."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Serve the plan request by request; where it misses a promise, plan again.")
    ] = False,
    keep_plans: Annotated[Path | None, typer.Option(help="With --study: a folder for the plan of each step.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every option and reason.")] = False,
    root: RootOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no notes.")] = False,
) -> None:
    """Plan the cheapest fleet for a demand file."""
    from planner.cli.studying import kept_plans, studied_plan, studies_interrupted
    from planner.reports.plan import plan_document
    from solvers.backends.deadline import OUT_OF_TIME, interruptions_held

    options = search_options(solver.value, gap, time_limit)
    required = fraction("--require-gap", require_gap)
    if explain and format is not PlanFormat.table:
        refuse(
            "--explain", "is text only", "Plan with --out plan.json, then: fleetplan explain plan.json --format json"
        )
    asked_for_study, study = study, html is not None if study is None else study
    if keep_plans is not None and not study:
        refuse("--keep-plans", "is for --study", "Add --study")
    case, read = case_in_time(case_file, root, options)
    outputs = Outputs(format, out, html, markdown, csv, xlsx, table, quiet)
    ahead = case.future is not None
    if ahead:
        refuse_for_a_horizon(case_file, {"--study": bool(asked_for_study), "--explain": explain, "--verify": verify})
    outputs.check([case_file, *read], table_names(ahead), into={"--keep-plans": kept_plans(keep_plans)})
    if ahead:
        plan_of_horizon(case, options, outputs, required)
        return
    if verify:
        require_numba()
    share = PLAN_FRAC if study or explain else 1.0
    result = _verified(case, options, share, quiet, out) if verify else _planned(case, options, share, quiet)
    took = Stopwatch.seconds()
    with interruptions_held() as held:
        studied, explanation = result, None
        if study and not result.interrupted:
            with held.attempt():
                more = PLAN_FRAC if explain else 1.0
                studied = studied_plan(result, with_what_is_left(options, more), keep_plans, quiet)
        if explain and not (result.interrupted or held.by_somebody or studies_interrupted(studied)):
            with held.attempt():
                explanation = _explained(result, with_what_is_left(options), None, quiet)
        emit(plan_document(studied, explanation, verbose), outputs, took)
    stopped = result.interrupted or held.by_somebody or studies_interrupted(studied)
    if not stopped:
        missing = {"--study": study and studied.studies is None, "--explain": explain and explanation is None}
        for flag in (flag for flag, is_missing in missing.items() if is_missing):
            note(f"{flag} is left out: {OUT_OF_TIME}", quiet)
    _exit_code(studied, explanation, stopped, required, quiet)


@verbs.command(epilog=examples("fleetplan explain plan.json --workload support-chat"))
def explain(
    file: Annotated[Path, typer.Argument(metavar="PLAN.json|DEMAND.yaml", help="A saved plan, or a demand file.")],
    workload: Annotated[str | None, typer.Option(help="Explain this workload only.")] = None,
    format: FormatOption = Format.table,
    solver: Annotated[Solver, typer.Option(help="Mixed-integer solver.")] = Solver.cbc,
    gap: Annotated[str, typer.Option(help="Stop each search when proved within this share of the cost.")] = "0.1%",
    time_limit: Annotated[str | None, typer.Option(help="The whole command takes no longer than this.")] = None,
    quarter: QuarterOption = None,
    scenario: ScenarioOption = None,
    root: RootOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no notes.")] = False,
) -> None:
    """Say what each lever of a plan saves and what relaxing each limit would; every figure is a plan of its own."""
    from planner.io.errors import did_you_mean, shown
    from planner.reports.explanation import explanation_document

    options = search_options(solver.value, gap, time_limit)
    saved = saved_quarter(file, quarter, scenario) if file.suffix.lower() == ".json" else None
    case = saved.case if saved else case_in_time(file, root, options)[0]
    names = [w.name for w in case.workloads]
    if workload is not None and workload not in names:
        refuse("--workload", f"there is no workload {shown(workload)}", did_you_mean(workload, names))
    plan = saved or _planned(case, options, PLAN_FRAC, quiet)
    explanation = _explained(plan, with_what_is_left(options), workload, quiet)
    emit(explanation_document(explanation), Outputs(format))
    _exit_if_interrupted(explanation, quiet)


@verbs.command(epilog=examples("fleetplan init demand.yaml"))
def init(
    path: Annotated[Path, typer.Argument(metavar="DEMAND.yaml", help="The file to write.")] = Path("demand.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")] = False,
) -> None:
    """Write a commented demand file that runs, and the schema that lets editors complete and check it."""
    from planner.case.demand.starter import write_starter

    for written in write_starter(path, force):
        note(f"wrote {written}")
    note(f"next: fleetplan plan {path}")


@verbs.command(epilog=examples("fleetplan validate demand.yaml"))
def validate(
    case_file: CaseFile,
    root: RootOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Check a demand file: every mistake at once, with line and remedy."""
    from planner.case.demand.load import load_case
    from planner.io.errors import InputError
    from planner.io.named_files import NamedFiles
    from planner.reports.validation import validation_document

    try:
        document = validation_document(load_case(case_file, NamedFiles(root)))
    except InputError as error:
        if format is Format.json:
            from dataclasses import asdict

            put_json({"ok": False, "errors": [asdict(c) for c in error.diagnostics]})
        raise
    emit(document, Outputs(format))


@verbs.command(epilog=examples("fleetplan schema > fleetplan.schema.json"))
def schema() -> None:
    """Print the JSON schema of demand files, for editors."""
    from planner.case.demand.starter import demand_schema_text

    put(demand_schema_text())


def _planned(case: Case, options: Options, share: float, quiet: bool) -> Plan:
    """The plan, within a share of what is left of the time limit."""
    from planner.pipeline import plan_fleet

    return _in_time(options, share, quiet, lambda limited, tell: plan_fleet(case, limited, tell))


def _verified(case: Case, options: Options, share: float, quiet: bool, out: Path | None) -> Plan:
    """The plan, served; every plan is written before it is served, so that none is lost."""
    from planner.io.files import write_whole
    from solvers.backends.deadline import interruptions_deferred

    with interruptions_deferred():
        from planner.studies.verified_plan import plan_and_verify
        from planner.verification.serving import AS_PLANNED

    def write(plan: Plan) -> None:
        if out is not None:
            with interruptions_deferred():
                write_whole(out, plan.to_json())

    return _in_time(
        options, share, quiet, lambda limited, tell: plan_and_verify(case, limited, AS_PLANNED, tell, write)
    )


def _in_time(
    options: Options, share: float, quiet: bool, make: Callable[[Options, Callable[[Progress], None]], Plan]
) -> Plan:
    from planner.io.errors import OutOfTime
    from planner.reports.progress import progress_on_stderr

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    limited, before_s = with_what_is_left(options, share), Stopwatch.seconds()
    try:
        with progress_on_stderr(quiet) as on_progress:
            return make(limited, on_progress)
    except OutOfTime as stop:
        raise OutOfTime(options.time_limit_s or stop.limit_s, stop.doing, (before_s + stop.needed_s) / share) from None


def _explained(plan: Plan, options: Options, workload: str | None, quiet: bool) -> Explanation:
    from planner.explanations.explain import explain as explain_plan
    from planner.reports.progress import progress_on_stderr

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with progress_on_stderr(quiet) as on_progress:
        return explain_plan(plan.case, plan, options, on_progress, workload)


def _exit_if_interrupted(explanation: Explanation, quiet: bool) -> None:
    from solvers.backends.deadline import INTERRUPTED

    if explanation.not_tried and explanation.why_not_tried in (None, INTERRUPTED):
        note("interrupted: this is what is known so far", quiet)
        raise typer.Exit(130)


def _exit_code(
    plan: Plan, explanation: Explanation | None, stopped: bool, required_gap: float | None, quiet: bool
) -> None:
    """Exit as the work ended; `stopped`: somebody interrupted it."""
    if plan.status == "interrupted" or stopped:
        from planner.reports.phrases import best_so_far

        note(best_so_far(plan), quiet)
        raise typer.Exit(130)
    if explanation is not None:
        _exit_if_interrupted(explanation, quiet)
    if not plan.has("verified"):
        note("planned, not served as asked: the time limit was reached; fleetplan verify serves a saved plan", quiet)
        raise typer.Exit(NOT_SERVED)
    if plan.verified is not None and not plan.verified.kept:
        note(f"the plan misses what it promises when it is served: {', '.join(plan.verified.missed)}", quiet)
        raise typer.Exit(MISSED)
    if required_gap is not None and plan.status != "optimal" and plan.gap_frac > required_gap:
        note(f"proved within {plan.gap_frac:.3%} only; {required_gap:.3%} was required", quiet)
        raise typer.Exit(4)
