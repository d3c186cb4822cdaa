"""The verb that turns a plan into files for what runs fleets: export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.common import PlanFile, note, saved_plan

verbs = typer.Typer()
EXAMPLES = """Examples:  fleetplan export plan.json --to kubernetes --out k8s

fleetplan export plan.json --to keda --time-zone Europe/Berlin --out keda"""


@verbs.command(epilog=EXAMPLES)
def export(
    file: PlanFile,
    to: Annotated[str, typer.Option(metavar="TARGET", help="kubernetes, keda, karpenter, skypilot or compose.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The folder to write; made if missing.")],
    month: Annotated[int, typer.Option(help="Month of the plan, from 1 on; a plan that grows has three.")] = 1,
    time_zone: Annotated[
        str | None, typer.Option(help="Time zone of the plan's hours, as Europe/Berlin; that of its demand file.")
    ] = None,
    image: Annotated[str | None, typer.Option(help="Container image of the engine, such as that of your registry.")] = (
        None
    ),
    force: Annotated[
        bool, typer.Option("--force", help="Replace an earlier export in DIR; other files are never touched.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no notes.")] = False,
) -> None:
    """Write a plan as Kubernetes, KEDA, Karpenter, SkyPilot or Compose files with a README. Applies nothing."""
    from planner.export.export import export_plan
    from planner.export.folder import write_folder
    from planner.export.hosted import Settings
    from planner.io.time_zones import UTC

    plan = saved_plan(file)
    files = export_plan(plan, to, Settings(month - 1, time_zone or plan.case.time_zone or UTC, image))
    for remark in write_folder(out, to, files, force):
        note(remark, quiet)
    note(f"wrote {len(files)} files into {out}: start with {out / 'README.md'}", quiet)
