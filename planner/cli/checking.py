"""The verb that holds a plan against a policy: check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.common import DiffFormat, PlanFile, examples, in_color, parsed, put, put_json, saved_plan
from planner.cli.horizon import is_horizon, saved_horizon

verbs = typer.Typer()
BROKEN = 5


@verbs.command(epilog=examples("fleetplan check plan.json --policy examples/policies/production.yaml --format md"))
def check(
    file: PlanFile,
    policy: Annotated[Path, typer.Option("--policy", "-p", metavar="POLICY.yaml", help="The rules.")],
    against: Annotated[Path | None, typer.Option(metavar="OLD.json", help="The previous plan, for max_change.")] = None,
    as_of: Annotated[
        str | None,
        typer.Option(help="The day for max_price_age, as 2027-01-31; default: as_of of the policy, else today."),
    ] = None,
    format: Annotated[DiffFormat, typer.Option(help="What to print on stdout; md suits a pull request.")] = (
        DiffFormat.table
    ),
    quiet_when_ok: Annotated[
        bool, typer.Option("--quiet-when-ok", "-q", help="Print nothing if every rule is kept.")
    ] = False,
) -> None:
    """Check a plan against your policy: each rule with its value and limit. Exit with 5 if one is broken."""
    from datetime import date

    from planner.checker.policy import check_policy
    from planner.checker.policy.horizon import check_horizon_policy
    from planner.checker.policy.schema import load_policy, parse_date
    from planner.reports.policy import check_markdown, check_text

    day = None if as_of is None else date.fromisoformat(parsed("--as-of", parse_date, as_of))
    rules = load_policy(policy)
    if is_horizon(file):
        checked = check_horizon_policy(saved_horizon(file), rules, saved_horizon(against) if against else None, day)
    else:
        checked = check_policy(saved_plan(file), rules, saved_plan(against) if against else None, day)
    if not (checked.passed and quiet_when_ok):
        if format is DiffFormat.json:
            put_json(checked.as_json())
        else:
            put(check_markdown(checked) if format is DiffFormat.md else check_text(checked, in_color()))
    if not checked.passed:
        raise typer.Exit(BROKEN)
