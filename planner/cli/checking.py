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
    parsed,
    refuse,
    saved_plan,
    search_options,
    with_what_is_left,
)
from planner.cli.emit import Outputs, emit
from planner.cli.horizon import is_horizon, saved_horizon

if TYPE_CHECKING:
    from planner.checker.policy import Check
    from planner.checker.proof import BoundCheck
    from planner.plan.horizon.horizon_plan import HorizonPlan
    from planner.plan.plan import Plan
    from solvers.search.fleet_solution import Options

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
    from datetime import date

    from planner.checker.policy import check_policy
    from planner.checker.policy.horizon import check_horizon_policy
    from planner.checker.policy.schema import load_policy, parse_date
    from planner.reports.policy import check_document

    if time_limit is not None and not prove:
        refuse("--time-limit", "is for --prove: nothing else takes long", "Add --prove, or leave it out")
    for flag, given in (("--against", against), ("--as-of", as_of)):
        if given is not None and policy is None:
            refuse(flag, "is for the rules of a policy", "Add --policy POLICY.yaml, or leave it out")
    options = search_options(solver.value, "0%", time_limit)
    day = None if as_of is None else date.fromisoformat(parsed("--as-of", parse_date, as_of))
    rules = None if policy is None else load_policy(policy)
    bound: BoundCheck | None = None
    if is_horizon(file):
        horizon, other = saved_horizon(file), saved_horizon(against) if against else None
        bound = _proved(horizon, options, quiet_when_ok) if prove else None
        checked = check_horizon_policy(horizon, rules, other, day, bound)
    else:
        plan, before = saved_plan(file), saved_plan(against) if against else None
        bound = _proved(plan, options, quiet_when_ok) if prove else None
        checked = check_policy(plan, rules, before, day, bound)
    code = _exit_code(checked)
    if code or not quiet_when_ok:
        emit(check_document(checked), Outputs(format))
    if code:
        raise typer.Exit(code)


def _proved(plan: Plan | HorizonPlan, options: Options, quiet: bool) -> BoundCheck:
    from planner.reports.progress import progress_on_stderr
    from planner.studies.proving import prove_again

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with progress_on_stderr(quiet) as on_progress:
        return prove_again(plan, with_what_is_left(options), on_progress)


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
