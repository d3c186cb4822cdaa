"""What serving a plan, or every quarter of a horizon, showed: promises kept and missed."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.formatting import counted, json_text, percent
from planner.reports.document import (
    Card,
    Document,
    Figures,
    Fold,
    Group,
    Hero,
    Lines,
    Mark,
    Part,
    Section,
    TablePart,
)
from planner.reports.operation import operation_parts
from planner.reports.table import HTML, PLAIN
from planner.reports.tables.verification import (
    conclusions,
    coverage,
    headline,
    horizon_headline,
    horizon_notes,
    place,
    quarters,
    seconds,
    tables,
)
from planner.verification.records import HorizonVerification, Verification, VerificationReport

MOST_CARDS = 6


def verification_document(served: VerificationReport | HorizonVerification) -> Document:
    return _of_a_plan(served) if isinstance(served, VerificationReport) else _of_a_horizon(served)


def _of_a_plan(report: VerificationReport) -> Document:
    """The answer first, then the cliff, the week and the tables of each load."""
    first, *others = report.runs
    answer = _verdict(report.kept, first.stopped)
    said = tuple(conclusions(report))
    loads = Section("Load", lambda: (_attainment(report), Lines(said)), key="loads", formats=HTML)
    return Document(
        title=f"Verification of {first.plan}",
        headline=headline(first),
        lead=lambda: (Lines(tuple(coverage(first)), formats=PLAIN), _hero(first, report.kept)),
        parts=(
            *([loads] if said or others else []),
            *(_run_section(report, run, k) for k, run in enumerate(report.runs)),
            Lines(said, formats=PLAIN),
        ),
        foot=f"fleetplan {first.fleetplan_version}. Simulated: {first.case_hash[:19]}, seed {first.seed}.",
        tab=f"{first.plan}: {answer}",
        json=lambda: json_text(report.model_dump(mode="json")),
    )


def _verdict(kept: bool, stopped: str | None) -> str:
    if not kept:
        return "a promise is missed"
    return "every promise kept" if stopped is None else f"not verified, {stopped}"


def _attainment(report: VerificationReport) -> Part:
    from planner.reports.charts.verification import attainment

    return Figures((lambda: attainment(report),))


def _run_section(report: VerificationReport, run: Verification, k: int) -> Section:
    """One load: its pictures and tables; where there are several, what each of them came to."""
    label = "Promises" if len(report.runs) == 1 else f"At {run.load:g} times the demand"
    return Section(label, lambda: _run_parts(run, k), key=f"run-{k}")


def _run_parts(run: Verification, k: int) -> Iterator[Part]:
    from planner.reports.charts.verification import pictures_of

    if k:
        yield Group(
            (Lines(((Mark(headline(run)),),), tone="prose", formats=PLAIN), Lines(tuple(coverage(run)), formats=PLAIN))
        )
    yield Figures((lambda: pictures_of(run, k),))
    if run.operation is not None:
        yield from operation_parts(run.operation)
    yield from (TablePart(table, key=f"{table.name}-{k}") for table in tables(run))
    about = () if run.stopped is None else (headline(run),)
    yield Lines((*about, *coverage(run), *run.notes), formats=HTML)
    yield Lines(run.notes, formats=PLAIN)


def _hero(run: Verification, kept: bool) -> Hero:
    big = "Promise missed" if not kept else "Promises kept" if run.stopped is None else "Not verified"
    promises = sorted(((w, p) for w in run.workloads for p in w.promises), key=lambda wp: wp[1].kept)
    cards = tuple(
        Card(
            f"{w.name}: {p.what} {seconds(p.target_s)}",
            percent(p.within_frac, 1),
            f"{percent(p.percentile)} promised; {percent(p.low_frac, 1)} to {percent(p.high_frac, 1)}"
            + (", so it may be either" if p.is_open else "")
            + (f"; {p.bad_hours} of {counted(p.hours_judged, 'hour')} missed" if p.bad_hours else ""),
            bad=not p.kept,
        )
        for w, p in promises[:MOST_CARDS]
    )
    more = len(promises) - MOST_CARDS
    cut = (f"{counted(more, 'more promise')} in the tables below",) if more > 0 else ()
    served = (f"{counted(run.requests, 'request')}, {run.source}, {run.router} routing",)
    lines = (Lines(served, tone="prose"), Lines((*coverage(run), *cut), tone="remark"))
    return Hero(big, "", lines, cards, formats=HTML)


def _of_a_horizon(served: HorizonVerification) -> Document:
    """The answer first, then the one table, then the tables of every quarter."""
    seed = served.runs[0].runs[0].seed
    said = tuple(horizon_notes(served))
    return Document(
        title=f"Verification of {served.plan}",
        headline=horizon_headline(served),
        lead=lambda: (_horizon_hero(served),),
        parts=(
            Section(
                "Quarter by quarter",
                lambda: (
                    TablePart(quarters(served)),
                    Lines(said, "Notes", key="notes", formats=HTML),
                    Lines(said, formats=PLAIN),
                ),
                key="table",
            ),
            Section("Every promise", lambda: (_served(served, n) for n in range(len(served.runs))), key="runs",
                    formats=HTML),
        ),
        foot=f"fleetplan {served.fleetplan_version}. Simulated: {served.case_hash[:19]}, seed {seed}.",
        tab=f"{served.plan}: {_verdict(served.kept, served.stopped)}",
        json=lambda: json_text(served.model_dump(mode="json")),
    )  # fmt: skip


def _horizon_hero(served: HorizonVerification) -> Hero:
    cards = []
    for name in dict.fromkeys(q.scenario for q in served.quarters):
        mine = [q for q in served.quarters if q.scenario == name]
        missed = [q.quarter + 1 for q in mine if not served.runs[q.run].kept]
        detail = f"missed in quarter {', '.join(map(str, missed))}" if missed else "every promise"
        cards.append(Card(name, f"{len(mine) - len(missed)} of {len(mine)} kept", detail, bad=bool(missed)))
    big = "Promise missed" if not served.kept else "Promises kept" if served.stopped is None else "Not verified"
    return Hero(big, "", (Lines((counted(served.requests, "request"),), tone="prose"),), tuple(cards), formats=HTML)


def _served(served: HorizonVerification, n: int) -> Part:
    report = served.runs[n]
    which = "; ".join(place(q) for q in served.quarters if q.run == n)
    answer = _verdict(report.kept, report.stopped)
    parts: list[Part] = []
    for run in report.runs:
        parts += [Lines(((headline(run),),), tone="prose"), *(TablePart(t) for t in tables(run))]
    return Fold(f"{which}: {answer}", tuple(parts), not report.kept, key=f"run-{n}")
