"""Pictures of a horizon: the fan of costs, the ladder of commitments, regret, and other numbers to commit to."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from planner.case.allowances import allowance_of
from planner.case.case import OWNED
from planner.case.dates import add_months
from planner.catalog.terms import in_words
from planner.io.errors import shortened
from planner.io.formatting import percent, tokens, usd
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.horizon.horizon_view import days_of, known_usd, months_name, quarters_of, regret_frac, usd_per_month
from planner.reports.charts.svg import COLOURS, Axis, Frame, Line, curves, nice_ticks, picture, text, titled
from planner.reports.horizon_phrases import NOTHING_USD
from planner.reports.markup import Html, bar, bar_table, figure, legend
from planner.reports.phrases import amount_of
from problems.constants import HOURS_PER_MONTH

HALF, WIDTH, ROW, TOP, FOOT, NAME_LIMIT = 460, 960, 40, 10, 36, 64
MOST_TICKS, MOST_NAMED = 9, 6
"""months along a wide picture, and quarters along a narrow one"""
DAYS_OF_A_MONTH = 365 / 12
ORIGINS = {"held": 5, "signed now": 1, "signed later": 6}


def _money(amount: float) -> str:
    return f"${tokens(amount)}"


def fan(horizon: HorizonPlan) -> Html:
    """Cost of each quarter in each scenario, and the room between the cheapest and the most expensive."""
    quarters = quarters_of(horizon)
    if len(quarters) < 2:
        return Html("")
    lines = [
        Line(
            s.name,
            [*quarters],
            s.by_quarter_usd,
            [f"{s.name}, {months_name(horizon, q, q)}: {usd(s.by_quarter_usd[q])}" for q in quarters],
        )
        for s in horizon.scenarios
    ]
    x = Axis("quarter", written=lambda q: f"{days_of(horizon, round(q))[0]:%Y-%m}")
    y = Axis("$ a quarter", written=_money)
    named = [*quarters][:: -(-len(quarters) // MOST_NAMED)]
    frame = Frame(x, y, named, y.ticks([v for line in lines for v in line.y]), HALF, 300, 62, 30, 24)
    high = [max(s.by_quarter_usd[q] for s in horizon.scenarios) for q in quarters]
    low = [min(s.by_quarter_usd[q] for s in horizon.scenarios) for q in quarters]
    there = [f"{frame.px(q):.1f},{frame.py(high[q]):.1f}" for q in quarters]
    back = [f"{frame.px(q):.1f},{frame.py(low[q]):.1f}" for q in reversed(quarters)]
    band = f'<polygon class="f6" opacity="0.2" points="{" ".join([*there, *back])}"/>'
    last = quarters[-1]
    title = f"In {months_name(horizon, last, last)} the cost is {usd(low[-1])}"
    title += f" to {usd(high[-1])}, depending on the scenario" if high[-1] > low[-1] * 1.005 else ", whatever happens"
    drawn = picture(title, frame.width, frame.height, [*frame.grid(), band, *curves(frame, lines)])
    keys = legend((f"b{k % COLOURS + 1}", s.name) for k, s in enumerate(horizon.scenarios))
    caption = "Plans and new commitments" + ("; what was held before comes on top." if horizon.held_usd else ".")
    return figure("fan", title, keys, Html(drawn), caption=caption)


@dataclass(frozen=True)
class Rung:
    name: str
    first: date
    last: date
    origin: str
    detail: str


def rungs(horizon: HorizonPlan) -> Iterator[Rung]:
    """Commitments and holdings with the days that they are there; those that end first come first."""
    begin, end = days_of(horizon, 0)[0], days_of(horizon, quarters_of(horizon)[-1])[1]
    found = [
        Rung(f"{h.instances} x {h.offer} {h.purchase}", h.first_day or begin, h.last_day or end, "held",
             "while it runs" if h.purchase == OWNED else f"{usd(usd_per_month(h))} / month")
        for h in horizon.case.held or ()
    ] + [
        Rung(f"{c.instances} x {c.offer} {in_words(c.term)}" + (f", if {c.scenario}" if c.scenario else ""),
             c.first_day, c.last_day, "signed later" if c.scenario else "signed now",
             f"{usd(usd_per_month(c))} / month")
        for c in horizon.commitments
    ]  # fmt: skip
    found += [
        Rung(f"{amount_of(a, a.held)} of {a.name}", begin, a.last_day or end, "held",
             f"{usd(a.held * a.usd_per_h * HOURS_PER_MONTH)} / month")
        for a in horizon.case.allowances or () if a.held
    ] + [
        Rung(f"{amount_of(allowance_of(horizon.case, s.name), s.units)} of {s.name}"
             + (f", if {s.scenario}" if s.scenario else ""),
             s.first_day, s.last_day, "signed later" if s.scenario else "signed now",
             f"{usd(s.usd_per_month)} / month")
        for s in horizon.allowances or ()
    ]  # fmt: skip
    yield from sorted(found, key=lambda r: (r.last, r.first, r.name))


def ladder(horizon: HorizonPlan) -> Html:
    """What is committed from when until when; the dashed line is the end of the horizon."""
    shown = [*rungs(horizon)]
    if not shown:
        return Html("")
    begin, end = days_of(horizon, 0)[0], days_of(horizon, quarters_of(horizon)[-1])[1]

    def months(day: date) -> float:
        return max(0.0, (day - begin).days / DAYS_OF_A_MONTH)

    most = max(months(end), *(months(r.last) for r in shown))
    axis = Axis("", written=lambda m: f"{add_months(begin, round(m)):%Y-%m}")
    step = next((s for s in (1, 3, 6, 12) if most / s <= MOST_TICKS), 24)
    ticks = [float(step * k) for k in range(math.ceil(most / step) + 1)]
    height = TOP + ROW * len(shown) + FOOT + 8
    frame = Frame(axis, Axis(""), ticks, [0, 1], WIDTH, height, 24, 30, TOP, FOOT)
    parts = []
    for t in ticks:
        at = f"{frame.px(t):.1f}"
        parts.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{TOP}" y2="{height - FOOT}"/>')
        parts.append(text(frame.px(t), height - 20, axis.label(t), "middle"))
    parts.append(f'<path class="limit" d="M{frame.px(months(end)):.1f} {TOP}V{height - FOOT}"/>')
    for k, r in enumerate(shown):
        y = TOP + ROW * k + 18
        left = frame.px(months(r.first))
        wide = max(3.0, frame.px(months(r.last)) - left)
        block = f'<rect class="f{ORIGINS[r.origin]}" x="{left:.1f}" y="{y}" width="{wide:.1f}" height="10" rx="3"/>'
        parts.append(text(24, y - 5, shortened(r.name, NAME_LIMIT), kind="ink"))
        parts.append(titled(block, f"{r.name}, {r.origin}: {r.first} to {r.last}, {r.detail}"))
    beyond = sum(r.last > end for r in shown)
    title = f"{beyond} of {len(shown)} outlast the horizon, which ends on {end}" if beyond else f"All end by {end}"
    keys = legend((f"b{ORIGINS[o]}", o) for o in ORIGINS if any(r.origin == o for r in shown))
    drawn = Html(picture(title, WIDTH, height, parts))
    return figure("ladder", title, keys, drawn, caption="The dashed line is the end of the horizon.", wide=True)


def regret(horizon: HorizonPlan) -> Html:
    """What each scenario costs, and how much of it the plan that had known would save."""
    known = [s for s in horizon.scenarios if s.regret_usd is not None]
    if len(known) < 2:
        return Html("")
    top = max((known_usd(horizon, s) or 0.0) + (s.regret_usd or 0.0) for s in known) or 1.0
    rows = []
    for s in known:
        best, lost = known_usd(horizon, s) or 0.0, s.regret_usd or 0.0
        pieces = [("b1", 0.0, best / top), ("b4", best / top, max(0.0, lost) / top)]
        share = percent(regret_frac(horizon, s) or 0.0, 1)
        rows.append(
            (s.name, bar(pieces, f"{s.name}: regret {usd(lost)}"), f"{best:,.0f}", f"{lost:,.0f}", share)
        )  # fmt: skip
    worst = max(known, key=lambda s: s.regret_usd or 0.0)
    most = worst.regret_usd or 0.0
    title = f"Not knowing the future costs at most {usd(most)}, in scenario {worst.name}"
    title = title if most >= NOTHING_USD else "No better plan is known for any of the scenarios"
    head = ("scenario", "", "with foresight $", "regret $", "regret")
    caption = "Compared with perfect foresight of the scenario; penalties included."
    return figure("regret", title, bar_table(head, rows), caption=caption)


def commit(horizon: HorizonPlan) -> Html:
    """Expected, P90 and worst cost for other numbers of the largest commitment."""
    points = [p for p in (horizon.curve.points if horizon.curve else ()) if p.expected_usd is not None]
    if horizon.curve is None or len(points) < 2:
        return Html("")
    figures = {"expected": [p.expected_usd for p in points], "P90": [p.p90_usd for p in points]}
    if any(p.p90_usd != p.worst_usd for p in points):
        figures["worst"] = [p.worst_usd for p in points]
    else:
        figures["P90 and worst"] = figures.pop("P90")
    lines = [
        Line(name, [p.instances for p in points], [v or 0.0 for v in values],
             [f"{p.instances}: {name} {usd(v or 0.0)}" for p, v in zip(points, values, strict=True)])
        for name, values in figures.items()
    ]  # fmt: skip
    worst_case = horizon.risk == "worst-case"
    best = min(points, key=lambda p: (p.worst_usd if worst_case else p.expected_usd) or 0.0)
    x, y = Axis("instances signed now"), Axis("$ in the horizon", written=_money)
    values = [v for line in lines for v in line.y]
    low = 0.0 if min(values) < 0.5 * max(values) else min(values) - 0.2 * (max(values) - min(values)) - 1
    frame = Frame(x, y, x.ticks([p.instances for p in points]), nice_ticks(max(0.0, low), max(values)), HALF, 300,
                  62, 30, 24)  # fmt: skip
    where = "in the worst case" if worst_case else "on average"
    title = f"{best.instances} x {horizon.curve.offer} {in_words(horizon.curve.term)} cost least {where}"
    drawn = picture(title, frame.width, frame.height, [*frame.grid(), *curves(frame, lines)])
    keys = legend((f"b{k + 1}", line.name) for k, line in enumerate(lines))
    caption = "For each number, everything else is planned again."
    return figure("curve", title, keys, Html(drawn), caption=caption)
