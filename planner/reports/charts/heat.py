"""How busy replicas are, pool by pool and hour by hour: a table whose cells are coloured."""

from __future__ import annotations

from planner.io.formatting import percent
from planner.plan.plan import DeploymentPlan, Plan, PoolPlan
from planner.reports.charts.hourly import Day, Hours
from planner.reports.markup import Html, and_more, el, figure, join, notes, words
from planner.reports.tables.pools import pool_name

LINES_SHOWN = 40
"""days of deployments, the largest of them first"""


def heat_map(plan: Plan) -> Html:
    hosted = [(p, d) for p in plan.pools for d in p.deployments]
    if not hosted:
        return Html("")
    hosted.sort(key=lambda pd: -_gpu_hours(plan, pd[1]))
    hours = Hours(plan)
    days = hours.days_unlike(hours.busy(None), hours.staffed(None))
    shown = hosted[: max(2, LINES_SHOWN // len(days))]
    columns = Html('<colgroup><col class="d">' + "<col>" * 24 + "</colgroup>")
    head = el("tr", el("th", ""), *(el("th", str(h) if h % 3 == 0 else "", scope="col") for h in range(24)))
    body = join(_rows(p, d, days) for p, d in shown)
    whole = el("table", columns, el("thead", head), body)
    more = and_more(len(hosted), len(shown), " smaller deployments")
    box = el("div", whole, class_="heat", role="region", aria_label="load by hour")
    caption = "Mean load of the running replicas in percent, by hour of the day. The rest is the margin for bursts."
    return figure("utilization", _title(plan), box, notes(more), caption=caption, wide=True)


def _title(plan: Plan) -> str:
    hosted = [d for p in plan.pools for d in p.deployments]
    busy = sum(s.hours_per_month * x for d in hosted for s, x in zip(plan.slots, d.load_by_slot, strict=True))
    running = sum(s.hours_per_month * x for d in hosted for s, x in zip(plan.slots, d.replicas_by_slot, strict=True))
    return f"Replicas are busy {percent(busy / running if running else 0.0)} of their time"


def _gpu_hours(plan: Plan, d: DeploymentPlan) -> float:
    replicas = zip(plan.slots, d.replicas_by_slot, strict=True)
    return d.deployment.gpus_per_replica * sum(s.hours_per_month * n for s, n in replicas)


def _rows(pool: PoolPlan, d: DeploymentPlan, days: list[Day]) -> Html:
    what = f"{pool_name(pool)}: {d.deployment.model} {d.deployment.quantization}, {d.deployment.variant.gpus}"
    head = el("tr", el("th", words(what), colspan="25", scope="rowgroup"))
    return el("tbody", head, *(_row(day, d) for day in days))


def _row(day: Day, d: DeploymentPlan) -> Html:
    cells = [el("td", day.short, class_="day")]
    for hour, t in enumerate(day.slots):
        load, replicas = d.load_by_slot[t], d.replicas_by_slot[t]
        share = load / replicas if replicas else 0.0
        label = f"{hour:02d}:00: {percent(share)}, {load:.3g} of {replicas} replicas busy"
        kind = f"cell h{min(10, round(10 * share))}" if replicas else "cell"
        text = f"{100 * share:.0f}" if replicas else "–"
        cells.append(el("td", text, class_=kind, title=label))
    return el("tr", *cells)
