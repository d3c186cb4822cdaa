"""What serving a plan showed, as text and Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.errors import escaped
from planner.io.formatting import percent, usd
from planner.reports.text import columns
from planner.verification.records import DeploymentServed, Promise, Verification, VerificationReport, WorkloadServed

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
PROMISES = ("workload", "promise", "served", "95% interval", "at that share", "bad hours", "worst hour", "")
LATENCIES = ("workload", "TTFT p50", "p95", "p99", "TPOT p50", "p95", "p99", "E2E p50", "p95", "p99", "all targets")
REQUESTS = ("workload", "requests", "on GPUs", "API", "shed", "refused", "unfinished", "preempted", "cached tokens")
FLEET = ("deployment", "peak replicas", "mean", "time in steps", "planned load")


def verification_text(report: VerificationReport) -> str:
    parts = []
    for run in report.runs:
        parts += [headline(run), ""]
        for title, rows, right in _tables(run):
            parts += [f"  {title}", *columns(rows, right=right), ""]
        parts += [f"  {escaped(n)}" for n in run.notes]
    parts += [f"  {line}" for line in _across(report)]
    return "\n".join(parts).rstrip() + "\n"


def verification_markdown(report: VerificationReport) -> str:
    parts = ["# Verification", ""]
    for run in report.runs:
        parts += [f"**{_cell(headline(run))}**", ""]
        for title, (head, *rows), _ in _tables(run):
            parts += [f"## {title}", "", _line(head), _line(["---"] * len(head)), *(_line(row) for row in rows), ""]
        parts += [f"- {_cell(n)}" for n in run.notes]
    parts += [f"- {line}" for line in _across(report)]
    return "\n".join(parts).rstrip() + "\n"


def headline(run: Verification) -> str:
    missed = [f"{w.name}: {p.what}" for w in run.workloads for p in w.promises if not p.kept]
    answer = f"MISSED {len(missed)}: {', '.join(missed)}" if missed else "every promise kept"
    load = f" at {run.load:g} times the demand" if run.load != 1 else ""
    return escaped(f"{run.plan}: verified by {run.requests:,} requests{load} ({run.router}, seed {run.seed}): {answer}")


def _tables(run: Verification) -> Iterator[tuple[str, list[tuple[str, ...]], str]]:
    promises = [_promise(w, p) for w in run.workloads for p in w.promises]
    if promises:
        yield "promises", [PROMISES, *promises], "cdef"
        yield "latencies", [LATENCIES, *(_latencies(w) for w in run.workloads if w.promises)], "bcdefghijk"
    title = f"requests ({run.source}; a week of month {run.month + 1})"
    yield title, [REQUESTS, *map(_requests, run.workloads)], "bcdefghi"
    if run.deployments:
        yield "replicas", [FLEET, *map(_replicas, run.deployments)], "bcde"


def _replicas(d: DeploymentServed) -> tuple[str, ...]:
    shares = (percent(d.utilization_frac), percent(d.load_frac))
    return (f"{d.pool}: {d.deployment}", str(d.peak_replicas), f"{d.mean_replicas:.1f}", *shares)


def _promise(w: WorkloadServed, p: Promise) -> tuple[str, ...]:
    worst = "-" if p.worst_hour is None else f"{hour_name(p.worst_hour)} ({percent(p.worst_frac or 0.0)})"
    return (
        w.name,
        f"{p.what} {seconds(p.target_s)} for {percent(p.percentile)}",
        percent(p.within_frac, 1),
        f"{percent(p.low_frac, 1)} to {percent(p.high_frac, 1)}",
        "-" if p.at_percentile_s is None else seconds(p.at_percentile_s),
        str(p.bad_hours),
        worst,
        "kept" if p.kept else "MISSED",
    )


def _latencies(w: WorkloadServed) -> tuple[str, ...]:
    cells = [w.name]
    for found in (w.ttft, w.tpot, w.e2e):
        cells += ["-"] * 3 if found is None else [seconds(x) for x in (found.p50_s, found.p95_s, found.p99_s)]
    return (*cells, percent(w.all_within_frac, 1))


def _requests(w: WorkloadServed) -> tuple[str, ...]:
    counts = (w.requests, w.served, w.api, w.shed, w.refused, w.unfinished)
    return (w.name, *(f"{n:,}" for n in counts), percent(w.preempted_frac, 1), percent(w.found_frac, 1))


def _across(report: VerificationReport) -> Iterator[str]:
    if len(report.runs) > 1:
        yield "at " + ", ".join(
            f"{run.load:g} times the demand {'every promise is kept' if run.kept else 'a promise is missed'}"
            for run in report.runs
        )
    slack = report.slack
    if slack is None:
        return
    if slack.holds_to_load is None:
        yield "no slack: a promise is missed at the demand itself"
        return
    more = " and more" if slack.holds_beyond else ""
    yield f"slack: holds to {slack.holds_to_load:.2f} times the demand{more} ({slack.days} days served each time)"
    if slack.smallest_fleet_frac is not None and slack.spare_usd_per_month is not None:
        yield (
            f"slack: {percent(slack.smallest_fleet_frac)} of the replicas, rounded up in every hour, would hold; "
            f"the others cost {usd(slack.spare_usd_per_month)} / month"
        )


def hour_name(hour: int) -> str:
    return f"{DAYS[hour // 24]} {hour % 24:02d}h"


def seconds(value: float) -> str:
    """ms below a second, s below an hour, else hours."""
    if value < 1:
        return f"{1000 * value:.3g} ms"
    return f"{value:.3g} s" if value < 3600 else f"{value / 3600:.3g} h"


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return "| " + " | ".join(_cell(c) for c in cells) + " |"


def _cell(text: str) -> str:
    return escaped(text).replace("|", "\\|").replace("<", "&lt;")
