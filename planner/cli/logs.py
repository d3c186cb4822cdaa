"""The verb that turns logs into demand: demand."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from planner.cli.common import Format, FormatOption, begin_work, examples, note
from planner.cli.emit import emit_made

verbs = typer.Typer()


class Split(StrEnum):
    model = "model"
    route = "route"
    team = "team"


class TimeUnit(StrEnum):
    s = "s"
    ms = "ms"
    us = "us"
    ns = "ns"


@verbs.command(
    epilog=examples(
        "fleetplan demand logs/*.csv.gz --out demand.yaml",
        "fleetplan demand requests.parquet --columns time=ts,prompt=in_tok,output=out_tok --by team --out demand.yaml",
    )
)
def demand(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE", help="Logs: files, folders or patterns.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the demand file to this file instead of stdout.")
    ] = None,
    by: Annotated[Split | None, typer.Option(help="Make one workload per model, route or team.")] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Names of the columns, for other formats: time=ts,prompt=in,output=out,model=m,..."),
    ] = None,
    time_unit: Annotated[TimeUnit | None, typer.Option(help="Unit of times given as numbers.")] = None,
    time_zone: Annotated[str, typer.Option(help="Time zone of the hours of the day, such as Europe/Berlin.")] = "UTC",
    holidays: Annotated[
        str | None, typer.Option(help="Dates that count as weekend days, such as 2026-12-25,2026-12-26.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the workload, if --by is not given.")] = "requests",
    engine: Annotated[
        str, typer.Option(help="duckdb, or for logs too large for one machine spark or spark://host:port.")
    ] = "duckdb",
    work: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help="Folder for the engine's temporary files.")
    ] = None,
    sessions: Annotated[
        bool, typer.Option("--sessions", help="Read prompts that begin with each other's blocks as turns of sessions.")
    ] = False,
    format: FormatOption = Format.table,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no notes.")] = False,
) -> None:
    """Write a demand file from request logs, traces or metrics.

    Formats are known by their columns: LiteLLM, OpenTelemetry, Langfuse, OpenAI usage, vLLM's metrics from Prometheus,
    Azure and Mooncake traces, and tables of requests or of counts (docs/reference/logs.md).
    """
    from planner.case.demand.from_logs import check_name
    from planner.io.files import check_targets
    from planner.logs.reading.sources import log_files
    from planner.verbs.demanding import demand as demand_as_asked

    check_name(name.strip() or "requests")
    check_targets({"--out": out}, log_files(sources))
    begin_work()
    made = demand_as_asked(
        sources,
        by=by.value if by else None,
        columns=columns,
        time_unit=time_unit.value if time_unit else None,
        time_zone=time_zone,
        holidays=[day for part in (holidays or "").split(",") if (day := part.strip())],
        name=name,
        engine=engine,
        work=work,
        sessions=sessions,
    )
    for line in made.notes:
        note(line, quiet)
    emit_made(made.text, made.document, out, format, f"wrote {out}", quiet)
