"""The verb that serves a plan, or every quarter of a horizon: verify."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.common import (
    MISSED,
    NOT_SERVED,
    DiffFormat,
    HtmlOption,
    MarkdownOption,
    PlanFile,
    examples,
    left_of,
    note,
    parsed,
    refuse,
    seconds,
)
from planner.cli.emit import Outputs, emit
from planner.cli.horizon import QuarterOption, ScenarioOption

if TYPE_CHECKING:
    from planner.verification.records import HorizonVerification, VerificationReport
    from solvers.backends.deadline import Held

verbs = typer.Typer()


class Router(StrEnum):
    least_requests = "least-requests"
    prefix_aware = "prefix-aware"
    round_robin = "round-robin"
    random = "random"


@verbs.command(
    epilog=examples(
        "fleetplan verify plan.json",
        "fleetplan verify plan.json --load 1,1.1,1.3 --html verified.html",
        "fleetplan verify horizon.json --days 1",
        "fleetplan verify plan.json --requests 10M --time-limit 5min",
        "fleetplan verify horizon.json --quarter 2 --scenario fast",
    )
)
def verify(
    file: PlanFile,
    log: Annotated[
        Path | None, typer.Option(metavar="LOG.csv", help="Serve these requests: any log that `demand` reads.")
    ] = None,
    workload: Annotated[str | None, typer.Option(help="The workload of --log, where the plan has several.")] = None,
    at: Annotated[
        int | None, typer.Option(min=0, max=167, help="Hour of the week, from Monday 0h on, at which --log begins.")
    ] = None,
    load: Annotated[str, typer.Option(help="Multiples of the demand, such as 1,1.1,1.3.")] = "1",
    slack: Annotated[
        bool, typer.Option("--slack", help="Find the largest load and the smallest fleet that hold.")
    ] = False,
    router: Annotated[
        Router | None, typer.Option(help="How requests are spread over replicas; default as planned.")
    ] = None,
    reclaim: Annotated[int, typer.Option(min=0, max=100, help="Spot reclaims of a zone in the week.")] = 0,
    fail: Annotated[int, typer.Option(min=0, max=100, help="Failures of a replica in the week.")] = 0,
    month: Annotated[int | None, typer.Option(min=1, help="Of the plan; default the busiest.")] = None,
    quarter: QuarterOption = None,
    scenario: ScenarioOption = None,
    days: Annotated[int, typer.Option(min=1, max=7, help="Days to serve, from Monday on.")] = 7,
    most_requests: Annotated[
        str,
        typer.Option("--requests", metavar="MAX", help="Serve a sample of hours where there are more; or: all."),
    ] = "30M",
    time_limit: Annotated[
        str | None, typer.Option(help="The whole command takes no longer than this; what was served is reported.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed draws other requests.")] = 1,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write all figures as JSON to this file.")] = None,
    html: HtmlOption = None,
    markdown: MarkdownOption = None,
    format: Annotated[DiffFormat, typer.Option(help="What to print on stdout.")] = DiffFormat.table,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")] = False,
) -> None:
    """Serve a plan request by request and hold its promises against what users would have seen.

    Of a horizon the busiest month of each quarter in each scenario; --quarter and --scenario narrow it down.

    A promise is kept over all requests and in 90% of the hours (policy: {hours_kept: 90%} in the demand file).

    Exits with 6 where a promise is missed, with 7 where time ran out before that was known.
    """
    from planner.verbs.planning import require_numba
    from solvers.backends.deadline import interruptions_deferred, interruptions_held, limited_to

    outputs = Outputs(format, out, html, markdown, quiet=quiet)
    outputs.check([file, *([log] if log else [])])
    require_numba()
    loads, most = _loads(load), _most(most_requests)
    limit_s = seconds("--time-limit", time_limit)
    served: VerificationReport | HorizonVerification | None = None
    with interruptions_held() as held:
        with held.attempt(), limited_to(left_of(limit_s)):
            with interruptions_deferred():
                from planner.reports.progress import share_on_stderr
                from planner.verbs.judging import verify as served_by
            with share_on_stderr(quiet) as on_progress:
                served = served_by(
                    file,
                    days=days,
                    load=loads,
                    slack=slack,
                    log=log,
                    workload=workload,
                    at=at,
                    router=None if router is None else router.value,
                    reclaims=reclaim,
                    failures=fail,
                    month=month,
                    quarter=quarter,
                    scenario=scenario,
                    most_requests=most,
                    seed=seed,
                    on_progress=on_progress,
                    on_note=lambda text: note(text, quiet),
                )
        if served is not None:
            from planner.reports.verification import verification_document

            emit(verification_document(served), outputs)
    _exit(served, held)


def _exit(served: VerificationReport | HorizonVerification | None, held: Held) -> None:
    """Exit as the work ended."""
    from solvers.backends.deadline import INTERRUPTED, why_stopped

    stopped = served.stopped if served is not None else why_stopped(held.came[0])
    if served is None:
        note(f"nothing was served: {stopped} first")
    if stopped == INTERRUPTED or held.by_somebody:
        raise typer.Exit(130)
    if served is not None and not served.kept:
        raise typer.Exit(MISSED)
    if stopped is not None:
        raise typer.Exit(NOT_SERVED)


def _loads(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        refuse("--load", f"expected numbers with commas between them, got {text[:40]!r}", "Write --load 1,1.1,1.3")


def _most(text: str) -> int | None:
    """Requests beyond which hours are sampled; None where every one is served."""
    from planner.io.units import parse_positive_whole

    return None if text == "all" else parsed("--requests", parse_positive_whole, text)
