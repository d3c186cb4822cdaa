"""The verb that checks a saved plan, and holds it against a policy: check."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.common import (
    DiffFormat,
    PlanFile,
    Solver,
    examples,
    note,
    refuse,
    search_options,
    with_what_is_left,
)
from planner.cli.emit import Outputs, emit

if TYPE_CHECKING:
    from planner.checker.policy import Check

verbs = typer.Typer()
REFUTED, NOT_PROVED, BROKEN, INTERRUPTED = 2, 4, 5, 130


@verbs.command(epilog=examples("fleetplan check plan.json --policy examples/policies/production.yaml --format md"))
def check(
    file: PlanFile,
    policy: Annotated[Path | None, typer.Option("--policy", "-p", metavar="POLICY.yaml", help="The rules.")] = None,
    against: Annotated[Path | None, typer.Option(metavar="OLD.json", help="The previous plan, for max_change.")] = None,
    as_of: Annotated[
        str | None,
        typer.Option(help="The day for max_price_age, as 2027-01-31; default: as_of of the policy, else today."),
    ] = None,
    prove: Annotated[
        bool, typer.Option("--prove", help="Plan the case again and compare the proven lower bound with the file's.")
    ] = False,
    solver: Annotated[Solver, typer.Option(help="With --prove: the mixed-integer solver.")] = Solver.cbc,
    time_limit: Annotated[
        str | None, typer.Option(help='With --prove: the whole command takes no longer than this, such as "60s".')
    ] = None,
    format: Annotated[DiffFormat, typer.Option(help="What to print on stdout; md suits a pull request.")] = (
        DiffFormat.table
    ),
    quiet_when_ok: Annotated[
        bool, typer.Option("--quiet-when-ok", "-q", help="Print nothing if every rule is kept.")
    ] = False,
) -> None:
    """Check a saved plan: its figures, its bound with --prove, and each rule of your policy.

    Exit with 2 if a figure is wrong, 4 if --prove does not reach the file's bound, 5 if a rule is broken.
    """
    from planner.reports.policy import check_document
    from planner.reports.progress import progress_on_stderr
    from planner.verbs.judging import check as checked_by

    if time_limit is not None and not prove:
        refuse("--time-limit", "is for --prove: nothing else takes long", "Add --prove, or leave it out")
    options = search_options(solver.value, "0%", time_limit)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with progress_on_stderr(quiet_when_ok) as on_progress:
        checked = checked_by(
            file,
            policy=policy,
            against=against,
            as_of=as_of,
            prove=prove,
            options=with_what_is_left(options),
            on_progress=on_progress,
        )
    code = _exit_code(checked)
    if code or not quiet_when_ok:
        emit(check_document(checked), Outputs(format))
    if code:
        raise typer.Exit(code)


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
