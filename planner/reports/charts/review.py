"""The pictures of a review: the cost bridge, forecast against actual by hour, what is forecast next, and the trend."""

from __future__ import annotations

from collections.abc import Sequence

from planner.io.errors import shortened
from planner.io.formatting import counted, tokens, usd, usd_small
from planner.reports.charts.intervals import Interval, intervals
from planner.reports.charts.svg import Axis, Frame, Line, curves, nice_ticks, number, picture
from planner.reports.markup import Html, bar, bar_table, details, el, figure, join, legend, name, notes, table_html
from planner.reports.tables.review import BRIDGE_PARTS, UNTIL_LAPSE, bridge_parts, dollars, overlap_usd, signed
from planner.reports.tables.review import trend as trend_table
from planner.review.records import Review, TrendPoint, WorkloadForecast, WorkloadReview

WORKLOADS_SHOWN, AT_ONCE = 12, 3
WIDTH, HEIGHT = 440, 210
PLANNED, ACTUAL, NEXT = 2, 1, 3
SAID = BRIDGE_PARTS | {"overlap": UNTIL_LAPSE}


def bridge(review: Review) -> Html:
    b, overlap = review.bridge, overlap_usd(review)
    parts = [*bridge_parts(review).items(), *([("overlap", -overlap)] if overlap else [])]
    end = b.to_usd_per_month - overlap
    start, heights = b.from_usd_per_month, [b.from_usd_per_month]
    for _, change in parts:
        heights.append(heights[-1] + change)
    most = max(*heights, end, 1e-9)
    least = min(*heights, end)
    # Where all of it happens far above zero, bars begin below the lowest, so that the steps can be seen.
    floor = max(0.0, least - 1.5 * (most - least)) if least > 0.5 * most and most > least else 0.0
    room = most - floor or 1.0
    rows = [("last plan", bar([("b7", 0.0, (start - floor) / room)], usd(start)), f"{start:,.2f}")]
    for k, (part, change) in enumerate(parts):
        low, high = sorted(heights[k : k + 2])
        piece = ("b4" if change > 0 else "b3", (low - floor) / room, (high - low) / room)
        label = join([part, el("span", SAID[part], class_="said")])
        rows.append((label, bar([piece], f"{part}: {dollars(change)} $/month"), dollars(change)))
    rows.append(
        ("to approve" if overlap else "next plan", bar([("b1", 0.0, (end - floor) / room)], usd(end)), f"{end:,.2f}")
    )
    cut = f"Bars begin at {usd(floor)}. " if floor else ""
    return figure(
        "bridge", _bridge_title(start, end, parts), legend((("b4", "more expensive"), ("b3", "cheaper"))),
        bar_table(("from the last plan to the next", "", "$/month"), rows),
        notes(f"{note}: its price counts as unchanged" for note in b.notes),
        caption=f"{cut}The parts add up to the change, to the cent.", wide=True,
    )  # fmt: skip


def _bridge_title(start: float, end: float, parts: list[tuple[str, float]]) -> str:
    change = end - start
    part, most = max(parts, key=lambda p: abs(p[1]))
    if abs(most) < 0.005:
        return f"The next plan costs what the last one did: {usd(end)} a month"
    if abs(change) < 0.005:
        return f"The cost stays at {usd(end)} a month; the largest part is {part}"
    more = "more" if change > 0 else "less"
    return f"The next plan costs {usd(abs(change))} a month {more}; the largest part is {part} ({dollars(most)})"


def by_hour(review: Review) -> Html:
    """Planned and actual rates of each workload."""
    drawable = [w for w in review.workloads if w.actual_by_hour_rps]
    drawn = sorted(drawable, key=lambda w: -abs(1.0 if w.off_frac is None else w.off_frac))[:WORKLOADS_SHOWN]
    if not drawn:
        return Html("")
    parts: list[Html] = []
    for w in drawn:
        days = [_day(w, 24 * k, title) for k, title in enumerate(("a weekday", "a weekend day"))]
        off = f", {signed(w.off_frac)} requests" if w.off_frac is not None else ", not in the plan"
        parts.append(join([el("h4", name(w.name), off), el("div", *days, class_="days")]))
    worst = max(drawn, key=lambda w: abs(w.off_frac) if w.off_frac is not None else 0.0)
    title: str | Html = "Requests were as planned"
    if worst.off_frac is not None and abs(worst.off_frac) >= 0.005:
        title = join([name(worst.name), f" was furthest from its plan: {signed(worst.off_frac)} requests"])
    rest = parts[AT_ONCE:]
    folded = details(counted(len(rest), "more workload"), *rest) if rest else Html("")
    left = len(drawable) - len(drawn)
    more = [f"and {left} more workloads, in the table below"] if left else []
    keys = legend(((f"b{PLANNED}", "planned"), (f"b{ACTUAL}", "actual")))
    caption = "Requests/s by hour of the day (UTC), the mean over the period; without the hours left out."
    return figure("by-hour", title, keys, *parts[:AT_ONCE], folded, notes(more), caption=caption, wide=True)


def _day(w: WorkloadReview, first: int, title: str) -> Html:
    hours = list(range(24))
    lines, colours = [], []
    for label, rates, colour in (("planned", w.planned_by_hour_rps, PLANNED), ("actual", w.actual_by_hour_rps, ACTUAL)):
        if rates:
            day = rates[first : first + 24]
            labels = [f"{h:02d}:00: {label} {number(round(r, 2))} requests/s" for h, r in zip(hours, day, strict=True)]
            lines.append(Line(label, hours, day, labels))
            colours.append(colour)
    top = max((r for line in (w.planned_by_hour_rps, w.actual_by_hour_rps) for r in line), default=1.0)
    frame = Frame(Axis(title), Axis("requests/s"), [0, 6, 12, 18, 23], nice_ticks(0.0, max(top, 1e-9), 4),
                  WIDTH, HEIGHT, 48, 12, 30, 40)  # fmt: skip
    label = f"{w.name}: planned and actual requests by hour of {title}"
    return Html(picture(label, WIDTH, HEIGHT, [*frame.grid(), *curves(frame, lines, colours)]))


def next_demand(review: Review) -> Html:
    """P10, P50 and P90 of what is forecast, as shares of actual requests."""
    actual = {w.name: w.actual_requests_per_month for w in review.workloads}
    known = [f for f in review.forecasts if actual.get(f.name)]
    rows = [_forecast(f, actual[f.name] or 1.0) for f in known[:WORKLOADS_SHOWN]]
    if not rows:
        return Html("")
    values = [1.0, *(x for row in rows for x in (row.low, row.high))]
    room = max(0.05, max(values) - min(values))
    ticks = nice_ticks(max(0.0, min(values) - 0.15 * room), max(values) + 0.15 * room, 4)
    axis = Axis("of the actual requests", written=lambda share: f"{100 * share:.0f}%")
    drawn = intervals("P10 to P90 of the forecast", axis, ticks, rows, dashed=1.0)
    furthest = max(rows, key=lambda row: abs(row.mark - 1))
    title: str = "Demand is forecast to stay as it was"
    if abs(furthest.mark - 1) >= 0.005:
        title = join([name(furthest.name), f" is forecast at {100 * furthest.mark:.0f}% of the actual requests"])
    caption = "Bars run from P10 to P90; the vertical line is P50, the dashed line the actual requests."
    left = len(known) - len(rows)
    more = [f"and {left} more workloads, in the table below"] if left else []
    return figure("next-demand", title, drawn, notes(more), caption=caption)


def _forecast(f: WorkloadForecast, actual: float) -> Interval:
    p10, p50, p90 = f.p10_requests_per_month, f.p50_requests_per_month, f.p90_requests_per_month
    ends = f", P10 {tokens(p10)}, P90 {tokens(p90)}" if p10 is not None and p90 is not None else ""
    low, high = ((p50 if x is None else x) / actual for x in (p10, p90))
    return Interval(f.name, low, p50 / actual, high, f"P50 {tokens(p50)} requests a month{ends}")


def trend(review: Review) -> Html:
    points = review.trend
    if len(points) < 2:
        return Html("")
    places = list(range(len(points)))
    lines = [
        Line("planned", places, [p.planned_usd_per_month for p in points], _labels(points, "planned")),
        Line("actual", places, [p.actual_usd_per_month for p in points], _labels(points, "actual")),
        Line("next plan", places, [p.next_usd_per_month for p in points], _labels(points, "next plan")),
    ]
    highest = max(v for line in lines for v in line.y)
    ticks = [float(p) for p in places] if len(places) <= 6 else [0.0, float(places[-1])]
    x = Axis("", written=lambda k: shortened(points[int(k)].name, 8))
    y = Axis("$ / month", written=lambda usd_per_month: f"${usd_per_month:,.0f}")
    frame = Frame(x, y, ticks, nice_ticks(0.0, max(highest, 1e-9), 4), WIDTH, 260, 62, 40, 34, 36)
    first, last = points[0], points[-1]
    reviews = counted(len(points), "review")
    title = f"From {usd(first.actual_usd_per_month)} to {usd(last.actual_usd_per_month)} a month over {reviews}"
    caption = f"What a million tokens cost: {usd_small(first.actual_usd_per_1m_tokens)} then, "
    caption += f"{usd_small(last.actual_usd_per_1m_tokens)} now."
    keys = legend(((f"b{PLANNED}", "planned"), (f"b{ACTUAL}", "actual"), (f"b{NEXT}", "planned next")))
    drawn = Html(picture(title, WIDTH, 260, [*frame.grid(), *curves(frame, lines, (PLANNED, ACTUAL, NEXT))]))
    return figure(
        "trend", title, keys, drawn, details("Table: past reviews", table_html(trend_table(review))), caption=caption
    )


def _labels(points: Sequence[TrendPoint], what: str) -> list[str]:
    amounts = {
        "planned": [p.planned_usd_per_month for p in points],
        "actual": [p.actual_usd_per_month for p in points],
        "next plan": [p.next_usd_per_month for p in points],
    }[what]
    return [f"{p.name}: {what} {usd(x)} a month" for p, x in zip(points, amounts, strict=True)]
