"""What happens hour by hour, a picture for each kind of day: GPUs that are paid for, and who answers requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.catalog.terms import is_term
from planner.io.formatting import tokens
from planner.plan.plan import Plan
from planner.reports.charts.colours import BOUGHT
from planner.reports.charts.hourly import Curve, Day, Hours, Stack
from planner.reports.charts.svg import Axis, Frame, nice_ticks, number, picture, titled, whole_ticks
from planner.reports.markup import Html, details, el, figure, legend, table_html
from planner.reports.table import Column as C
from planner.reports.table import Table

GPU_KINDS_SHOWN = 4
WIDTH, HEIGHT = 440, 230


def capacity(plan: Plan) -> Html:
    """GPUs by the hour and by how they are bought, all together and each kind."""
    if not plan.fleet:
        return Html("")
    hours = Hours(plan)
    kinds = [None, *hours.gpus[:GPU_KINDS_SHOWN]] if len(hours.gpus) > 1 else [None]
    panels = [_days(hours, hours.stacks(g), _gpu_curves(hours, g), "GPUs", whole_ticks, g or "all GPUs") for g in kinds]
    keys = [(f"b{s.colour}", s.name) for s in hours.stacks(None)]
    keys += [("line", "busy on average"), ("dash", "in replicas, margin for bursts included")]
    return figure(
        "capacity", _peak_title(plan, hours), legend(keys), _tabs([g or "all GPUs" for g in kinds], panels),
        details("Table: GPUs by hour", _table("GPUs by hour", hours, hours.stacks(None), _gpu_curves(hours, None))),
        caption="GPUs that are paid for, by how they are bought, and GPUs that are kept busy.", wide=True,
    )  # fmt: skip


def demand(plan: Plan) -> Html:
    hours = Hours(plan)
    curves = [Curve("done on GPUs, after waiting", "load", hours.done)] if hours.done else []
    keys = [(f"b{s.colour}", _FATE_NAMES[s.name]) for s in hours.fates] + [("line", c.name) for c in curves]
    total = [sum(s.values[t] for s in hours.fates) for t in range(len(plan.slots))]
    peak = max(range(len(total)), key=lambda t: total[t])
    spans = [s.hours_per_month for s in plan.slots]
    mean = sum(h * x for h, x in zip(spans, total, strict=True)) / sum(spans)
    most = f"{number(round(total[peak], 1))} requests/s"
    flat = max(total) <= 1.01 * min(total)
    times = f", {total[peak] / mean:.1f} times the mean" if mean and total[peak] > 1.05 * mean else ""
    title = f"Demand is flat: {most}" if flat else f"Demand peaks at {most} at {_at(plan, peak)}{times}"
    return figure(
        "demand", title, legend(keys), _days(hours, hours.fates, curves, "requests/s", _rate_ticks, "demand"),
        details("Table: requests by hour", _table("Requests by hour", hours, hours.fates, curves)),
        caption="Mean rate of each hour, by who answers.", wide=True,
    )  # fmt: skip


_DAYS = {"weekday": "weekdays", "weekend": "weekend days"}
_FATE_NAMES = {"GPUs": "own GPUs", "cache": "answer cache", "API": "API", "shed": "shed"}


def _gpu_curves(hours: Hours, gpu: str | None) -> list[Curve]:
    return [Curve("in replicas", "staffed", hours.staffed(gpu)), Curve("busy", "load", hours.busy(gpu))]


def _peak_title(plan: Plan, hours: Hours) -> str:
    total = [sum(s.values[t] for s in hours.stacks(None)) for t in range(len(plan.slots))]
    peak, low = max(total), min(total)
    firm = sum(max(s.values) for s in hours.stacks(None) if is_term(s.name) or s.name == BOUGHT)
    reserved = ", all reserved" if firm == peak else f", {firm:,.0f} of them reserved" if firm else ""
    if peak == low:
        return f"{peak:,.0f} GPUs around the clock{reserved}"
    return f"GPUs peak at {_at(plan, total.index(peak))}: {peak:,.0f}{reserved}; at the quietest hour {low:,.0f}"


def _at(plan: Plan, t: int) -> str:
    s = plan.slots[t]
    month = f" of month {s.month + 1}" if plan.slots[-1].month else ""
    return f"{s.hour:02d}:00 on {_DAYS[s.day]}{month}"


def _rate_ticks(high: float) -> list[float]:
    return nice_ticks(0.0, max(high, 1e-9), 4)


def _tabs(names: list[str], panels: list[Html]) -> Html:
    """One of them at a time, by the browser alone."""
    if len(panels) == 1:
        return panels[0]
    switches = [
        Html(f'<input type="radio" name="gpus" id="gpus{k}"{" checked" * (k == 0)}>')
        + el("label", label, for_=f"gpus{k}")
        for k, label in enumerate(names)
    ]
    return el("div", *(Html(s) for s in switches), *panels, class_="tabs")


def _days(
    hours: Hours, stacks: list[Stack], curves: list[Curve], unit: str, ticks: Callable[[float], list[float]], what: str
) -> Html:
    n = len(hours.plan.slots)
    top = max(max(sum(s.values[t] for s in stacks) for t in range(n)), *(max(c.values) for c in curves), 0.0)
    frame = Frame(
        Axis("hour of the day", written=lambda h: f"{h:.0f}h"), Axis(unit, written=_short), [0, 6, 12, 18, 24],
        ticks(top), width=WIDTH, height=HEIGHT, left=46, right=10, top=26, bottom=38,
    )  # fmt: skip
    total = [sum(s.values[t] for s in stacks) for t in range(n)]
    days = hours.days_unlike(total, *(c.values for c in curves))
    return el(
        "div",
        *(
            el("div", el("h4", day.title), Html(_picture(hours.plan, frame, stacks, curves, day, unit, what)))
            for day in days
        ),
        class_="days three" if len(days) > 4 or len(days) == 3 else "days",
    )


def _picture(plan: Plan, frame: Frame, stacks: list[Stack], curves: list[Curve], day: Day, unit: str, what: str) -> str:
    parts = frame.grid()
    floor = [0.0] * len(day.slots)
    for s in stacks:
        roof = [low + s.values[t] for low, t in zip(floor, day.slots, strict=True)]
        if any(s.values[t] for t in day.slots):
            parts.append(
                f'<path class="area f{s.colour}" d="{_steps(frame, roof)}{_steps(frame, floor, back=True)}Z"/>'
            )
        floor = roof
    for c in curves:
        path = _steps(frame, [c.values[t] for t in day.slots])
        parts.append(f'<path class="halo" d="{path}"/><path class="{c.kind}" d="{path}"/>')
    for k, t in enumerate(day.slots):
        left, right = frame.px(k), frame.px(k + 1)
        hit = f'<rect class="hit" x="{left:.1f}" y="{frame.top:g}" width="{right - left:.1f}" '
        hit += f'height="{frame.height - frame.top - frame.bottom:g}"/>'
        parts.append(titled(hit, _label(plan, t, stacks, curves, unit)))
    high = max(floor, default=0.0)
    label = f"{what}, {day.title.lower()}: {unit} by hour, at most {number(round(high, 1))}"
    return picture(label, frame.width, frame.height, parts)


def _label(plan: Plan, t: int, stacks: list[Stack], curves: list[Curve], unit: str) -> str:
    s = plan.slots[t]
    total = sum(x.values[t] for x in stacks)
    lines = [f"{s.hour:02d}:00 to {(s.hour + 1):02d}:00: {_number(total)} {unit}"]
    if len(stacks) > 1:
        lines += [f"{_number(x.values[t])} {_FATE_NAMES.get(x.name, x.name)}" for x in stacks if x.values[t]]
    lines += [f"{_number(c.values[t])} {c.name}" for c in curves]
    return "\n".join(lines)


def _number(value: float) -> str:
    return number(round(value, 1) if value >= 1 else float(f"{value:.2g}"))


def _short(value: float) -> str:
    return tokens(value) if value >= 1e4 else number(value)


def _steps(frame: Frame, values: Sequence[float], back: bool = False) -> str:
    """A path that holds each value for its hour, forth or back."""
    points: list[tuple[float, float]] = []
    for k, v in enumerate(values):
        points += [(frame.px(k), frame.py(v)), (frame.px(k + 1), frame.py(v))]
    points = _corners(points[::-1] if back else points)
    return ("L" if back else "M") + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _corners(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Without points in the middle of a level stretch."""
    kept = points[:1]
    for before, here, after in zip(points, points[1:], points[2:], strict=False):
        if not before[1] == here[1] == after[1]:
            kept.append(here)
    return [*kept, points[-1]]


def _table(title: str, hours: Hours, stacks: list[Stack], curves: list[Curve]) -> Html:
    columns = [C(s.name, _FATE_NAMES.get(s.name, s.name), "number") for s in stacks]
    columns += [C(c.name, c.name, "number") for c in curves]
    series = [*(s.values for s in stacks), *(c.values for c in curves)]
    rows = tuple(
        (f"{day.title}, {hours.plan.slots[t].hour:02d}h", *(_number(values[t]) for values in series))
        for day in hours.days
        for t in day.slots
    )
    return table_html(Table("hours", title, (C("hour", "hour"), *columns), rows))
