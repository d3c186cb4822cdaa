"""Intervals one above the other: bars from low to high, each with an upright mark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.io.errors import shortened
from planner.reports.charts.svg import Axis, Frame, picture, text, titled
from planner.reports.markup import Html

WIDTH, ROW, TOP, FOOT = 440, 46, 8, 40
NAME_LIMIT = 50


@dataclass(frozen=True)
class Interval:
    name: str
    low: float
    mark: float
    high: float
    detail: str


def intervals(label: str, axis: Axis, ticks: Sequence[float], rows: Sequence[Interval], dashed: float | None) -> Html:
    """A picture of some intervals on one axis; `dashed` is a value that all of them are compared with."""
    height = TOP + ROW * len(rows) + 44
    frame = Frame(axis, Axis(""), ticks, [0, 1], WIDTH, height, 34, 34, TOP, FOOT)
    parts = []
    for t in ticks:
        at = f"{frame.px(t):.1f}"
        parts.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{TOP}" y2="{height - FOOT}"/>')
        parts.append(text(frame.px(t), height - 24, axis.label(t), "middle"))
    parts.append(text(WIDTH / 2, height - 6, axis.title, "middle"))
    if dashed is not None:
        parts.append(f'<path class="staffed" d="M{frame.px(dashed):.1f} {TOP}V{height - FOOT}"/>')
    for k, row in enumerate(rows):
        y = TOP + ROW * k + 32
        left, wide = frame.px(row.low), max(2.5, frame.px(row.high) - frame.px(row.low))
        bar = f'<rect class="f1" x="{left:.1f}" y="{y - 5}" width="{wide:.1f}" height="10" rx="3"/>'
        parts.append(text(4, y - 12, shortened(row.name, NAME_LIMIT), kind="ink"))
        parts.append(titled(bar, f"{row.name}: {row.detail}"))
        parts.append(f'<path class="load" d="M{frame.px(row.mark):.1f} {y - 7}V{y + 9}"/>')
    return Html(picture(label, WIDTH, height, parts))
