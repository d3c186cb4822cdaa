"""The verb that checks a saved plan, and holds it against a policy: check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.common import (
    DiffFormat,
    PlanFile,
    QuarterOption,
    ScenarioOption,
    Solver,
    begin_work,
    examples,
    note,
    refuse,
    search_options,
    with_what_is_left,
)
from planner.cli.emit import Outputs, emit

if TYPE_CHECKING:
    from planner.checker.policy.rules import Check

verbs = typer.Typer()
REFUTED, NOT_PROVED, BROKEN, INTERRUPTED = 2, 4, 5, 130


@verbs.command(epilog=examples("fleetplan check plan.json --policy examples/policies/production.yaml --format md"))
def check(
    file: PlanFile,
    policy: Annotated[
        Path | None, typer.Option("--policy", "-p", metavar="POLICY.yaml", help="The policy file with the rules.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="OLD.json", help="The previous plan, for the rule max_change.")
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            help="The day that max_price_age refers to, such as 2027-01-31; default: as_of of the policy, else today."
        ),
    ] = None,
    live: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Compare what actually ran with the plan: a folder of saved query_range answers from Prometheus.",
        ),
    ] = None,
    prove: Annotated[
        bool, typer.Option("--prove", help="Plan the case again and compare the proven lower bound with the file's.")
    ] = False,
    solver: Annotated[Solver, typer.Option(help="With --prove: the mixed-integer solver.")] = Solver.cbc,
    time_limit: Annotated[
        str | None, typer.Option(help='With --prove: time limit of the whole command, such as "60s".')
    ] = None,
    quarter: QuarterOption = None,
    scenario: ScenarioOption = None,
    format: Annotated[DiffFormat, typer.Option(help="What to print on stdout; md is meant for pull requests.")] = (
        DiffFormat.table
    ),
    quiet_when_ok: Annotated[
        bool, typer.Option("--quiet-when-ok", "-q", help="Print nothing if all rules are kept.")
    ] = False,
) -> None:
    """Check a saved plan: its figures, its bound with --prove, and each rule of your policy.

    With --live: in which hours a running fleet departed from the plan, and why. Exits with 2 if a figure is wrong, 4 if
    --prove does not reach the file's bound, and 5 if a rule is broken or a promise was missed.
    """
    if live is not None:
        given = {"--policy": policy, "--against": against, "--as-of": as_of, "--prove": prove or None}
        for flag in (flag for flag, value in given.items() if value is not None):
            refuse(flag, "checks the plan itself, but --live checks what ran", "Run the command twice")
        _check_live(file, live, Outputs(format), quiet_when_ok, quarter, scenario)
        return
    from planner.reports.policy import check_document
    from planner.reports.progress import progress_on_stderr
    from planner.verbs.judging import check as checked_by

    if time_limit is not None and not prove:
        refuse("--time-limit", "is for --prove: nothing else takes long", "Add --prove, or leave it out")
    options = search_options(solver.value, "0%", time_limit)
    begin_work(options.time_limit_s)
    with progress_on_stderr(quiet_when_ok) as on_progress:
        checked = checked_by(
            file,
            policy=policy,
            against=against,
            as_of=as_of,
            prove=prove,
            options=with_what_is_left(options),
            on_progress=on_progress,
            quarter=quarter,
            scenario=scenario,
        )
    code = _exit_code(checked)
    if code or not quiet_when_ok:
        emit(check_document(checked), Outputs(format))
    if code:
        raise typer.Exit(code)


def _check_live(
    file: Path, metrics: Path, outputs: Outputs, quiet_when_ok: bool, quarter: int | None, scenario: str | None
) -> None:
    from planner.export.live import live_document
    from planner.verbs.judging import check_live

    live = check_live(file, metrics, quarter=quarter, scenario=scenario)
    broken = any(hour.broke for hour in live.hours)
    if live.left or not live.hours or not quiet_when_ok:
        emit(live_document(live), outputs)
    if broken:
        raise typer.Exit(BROKEN)


def _exit_code(checked: Check) -> int:
    """A false figure first, then a broken rule, then a bound that was not reached."""
    bound = checked.bound
    if bound is not None and bound.verdict == "refuted":
        return REFUTED
    if any(not rule.passed for rule in checked.rules):
        return BROKEN
    if bound is None or bound.verdict == "confirmed":
        return 0
    if bound.interrupted:
        note("interrupted: the bound is not confirmed")
    return INTERRUPTED if bound.interrupted else NOT_PROVED
