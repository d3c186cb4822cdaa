"""The verb that serves a plan, or every quarter of a horizon: verify."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from planner.cli import guard
from planner.cli.common import (
    MISSED,
    NOT_SERVED,
    DiffFormat,
    HtmlOption,
    MarkdownOption,
    PlanFile,
    QuarterOption,
    ScenarioOption,
    begin_work,
    examples,
    left_of,
    note,
    parsed,
    refuse,
    seconds,
)
from planner.cli.emit import Outputs, emit

if TYPE_CHECKING:
    from planner.verification.records import HorizonVerification, VerificationReport

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
        "fleetplan verify plan.json --autoscaler keda --forecast-error 15%",
        "fleetplan verify horizon.json --quarter 2 --scenario fast",
    )
)
def verify(
    file: PlanFile,
    log: Annotated[
        Path | None, typer.Option(metavar="LOG.csv", help="Serve these requests: any log that `demand` reads.")
    ] = None,
    workload: Annotated[
        str | None, typer.Option(help="The workload that --log belongs to, if the plan has several.")
    ] = None,
    at: Annotated[
        int | None, typer.Option(min=0, max=167, help="Hour of the week at which --log begins; Monday 0h is 0.")
    ] = None,
    load: Annotated[str, typer.Option(help="Multiples of the demand to serve, such as 1,1.1,1.3.")] = "1",
    slack: Annotated[
        bool,
        typer.Option(
            "--slack", help="Find the largest load that the fleet holds, and the smallest fleet that holds the load."
        ),
    ] = False,
    router: Annotated[
        Router | None, typer.Option(help="How requests are spread over replicas; default: as planned.")
    ] = None,
    reclaim: Annotated[
        int, typer.Option(min=0, max=100, help="How often in the week a zone's spot instances are reclaimed.")
    ] = 0,
    fail: Annotated[int, typer.Option(min=0, max=100, help="How often in the week a replica fails.")] = 0,
    stock_out: Annotated[
        int,
        typer.Option(min=0, max=100, help="Hours of the week in which scarce instances beyond those counted on fail."),
    ] = 0,
    autoscaler: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Serve behind this controller: keda, llm-d-slo, ..., or plan for its own."),
    ] = None,
    forecast_error: Annotated[
        str | None,
        typer.Option(
            metavar="15%",
            help="By which days differ from the forecast; +20%: all have more; or review.json.",
        ),
    ] = None,
    spike: Annotated[str | None, typer.Option(metavar="2x", help="Demand of the busiest hour, times this.")] = None,
    month: Annotated[int | None, typer.Option(min=1, help="Month of the plan to serve; default: the busiest.")] = None,
    quarter: QuarterOption = None,
    scenario: ScenarioOption = None,
    days: Annotated[int, typer.Option(min=1, max=7, help="Days to serve, from Monday on.")] = 7,
    most_requests: Annotated[
        str,
        typer.Option(
            "--requests",
            metavar="MAX",
            help="Serve a sample of the hours if there are more requests than this; 'all' serves every hour.",
        ),
    ] = "30M",
    time_limit: Annotated[
        str | None,
        typer.Option(help='Time limit of the whole command, such as "5min"; what was served by then is reported.'),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random requests.")] = 1,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write all figures as JSON to this file.")] = None,
    html: HtmlOption = None,
    markdown: MarkdownOption = None,
    format: Annotated[DiffFormat, typer.Option(help="What to print on stdout.")] = DiffFormat.table,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print neither progress nor notes.")] = False,
) -> None:
    """Serve a plan request by request, in simulation, and compare its promises with what users would have seen.

    Of a multi-quarter plan, the busiest month of each quarter and scenario is served, or of those you name.

    A promise must be kept over all requests and in 90% of the hours (policy: {hours_kept: 90%} in the demand file).

    Exits with 6 if a promise is missed, and with 7 if time ran out before that was known.
    """
    from planner.reports.progress import share_on_stderr
    from planner.verbs.judging import verify as served_by
    from planner.verbs.planning import require_numba
    from solvers.backends.clock import Stopped, limited_to, why_stopped

    outputs = Outputs(format, out, html, markdown, quiet=quiet)
    outputs.check([file, *([log] if log else [])])
    require_numba()
    loads, most = _loads(load), _most(most_requests)
    limit_s = seconds("--time-limit", time_limit)
    begin_work(limit_s)
    guard.keep(_nothing_served)
    try:
        with limited_to(left_of(limit_s)), share_on_stderr(quiet) as on_progress:
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
                stock_outs=stock_out,
                month=month,
                quarter=quarter,
                scenario=scenario,
                most_requests=most,
                autoscaler=autoscaler,
                forecast_error=forecast_error,
                spike=spike,
                seed=seed,
                on_progress=on_progress,
                on_note=lambda text: note(text, quiet),
            )
    except Stopped as stop:
        _end_unserved(why_stopped(stop))
    _put_out(served, outputs)


def _put_out(served: VerificationReport | HorizonVerification, outputs: Outputs) -> None:
    """Write and print what was served, and exit as that ended."""
    from solvers.backends.clock import INTERRUPTED, stop_is_asked, undisturbed

    guard.end_by(float("inf"))  # nobody else would have put it out sooner
    with undisturbed():
        from planner.reports.verification import verification_document

        emit(verification_document(served), outputs)
        guard.put_out()
    if served.stopped == INTERRUPTED or stop_is_asked():
        raise typer.Exit(130)
    if not served.kept:
        raise typer.Exit(MISSED)
    if served.stopped is not None:
        raise typer.Exit(NOT_SERVED)


def _nothing_served(reason: str) -> NoReturn:
    """For work that had to be ended from outside, such as compiling the simulator."""
    from solvers.backends.clock import INTERRUPTED, OUT_OF_TIME

    _end_unserved(OUT_OF_TIME if reason == guard.OUT_OF_TIME else INTERRUPTED)


def _end_unserved(stopped: str) -> NoReturn:
    from solvers.backends.clock import INTERRUPTED

    note(f"nothing was served: {stopped} before that")
    raise typer.Exit(130 if stopped == INTERRUPTED else NOT_SERVED)


def _loads(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        refuse("--load", f"expected numbers with commas between them, got {text[:40]!r}", "Write --load 1,1.1,1.3")


def _most(text: str) -> int | None:
    """Requests beyond which hours are sampled; None where every one is served."""
    from planner.io.units import parse_positive_whole

    return None if text == "all" else parsed("--requests", parse_positive_whole, text)
