"""Why this plan and no other: limits, levers, the options with their prices, and what was not possible."""

from __future__ import annotations

from planner.explanations.records import Explanation
from planner.io.formatting import percent, usd
from planner.plan.plan import OptionRecord, Plan, WorkloadPlan
from planner.reports.explanation import levers_rows, limits_rows, no_levers
from planner.reports.html.markup import Html, and_more, details, el, join, long_table, name, notes, panel, table
from planner.reports.terminal import why_not

OPTIONS_IN_ALL, REASONS_IN_ALL, WORKLOADS_TOLD = 500, 350, 100
"""rows of a page; each of the workloads told, the dearest of many, has its part of them, and no fewer than these:"""
OPTIONS_AT_LEAST, REASONS_AT_LEAST = 3, 3
OPTIONS_FIRST, NAMES_SHOWN = 8, 3


def explanation_panel(explanation: Explanation | None) -> Html:
    if explanation is None:
        said = el(
            "p",
            "What each lever saves and each limit costs: ",
            el("code", "fleetplan explain PLAN.json --format json"),
            ", then ",
            el("code", "fleetplan report PLAN.json --explanation FILE"),
            class_="hint",
        )
        return panel("explanation", "Levers and limits", said)
    levers, (binding, idle) = levers_rows(explanation), limits_rows(explanation)
    parts = [
        table([("the best plan without", "$/month", "dearer by"), *levers], "b")
        if levers
        else el("p", no_levers(explanation.workload))
    ]
    if binding:
        parts.append(table([("one step more of a limit", "saves a month"), *binding]))
    idle_said = [f"would save nothing: {step}" for step in idle]
    why = explanation.why_not_tried or "interrupted"
    left = [f"{why}; not tried: {'; '.join(explanation.not_tried)}"] if explanation.not_tried else []
    title = "What each lever saves, and what one step more of each limit would"
    return panel("explanation", title, *parts, notes([*idle_said, *left]))


def binding_panel(plan: Plan) -> Html:
    if not plan.binding:
        return Html("")
    rows = [
        (b.limit, b.name or "the whole fleet", usd(b.value) if b.limit.endswith("usd_per_month") else f"{b.value:,.0f}",
         f"{b.hours_per_month:,.0f}")
        for b in plan.binding
    ]  # fmt: skip
    shown = long_table([("limit", "of", "value", "hours a month"), *rows], "cd")
    return panel("binding", "Limits that are reached", shown)


def options_panel(plan: Plan) -> Html:
    """Each workload's ways to be served alone, cheapest first, with what keeps each from being chosen."""
    told = _dearest(plan)
    room = max(OPTIONS_AT_LEAST, OPTIONS_IN_ALL // len(told))
    alike: dict[tuple[str, Html], list[str]] = {}
    for w in told:
        mine = [o for o in plan.options if o.workload == w.name]
        shown = [o for k, o in enumerate(mine) if k < room or o.chosen or o.option.startswith("api ")]
        first = [o for k, o in enumerate(shown) if k < OPTIONS_FIRST or o.chosen]
        chosen = next((o for o in mine if o.chosen), None)
        cached = any(o.caching != "none" for o in mine)
        head = ("option", *(("caching",) * cached), "GPUs", "peak replicas", "api", "$/month", "why not")
        first_rows, other_rows = (
            [head, *(_option(o, chosen, cached) for o in of)] for of in (first, [o for o in shown if o not in first])
        )
        right = "def" if cached else "cde"
        more = and_more(len(mine), len(shown), " and dearer ones")
        body = [table(first_rows, right)]
        if len(other_rows) > 1:
            body.append(details(f"{len(other_rows) - 1} more", table(other_rows, right)))
        said = f"{len(mine)} option{'s' * (len(mine) != 1)}"
        alike.setdefault((said, join([*body, notes(more)])), []).append(w.name)
    said = "Costs are of one workload served by itself, without engineers and limits; "
    note = el("p", said, "what is shared or mixed has its cost in the plan.")
    return panel("options", "Options considered", note, *_by_workload(alike), _others(plan))


def _dearest(plan: Plan) -> list[WorkloadPlan]:
    """Of very many workloads, in their order."""
    ranked = sorted(plan.workloads, key=lambda w: -w.cost_usd_per_month)[:WORKLOADS_TOLD]
    names = {w.name for w in ranked}
    return [w for w in plan.workloads if w.name in names]


def _others(plan: Plan) -> Html:
    return notes(and_more(len(plan.workloads), WORKLOADS_TOLD, " workloads that cost less"))


def _by_workload(alike: dict[tuple[str, Html], list[str]]) -> list[Html]:
    """What holds for several workloads is shown once."""
    parts = []
    for (said, body), names in alike.items():
        owners = [name(n) if k == 0 else join([", ", name(n)]) for k, n in enumerate(names[:NAMES_SHOWN])]
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        parts.append(details(join([*owners, more, f": {said}"]), body, open_=len(alike) <= 3))
    return parts


def _option(o: OptionRecord, chosen: OptionRecord | None, cached: bool) -> tuple[str, ...]:
    money = f"{o.cost_usd_per_month:,.0f}" if o.cost_usd_per_month is not None else "–"
    api = percent(o.api_share_frac) if o.api_share_frac else "–"
    label: str = f"{o.model} {o.quantization}" if o.offer else o.option
    label = join([el("span", "✓ ", class_="tick"), label]) if o.chosen else label
    hardware = f"{o.gpus_per_replica} x {o.gpu}, {o.offer}" if o.offer else "–"
    others = len(o.shared_with)
    shared = f"; shared by {others + 1} workloads" if others else ""
    replicas = str(o.peak_replicas) if o.peak_replicas else "–"
    return (label, *((o.caching,) * cached), hardware, replicas, api, money, _why_not(o, chosen) + shared)


def _why_not(o: OptionRecord, chosen: OptionRecord | None) -> str:
    if o.chosen:
        return "chosen"
    if o.cost_usd_per_month is None:
        return "the menu cannot buy it"
    if chosen is None or chosen.cost_usd_per_month is None:
        return "another is chosen"
    more = o.cost_usd_per_month - chosen.cost_usd_per_month
    if more >= 0.005:
        return f"{usd(more)} dearer{_by(o.cost_usd_per_month, chosen.cost_usd_per_month)}"
    if more > -0.005:
        return "costs the same"
    return f"{usd(-more)} cheaper alone; limits or the rest of the fleet decide"


def _by(cost: float, chosen: float) -> str:
    if not chosen:
        return ""
    return f" ({percent(cost / chosen - 1)})" if cost < 2 * chosen else f" ({cost / chosen:.1f} times)"


def rejected_panel(plan: Plan) -> Html:
    if not plan.rejected:
        return Html("")
    told = _dearest(plan)
    room = max(REASONS_AT_LEAST, REASONS_IN_ALL // len(told))
    alike: dict[tuple[str, Html], list[str]] = {}
    for w in told:
        grouped = _grouped(plan, w.name)
        if not grouped:
            continue
        rows = [(reason, str(len(names)), _listed(names)) for reason, names in list(grouped.items())[:room]]
        more = and_more(len(grouped), room, " reasons")
        count = sum(len(names) for names in grouped.values())
        body = join([table([("reason and limit", "how many", "such as"), *rows], "b"), notes(more)])
        alike.setdefault((f"{count} not possible", body), []).append(w.name)
    return panel("rejected", "Not possible, and why", *_by_workload(alike), _others(plan))


def _grouped(plan: Plan, workload: str) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for r in plan.rejected:
        if r.workload == workload:
            reason, candidate = why_not(r)
            grouped.setdefault(reason, []).append(candidate)
    return grouped


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more
