"""Pictures as SVG text, made by hand so that the same data give the same bytes.

Colours are classes: a page has them in its style sheet, a picture that is a file of its own carries `STYLE`. Text about
a point is its <title>, which every browser shows when the pointer rests on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from planner.io.errors import escaped

STYLE = """
svg{font:12px system-ui,sans-serif;--ink:#1b2430;--soft:#5b6675;--rule:#dfe4ea;--paper:#fff;
--c1:#0b6bb5;--c2:#e08a00;--c3:#009e73;--c4:#c2456f;--c5:#7a5bc0;--c6:#56aee0;--bad:#c4391d}
@media(prefers-color-scheme:dark){svg{--ink:#e8ecf1;--soft:#9aa6b5;--rule:#303946;--paper:#141920;
--c1:#5aa9ea;--c2:#f2ae43;--c3:#35c79b;--c4:#ec7fa2;--c5:#ab92e8;--c6:#8bcdf2;--bad:#ff7a5c}}
.paper{fill:var(--paper)}.head{font-size:15px;font-weight:600;fill:var(--ink)}
"""
DRAWING = """
svg text{fill:var(--soft)}svg text.ink{fill:var(--ink)}svg .grid{stroke:var(--rule);stroke-width:1}
svg .axis{stroke:var(--soft);stroke-width:1}svg .curve{fill:none;stroke-width:2;stroke-linejoin:round}
svg .limit{stroke:var(--bad);stroke-dasharray:6 4;fill:none}svg text.limit{fill:var(--bad);stroke:none}
svg .hit{fill:transparent}svg .m{outline:none}
""" + "".join(
    f".s{k}{{stroke:var(--c{k})}}.f{k}{{fill:var(--c{k})}}svg text.f{k}{{fill:var(--c{k})}}" for k in range(1, 7)
)
"""what a page needs as well, besides the colours"""
COLOURS = 6


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
    written: Callable[[float], str] | None = None
    """how a tick is written"""

    def place(self, value: float, low: float, high: float) -> float:
        """Where a value lies between low and high, from 0 to 1."""
        if self.log:
            return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
        return (value - low) / (high - low)

    def ticks(self, values: Sequence[float], count: int = 6) -> list[float]:
        if not self.log:
            return nice_ticks(min(0.0, *values), max(values), count)
        low, high = min(values), max(values)
        return thinned(log_ticks(low, high) if high > low * 1.01 else log_ticks(low / 2, high * 2), count)

    def label(self, value: float) -> str:
        return (self.written or number)(value)


@dataclass(frozen=True)
class Frame:
    """The area in which data are drawn, and its two axes."""

    x: Axis
    y: Axis
    x_ticks: Sequence[float]
    y_ticks: Sequence[float]
    width: float = 720
    height: float = 420
    left: float = 72
    right: float = 24
    top: float = 48
    bottom: float = 56

    def px(self, value: float) -> float:
        return self.left + self.x.place(value, self.x_ticks[0], self.x_ticks[-1]) * (
            self.width - self.left - self.right
        )

    def py(self, value: float) -> float:
        high = self.height - self.bottom
        return high - self.y.place(value, self.y_ticks[0], self.y_ticks[-1]) * (high - self.top)

    def grid(self) -> list[str]:
        """Lines, ticks and titles; the title of the upright axis stands above it, where it can be read."""
        foot, parts = self.height - self.bottom, []
        for tick in self.y_ticks:
            at = self.py(tick)
            parts.append(
                f'<line class="grid" x1="{self.left:g}" x2="{self.width - self.right:g}" y1="{at:.1f}" y2="{at:.1f}"/>'
            )
            parts.append(text(self.left - 7, at + 4, self.y.label(tick), "end"))
        for tick in self.x_ticks:
            parts.append(text(self.px(tick), foot + 17, self.x.label(tick), "middle"))
        parts.append(text((self.left + self.width - self.right) / 2, self.height - 6, self.x.title, "middle"))
        parts.append(text(2, self.top - 12, self.y.title))
        return parts


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}"' + ("" if anchor == "start" else f' text-anchor="{anchor}"')
    return f"<text {place}{_class(kind)}>{_safe(words)}</text>"


def _safe(words: str) -> str:
    """Text, line by line, in which nothing acts on a browser or reorders a line."""
    return "\n".join(escape(escaped(line)) for line in words.split("\n"))


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def titled(element: str, words: str) -> str:
    """A drawn element (`<circle .../>`) with text about it; pages let the keyboard walk from one to the next."""
    return f'<g class="m">{element}<title>{_safe(words)}</title></g>'


def picture(label: str, width: float, height: float, parts: Sequence[str]) -> str:
    """An SVG element for a page; the label is what those read who do not see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{_safe(label)}">' + "".join(parts) + "</svg>"
    )


def nice_ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Round numbers that cover a range."""
    span = max(high - low, 1e-12)
    raw = span / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.floor(low / step + 1e-9) * step
    ticks = [first + k * step for k in range(int((high - first) / step + 1e-9) + 1)]
    return [*ticks, ticks[-1] + step] if ticks[-1] < high - 1e-9 * span else ticks


def whole_ticks(high: float, count: int = 5) -> list[float]:
    """Ticks from 0 for things that are counted."""
    step = max(1.0, *nice_ticks(0.0, max(high, 1.0), count)[1:2])
    step = math.ceil(step)
    return [float(step * k) for k in range(math.ceil(max(high, 1.0) / step - 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5 of each decade that the range touches."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    marks = [m * 10.0**d for d in decades for m in (1, 2, 5)]
    inside = [m for m in marks if low * 0.999 <= m <= high * 1.001]
    below, above = max((m for m in marks if m < low), default=low), min((m for m in marks if m > high), default=high)
    return sorted({*inside, *([] if inside and inside[0] <= low * 1.001 else [below]),
                   *([] if inside and inside[-1] >= high * 0.999 else [above])})  # fmt: skip


def thinned(ticks: list[float], count: int) -> list[float]:
    """The ends of a logarithmic axis with many ticks, and powers of ten that are not too near to them."""
    if len(ticks) <= count + 2:
        return ticks
    low, high = ticks[0], ticks[-1]
    return [low, *(t for t in ticks if 2.5 * low < t < high / 2.5 and f"{t:e}".startswith("1.0")), high]


def number(value: float) -> str:
    if value and abs(value) < 1000 and value != int(value):
        return f"{value:.3g}"
    return f"{value:,.0f}"


def curves(frame: Frame, lines: Sequence[Line], colours: Sequence[int] = ()) -> list[str]:
    """Lines with a marker at each of their points."""
    parts = []
    for k, line in enumerate(lines):
        colour = colours[k] if colours else k % COLOURS + 1
        points = [(frame.px(a), frame.py(b)) for a, b in zip(line.x, line.y, strict=True)]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline class="curve s{colour}" points="{path}"/>')
        for n, (a, b) in enumerate(points):
            circle = f'<circle class="f{colour}" cx="{a:.1f}" cy="{b:.1f}" r="3.5"/>'
            parts.append(titled(circle, line.labels[n]) if line.labels else circle)
    return parts


def line_chart(title: str, lines: Sequence[Line], x: Axis, y: Axis, limit: tuple[float, str] | None = None) -> str:
    """A file of its own with lines; `limit` draws a dashed horizontal line with its name."""
    ys = [v for line in lines for v in line.y] + ([limit[0]] if limit else [])
    frame = Frame(x, y, x.ticks([v for line in lines for v in line.x]), y.ticks(ys), top=66)
    parts = [
        f"<style>{STYLE}{DRAWING}</style>",
        f'<rect class="paper" width="{frame.width:g}" height="{frame.height:g}"/>',
        text(2, 24, title, kind="head"),
        *frame.grid(),
    ]
    if limit:
        at = frame.py(limit[0])
        parts.append(f'<path class="limit" d="M{frame.left:g} {at:.1f}H{frame.width - frame.right:g}"/>')
        parts.append(text(frame.left + 8, at - 6, limit[1], kind="limit"))
    parts += curves(frame, lines)
    for k, line in enumerate(lines if len(lines) > 1 else ()):
        parts.append(text(frame.width - frame.right, frame.top - 12 + 16 * k, line.name, "end", f"f{k % COLOURS + 1}"))
    return picture(title, frame.width, frame.height, parts) + "\n"
