"""Small things that text reports share: money, columns, sparklines. All user text is made safe to print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from planner.complaints import escaped

BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Report:
    """One result, as text and as data."""

    text: str
    data: dict[str, Any]


def usd(amount: float) -> str:
    """$12,345, or with cents below ten dollars."""
    sign = "-" if amount < 0 else ""
    return f"{sign}${abs(amount):,.0f}" if abs(amount) >= 9.995 else f"{sign}${abs(amount):,.2f}"


def usd_small(amount: float) -> str:
    """Three significant digits, for prices per token."""
    return f"${amount:,.2f}" if abs(amount) >= 1 else f"${amount:.3f}"


def percent(fraction: float, digits: int = 0) -> str:
    """A share; one that would read 0% though it is not, or 100% though it falls short, keeps more digits."""
    text = f"{100 * fraction:.{digits}f}%"
    if digits == 0 and ((0 < fraction < 0.005) or (0.995 <= fraction < 1)):
        text = f"{100 * fraction:.1f}%"
    smallest = {"0.0%": "<0.1%", "0.00%": "<0.01%"}
    return smallest.get(text, text) if fraction > 0 else text


def tokens(count: float) -> str:
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return f"{count:.0f}"


def span(counts: Sequence[int]) -> str:
    """3, or 0-7 where it varies."""
    low, high = min(counts), max(counts)
    return str(high) if low == high else f"{low}-{high}"


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
