"""Where the money goes, and how far it may move."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.formatting import percent, usd
from planner.plan.plan import Plan
from planner.reports.charts.colours import COSTS, PURCHASES
from planner.reports.charts.intervals import Interval, intervals
from planner.reports.charts.svg import Axis, nice_ticks
from planner.reports.markup import Html, bar, bar_table, details, el, figure, join, legend, name, words
from planner.reports.phrases import throughput_error
from planner.reports.tables.html import table_html
from planner.reports.tables.table import Column as C
from planner.reports.tables.table import Table

WORKLOADS_SHOWN = 12


def costs(plan: Plan) -> Html:
    c = plan.costs
    amounts = {
        "reserved": c.reserved_usd_per_month,
        "on-demand": c.on_demand_usd_per_month,
        "spot": c.spot_usd_per_month,
        "API": c.api_usd_per_month,
        "caches": c.caching_usd_per_month,
        "engineers": c.engineers_usd_per_month,
        "vendors": c.vendors_usd_per_month or 0.0,
    }
    total, most = plan.cost_usd_per_month, max(amounts.values())
    named = sorted(((n, x) for n, x in amounts.items() if x), key=lambda nx: -nx[1])
    if not named:
        return Html("")
    rows = [_bar_row(n, f"b{COSTS[n]}", x, most, total) for n, x in named]
    first, amount = named[0]
    title = f"{percent(amount / total)} of the cost is {_COST_NAMES[first]}"
    return figure("costs", title, _bars(rows, "for"), caption=f"{usd(total)} a month, by what it is paid for.")


_COST_NAMES = {
    "reserved": "reserved GPUs", "on-demand": "GPUs on demand", "spot": "spot GPUs", "API": "tokens bought from an API",
    "caches": "caches", "engineers": "engineers", "vendors": "fixed costs of providers, regions and APIs",
}  # fmt: skip


def by_workload(plan: Plan) -> Html:
    ranked = sorted(plan.workloads, key=lambda w: -w.cost_usd_per_month)
    shown, rest = ranked[:WORKLOADS_SHOWN], ranked[WORKLOADS_SHOWN:]
    total = sum(w.cost_usd_per_month for w in ranked)
    most = max(w.cost_usd_per_month for w in ranked)
    if not total or len(ranked) == 1:
        return Html("")
    rows = [
        _bar_row(w.name, "b1", w.cost_usd_per_month, most, total, f"${w.usd_per_1m_tokens:.3f} / 1M tokens")
        for w in shown
    ]
    if rest:
        left = sum(w.cost_usd_per_month for w in rest)
        rows.append(_bar_row(f"{len(rest)} others", "b7", left, max(most, left), total))
    top, least = ranked[0], ranked[-1].cost_usd_per_month
    alike = f"Each of the {len(ranked)} workloads costs about {usd(most)} a month"
    unlike = join([name(top.name), f" is {percent(most / total)} of what the workloads cost"])
    title = unlike if least < 0.95 * most else alike
    rest_detail = "; engineers are not shared out." if plan.costs.engineers_usd_per_month else "."
    caption = f"GPUs, API and caches of each workload{rest_detail}"
    return figure("by-workload", title, _bars(rows, "workload"), caption=caption, wide=True)


def fleet_by_gpu(plan: Plan) -> Html:
    """GPUs at the busiest hour of each kind, by how they are bought."""
    if not plan.fleet:
        return Html("")
    slots = range(len(plan.slots))
    peaks: dict[str, dict[str, int]] = {}
    hours: dict[str, float] = {}
    for gpu in sorted({f.gpu for f in plan.fleet}):
        lines = [f for f in plan.fleet if f.gpu == gpu]
        at = [sum(f.instances_by_slot[t] * f.gpus_per_instance for f in lines) for t in slots]
        peak = at.index(max(at))
        peaks[gpu] = {
            p: n for p in PURCHASES
            if (n := sum(f.instances_by_slot[peak] * f.gpus_per_instance for f in lines if f.purchase == p))
        }  # fmt: skip
        months = plan.slots[-1].month + 1
        hours[gpu] = sum(s.hours_per_month * n for s, n in zip(plan.slots, at, strict=True)) / months
    most = max(sum(x.values()) for x in peaks.values())
    ranked = sorted(peaks, key=lambda g: (-sum(peaks[g].values()), g))
    rows = []
    for gpu in ranked:
        pieces, start = [], 0.0
        for p, n in peaks[gpu].items():
            pieces.append((f"b{PURCHASES[p]}", start / most, n / most))
            start += n
        counts = ", ".join(f"{n} {p}" for p, n in peaks[gpu].items())
        rows.append(
            (join([gpu, el("span", counts, class_="said")]), bar(pieces, f"{gpu}: {counts}"),
             f"{start:.0f}", f"{hours[gpu]:,.0f}")
        )  # fmt: skip
    kinds = [p for p in PURCHASES if any(p in x for x in peaks.values())]
    title = f"{sum(peaks[ranked[0]].values())} x {ranked[0]} at the busiest hour"
    title += f", and {len(ranked) - 1} other kind{'s' * (len(ranked) > 2)} of GPU" if len(ranked) > 1 else ""
    head = ("GPU", "", "most", "GPU-h / month")
    return figure(
        "fleet-by-gpu", title, legend([(f"b{PURCHASES[p]}", p) for p in kinds]), bar_table(head, rows), wide=True
    )


def ranges(plan: Plan) -> Html:
    """Cost + penalty: what is proved, and what would move it."""
    mid = plan.cost_usd_per_month + plan.penalty_usd_per_month
    rows = list(_ranges(plan, mid))
    values = [mid, *(x for _, low, high, _ in rows for x in (low, high))]
    if max(values) <= 0:
        return Html("")
    spread = max(values) - min(values)
    low = 0.0 if spread > 0.5 * max(values) else max(0.0, min(values) - 0.25 * spread - 0.02 * mid)
    ticks = nice_ticks(low, max(values) + 0.02 * mid, 4)
    widest = max(rows, key=lambda r: r[2] - r[1])
    title = f"The cost may move between {usd(min(values))} and {usd(max(values))} a month"
    columns = (C("if", "if"), C("low", "from $/month", "money"), C("high", "to $/month", "money"), C("said", ""))
    body = table_html(Table("ranges", "Ranges", columns, tuple(rows)))
    label = f"{title}; the widest range: {widest[0]}"
    bars = [Interval(what, a, mid, b, detail) for what, a, b, detail in rows]
    drawn = intervals(label, Axis("$ / month", written=usd), ticks, bars, dashed=None)
    return figure(
        "ranges", title if spread > 0.005 * mid else f"Nothing looked at moves the cost of {usd(mid)} much",
        drawn, details("Table: ranges", body),
        caption="The upright line is the plan" + (", penalties included." if plan.penalty_usd_per_month else "."),
    )  # fmt: skip


def _ranges(plan: Plan, mid: float) -> Iterator[tuple[str, float, float, str]]:
    proved = f"no fleet costs less than {usd(plan.bound_usd_per_month)}"
    yield "the gap of the proof", min(plan.bound_usd_per_month, mid), mid, proved
    r = plan.if_throughput_is_off
    off = throughput_error(plan)
    if off and plan.has("if_throughput_is_off"):
        low = mid if r.low_usd_per_month is None else r.low_usd_per_month
        high = mid if r.high_usd_per_month is None else r.high_usd_per_month
        none = "; slower, no plan keeps the limits" if r.high_usd_per_month is None else ""
        yield f"replicas {off} faster or slower", low, high, f"{usd(low)} to {usd(high)}{none}"
    if plan.costs.spot_usd_per_month:
        high = plan.spot_at_p95_usd_per_month + plan.penalty_usd_per_month
        yield "spot at the 95th percentile of its price", mid, max(mid, high), f"up to {usd(high)}"


def _bar_row(what: str, kind: str, amount: float, most: float, total: float, caption: str = "") -> tuple[str, ...]:
    label = join([words(what), el("span", caption, class_="said")]) if caption else words(what)
    return (label, bar([(kind, 0.0, amount / most)]), f"{amount:,.0f}", percent(amount / total))


def _bars(rows: list[tuple[str, ...]], what: str) -> Html:
    return bar_table((what, "", "$/month", "share"), rows)
