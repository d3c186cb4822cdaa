"""Where the money goes, and how far it may move."""

from __future__ import annotations

from collections.abc import Sequence

from planner.io.formatting import percent, usd, usd_small
from planner.plan.plan import Plan, WorkloadPlan
from planner.reports.charts.colours import COSTS, PURCHASES, way_of
from planner.reports.charts.intervals import Interval, intervals
from planner.reports.charts.svg import Axis, nice_ticks
from planner.reports.markup import Html, bar, bar_table, details, el, figure, join, legend, name, table_html, words
from planner.reports.tables.answers import what_moves_it

WORKLOADS_SHOWN, BRIEFLY_SHOWN = 12, 6


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
        "servers": c.bought_usd_per_month or 0.0,
        "energy": c.energy_usd_per_month or 0.0,
        "held": plan.held_usd_per_month,
    }
    total, most = plan.total_usd_per_month, max(amounts.values())
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
    "servers": "servers of its own", "energy": "energy of GPUs in servers of its own",
    "held": "what is held, paid in any case",
}  # fmt: skip


def by_workload(plan: Plan, brief: bool = False) -> Html:
    """Where the money goes beside where the requests go; brief: without what a token and a request cost."""
    ranked = sorted(plan.workloads, key=lambda w: -w.cost_usd_per_month)
    usd_in_all = sum(w.cost_usd_per_month for w in ranked)
    requests = sum(w.requests_per_month for w in ranked)
    if not usd_in_all or not requests or len(ranked) == 1:
        return Html("")
    most = BRIEFLY_SHOWN if brief else WORKLOADS_SHOWN
    shown: list[tuple[str, Sequence[WorkloadPlan]]] = [(w.name, (w,)) for w in ranked[:most]]
    if rest := ranked[most:]:
        shown.append((f"{len(rest)} other{'s' * (len(rest) > 1)}", rest))
    rows = [_money_row(label, of, usd_in_all, requests, brief) for label, of in shown]
    head = ("workload", "", "requests", "cost", *(() if brief else ("$/month", "$/1M tokens", "$/1k requests")))
    keys = (("b1", "share of the requests"), ("b2", "share of the cost"))
    engineers = "; the cost of engineers is not divided among them" if plan.costs.engineers_usd_per_month else ""
    caption = f"GPUs, API and caches of each workload{engineers}."
    id_ = "money-and-requests" if brief else "by-workload"
    without = " without engineers" if engineers else ""
    title = _money_title(ranked[0], ranked[-1], len(ranked), usd_in_all, requests, without)
    return figure(id_, title, legend(keys), bar_table(head, rows), caption=caption, wide=not brief)


def _money_title(
    top: WorkloadPlan, last: WorkloadPlan, count: int, usd_in_all: float, requests: float, without: str
) -> str:
    most = top.cost_usd_per_month
    if last.cost_usd_per_month >= 0.95 * most:
        return f"Each of the {count} workloads costs about {usd(most)} a month"
    share = f" is {percent(most / usd_in_all)} of the cost{without}, and {percent(top.requests_per_month / requests)}"
    return join([name(top.name), share, " of the requests"])


def _money_row(
    label: str, of: Sequence[WorkloadPlan], usd_in_all: float, requests_in_all: float, brief: bool
) -> tuple[str, ...]:
    cost, requests = sum(w.cost_usd_per_month for w in of), sum(w.requests_per_month for w in of)
    answered = requests - sum(w.shed_requests_per_month for w in of)
    tokens = sum(w.tokens_per_month for w in of)
    shares = (requests / requests_in_all, cost / usd_in_all)
    bars = join(bar([(kind, 0.0, share)]) for kind, share in zip(("b1", "b2"), shares, strict=True))
    each = (
        f"{cost:,.0f}", usd_small(1e6 * cost / tokens) if tokens else "–",
        usd_small(1e3 * cost / answered) if answered else "–",
    )  # fmt: skip
    return (words(label), bars, percent(shares[0]), percent(shares[1]), *(() if brief else each))


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
            if (n := sum(f.instances_by_slot[peak] * f.gpus_per_instance for f in lines if way_of(f.purchase) == p))
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
    """What would move the cost. How far it is proved is no range of it: that is about other plans."""
    table, mid = what_moves_it(plan), plan.total_usd_per_month
    rows = [(str(what), float(low or 0), float(high or 0)) for what, low, high, *_ in table.rows]
    values = [mid, *(x for _, low, high in rows for x in (low, high))]
    if max(values) <= 0:
        return Html("")
    spread = max(values) - min(values)
    low = 0.0 if spread > 0.5 * max(values) else max(0.0, min(values) - 0.25 * spread - 0.02 * mid)
    ticks = nice_ticks(low, max(values) + 0.02 * mid, 4)
    title = f"The cost may move between {usd(min(values))} and {usd(max(values))} a month"
    bars = [Interval(what, a, mid, b, f"{usd(a)} to {usd(b)}") for what, a, b in rows]
    widest = max(rows, key=lambda r: r[2] - r[1])
    drawn = intervals(
        f"{title}; the largest swing: {widest[0]}", Axis("$ / month", written=usd), ticks, bars, dashed=None
    )
    return figure(
        "ranges", title if spread > 0.005 * mid else f"Nothing that was tried changes the cost of {usd(mid)} much",
        drawn, details("Table: ranges", table_html(table)),
        caption="The vertical line is the plan. If demand differs, commitments stay as signed and the rest follows.",
    )  # fmt: skip


def _bar_row(what: str, kind: str, amount: float, most: float, total: float) -> tuple[str, ...]:
    return (words(what), bar([(kind, 0.0, amount / most)]), f"{amount:,.0f}", percent(amount / total))


def _bars(rows: list[tuple[str, ...]], what: str) -> Html:
    return bar_table((what, "", "$/month", "share"), rows)
