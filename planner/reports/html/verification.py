"""A plan that was served, as one HTML file."""

from __future__ import annotations

from planner.io.formatting import counted, percent
from planner.reports.charts.verification import attainment, pictures_of
from planner.reports.html.page import card, cards, figures, hero, page
from planner.reports.markup import Html, el, notes
from planner.reports.markup import table_panel
from planner.reports.verification import conclusions, coverage, headline, seconds, tables
from planner.verification.records import Verification, VerificationReport

MOST_CARDS = 6


def verification_page(report: VerificationReport) -> str:
    """The answer first, then the cliff, the week and the tables of each load."""
    first = report.runs[0]
    sections: list[tuple[str, str, list[Html]]] = []
    said = list(conclusions(report))
    if said or len(report.runs) > 1:
        sections.append(("loads", "Load", [figures(attainment(report)), notes(said)]))
    for k, run in enumerate(report.runs):
        label = "Promises" if len(report.runs) == 1 else f"At {run.load:g} times the demand"
        panels = [table_panel(f"{t.name}-{k}", t) for t in tables(run)]
        about = [] if run.stopped is None else [headline(run)]
        said_of_it = notes([*about, *coverage(run), *run.notes])
        sections.append((f"run-{k}", label, [figures(pictures_of(run, k)), *panels, said_of_it]))
    title = f"{first.plan}: {_answer(first, report.kept)}"
    foot = f"fleetplan {first.fleetplan_version}. Simulated: {first.case_hash[:19]}, seed {first.seed}."
    return page(title, first.plan, headline(first), sections, [_hero(first, report.kept)], foot)


def _answer(run: Verification, kept: bool) -> str:
    if not kept:
        return "a promise is missed"
    return "every promise kept" if run.stopped is None else f"not verified, {run.stopped}"


def _hero(run: Verification, kept: bool) -> Html:
    big = "Promise missed" if not kept else "Promises kept" if run.stopped is None else "Not verified"
    lines = [el("p", f"{counted(run.requests, 'request')}, {run.source}, {run.router} routing")]
    lines += [el("p", line, class_="remark") for line in coverage(run)]
    promises = sorted(((w, p) for w in run.workloads for p in w.promises), key=lambda wp: wp[1].kept)
    shown = [
        card(
            f"{w.name}: {p.what} {seconds(p.target_s)}",
            percent(p.within_frac, 1),
            f"{percent(p.percentile)} promised; {percent(p.low_frac, 1)} to {percent(p.high_frac, 1)}"
            + (", so it may be either" if p.is_open else "")
            + (f"; {p.bad_hours} of {counted(p.hours_judged, 'hour')} missed" if p.bad_hours else ""),
            None if p.kept else "bad",
        )
        for w, p in promises[:MOST_CARDS]
    ]
    if len(promises) > MOST_CARDS:
        more = counted(len(promises) - MOST_CARDS, "more promise")
        lines.append(el("p", f"{more} in the tables below.", class_="remark"))
    return hero(big, "", lines, cards(shown))
