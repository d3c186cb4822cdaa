"""The tables and sentences of what serving a plan, or every quarter of a horizon, showed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from planner.case.quarters import block_name
from planner.io.formatting import counted, hour_name, percent, usd
from planner.reports.table import Cells, Table
from planner.reports.table import Column as C
from planner.verification.records import (
    HorizonVerification,
    MissedHour,
    Percentiles,
    Promise,
    ServedQuarter,
    Verification,
    VerificationReport,
    WorkloadServed,
)

MOST_HOURS = 10
"""hours that miss which a report shows"""
MORE = "for every promise of a quarter, add --quarter and --scenario; all figures are in the JSON (--out)"


def headline(run: Verification) -> str:
    promises = [(f"{w.name}: {p.what}", p) for w in run.workloads for p in w.promises]
    missed = [name + _by_the_hour_only(p) for name, p in promises if not p.kept]
    answer = f"MISSED {len(missed)}: {', '.join(missed)}" if missed else _not_missed(run)
    unsure = [name for name, p in promises if p.is_open]
    answer += f"; within the interval: {', '.join(unsure)}" if unsure else ""
    load = f" at {run.load:g} times the demand" if run.load != 1 else ""
    requests = counted(run.requests, "request")
    verified = "verified" if run.stopped is None else f"not verified ({run.stopped}); served"
    return f"{run.plan}: {verified} by {requests}{load} ({run.router}, seed {run.seed}): {answer}"


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
            yield f"{each.pool}: no hour was served completely"
        elif each.sampled:
            total = f"of about {counted(each.requests, 'request')}"
            yield f"{each.pool}: a sample, {share} {total}, each after a warm-up: {hour_names(each.hours)}"
        elif len(each.hours) < each.of:
            yield f"{each.pool}: {share}: {hour_names(each.hours)}; the shares refer to these hours"
    if any(each.sampled and each.hours for each in run.hours):
        yield "shares and latencies are estimates for all hours; intervals reflect how much the sampled hours differ"


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


@dataclass(frozen=True)
class _Missed:
    """A promise, and an hour that misses it."""

    workload: str
    promise: Promise
    hour: MissedHour


def missed_hours(run: Verification) -> Table:
    """The worst hours of every promise, and why each misses."""
    columns = (
        C("workload", "workload"),
        C("promise", "promise", get=lambda x: f"{x.promise.what} {seconds(x.promise.target_s)}"),
        C("hour", "hour", get=lambda x: hour_name(x.hour.hour)),
        C("requests", "requests", "count", get=lambda x: x.hour.requests),
        C("served_frac", "served", "percent", get=lambda x: percent(x.hour.within_frac, 1)),
        C("reason", "reason", get=lambda x: x.hour.reason),
        C("facts", "what was seen", get=lambda x: _facts(x.hour)),
    )
    every = [_Missed(w.name, p, hour) for w in run.workloads for p in w.promises for hour in p.missed_hours]
    every.sort(key=lambda x: (x.promise.kept, x.hour.within_frac / x.promise.percentile))
    title = "hours that miss" if len(every) <= MOST_HOURS else f"hours that miss ({MOST_HOURS} of {len(every)})"
    return Table("missed_hours", title, columns, tuple(every[:MOST_HOURS]))


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
        C("workload", "workload", get=lambda wp: wp.workload),
        C("promise", "promise", get=lambda wp: promised(wp.promise)),
        C("served_frac", "served", "percent", get=lambda wp: percent(wp.promise.within_frac, 1)),
        C("interval", "95% interval", ">s", get=lambda wp: _interval(wp.promise)),
        C("latency", "at that share", ">s", get=lambda wp: _seconds(wp.promise.at_percentile_s)),
        C("bad_hours", "bad hours", ">s", get=lambda wp: _bad_hours(wp.promise)),
        C("worst_hour", "worst hour", get=lambda wp: _worst_hour(wp.promise)),
        C("kept", "", get=lambda wp: _kept(wp.promise)),
    )
    return Table(
        "promises", "promises", columns, tuple(_Promised(w.name, p) for w in run.workloads for p in w.promises)
    )


@dataclass(frozen=True)
class _Promised:
    workload: str
    promise: Promise


def promised(p: Promise) -> str:
    return f"{p.what} {seconds(p.target_s)} for {percent(p.percentile)}"


def _interval(p: Promise) -> str:
    return f"{percent(p.low_frac, 1)} to {percent(p.high_frac, 1)}"


def _worst_hour(p: Promise) -> str | None:
    return None if p.worst_hour is None else f"{hour_name(p.worst_hour)} ({percent(p.worst_frac or 0.0, 1)})"


def _kept(p: Promise) -> str:
    return ("kept" if p.kept else "MISSED") + (", within the interval" if p.is_open else "")


def _bad_hours(p: Promise) -> str:
    """So many of those with requests enough to tell, and the share that keep it where it must be."""
    if p.hours_kept_frac is None:
        return "none judged"
    short = (
        "" if p.kept_by_the_hour else f": {percent(p.hours_kept_frac, 1)} kept, {percent(p.hours_promised_frac)} needed"
    )
    return f"{p.bad_hours} of {p.hours_judged}{short}"


def latencies(run: Verification) -> Table:
    def latency(kind: str, share: str) -> C:
        def get(w: WorkloadServed) -> str | None:
            known: Percentiles | None = getattr(w, kind.lower())
            return None if known is None else seconds(getattr(known, f"{share}_s"))

        return C(f"{kind}_{share}", f"{kind} {share}" if share == "p50" else share, ">s", get=get)

    columns = (
        C("workload", "workload", get=lambda w: w.name),
        *(latency(kind, share) for kind in ("TTFT", "TPOT", "E2E") for share in ("p50", "p95", "p99")),
        C("all_within_frac", "all targets", ">s", get=lambda w: percent(w.all_within_frac, 1)),
    )
    measured = tuple(w for w in run.workloads if w.promises and w.all_within_frac is not None)
    return Table("latencies", "latencies", columns, measured)


def requests(run: Verification) -> Table:
    def share(key: str, title: str) -> C:
        return C(key, title, "percent", get=lambda w: percent(getattr(w, key), 1))

    columns = (
        C("workload", "workload", get=lambda w: w.name),
        C("requests", "requests", "count"),
        C("served", "on GPUs", "count"),
        C("api", "API", "count"),
        C("shed", "shed", "count"),
        C("refused", "refused", "count"),
        C("unfinished", "unfinished", "count"),
        share("preempted_frac", "preempted"),
        share("found_frac", "cached tokens"),
        share("planned_found_frac", "planned at least"),
    )
    return Table("requests", f"requests ({run.source}; month {run.month + 1})", columns, tuple(run.workloads))


def replicas(run: Verification) -> Table:
    columns = (
        C("deployment", "deployment", get=lambda d: f"{d.pool}: {d.deployment}"),
        C("peak_replicas", "peak replicas", "count"),
        C("mean_replicas", "mean", ".1f"),
        C("utilization_frac", "time in steps", "percent"),
        C("load_frac", "planned load", "percent"),
    )
    return Table("replicas", "replicas", columns, tuple(run.deployments))


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
        yield f"no slack: a promise is missed at the planned demand{busy}"
        return
    more = " or more" if slack.holds_beyond else ""
    days = counted(slack.days, "day")
    yield f"slack: holds to {slack.holds_to_load:.2f} times the demand{more} ({days} served each time){busy}"
    if slack.one_replica:
        yield (
            "slack: no deployment ever has more than one replica, which is the minimum: only a smaller GPU, another "
            "quantization or shared replicas could cost less"
        )
    if slack.smallest_fleet_frac is not None and slack.spare_usd_per_month is not None:
        yield (
            f"slack: {percent(slack.smallest_fleet_frac)} of the replicas, rounded up in every hour, would be enough; "
            f"the others cost {usd(slack.spare_usd_per_month)} / month"
            + (f" ({slack.spare_gpu_hours_per_month:,.0f} GPU-hours)" if slack.spare_gpu_hours_per_month else "")
        )


def _seconds(value: float | None) -> str | None:
    return None if value is None else seconds(value)


def seconds(value: float) -> str:
    """ms below a second, s below an hour, else hours, each to three digits or the whole number."""
    units = (("ms", 1e-3, 1.0), ("s", 1.0, 3600.0), ("h", 3600.0, math.inf))
    unit, size, _ = next(u for u in units if float(f"{value / u[1]:.4g}") * u[1] < u[2])
    figure = f"{value / size:.3g}"
    return f"{value / size:,.0f} {unit}" if float(figure) >= 1000 else f"{figure} {unit}"


def horizon_headline(served: HorizonVerification) -> str:
    first = served.runs[0].runs[0]
    missed = sum(not served.runs[q.run].kept for q in served.quarters)
    count = len(served.quarters)
    whole = f"{counted(count, 'quarter')} of {counted(len({q.scenario for q in served.quarters}), 'scenario')}"
    answer = f"a promise is MISSED in {missed} of them" if missed else "every promise kept"
    if served.stopped is not None:
        answer = f"{answer if missed else 'no promise missed so far'}; not verified: {served.stopped}"
    how = f"({first.router}, seed {first.seed})"
    return f"{served.plan}: {whole} verified by {counted(served.requests, 'request')} {how}: {answer}"


def quarters(served: HorizonVerification) -> Table:
    """A row for each quarter of each scenario and load, with the promise that was closest to being missed."""
    loads = [run.load for run in served.runs[0].runs]
    load = C("load", "load", "times")
    columns = (
        C("scenario", "scenario"),
        C("quarter", "quarter", "count"),
        C("month", "month served"),
        *([load] if loads != [1.0] else []),
        C("requests", "requests", "count"),
        C("workload", "workload", missing="no promise"),
        C("promise", "tightest promise"),
        C("served_frac", "served", "percent"),
        C("interval", "95% interval", ">s"),
        C("kept", "promises"),
    )
    rows = tuple(_quarter_row(q, run) for q in served.quarters for run in served.runs[q.run].runs)
    return Table("quarters", "quarters served", columns, rows)


def _quarter_row(q: ServedQuarter, run: Verification) -> Cells:
    row = Cells(scenario=q.scenario, quarter=q.quarter + 1, month=q.month, load=run.load, requests=run.requests)
    promises = [(w.name, p) for w in run.workloads for p in w.promises]
    if promises:
        workload, p = min(promises, key=lambda wp: (wp[1].kept, _room(wp[1])))
        row |= {
            "workload": workload,
            "promise": promised(p),
            "served_frac": percent(p.within_frac, 1),
            "interval": _interval(p),
            "kept": _answer([p for _, p in promises]),
        }
    return row


def _room(p: Promise) -> float:
    """How many of the requests that may be late still may, as a share: negative where a promise is missed."""
    return (p.within_frac - p.percentile) / (1 - p.percentile) if p.percentile < 1 else p.within_frac - 1


def _answer(promises: list[Promise]) -> str:
    missed = sum(not p.kept for p in promises)
    return f"{missed} of {len(promises)} MISSED" if missed else f"{len(promises)} of {len(promises)} kept"


def horizon_notes(served: HorizonVerification) -> Iterator[str]:
    """Which promises are missed, what was served once for several, and where to read on."""
    for q in served.quarters:
        for run in served.runs[q.run].runs:
            missed = [f"{w.name} {p.what} {_missed_by(p)}" for w in run.workloads for p in w.promises if not p.kept]
            if missed:
                load = f" at {run.load:g} times the demand" if run.load != 1 else ""
                yield f"missed in {place(q)}{load}: {', '.join(missed)}"
    for q in served.quarters:
        for run in served.runs[q.run].runs:
            yield from (f"{place(q)}: {line}" for line in coverage(run))
    if served.not_served:
        yield f"not served: {'; '.join(served.not_served)}"
    for n in range(len(served.runs)):
        alike = [place(q) for q in served.quarters if q.run == n]
        if len(alike) > 1:
            yield f"served once for all, since requests and replicas are the same: {'; '.join(alike)}"
    yield from dict.fromkeys(note for report in served.runs for run in report.runs for note in run.notes)
    yield MORE


def _missed_by(p: Promise) -> str:
    """The share that was served in time; where that is enough, the share of hours."""
    if p.within_frac < p.percentile or p.hours_kept_frac is None:
        return percent(p.within_frac, 1)
    return f"{percent(p.within_frac, 1)}, but kept in only {percent(p.hours_kept_frac, 1)} of the hours"


def place(q: ServedQuarter) -> str:
    return block_name(q.quarter, q.scenario)
