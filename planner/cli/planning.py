"""Verbs around a demand file and its plan: plan, explain, report, init, validate, schema."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import guard
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
    QuarterOption,
    RootOption,
    ScenarioOption,
    Solver,
    Stopwatch,
    SummaryOption,
    TableOption,
    XlsxOption,
    begin_work,
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
from planner.cli.reporting import table_names

if TYPE_CHECKING:
    from planner.case.case import Case
    from planner.explanations.records import Explanation
    from planner.plan.blocks import AnyPlan
    from planner.plan.plan import Plan
    from planner.plan.study_records import Why
    from planner.verbs.planning import KeptWork, Planned
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
    summary: SummaryOption = None,
    solver: Annotated[Solver, typer.Option(help="Mixed-integer solver.")] = Solver.cbc,
    gap: Annotated[str, typer.Option(help="Stop once the plan is proved within this share of the cost.")] = "0.1%",
    require_gap: Annotated[
        str | None, typer.Option(help="Exit with code 4 unless the plan is proved within this share.")
    ] = None,
    time_limit: Annotated[str | None, typer.Option(help='Time limit of the whole command, such as "60s".')] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what each lever saves and each limit costs.")
    ] = False,
    study: Annotated[
        bool | None,
        typer.Option(
            "--study/--no-study", help="Add the waterfall, the break-even and other providers' bills; on with --html."
        ),
    ] = None,
    verify: Annotated[
        bool | None,
        typer.Option(
            "--verify/--no-verify",
            envvar="FLEETPLAN_VERIFY",
            help="Serve the plan request by request, and plan again where it misses a promise. By default only a "
            "sample is served, and nothing is planned again.",
        ),
    ] = None,
    autoscaler: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Tune this controller (keda, hpa, skyserve) until every promise holds."),
    ] = None,
    forecast_error: Annotated[
        str | None,
        typer.Option(metavar="20%", help="With --autoscaler: by how much days may be off; or a saved review.json."),
    ] = None,
    accept_guesses: Annotated[
        bool, typer.Option("--accept-guesses", help="Accept what 'fleetplan demand' guessed (decide: in the file).")
    ] = False,
    keep_plans: Annotated[
        Path | None, typer.Option(help="With --study: write the plan of each step to this folder.")
    ] = None,
    log_search: Annotated[
        bool,
        typer.Option("--log-search", help="Print one line per round to stderr: plan, bound, gap, LP, columns, cuts."),
    ] = False,
    write_lp: Annotated[
        Path | None,
        typer.Option("--write-lp", help="Write the restricted master at the end of the search, in the LP format."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show all options and reasons.")] = False,
    root: RootOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print neither progress nor notes.")] = False,
) -> None:
    """Plan the cheapest fleet for a demand file."""
    from planner.cli.studying import kept_plans, make_plans_folder
    from planner.verbs.planning import check_autoscaler, require_numba

    options = search_options(solver.value, gap, time_limit)
    required = fraction("--require-gap", require_gap)
    if explain and format is not PlanFormat.table:
        refuse(
            "--explain",
            "works with text output only",
            "Plan with --out plan.json, then: fleetplan explain plan.json --format json",
        )
    asked_for_study, study = study, html is not None if study is None else study
    if keep_plans is not None and not study:
        refuse("--keep-plans", "is for --study", "Add --study")
    case, read = case_in_time(case_file, root, options, accept_guesses)
    outputs = Outputs(format, out, html, markdown, csv, xlsx, summary, table, quiet)
    horizon = case.future is not None
    if horizon:
        _refuse_for_several_quarters(
            case_file,
            {
                "study": bool(asked_for_study),
                "explain": explain,
                "verify": bool(verify),
                "autoscaler": bool(autoscaler),
            },
        )
        if write_lp is not None:
            refuse("--write-lp", "is for plans of one quarter", "Remove the horizon and the scenarios")
        study = False
    outputs.check(
        [case_file, *read], table_names(horizon), {"--write-lp": write_lp}, {"--keep-plans": kept_plans(keep_plans)}
    )
    if verify or autoscaler is not None:
        require_numba()
    check_autoscaler(autoscaler, forecast_error)
    if keep_plans is not None and study:
        make_plans_folder(keep_plans)
    asked = _Asked(outputs, verbose, bool(study), explain, required, keep_plans, autoscaler, forecast_error, write_lp)
    made = _planned(case, options, verify, asked, out, log_search)
    _put_out(asked, made)


@verbs.command(epilog=examples("fleetplan explain plan.json --workload support-chat"))
def explain(
    file: Annotated[Path, typer.Argument(metavar="PLAN.json|DEMAND.yaml", help="A saved plan, or a demand file.")],
    workload: Annotated[str | None, typer.Option(help="Explain this workload only.")] = None,
    format: FormatOption = Format.table,
    solver: Annotated[Solver, typer.Option(help="Mixed-integer solver.")] = Solver.cbc,
    gap: Annotated[str, typer.Option(help="Stop each search once proved within this share of the cost.")] = "0.1%",
    time_limit: Annotated[str | None, typer.Option(help='Time limit of the whole command, such as "60s".')] = None,
    quarter: QuarterOption = None,
    scenario: ScenarioOption = None,
    root: RootOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print neither progress nor notes.")] = False,
) -> None:
    """Show what each lever saves and what relaxing each limit would save; each figure comes from a separate plan."""
    from planner.reports.explanation import explanation_document
    from planner.reports.progress import progress_on_stderr
    from planner.verbs.planning import explain as explain_as_asked

    options = search_options(solver.value, gap, time_limit)
    source = file if file.suffix.lower() == ".json" else case_in_time(file, root, options)[0]
    begin_work(options.time_limit_s)
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
    """Write a commented demand file that runs, and a schema with which editors complete and check it."""
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
    """Check a demand file and report all mistakes at once, each with its line and a remedy."""
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
    """Print the JSON schema of demand files, for use in editors."""
    from planner.case.demand.starter import demand_schema_text

    put(demand_schema_text())


@dataclass(frozen=True)
class _Asked:
    """What of a plan is put out, and where."""

    outputs: Outputs
    verbose: bool
    study: bool
    explain: bool
    required_gap: float | None
    keep_plans: Path | None
    autoscaler: str | None = None
    forecast_error: str | None = None
    write_lp: Path | None = None


def _planned(
    case: Case, options: Options, verify: bool | None, asked: _Asked, out: Path | None, log_search: bool
) -> Planned:
    """The plan and what was asked for with it; every plan is written before it is served, so that none is lost."""
    from planner.explanations.relaxations import Infeasible
    from planner.io.errors import OutOfTime
    from planner.io.files import write_whole
    from planner.reports.program import program_written
    from planner.reports.progress import progress_on_stderr, search_log_on_stderr
    from planner.verbs.planning import planned

    def write(plan: Plan) -> None:
        if out is not None:
            write_whole(out, plan.to_json())

    begin_work(options.time_limit_s)
    limited, before_s = with_what_is_left(options), Stopwatch.seconds()
    try:
        progress = search_log_on_stderr() if log_search else progress_on_stderr(asked.outputs.quiet)
        with progress as shown, program_written(asked.write_lp, shown) as show:
            return planned(
                case,
                limited,
                show,
                verify=bool(verify),
                sample=verify is None,
                study=asked.study,
                explain=asked.explain,
                autoscaler=asked.autoscaler,
                forecast_error=asked.forecast_error,
                on_plan=write,
                on_kept=lambda kept: guard.keep(partial(_put_out_kept, asked, kept, Stopwatch.started)),
            )
    except OutOfTime as stop:
        raise OutOfTime(options.time_limit_s or stop.limit_s, stop.doing, before_s + stop.needed_s) from None
    except Infeasible as none:
        if none.beyond is not None and out is not None:
            write_whole(out, none.beyond.to_json())
            note(f"wrote {out}, a plan {none.beyond.notes[-1]}", asked.outputs.quiet)
        raise


def _put_out_kept(asked: _Asked, kept: KeptWork, started: float, why: Why) -> None:
    """Put out what there was when the work ended before its time."""
    Stopwatch.started = started
    _put_out(asked, kept.ended(why))


def _put_out(asked: _Asked, made: Planned) -> None:
    """Write and print the plan, and exit as the work on it ended."""
    from solvers.backends.clock import OUT_OF_TIME, stop_is_asked, undisturbed

    quiet = asked.outputs.quiet
    guard.end_by(float("inf"))  # nobody else would have put it out sooner
    with undisturbed():
        from planner.cli.studying import write_steps
        from planner.reports.plan import plan_document

        took = Stopwatch.seconds()
        if asked.keep_plans is not None and made.steps is not None:
            write_steps(made.steps, asked.keep_plans, quiet)
        emit(plan_document(made.plan, made.explanation, asked.verbose), asked.outputs, took)
        guard.put_out()
    stopped = made.interrupted or stop_is_asked()
    if not stopped:
        missing = {"--study": asked.study and made.steps is None, "--explain": asked.explain and not made.explanation}
        for flag in (flag for flag, is_missing in missing.items() if is_missing):
            note(f"{flag} was skipped: {OUT_OF_TIME}", quiet)
    _exit_code(made.plan, made.explanation, stopped, asked.required_gap, quiet)


def _refuse_for_several_quarters(file: Path, asked: dict[str, bool]) -> None:
    """Refuse what only a plan of one quarter has; other verbs do it for one of several."""
    for what in (what for what, given in asked.items() if given):
        message = f"is for plans of one quarter, but {file} has a horizon or scenarios"
        verb = "verify plan.json --autoscaler NAME" if what == "autoscaler" else f"{what} plan.json"
        refuse(f"--{what}", message, f"Plan with --out plan.json, then: fleetplan {verb}")


def _exit_if_interrupted(explanation: Explanation, quiet: bool) -> None:
    from solvers.backends.clock import INTERRUPTED

    if explanation.not_tried and explanation.why_not_tried in (None, INTERRUPTED):
        note("interrupted: these are the results so far", quiet)
        raise typer.Exit(130)


def _exit_code(
    plan: AnyPlan, explanation: Explanation | None, stopped: bool, required_gap: float | None, quiet: bool
) -> None:
    """Exit as the work ended; `stopped`: somebody interrupted it."""
    from planner.plan.plan import Plan

    if plan.status == "interrupted" or stopped:
        from planner.reports.phrases import best_so_far

        note(best_so_far(plan), quiet)
        raise typer.Exit(130)
    if explanation is not None:
        _exit_if_interrupted(explanation, quiet)
    if isinstance(plan, Plan) and not plan.has("verified"):
        note(
            "planned, but not served as asked: the time limit was reached; 'fleetplan verify' serves a saved plan",
            quiet,
        )
        raise typer.Exit(NOT_SERVED)
    if isinstance(plan, Plan) and plan.verified is not None and not plan.verified.kept:
        note(f"when served, the plan misses its promises: {', '.join(plan.verified.missed)}", quiet)
        raise typer.Exit(MISSED)
    if required_gap is not None and plan.status != "optimal" and plan.gap_frac > required_gap:
        note(f"proved only within {plan.gap_frac:.3%}; {required_gap:.3%} was required", quiet)
        raise typer.Exit(4)
