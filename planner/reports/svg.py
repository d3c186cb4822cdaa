"""Pictures as SVG text: line charts with axes, made by hand so that the same data give the same bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

PALETTE = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2")
WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 72, 24, 48, 56


@dataclass(frozen=True)
class Line:
    name: str
    x: Sequence[float]
    y: Sequence[float]
    labels: Sequence[str] = ()
    """text shown when the pointer rests on a point"""


@dataclass(frozen=True)
class Axis:
    title: str
    log: bool = False

    def place(self, value: float, low: float, high: float) -> float:
        """Where a value lies between low and high, from 0 to 1."""
        if self.log:
            return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
        return (value - low) / (high - low)


def nice_ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Round numbers that cover a range."""
    span = max(high - low, 1e-12)
    raw = span / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.floor(low / step + 1e-9) * step
    ticks = [first + k * step for k in range(int((high - first) / step + 1e-9) + 1)]
    return [*ticks, ticks[-1] + step] if ticks[-1] < high - 1e-9 * span else ticks


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5 of each decade that the range touches."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    marks = [m * 10.0**d for d in decades for m in (1, 2, 5)]
    inside = [m for m in marks if low * 0.999 <= m <= high * 1.001]
    below, above = max((m for m in marks if m < low), default=low), min((m for m in marks if m > high), default=high)
    return sorted({*inside, *([] if inside and inside[0] <= low * 1.001 else [below]),
                   *([] if inside and inside[-1] >= high * 0.999 else [above])})  # fmt: skip


def number(value: float) -> str:
    if value and abs(value) < 1000 and value != int(value):
        return f"{value:.3g}"
    return f"{value:,.0f}"


def line_chart(title: str, lines: Sequence[Line], x: Axis, y: Axis, limit: tuple[float, str] | None = None) -> str:
    """A chart of lines with markers; `limit` draws a dashed horizontal line with its name."""
    xs = [v for line in lines for v in line.x]
    ys = [v for line in lines for v in line.y] + ([limit[0]] if limit else [])
    x_ticks = log_ticks(min(xs), max(xs)) if x.log else nice_ticks(min(0.0, *xs), max(xs))
    y_ticks = log_ticks(min(ys), max(ys)) if y.log else nice_ticks(min(0.0, *ys), max(ys))

    def px(value: float) -> float:
        return LEFT + x.place(value, x_ticks[0], x_ticks[-1]) * (WIDTH - LEFT - RIGHT)

    def py(value: float) -> float:
        return HEIGHT - BOTTOM - y.place(value, y_ticks[0], y_ticks[-1]) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="#334155">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="600" fill="#0f172a">{escape(title)}</text>',
    ]
    for tick in y_ticks:
        across = f'x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{py(tick):.1f}" y2="{py(tick):.1f}"'
        parts.append(f'<line {across} stroke="#e2e8f0"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{py(tick) + 4:.1f}" text-anchor="end">{number(tick)}</text>')
    for tick in x_ticks:
        parts.append(f'<text x="{px(tick):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{number(tick)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle:.0f}" y="{HEIGHT - 14}" text-anchor="middle">{escape(x.title)}</text>')
    parts.append(f'<text x="16" y="{(TOP + HEIGHT - BOTTOM) / 2:.0f}" text-anchor="middle" '
                 f'transform="rotate(-90 16 {(TOP + HEIGHT - BOTTOM) / 2:.0f})">{escape(y.title)}</text>')  # fmt: skip
    if limit:
        at = py(limit[0])
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#dc2626" '
                     f'stroke-dasharray="6 4"/>')  # fmt: skip
        place = f'x="{LEFT + 8}" y="{at - 6:.1f}"'
        parts.append(f'<text {place} fill="#dc2626">{escape(limit[1])}</text>')
    for k, line in enumerate(lines):
        points = [(px(a), py(b)) for a, b in zip(line.x, line.y, strict=True)]
        parts += _drawn(line, PALETTE[k % len(PALETTE)], k, points)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _drawn(line: Line, colour: str, k: int, points: Sequence[tuple[float, float]]) -> list[str]:
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>']
    for n, (a, b) in enumerate(points):
        tip = f"<title>{escape(line.labels[n])}</title>" if line.labels else ""
        parts.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}">{tip}</circle>')
    place = f'x="{WIDTH - RIGHT}" y="{24 + 16 * k}"'
    parts.append(f'<text {place} text-anchor="end" fill="{colour}">{escape(line.name)}</text>')
    return parts
