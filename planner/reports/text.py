"""Small things that text reports share: money, columns, sparklines. All user text is made safe to print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from planner.io.errors import escaped

BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Report:
    """One result, as text and as data."""

    text: str
    data: dict[str, Any]


def sparkline(values: Sequence[float], top: float | None = None) -> str:
    """Bars up to the largest value, or to `top` where several lines share a scale."""
    top = max(values, default=0.0) if top is None else top
    if top <= 0:
        return BARS[0] * len(values)
    return "".join(BARS[min(len(BARS) - 1, int(len(BARS) * v / top * 0.999))] for v in values)


def columns(rows: Sequence[Sequence[str]], right: str = "", indent: str = "  ") -> list[str]:
    """Rows as aligned text; `right` names the columns (by letter a, b, c...) that are flush right."""
    safe = [[escaped(cell) for cell in row] for row in rows]
    widths = [max(len(row[k]) for row in safe) for k in range(len(safe[0]))] if safe else []
    flush_right = {ord(letter) - ord("a") for letter in right}
    lines = []
    for row in safe:
        cells = [
            cell.rjust(width) if k in flush_right else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def red(text: str) -> str:
    """For a terminal that shows colours."""
    return f"\x1b[31m{text}\x1b[0m"


def safe_cell(text: str) -> str:
    """A CSV cell that no spreadsheet takes for a formula; numbers stay numbers."""
    if text.startswith(("=", "@", "\t", "\r")) or (text.startswith(("+", "-")) and not _is_number(text)):
        return "'" + text
    return text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
