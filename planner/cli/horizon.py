"""Plans of a horizon on the command line: their own reports, and options that name one quarter of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.common import (
    note,
    refuse,
)

if TYPE_CHECKING:
    from planner.plan.horizon.horizon_plan import HorizonPlan

QuarterOption = Annotated[
    int | None, typer.Option("--quarter", min=1, max=12, help="Of the plan of a horizon: this quarter, from 1 on.")
]
ScenarioOption = Annotated[
    str | None, typer.Option("--scenario", help="Of the plan of a horizon: what is planned for this scenario.")
]


def refuse_for_a_horizon(file: Path, asked: dict[str, bool]) -> None:
    """Refuse options that only plans of one quarter have."""
    for flag in (flag for flag, given in asked.items() if given):
        message = f"is for plans of one quarter, and {file} has a horizon or scenarios"
        remedy = f"Plan with --out h.json, then: fleetplan report h.json --quarter 1 --out q1.json, and {flag[2:]} that"
        refuse(flag, message, remedy)


def exit_of_horizon(horizon: HorizonPlan, interrupted: bool, required_gap: float | None, quiet: bool) -> None:
    """Exit as the work ended."""
    if interrupted:
        from planner.reports.phrases import best_so_far

        note(best_so_far(horizon), quiet)
        raise typer.Exit(130)
    if required_gap is not None and horizon.status != "optimal" and horizon.gap_frac > required_gap:
        note(f"proved within {horizon.gap_frac:.3%} only; {required_gap:.3%} was required", quiet)
        raise typer.Exit(4)
