"""Quarters of a horizon that were served: one table, as text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.errors import escaped
from planner.io.formatting import counted, percent
from planner.reports.markdown import bullets, markdown, titled_markdown
from planner.reports.table import Column as C
from planner.reports.table import Row, Table, paragraphs
from planner.reports.text import titled_text
from planner.reports.verification import coverage, seconds
from planner.verification.horizons import HorizonVerification, ServedQuarter
from planner.verification.records import Promise, Verification

MORE = "for every promise of a quarter, add --quarter and --scenario; all figures are in the JSON (--out)"


def served_text(served: HorizonVerification) -> str:
    return paragraphs([[headline(served)], titled_text(quarters(served)), [f"  {escaped(x)}" for x in notes(served)]])


def served_markdown(served: HorizonVerification) -> str:
    head = [["# Verification"], [f"**{markdown(headline(served))}**"]]
    return paragraphs([*head, titled_markdown(quarters(served)), bullets([*notes(served)])])


def headline(served: HorizonVerification) -> str:
    first = served.runs[0].runs[0]
    missed = sum(not served.runs[q.run].kept for q in served.quarters)
    count = len(served.quarters)
    whole = f"{counted(count, 'quarter')} of {counted(len({q.scenario for q in served.quarters}), 'scenario')}"
    answer = f"a promise is MISSED in {missed} of them" if missed else "every promise kept"
    if served.stopped is not None:
        answer = f"{answer if missed else 'no promise missed so far'}; not verified: {served.stopped}"
    how = f"({first.router}, seed {first.seed})"
    return escaped(f"{served.plan}: {whole} verified by {counted(served.requests, 'request')} {how}: {answer}")


def quarters(served: HorizonVerification) -> Table:
    """A row for each quarter of each scenario and load, with the promise that was closest to being missed."""
    loads = [run.load for run in served.runs[0].runs]
    columns = (
        C("scenario", "scenario"), C("quarter", "quarter", "count"), C("month", "month served"),
        C("load", "load", "times") if loads != [1.0] else None,
        C("requests", "requests", "count"), C("workload", "workload", missing="no promise"),
        C("promise", "tightest promise"), C("served_frac", "served", "percent"),
        C("interval", "95% interval", ">s"), C("kept", "promises"),
    )  # fmt: skip
    rows = tuple(_row(q, run, loads) for q in served.quarters for run in served.runs[q.run].runs)
    return Table("quarters", "quarters served", tuple(c for c in columns if c is not None), rows)


def _row(q: ServedQuarter, run: Verification, loads: list[float]) -> Row:
    promises = [(w.name, p) for w in run.workloads for p in w.promises]
    tightest = min(promises, key=lambda wp: (wp[1].kept, _room(wp[1])), default=None)
    load = (run.load,) if loads != [1.0] else ()
    if tightest is None:
        return (q.scenario, q.quarter + 1, q.month, *load, run.requests, None, None, None, None, None)
    workload, p = tightest
    return (
        q.scenario, q.quarter + 1, q.month, *load, run.requests, workload,
        f"{p.what} {seconds(p.target_s)} for {percent(p.percentile)}", percent(p.within_frac, 1),
        f"{percent(p.low_frac, 1)} to {percent(p.high_frac, 1)}", _answer([p for _, p in promises]),
    )  # fmt: skip


def _room(p: Promise) -> float:
    """How many of the requests that may be late still may, as a share: negative where a promise is missed."""
    return (p.within_frac - p.percentile) / (1 - p.percentile) if p.percentile < 1 else p.within_frac - 1


def _answer(promises: list[Promise]) -> str:
    missed = sum(not p.kept for p in promises)
    return f"{missed} of {len(promises)} MISSED" if missed else f"{len(promises)} of {len(promises)} kept"


def notes(served: HorizonVerification) -> Iterator[str]:
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
            yield f"served once, being the same requests on the same replicas: {'; '.join(alike)}"
    yield from dict.fromkeys(note for report in served.runs for run in report.runs for note in run.notes)
    yield MORE


def _missed_by(p: Promise) -> str:
    """The share that was served in time; where that is enough, the share of hours."""
    if p.within_frac < p.percentile or p.hours_kept_frac is None:
        return percent(p.within_frac, 1)
    return f"{percent(p.within_frac, 1)}, but kept in only {percent(p.hours_kept_frac, 1)} of the hours"


def place(q: ServedQuarter) -> str:
    return f"quarter {q.quarter + 1}, {q.scenario}"
