"""What serving a plan showed: its tables, as text and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator

from planner.io.errors import escaped
from planner.io.formatting import counted, percent, usd
from planner.reports.markdown import bullets, markdown, titled_markdown
from planner.reports.table import Column, Table, paragraphs
from planner.reports.text import titled_text
from planner.verification.records import MissedHour, Percentiles, Promise, Verification, VerificationReport

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
C = Column
MOST_HOURS = 10
"""hours that miss which a report shows"""


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
    missed = [name + _by_the_hour_only(p) for name, p in promises if not p.kept]
    answer = f"MISSED {len(missed)}: {', '.join(missed)}" if missed else _not_missed(run)
    unsure = [name for name, p in promises if p.is_open]
    answer += f"; within the interval: {', '.join(unsure)}" if unsure else ""
    load = f" at {run.load:g} times the demand" if run.load != 1 else ""
    requests = counted(run.requests, "request")
    verified = "verified" if run.stopped is None else f"not verified ({run.stopped}); served"
    return escaped(f"{run.plan}: {verified} by {requests}{load} ({run.router}, seed {run.seed}): {answer}")


def _by_the_hour_only(p: Promise) -> str:
    return " (by the hour)" if p.within_frac >= p.percentile else ""


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
    bad = [missed_hours(run)] if any(p.missed_hours for w in hosted for p in w.promises) else []
    both = [*bad, promises(run), latencies(run)] if hosted else []
    return [*both, requests(run), *([replicas(run)] if run.deployments else [])]


def missed_hours(run: Verification) -> Table:
    """The worst hours of every promise, and why each misses."""
    columns = (
        C("workload", "workload"), C("promise", "promise"), C("hour", "hour"), C("requests", "requests", "count"),
        C("served_frac", "served", "percent"), C("reason", "reason"), C("facts", "what was seen"),
    )  # fmt: skip
    told = [(w.name, p, hour) for w in run.workloads for p in w.promises for hour in p.missed_hours]
    told.sort(key=lambda row: (row[1].kept, row[2].within_frac / row[1].percentile))
    title = "hours that miss" if len(told) <= MOST_HOURS else f"hours that miss ({MOST_HOURS} of {len(told)})"
    rows = (
        (name, f"{p.what} {seconds(p.target_s)}", hour_name(hour.hour), hour.requests, percent(hour.within_frac, 1),
         hour.reason, _facts(hour))
        for name, p, hour in told[:MOST_HOURS]
    )  # fmt: skip
    return Table("missed_hours", title, columns, tuple(rows))


def _facts(hour: MissedHour) -> str:
    """What stands behind a reason; of one that is none of overload, how busy replicas were."""
    return {
        "fewer replicas than planned": f"{hour.replicas:.1f} of {hour.planned_replicas:.0f} replicas ran",
        "work was left over": f"{hour.waiting:,.0f} requests waited when it began",
        "more requests than planned": f"{hour.pool_requests:,.0f} requests, {hour.planned_requests:,.0f} planned",
        "KV memory ran out": f"{percent(hour.preempted_frac)} of the requests preempted",
        "bursts": f"{hour.busiest_minutes_ratio:.1f} times the mean in the busiest 15 minutes",
        "replicas were busy": f"{percent(hour.busy_frac)} of the time in steps",
        "requests are slow by themselves": f"{percent(hour.busy_frac)} of the time in steps",
    }[hour.reason]


def promises(run: Verification) -> Table:
    columns = (
        C("workload", "workload"), C("promise", "promise"), C("served_frac", "served", "percent"),
        C("interval", "95% interval", ">s"), C("latency", "at that share", ">s"), C("bad_hours", "bad hours", ">s"),
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
        _bad_hours(p),
        worst,
        ("kept" if p.kept else "MISSED") + (", within the interval" if p.is_open else ""),
    )


def _bad_hours(p: Promise) -> str:
    """So many of those with requests enough to tell, and the share that keep it where it must be."""
    if p.hours_kept_frac is None:
        return "none judged"
    short = (
        "" if p.kept_by_the_hour else f": {percent(p.hours_kept_frac, 1)} kept, {percent(p.hours_promised_frac)} needed"
    )
    return f"{p.bad_hours} of {p.hours_judged}{short}"


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
    busy = "" if slack.busy_frac is None else f"; replicas spend {percent(slack.busy_frac)} of their time in steps"
    if slack.holds_to_load is None:
        yield f"no slack: a promise is missed at the demand itself{busy}"
        return
    more = " and more" if slack.holds_beyond else ""
    days = counted(slack.days, "day")
    yield f"slack: holds to {slack.holds_to_load:.2f} times the demand{more} ({days} served each time){busy}"
    if slack.one_replica:
        yield (
            "slack: no deployment has more than one replica in any hour, which is the least: only a smaller GPU, "
            "another quantization or sharing replicas could cost less"
        )
    if slack.smallest_fleet_frac is not None and slack.spare_usd_per_month is not None:
        yield (
            f"slack: {percent(slack.smallest_fleet_frac)} of the replicas, rounded up in every hour, would hold; "
            f"the others cost {usd(slack.spare_usd_per_month)} / month"
            + (f" ({slack.spare_gpu_hours_per_month:,.0f} GPU-hours)" if slack.spare_gpu_hours_per_month else "")
        )


def hour_name(hour: int) -> str:
    return f"{DAYS[hour // 24]} {hour % 24:02d}h"


def seconds(value: float) -> str:
    """ms below a second, s below an hour, else hours, each to three digits or the whole number."""
    units = (("ms", 1e-3, 1.0), ("s", 1.0, 3600.0), ("h", 3600.0, math.inf))
    unit, size, _ = next(u for u in units if float(f"{value / u[1]:.4g}") * u[1] < u[2])
    figure = f"{value / size:.3g}"
    return f"{value / size:,.0f} {unit}" if float(figure) >= 1000 else f"{figure} {unit}"
