"""Tables and small drawings for a terminal. All user text is made safe to print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from planner.io.errors import escaped
from planner.reports.tables.table import Table

BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Report:
    """One result, as text and as data."""

    text: str
    data: dict[str, Any]


def table_text(table: Table, indent: str = "  ", head: bool = True) -> list[str]:
    """Aligned columns, as wide as a terminal draws them, and the notes."""
    view = table.view("text")
    titles = [tuple(c.title for c in view.columns)] if head else []
    rows = [[escaped(cell) for cell in row] for row in (*titles, *view.shown())]
    widths = [max(cell_len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = []
        for column, cell, width in zip(view.columns, row, widths, strict=True):
            room = " " * (width - cell_len(cell))
            cells.append(room + cell if column.right else cell + room)
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines + [f"{indent}{escaped(note)}" for note in table.notes]


def titled_text(table: Table) -> list[str]:
    return [f"  {escaped(table.title)}", *table_text(table)]


def sparkline(values: Sequence[float], top: float | None = None) -> str:
    """Bars up to the largest value, or to `top` where several lines share a scale."""
    top = max(values, default=0.0) if top is None else top
    if top <= 0:
        return BARS[0] * len(values)
    return "".join(BARS[min(len(BARS) - 1, int(len(BARS) * v / top * 0.999))] for v in values)


def red(text: str) -> str:
    """For a terminal that shows colours."""
    return f"\x1b[31m{text}\x1b[0m"
