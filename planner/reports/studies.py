"""Studies of a plan as text: the savings waterfall, the break-even volume, and bills of several providers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.io.errors import escaped
from planner.io.formatting import percent, tokens, usd
from planner.plan.plan import Plan
from planner.plan.study_records import BreakEven, Crossing, ProviderBill, VolumePoint, Waterfall
from planner.reports.tables import studies as tables
from planner.reports.tables.table import paragraphs
from planner.reports.tables.text import table_text

APART = 1.5
"""volumes that are closer to each other than this factor are not all shown"""
BILLS_SHOWN = 12


def studies_text(plan: Plan) -> str:
    """Nothing where nothing was studied."""
    if plan.studies is None:
        return ""
    known = plan.studies
    return paragraphs(
        [
            _waterfall(known.waterfall) if known.waterfall else [],
            _break_even(known.break_even) if known.break_even else [],
            _providers(plan, known.providers) if known.providers else [],
        ]
    )


def _waterfall(study: Waterfall) -> list[str]:
    """Where no step was planned, nothing but the reasons."""
    table = tables.waterfall(study)
    if not study.compares:
        return [f"{table.title.lower()}: {escaped(note)}" for note in study.notes] if study.stopped else []
    if study.saves_usd_per_month is not None and study.saves_frac is not None:
        total = f"in all {usd(study.saves_usd_per_month)} / month, {percent(study.saves_frac, 1)}"
        table = replace(table, notes=(total, *table.notes))
    return [table.title.lower(), *table_text(table)]


def _break_even(study: BreakEven) -> Iterator[str]:
    yield escaped(f"break-even with {study.provider} {study.model}{_with_team(study)}")
    yield from _crossings("the best plan without an API", study.crossings)
    if any(p.mixed_usd_per_month is not None for p in study.points):
        yield from _crossings("the best plan with APIs as well", study.mixed_crossings)
    yield from table_text(tables.volumes(study, shown_points(study)))


def _with_team(study: BreakEven) -> str:
    team = study.engineers_usd_per_month
    return f", engineers at {usd(team)} / month included" if team else ", no engineers counted"


def _crossings(way: str, crossings: tuple[Crossing, ...]) -> Iterator[str]:
    if not crossings:
        yield f"  {way}: no crossing in the volumes looked at"
    for c in crossings:
        low, high = c.between_multiples
        what = "is cheaper" if c.cheaper_from_here == "self-hosted" else "costs more"
        yield (
            f"  {way} {what} from {tokens(c.tokens_per_month)} tokens / month on ({c.multiple:.3g} times this demand, "
            f"{usd(c.usd_per_month)} / month; proved between {low:.4g} and {high:.4g})"
        )


def shown_points(study: BreakEven) -> list[VolumePoint]:
    """Volumes with both curves, thinned where there are many; the case itself always."""
    either = [p for p in study.points if p.self_hosted_usd_per_month is not None or p.mixed_usd_per_month is not None]
    both = [p for p in either if p.self_hosted_usd_per_month is not None and p.mixed_usd_per_month is not None]
    shown: list[VolumePoint] = []
    for p in both or either:
        if p.multiple == 1 or not shown or p.multiple >= APART * shown[-1].multiple:
            shown.append(p)
    return shown


def _providers(plan: Plan, bills: tuple[ProviderBill, ...]) -> Iterator[str]:
    """Bills of everything apart from those of some workloads."""
    groups = (
        ("everything at API providers", [b for b in bills if b.role != "same model"]),
        ("some workloads at providers of their model", [b for b in bills if b.role == "same model"]),
    )
    for title, some in groups:
        if some:
            yield title
            yield from table_text(tables.providers(plan, some[:BILLS_SHOWN]))
        if len(some) > BILLS_SHOWN:
            yield f"  and {len(some) - BILLS_SHOWN} more, all in the plan's JSON"
