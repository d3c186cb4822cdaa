"""What serving a plan showed: its tables, as text and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator

from planner.io.errors import escaped
from planner.io.formatting import counted, percent, usd
from planner.reports.tables.markdown import bullets, markdown, titled_markdown
from planner.reports.tables.table import Column, Table, paragraphs
from planner.reports.tables.text import titled_text
from planner.verification.records import Percentiles, Promise, Verification, VerificationReport

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
C = Column


def verification_text(report: VerificationReport) -> str:
    parts: list[Iterator[str] | list[str]] = []
    for run in report.runs:
        parts.append([headline(run), *(f"  {escaped(line)}" for line in coverage(run))])
        parts += [titled_text(table) for table in tables(run)]
        parts.append([f"  {escaped(line)}" for line in run.notes])
    return paragraphs([*parts, [f"  {line}" for line in conclusions(report)]])


def verification_markdown(report: VerificationReport) -> str:
    parts: list[list[str]] = [["# Verification"]]
    for run in report.runs:
        parts.append([f"**{markdown(headline(run))}**"])
        parts.append(bullets([*coverage(run)]))
        parts += [titled_markdown(table) for table in tables(run)]
        parts.append(bullets(run.notes))
    return paragraphs([*parts, bullets(conclusions(report))])


def headline(run: Verification) -> str:
    promises = [(f"{w.name}: {p.what}", p) for w in run.workloads for p in w.promises]
    missed = [name for name, p in promises if not p.kept]
    answer = f"MISSED {len(missed)}: {', '.join(missed)}" if missed else _not_missed(run)
    unsure = [name for name, p in promises if p.is_open]
    answer += f"; within the interval: {', '.join(unsure)}" if unsure else ""
    load = f" at {run.load:g} times the demand" if run.load != 1 else ""
    requests = counted(run.requests, "request")
    verified = "verified" if run.stopped is None else f"not verified ({run.stopped}); served"
    return escaped(f"{run.plan}: {verified} by {requests}{load} ({run.router}, seed {run.seed}): {answer}")


def _not_missed(run: Verification) -> str:
    if run.stopped is None:
        return "every promise kept"
    return "no promise missed so far" if run.requests else "nothing was measured"


def coverage(run: Verification) -> Iterator[str]:
    """Which hours were served, where it is not every one, and how those stand for the others."""
    for each in run.hours:
        share = f"{len(each.hours)} of {counted(each.of, 'hour')}"
        if not each.hours:
            yield f"{each.pool}: no hour was served to the end"
        elif each.sampled:
            total = f"of about {counted(each.requests, 'request')}"
            yield f"{each.pool}: a sample, {share} {total}, each after a warm-up: {hour_names(each.hours)}"
        elif len(each.hours) < each.of:
            yield f"{each.pool}: {share}: {hour_names(each.hours)}; the shares are theirs"
    if any(each.sampled and each.hours for each in run.hours):
        yield "shares and latencies are estimates for all hours; intervals are those of the sample, from hour to hour"


def hour_names(hours: tuple[int, ...]) -> str:
    """Hours of the week, those in a row as one."""
    runs: list[list[int]] = []
    for hour in hours:
        if runs and runs[-1][-1] == hour - 1:
            runs[-1].append(hour)
        else:
            runs.append([hour])
    return ", ".join(hour_name(r[0]) + (f" to {hour_name(r[-1])}" if len(r) > 1 else "") for r in runs)


def tables(run: Verification) -> list[Table]:
    hosted = [w for w in run.workloads if w.promises]
    both = [promises(run), latencies(run)] if hosted else []
    return [*both, requests(run), *([replicas(run)] if run.deployments else [])]


def promises(run: Verification) -> Table:
    columns = (
        C("workload", "workload"), C("promise", "promise"), C("served_frac", "served", "percent"),
        C("interval", "95% interval", ">s"), C("latency", "at that share", ">s"), C("bad_hours", "bad hours", "count"),
        C("worst_hour", "worst hour"), C("kept", ""),
    )  # fmt: skip
    return Table("promises", "promises", columns, tuple(_promise(w.name, p) for w in run.workloads for p in w.promises))


def _promise(workload: str, p: Promise) -> tuple[str | float | int | None, ...]:
    worst = None if p.worst_hour is None else f"{hour_name(p.worst_hour)} ({percent(p.worst_frac or 0.0, 1)})"
    return (
        workload,
        f"{p.what} {seconds(p.target_s)} for {percent(p.percentile)}",
        percent(p.within_frac, 1),
        f"{percent(p.low_frac, 1)} to {percent(p.high_frac, 1)}",
        None if p.at_percentile_s is None else seconds(p.at_percentile_s),
        p.bad_hours,
        worst,
        ("kept" if p.kept else "MISSED") + (", within the interval" if p.is_open else ""),
    )


def latencies(run: Verification) -> Table:
    kinds = ("TTFT", "TPOT", "E2E")
    columns = [C("workload", "workload")]
    columns += [C(f"{k}_{p}", f"{k} {p}" if p == "p50" else p, ">s") for k in kinds for p in ("p50", "p95", "p99")]
    columns.append(C("all_within_frac", "all targets", ">s"))
    rows = (
        (w.name, *_three(w.ttft), *_three(w.tpot), *_three(w.e2e), percent(w.all_within_frac, 1))
        for w in run.workloads
        if w.promises and w.all_within_frac is not None
    )
    return Table("latencies", "latencies", tuple(columns), tuple(rows))


def _three(found: Percentiles | None) -> tuple[str | None, ...]:
    return (None,) * 3 if found is None else tuple(seconds(x) for x in (found.p50_s, found.p95_s, found.p99_s))


def requests(run: Verification) -> Table:
    counts = ("requests", "served", "api", "shed", "refused", "unfinished")
    titles = ("requests", "on GPUs", "API", "shed", "refused", "unfinished")
    columns = [C("workload", "workload"), *(C(k, t, "count") for k, t in zip(counts, titles, strict=True))]
    columns += [C("preempted_frac", "preempted", "percent"), C("found_frac", "cached tokens", "percent")]
    columns += [C("planned_found_frac", "planned at least", "percent")]
    rows = (
        (w.name, *(getattr(w, k) for k in counts),
         *(percent(share, 1) for share in (w.preempted_frac, w.found_frac, w.planned_found_frac)))
        for w in run.workloads
    )  # fmt: skip
    title = f"requests ({run.source}; month {run.month + 1})"
    return Table("requests", title, tuple(columns), tuple(rows))


def replicas(run: Verification) -> Table:
    columns = (
        C("deployment", "deployment"), C("peak_replicas", "peak replicas", "count"), C("mean_replicas", "mean", ".1f"),
        C("utilization_frac", "time in steps", "percent"), C("load_frac", "planned load", "percent"),
    )  # fmt: skip
    rows = (
        (f"{d.pool}: {d.deployment}", d.peak_replicas, d.mean_replicas, d.utilization_frac, d.load_frac)
        for d in run.deployments
    )
    return Table("replicas", "replicas", columns, tuple(rows))


def conclusions(report: VerificationReport) -> Iterator[str]:
    """What several loads and trials say together."""
    if len(report.runs) > 1:
        yield "at " + ", ".join(
            f"{run.load:g} times the demand {'every promise is kept' if run.kept else 'a promise is missed'}"
            for run in report.runs
        )
    if report.stopped is not None and report.not_served:
        yield f"{report.stopped} before this was served: {', '.join(report.not_served)}"
    slack = report.slack
    if slack is None:
        return
    if slack.holds_to_load is None:
        yield "no slack: a promise is missed at the demand itself"
        return
    more = " and more" if slack.holds_beyond else ""
    days = counted(slack.days, "day")
    yield f"slack: holds to {slack.holds_to_load:.2f} times the demand{more} ({days} served each time)"
    if slack.smallest_fleet_frac is not None and slack.spare_usd_per_month is not None:
        yield (
            f"slack: {percent(slack.smallest_fleet_frac)} of the replicas, rounded up in every hour, would hold; "
            f"the others cost {usd(slack.spare_usd_per_month)} / month"
        )


def hour_name(hour: int) -> str:
    return f"{DAYS[hour // 24]} {hour % 24:02d}h"


def seconds(value: float) -> str:
    """ms below a second, s below an hour, else hours, each to three digits or the whole number."""
    units = (("ms", 1e-3, 1.0), ("s", 1.0, 3600.0), ("h", 3600.0, math.inf))
    unit, size, _ = next(u for u in units if float(f"{value / u[1]:.4g}") * u[1] < u[2])
    figure = f"{value / size:.3g}"
    return f"{value / size:,.0f} {unit}" if float(figure) >= 1000 else f"{figure} {unit}"
