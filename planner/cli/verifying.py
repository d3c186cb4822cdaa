"""The verb that serves a plan, or every quarter of a horizon: verify."""

from __future__ import annotations

from dataclasses import replace
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
    require_numba,
    seconds,
)
from planner.cli.emit import Outputs, emit
from planner.cli.horizon import (
    QuarterOption,
    ScenarioOption,
    blocks_asked,
    is_horizon,
    months_of,
    saved_horizon,
    saved_quarter,
)

if TYPE_CHECKING:
    from planner.plan.plan import Plan
    from planner.verification.horizons import HorizonVerification
    from planner.verification.records import VerificationReport
    from planner.verification.request_logs import RequestSource
    from planner.verification.serving import ServeOptions
    from solvers.backends.deadline import Held

verbs = typer.Typer()
MOST_LOADS = 10


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
    from solvers.backends.deadline import interruptions_held, limited_to

    outputs = Outputs(format, out, html, markdown, quiet=quiet)
    outputs.check([file, *([log] if log else [])])
    require_numba()
    loads = _loads(load)
    limit_s = seconds("--time-limit", time_limit)
    options = replace(_options(router, reclaim, fail, month, days, seed), most_requests=_most(most_requests))
    served: VerificationReport | HorizonVerification | None = None
    with interruptions_held() as held:
        with held.attempt(), limited_to(left_of(limit_s)):
            if is_horizon(file) and (quarter is None or (quarter > 1 and scenario is None)):
                _refuse_for_several({"--log": log, "--workload": workload, "--at": at, "--month": month})
                _refuse_for_several({"--slack": slack or None})
                served = _horizon_served(file, quarter, scenario, options, loads, quiet)
            else:
                plan = saved_quarter(file, quarter, scenario)
                options = replace(options, month=_month(file, plan, month, quarter, scenario, quiet))
                served = _plan_served(plan, options, loads, slack, _log_of(plan, log, workload, at), quiet)
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


def _refuse_for_several(asked: dict[str, object]) -> None:
    for flag in (flag for flag, given in asked.items() if given is not None):
        remedy = "Add --quarter 1, or a later one with --scenario NAME"
        refuse(flag, "is for one quarter, and several quarters of the horizon would be served", remedy)


def _month(
    file: Path, plan: Plan, month: int | None, quarter: int | None, scenario: str | None, quiet: bool
) -> int | None:
    """The month to serve, from 0 on; of a quarter of a horizon the busiest of the scenario, or of all of them."""
    months = {s.month for s in plan.slots}
    if month is not None:
        if month - 1 not in months:
            refuse("--month", f"the plan has {len(months)} month{'s' * (len(months) > 1)}", "Leave it out")
        return month - 1
    if not is_horizon(file):
        return None
    from planner.verification.horizons import busiest_month

    busiest = busiest_month(plan, months_of(file, quarter, scenario) or sorted(months))
    if plan.case.months is not None:
        note(f"serving {plan.case.months[busiest].label}, the busiest month of quarter {quarter}", quiet)
    return busiest


def _loads(text: str) -> list[float]:
    try:
        loads = [float(part) for part in text.split(",")]
    except ValueError:
        refuse("--load", f"expected numbers with commas between them, got {text[:40]!r}", "Write --load 1,1.1,1.3")
    if not loads or len(loads) > MOST_LOADS or not all(0.01 <= x <= 20 for x in loads):
        refuse("--load", f"takes 1 to {MOST_LOADS} numbers from 0.01 to 20", "Write --load 1,1.1,1.3")
    return loads


def _most(text: str) -> int | None:
    """Requests beyond which hours are sampled; None where every one is served."""
    from planner.io.units import parse_positive_whole

    return None if text == "all" else parsed("--requests", parse_positive_whole, text)


def _options(router: Router | None, reclaim: int, fail: int, month: int | None, days: int, seed: int) -> ServeOptions:
    from planner.verification.serving import ServeOptions

    return ServeOptions(
        seed=seed,
        router=None if router is None else router.value,
        month=None if month is None else month - 1,
        reclaims=reclaim,
        failures=fail,
        days=days,
    )


def _log_of(plan: Plan, log: Path | None, workload: str | None, at: int | None) -> RequestSource | None:
    from planner.io.errors import did_you_mean, shown
    from planner.verification.request_logs import source_of

    if log is None:
        for flag, value in (("--workload", workload), ("--at", at)):
            if value is not None:
                refuse(flag, "is for --log", "Add --log")
        return None
    names = [w.name for w in plan.case.workloads]
    if workload is None and len(names) > 1:
        refuse("--log", "the plan has several workloads", "Name one with --workload; the others are drawn")
    if workload is not None and workload not in names:
        refuse("--workload", f"there is no workload {shown(workload)}", did_you_mean(workload, names))
    return source_of(plan, log, workload or names[0], at)


def _plan_served(
    plan: Plan,
    options: ServeOptions,
    loads: list[float],
    slack: bool,
    log: RequestSource | None,
    quiet: bool,
) -> VerificationReport:
    """Serve a plan; an interruption ends it with what is known so far."""
    from solvers.backends.deadline import interruptions_deferred, why_stopped

    with interruptions_deferred():
        from planner.reports.progress import share_on_stderr
        from planner.verification.records import VerificationReport
        from planner.verification.serving import verify_plan
        from planner.verification.slack import slack_of

    found, stopped = None, None
    with share_on_stderr(quiet) as on_progress:
        runs = []
        for k, load in enumerate(loads):
            at_load = replace(options, load=load)
            head = f"load {load:g}: " if len(loads) > 1 else ""

            def tell(what: str, done: float, head: str = head, k: int = k) -> None:
                on_progress(head + what, (k + done) / len(loads))

            runs.append(verify_plan(plan, at_load, tell, log, keep_partial=True))
            stopped = runs[-1].stopped
            if stopped is not None:
                break
        if slack and stopped is None:
            try:
                found = slack_of(plan, options, on_progress, log)
            except KeyboardInterrupt as stop:
                stopped = why_stopped(stop)
    left = [f"load {load:g}" for load in loads[len(runs) :]] + ["slack"] * (slack and found is None)
    return VerificationReport(runs=tuple(runs), slack=found, stopped=stopped, not_served=tuple(left))


def _horizon_served(
    file: Path, quarter: int | None, scenario: str | None, options: ServeOptions, loads: list[float], quiet: bool
) -> HorizonVerification:
    """Serve every quarter of a horizon, or of one scenario, or a later quarter in every scenario."""
    from solvers.backends.deadline import interruptions_deferred

    with interruptions_deferred():
        from planner.reports.progress import share_on_stderr
        from planner.verification.horizons import verify_horizon

    horizon = saved_horizon(file)
    asked = blocks_asked(horizon, quarter, scenario)
    with share_on_stderr(quiet) as on_progress:
        return verify_horizon(horizon, asked, options, loads, on_progress, keep_partial=True)
