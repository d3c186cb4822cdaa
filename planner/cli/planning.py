"""Verbs around a demand file and its plan: plan, explain, report, init, validate, schema."""

from __future__ import annotations

import signal
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
    search_options,
    with_what_is_left,
)
from planner.cli.emit import Outputs, emit
from planner.cli.horizon import QuarterOption, ScenarioOption, exit_of_horizon, refuse_for_a_horizon
from planner.cli.reporting import table_names

if TYPE_CHECKING:
    from planner.case.case import Case
    from planner.explanations.records import Explanation
    from planner.plan.plan import Plan
    from planner.verbs.planning import Planned
    from solvers.search.fleet_solution import Options

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
    from planner.cli.studying import kept_plans, make_plans_folder, write_steps
    from planner.plan.horizon.horizon_plan import HorizonPlan
    from planner.verbs.planning import require_numba
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
    horizon = case.future is not None
    if horizon:
        refuse_for_a_horizon(case_file, {"--study": bool(asked_for_study), "--explain": explain, "--verify": verify})
        study = False
    outputs.check([case_file, *read], table_names(horizon), into={"--keep-plans": kept_plans(keep_plans)})
    if verify:
        require_numba()
    if keep_plans is not None and study:
        make_plans_folder(keep_plans)
    with interruptions_held() as held:
        with held.let_in():
            made = _planned(case, options, verify, study, explain, quiet, out)
        result, took = made.plan, Stopwatch.seconds()
        if keep_plans is not None and made.steps is not None:
            write_steps(made.steps, keep_plans, quiet)
        if isinstance(result, HorizonPlan):
            from planner.reports.horizon import horizon_document

            emit(horizon_document(result), outputs, took)
        else:
            from planner.reports.plan import plan_document

            emit(plan_document(result, made.explanation, verbose), outputs, took)
    stopped = made.interrupted or held.by_somebody
    if isinstance(result, HorizonPlan):
        exit_of_horizon(result, stopped, required, quiet)
        return
    if not stopped:
        missing = {"--study": study and result.studies is None, "--explain": explain and made.explanation is None}
        for flag in (flag for flag, is_missing in missing.items() if is_missing):
            note(f"{flag} is left out: {OUT_OF_TIME}", quiet)
    _exit_code(result, made.explanation, stopped, required, quiet)


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
    from planner.reports.explanation import explanation_document
    from planner.reports.progress import progress_on_stderr
    from planner.verbs.planning import explain as explain_as_asked

    options = search_options(solver.value, gap, time_limit)
    source = file if file.suffix.lower() == ".json" else case_in_time(file, root, options)[0]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with progress_on_stderr(quiet) as on_progress:
        explanation = explain_as_asked(
            source,
            None,
            with_what_is_left(options),
            on_progress,
            workload,
            quarter=quarter,
            scenario=scenario,
        )
    emit(explanation_document(explanation), Outputs(format))
    _exit_if_interrupted(explanation, quiet)


@verbs.command(epilog=examples("fleetplan init demand.yaml"))
def init(
    path: Annotated[Path, typer.Argument(metavar="DEMAND.yaml", help="The file to write.")] = Path("demand.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")] = False,
) -> None:
    """Write a commented demand file that runs, and the schema that lets editors complete and check it."""
    from planner.verbs.demanding import init as init_as_asked

    for written in init_as_asked(path, force=force):
        note(f"wrote {written}")
    note(f"next: fleetplan plan {path}")


@verbs.command(epilog=examples("fleetplan validate demand.yaml"))
def validate(
    case_file: CaseFile,
    root: RootOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Check a demand file: every mistake at once, with line and remedy."""
    from planner.io.errors import InputError
    from planner.verbs.demanding import validate as validate_as_asked

    try:
        document = validate_as_asked(case_file, root=root).document
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


def _planned(
    case: Case, options: Options, verify: bool, study: bool, explain: bool, quiet: bool, out: Path | None
) -> Planned:
    """The plan and what was asked for with it; every plan is written before it is served, so that none is lost."""
    from planner.io.errors import OutOfTime
    from planner.io.files import write_whole
    from planner.reports.progress import progress_on_stderr
    from planner.verbs.planning import planned
    from solvers.backends.deadline import interruptions_deferred

    def write(plan: Plan) -> None:
        if out is not None:
            with interruptions_deferred():
                write_whole(out, plan.to_json())

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    limited, before_s = with_what_is_left(options), Stopwatch.seconds()
    try:
        with progress_on_stderr(quiet) as show:
            return planned(case, limited, show, verify=verify, study=study, explain=explain, on_plan=write)
    except OutOfTime as stop:
        raise OutOfTime(options.time_limit_s or stop.limit_s, stop.doing, before_s + stop.needed_s) from None


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
