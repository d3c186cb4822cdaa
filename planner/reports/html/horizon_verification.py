"""Quarters of a horizon that were served, as one HTML file."""

from __future__ import annotations

from planner.io.formatting import counted
from planner.reports.horizon.verification import headline, notes, place, quarters
from planner.reports.html.page import card, cards, hero, page
from planner.reports.markup import Html, details, el, panel
from planner.reports.markup import notes as listed
from planner.reports.markup import table_html, table_panel
from planner.reports.verification import headline as one_headline
from planner.reports.verification import tables
from planner.verification.horizons import HorizonVerification


def served_page(served: HorizonVerification) -> str:
    """The answer first, then the one table, then the tables of every quarter."""
    summary = [table_panel("quarters", quarters(served)), panel("notes", "Notes", listed([*notes(served)]))]
    sections = [
        ("table", "Quarter by quarter", summary),
        ("runs", "Every promise", [_run(served, n) for n in range(len(served.runs))]),
    ]
    title = f"{served.plan}: {'every promise kept' if served.kept else 'a promise is missed'}"
    seed = served.runs[0].runs[0].seed
    foot = f"fleetplan {served.fleetplan_version}. Simulated: {served.case_hash[:19]}, seed {seed}."
    return page(title, served.plan, headline(served), sections, [_hero(served)], foot)


def _hero(served: HorizonVerification) -> Html:
    big = "Promises kept" if served.kept else "Promise missed"
    shown = []
    for name in dict.fromkeys(q.scenario for q in served.quarters):
        mine = [q for q in served.quarters if q.scenario == name]
        missed = [q.quarter + 1 for q in mine if not served.runs[q.run].kept]
        detail = f"missed in quarter {', '.join(map(str, missed))}" if missed else "every promise"
        shown.append(card(name, f"{len(mine) - len(missed)} of {len(mine)} kept", detail, "bad" if missed else None))
    return hero(big, "", [el("p", counted(served.requests, "request"))], cards(shown))


def _run(served: HorizonVerification, n: int) -> Html:
    report = served.runs[n]
    which = "; ".join(place(q) for q in served.quarters if q.run == n)
    parts: list[Html] = []
    for run in report.runs:
        parts.append(el("p", one_headline(run)))
        parts += [table_html(t) for t in tables(run)]
    answer = "every promise kept" if report.kept else "a promise is missed"
    return el("div", details(f"{which}: {answer}", *parts, open_=not report.kept), id=f"run-{n}", class_="panel")
