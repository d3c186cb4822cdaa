"""The part of a report that shows a plan in operation."""

from __future__ import annotations

from collections.abc import Iterator

from planner.plan.operated import Operation
from planner.reports.document import Figures, Lines, Part, TablePart
from planner.reports.table import HTML
from planner.reports.tables.operation import in_short, notes, operated, promises, settings

PICTURES = 4


def operation_parts(o: Operation) -> Iterator[Part]:
    from planner.reports.charts.operation import worst_day

    yield Lines((in_short(o),), tone="prose")
    pictures = sorted(o.deployments, key=lambda d: -d.usd_per_month)[:PICTURES]
    yield Figures(tuple(lambda d=d: worst_day(d) for d in pictures), formats=HTML)  # type: ignore[misc]
    yield from (TablePart(table) for table in (promises(o), operated(o), settings(o)))
    yield Lines(tuple(notes(o)), tone="small")
