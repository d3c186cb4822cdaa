"""Money, shares, counts and tokens as people read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def usd(amount: float) -> str:
    """$12,345, or with cents below ten dollars."""
    sign = "-" if amount <= -0.005 else ""
    return f"{sign}${abs(amount):,.0f}" if abs(amount) >= 9.995 else f"{sign}${abs(amount):,.2f}"


def usd_small(amount: float) -> str:
    """Three significant digits, for prices per token."""
    return f"${amount:,.2f}" if abs(amount) >= 1 else f"${amount:.3f}"


def percent(fraction: float, digits: int = 0) -> str:
    """A share; one that would read 0% though it is not, or 100% though it falls short, says so."""
    text = f"{100 * fraction:.{digits}f}%"
    if digits == 0 and ((0 < fraction < 0.005) or (0.995 <= fraction < 1 - 1e-9)):
        text = f"{100 * fraction:.1f}%"
    if 0 < fraction < 1 - 1e-9:
        return {"0.0%": "<0.1%", "0.00%": "<0.01%", "100.0%": ">99.9%", "100.00%": ">99.99%"}.get(text, text)
    return text


def tokens(count: float) -> str:
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return f"{count:.0f}"


def span(counts: Sequence[int]) -> str:
    """3, or 0-7 where it varies."""
    low, high = min(counts), max(counts)
    return str(high) if low == high else f"{low}-{high}"


def counted(count: float, noun: str) -> str:
    """A count with its noun: 1 workload, 3 workloads."""
    return f"{count:,.0f} {noun}{'s' * (round(count) != 1)}"


def hour_name(hour: int) -> str:
    """Of the week, which begins on Monday."""
    return f"{DAYS[hour // 24]} {hour % 24:02d}h"


def json_text(data: Any) -> str:
    """JSON as every file and format of it is written: equal data give equal bytes."""
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
