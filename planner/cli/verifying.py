"""The verb that serves a plan: verify."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.common import (
    DiffFormat,
    HtmlOption,
    MarkdownOption,
    PlanFile,
    note,
    put,
    put_json,
    refuse,
    require_numba,
)
from planner.cli.horizon import QuarterOption, ScenarioOption, is_horizon, months_of, saved_quarter

if TYPE_CHECKING:
    from planner.plan.plan import Plan
    from planner.verification.records import VerificationReport
    from planner.verification.request_logs import RequestSource
    from planner.verification.serving import ServeOptions

verbs = typer.Typer()
MISSED = 6
MOST_LOADS = 10


class Router(StrEnum):
    least_requests = "least-requests"
    prefix_aware = "prefix-aware"
    round_robin = "round-robin"
    random = "random"


@verbs.command(
    epilog="Examples:  fleetplan verify plan.json    fleetplan verify plan.json --load 1,1.1,1.3 --html verified.html"
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
    seed: Annotated[int, typer.Option(min=0, help="Another seed draws other requests.")] = 1,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write all figures as JSON to this file.")] = None,
    html: HtmlOption = None,
    markdown: MarkdownOption = None,
    format: Annotated[DiffFormat, typer.Option(help="What to print on stdout.")] = DiffFormat.table,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")] = False,
) -> None:
    """Serve a plan request by request and hold its promises against what users would have seen.

    Exits with 6 where a promise is missed.
    """
    from planner.io.files import check_targets, write_whole
    from planner.reports.verification import verification_markdown, verification_text

    check_targets({"--out": out, "--html": html, "--markdown": markdown}, [file, *([log] if log else [])])
    require_numba()
    plan = saved_quarter(file, quarter, scenario, default=1)
    loads = _loads(load)
    months = {s.month for s in plan.slots}
    if month is None and is_horizon(file):
        month = _busiest_month(file, plan, quarter, scenario, quiet)
    if month is not None and month - 1 not in months:
        refuse("--month", f"the plan has {len(months)} month{'s' * (len(months) > 1)}", "Leave it out")
    options = _options(router, reclaim, fail, month, days, seed)
    report = _verified(plan, options, loads, slack, _log_of(plan, log, workload, at), quiet)
    if out is not None:
        write_whole(out, report.model_dump_json(indent=1) + "\n")
        note(f"wrote {out}", quiet)
    if markdown is not None:
        write_whole(markdown, verification_markdown(report))
        note(f"wrote {markdown}", quiet)
    if html is not None:
        from planner.reports.html.verification import verification_page

        write_whole(html, verification_page(report))
        note(f"wrote {html}", quiet)
    if format is DiffFormat.json:
        put_json(report.model_dump(mode="json"))
    else:
        put(verification_markdown(report) if format is DiffFormat.md else verification_text(report))
    if not report.kept:
        raise typer.Exit(MISSED)


def _busiest_month(file: Path, plan: Plan, quarter: int | None, scenario: str | None, quiet: bool) -> int:
    """The month of a quarter of a horizon to serve, from 1 on: the busiest of the scenario, or of all of them."""
    from planner.plan.view import PlanView

    view = PlanView(plan)
    rates = [view.rates_rps(w) for w in plan.case.workloads]
    mine = months_of(file, quarter, scenario) or dict.fromkeys(range(view.months))

    def load(month: int) -> float:
        return sum(r[t] for r in rates for t, s in enumerate(plan.slots) if s.month == month)

    busiest = max(mine, key=load)
    if plan.case.months is not None:
        note(f"serving {plan.case.months[busiest].label}, the busiest month of quarter {quarter or 1}", quiet)
    return busiest + 1


def _loads(text: str) -> list[float]:
    try:
        loads = [float(part) for part in text.split(",")]
    except ValueError:
        refuse("--load", f"expected numbers with commas between them, got {text[:40]!r}", "Write --load 1,1.1,1.3")
    if not loads or len(loads) > MOST_LOADS or not all(0.01 <= x <= 20 for x in loads):
        refuse("--load", f"takes 1 to {MOST_LOADS} numbers from 0.01 to 20", "Write --load 1,1.1,1.3")
    return loads


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


def _verified(
    plan: Plan,
    options: ServeOptions,
    loads: list[float],
    slack: bool,
    log: RequestSource | None,
    quiet: bool,
) -> VerificationReport:
    from planner.reports.progress import share_on_stderr
    from planner.verification.records import VerificationReport
    from planner.verification.serving import verify_plan
    from planner.verification.slack import slack_of

    with share_on_stderr(quiet) as on_progress:
        runs = []
        for k, load in enumerate(loads):
            at_load = replace(options, load=load)
            head = f"load {load:g}: " if len(loads) > 1 else ""

            def tell(what: str, done: float, head: str = head, k: int = k) -> None:
                on_progress(head + what, (k + done) / len(loads))

            runs.append(verify_plan(plan, at_load, tell, log))
        found = slack_of(plan, options, on_progress, log) if slack else None
    return VerificationReport(runs=tuple(runs), slack=found)
