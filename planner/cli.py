"""The `fleetplan` command. Every verb is a few lines over a library function; data go to stdout, notes to stderr.

Exit codes: 0 a verified plan, 1 a defect of fleetplan, 2 bad input, 3 infeasible, 4 not proved within
--require-gap (the plan is still written), 5 a policy is violated, 130 interrupted (the best plan is written).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from planner.case import Case
    from planner.plan import Plan
    from solvers.fleet_solver import Options

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False,
                  context_settings={"help_option_names": ["-h", "--help"]},
                  help="The cheapest GPU fleet that meets demand and SLOs, proved, against an API baseline.",
                  epilog="Start with:  fleetplan init demand.yaml  and then  fleetplan plan demand.yaml")  # fmt: skip


class Solver(StrEnum):
    cbc = "cbc"
    highs = "highs"


class Format(StrEnum):
    table = "table"
    json = "json"


CaseFile = Annotated[Path, typer.Argument(metavar="DEMAND.yaml", help="The demand file.", show_default=False)]


@app.callback(invoke_without_command=True)
def common(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if version:
        from importlib.metadata import version as version_of

        typer.echo(f"fleetplan {version_of('fleetplan')}")
        raise typer.Exit()


@app.command(epilog="Example:  fleetplan plan examples/quickstart.yaml --out plan.json")
def plan(
    case_file: CaseFile,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the plan as JSON to this file.")] = None,
    format: Annotated[Format, typer.Option(help="What to print on stdout.")] = Format.table,
    solver: Annotated[Solver, typer.Option(help="Mixed-integer solver.")] = Solver.cbc,
    gap: Annotated[str, typer.Option(help="Stop when proved within this share of the cost.")] = "0.1%",
    require_gap: Annotated[str | None, typer.Option(help="Exit with 4 unless proved within this.")] = None,
    time_limit: Annotated[str | None, typer.Option(help='Stop searching after this, such as "60s".')] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every option and reason.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")] = False,
) -> None:
    """Plan the cheapest fleet for a demand file."""
    from planner.loading import load_case
    from planner.reports.terminal import render

    options = _options(solver.value, gap, time_limit)
    required = _fraction("--require-gap", require_gap)
    case = load_case(case_file)
    started = time.monotonic()
    result = _planned(case, options, quiet)
    if out is not None:
        _write(out, result.to_json(), quiet)
    seconds = time.monotonic() - started
    typer.echo(result.to_json() if format is Format.json else render(result, seconds, verbose), nl=False)
    _exit_code(result, required, quiet)


@app.command(epilog="Example:  fleetplan init demand.yaml")
def init(
    path: Annotated[Path, typer.Argument(metavar="DEMAND.yaml", help="The file to write.")] = Path("demand.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")] = False,
) -> None:
    """Write a commented demand file that runs, and the schema that lets editors complete and check it."""
    from planner.starter import write_starter

    for written in write_starter(path, force):
        typer.echo(f"wrote {written}", err=True)
    typer.echo(f"next: fleetplan plan {path}", err=True)


@app.command(epilog="Example:  fleetplan validate demand.yaml")
def validate(
    case_file: CaseFile,
    format: Annotated[Format, typer.Option(help="What to print on stdout.")] = Format.table,
) -> None:
    """Check a demand file: every mistake at once, with line and remedy."""
    from planner.complaints import InputError
    from planner.loading import load_case
    from planner.starter import validation_report

    try:
        report = validation_report(load_case(case_file))
    except InputError as error:
        if format is Format.json:
            from dataclasses import asdict

            _echo_json({"ok": False, "errors": [asdict(c) for c in error.complaints]})
        raise
    typer.echo(report.text, nl=False) if format is Format.table else _echo_json(report.data)


@app.command(epilog="Example:  fleetplan schema > fleetplan.schema.json")
def schema() -> None:
    """Print the JSON schema of demand files, for editors."""
    from planner.starter import demand_schema_text

    typer.echo(demand_schema_text(), nl=False)


@app.command(
    epilog="Examples:  fleetplan catalog    fleetplan catalog offers h100    fleetplan catalog models llama-3.1-8b"
)
def catalog(
    kind: Annotated[str | None, typer.Argument(help="gpus, offers, models, quantizations, apis, ...")] = None,
    name: Annotated[str | None, typer.Argument(help="An entry, or a part of names to list.")] = None,
    stale_after: Annotated[str, typer.Option(help="Prices older than this are flagged.")] = "180d",
    as_of: Annotated[str | None, typer.Option(help="Judge staleness on this day, YYYY-MM-DD; default today.")] = None,
    format: Annotated[Format, typer.Option(help="What to print on stdout.")] = Format.table,
) -> None:
    """List and show what the catalog knows, with sources and dates; stale prices are flagged."""
    from planner.reports.catalog import catalog_report

    report = catalog_report(kind, name, stale_after, as_of)
    typer.echo(report.text, nl=False) if format is Format.table else _echo_json(report.data)


# -- shared by the verbs ----------------------------------------------------------------------------------------


def _echo_json(data: Any) -> None:
    import json

    typer.echo(json.dumps(data, indent=1, ensure_ascii=False))


def _options(solver: Any, gap: str, time_limit: str | None) -> Options:
    from planner.units import parse_duration
    from solvers.fleet_solver import Options

    seconds = None if time_limit is None else _parsed("--time-limit", parse_duration, time_limit)
    return Options(solver=solver, gap_frac=_fraction("--gap", gap) or 0.0, time_limit_s=seconds)


def _fraction(option: str, text: str | None) -> float | None:
    from planner.units import parse_fraction

    return None if text is None else _parsed(option, parse_fraction, text)


def _parsed(option: str, parse: Any, text: str) -> float:
    from planner.complaints import Complaint, InputError

    try:
        return parse(text)
    except ValueError as error:
        raise InputError([Complaint(option, None, None, "", str(error).rstrip("."))]) from None


def _planned(case: Case, options: Options, quiet: bool) -> Plan:
    from planner.pipeline import plan_fleet
    from planner.reports.progress import progress_on_stderr

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with progress_on_stderr(quiet) as on_progress:
        return plan_fleet(case, options, on_progress)


def _write(path: Path, text: str, quiet: bool) -> None:
    from planner.files import write_whole

    write_whole(path, text)
    if not quiet:
        typer.echo(f"wrote {path}", err=True)


def _exit_code(plan: Plan, required_gap: float | None, quiet: bool) -> None:
    if plan.status == "interrupted":
        if not quiet:
            typer.echo("interrupted: this is the best verified plan so far; it is not proved", err=True)
        raise typer.Exit(130)
    if required_gap is not None and plan.gap_frac > required_gap:
        if not quiet:
            typer.echo(f"proved within {plan.gap_frac:.3%} only; {required_gap:.3%} was required", err=True)
        raise typer.Exit(4)


def main() -> None:
    """Run the command; every foreseeable failure is one message and its exit code, never a traceback."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(_say("interrupted before a plan was found", 130))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        sys.exit(_failed(error))


def _failed(error: Exception) -> int:
    from planner.complaints import Infeasible, InputError

    if isinstance(error, InputError):
        return _say(str(error), 2)
    if isinstance(error, Infeasible):
        head = "no fleet can do this" if error.proved else "no plan was found"
        return _say(f"{head}:\n{error}", 3)
    if os.environ.get("FLEETPLAN_DEBUG"):
        raise error
    hint = "This is a defect of fleetplan; set FLEETPLAN_DEBUG=1 for details and please report it."
    return _say(f"{type(error).__name__}: {error}\n{hint}", 1)


def _say(message: str, code: int) -> int:
    print(message, file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
