"""Studies of a plan: the savings waterfall, the break-even volume, and bills of several providers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.io.formatting import percent, tokens, usd
from planner.plan.plan import Plan
from planner.plan.study_records import BreakEven, Crossing, Studies, VolumePoint, Waterfall, change_of, pays
from planner.reports.document import Document, Group, Lines, Part, Section, TablePart
from planner.reports.phrases import monthly
from planner.reports.tables import studies as tables

APART = 1.5
"""volumes that are closer to each other than this factor are not all shown"""
BILLS_SHOWN = 12


def studies_document(plan: Plan) -> Document:
    return Document(
        title=plan.name,
        about=(monthly(plan.cost_usd_per_month, plan.held_usd_per_month),),
        parts=(Section("Studies", lambda: study_parts(plan), key="studies"),),
        json=plan.to_json,
        tables=lambda: tables.study_tables(plan),
    )


def study_parts(plan: Plan) -> Iterator[Part]:
    """Nothing where nothing was studied."""
    known = plan.studies or Studies()
    if known.waterfall:
        yield from _waterfall(known.waterfall)
    if known.break_even:
        yield _break_even(known.break_even)
    for title, some in (
        ("everything at API providers", [b for b in known.providers if b.role != "same model"]),
        ("some workloads at providers of their model", [b for b in known.providers if b.role == "same model"]),
    ):
        if some:
            more = len(some) - BILLS_SHOWN
            cut = Lines((f"and {more} more, all in the plan's JSON",) if more > 0 else ())
            bills = TablePart(tables.providers(plan, some[:BILLS_SHOWN]))
            yield Group((bills, cut), title, key="providers" if some[0].role != "same model" else "sellers")


def _waterfall(study: Waterfall) -> Iterator[Part]:
    """Where no step was planned, nothing but the reasons."""
    table = tables.waterfall(study)
    if study.compares:
        if study.saves_usd_per_month is not None and study.saves_frac is not None:
            total = f"in all {usd(study.saves_usd_per_month)} / month, {percent(study.saves_frac, 1)}"
            table = replace(table, notes=(total, *table.notes))
        yield TablePart(table, table.title.lower())
    elif study.stopped:
        yield Lines(tuple(f"{table.title.lower()}: {note}" for note in study.notes))


def _break_even(study: BreakEven) -> Part:
    ways = [("the best plan without an API", study.crossings)]
    if any(p.mixed_usd_per_month is not None for p in study.points):
        ways.append(("the best plan with APIs as well", study.mixed_crossings))
    said = (*(line for way, crossings in ways for line in _crossings(way, crossings)), *_own(study))
    title = f"break-even with {study.provider} {study.model}{_with_team(study)}"
    volumes = TablePart(tables.volumes(study, shown_points(study)))
    return Group((Lines(said), volumes), title, key="break-even-volumes")


def _with_team(study: BreakEven) -> str:
    team = study.engineers_usd_per_month
    return f", engineers at {usd(team)} / month included" if team else ", no engineers counted"


def _crossings(way: str, crossings: tuple[Crossing, ...]) -> Iterator[str]:
    if not crossings:
        yield f"{way}: no crossing in the volumes tried"
    for c in crossings:
        low, high = c.between_multiples
        what = "is cheaper" if c.cheaper_from_here == "self-hosted" else "costs more"
        yield (
            f"{way} {what} from {tokens(c.tokens_per_month)} tokens / month on ({c.multiple:.3g} times this demand, "
            f"{usd(c.usd_per_month)} / month; proved between {low:.4g} and {high:.4g})"
        )


def _own(study: BreakEven) -> Iterator[str]:
    """From which volume on servers are bought, with what both plans cost at each end."""
    points = study.own or ()
    change = change_of(points)
    if change is not None:
        low, high = change
        rented, own = high.rented_usd_per_month, usd(high.with_servers_usd_per_month or 0.0)
        without = f"{usd(rented)} without" if rented is not None else "no plan without"
        yield (
            f"servers of your own pay from {tokens(high.tokens_per_month)} tokens / month on ({own} / month with them, "
            f"{without}; proved between {low.multiple:.4g} and {high.multiple:.4g} times this demand)"
        )
    elif points:
        tried = f"{points[0].multiple:.3g} to {points[-1].multiple:.3g} times this demand"
        yield f"servers of your own {_at_all({pays(p) for p in points})}, {tried}"


def _at_all(known: set[bool | None]) -> str:
    if known == {True}:
        return "pay at every volume tried"
    return "save next to nothing at any volume tried" if known == {False} else "are too close to renting to tell"


def shown_points(study: BreakEven) -> list[VolumePoint]:
    """Volumes with both curves, thinned where there are many; the case itself always."""
    either = [p for p in study.points if p.self_hosted_usd_per_month is not None or p.mixed_usd_per_month is not None]
    both = [p for p in either if p.self_hosted_usd_per_month is not None and p.mixed_usd_per_month is not None]
    shown: list[VolumePoint] = []
    for p in both or either:
        if p.multiple == 1 or not shown or p.multiple >= APART * shown[-1].multiple:
            shown.append(p)
    return shown
