"""What could serve each workload and why it does not: options, and candidates that were rejected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.case.support import support_of
from planner.io.formatting import percent
from planner.plan.plan import OptionRecord, Plan
from planner.plan.why_not import why_not
from planner.reports import phrases
from planner.reports.table import BEYOND_TEXT, EVERY, FILES, SCREEN, TICK, Table
from planner.reports.table import Column as C


def options(
    plan: Plan, of: Sequence[OptionRecord] | None = None, heading: str = "option", several: bool = False
) -> Table:
    """The ways to serve each workload alone, cheapest first; `several` workloads may have them alike."""
    cached = EVERY if any(o.caching != "none" for o in plan.options) else FILES
    columns = (
        C("workload", "workload", formats=FILES),
        C("chosen", "✓", formats=FILES),
        C("option", "option", formats=FILES),
        C("way", heading, formats=SCREEN, get=_way),
        C("model", "model", formats=FILES),
        C("quantization", "quantization", formats=FILES),
        C("gpu", "gpu", formats=FILES),
        C("gpus_per_replica", "gpus each", "count", FILES, get=lambda o: o.gpus_per_replica or None),
        C("parallelism", "parallelism", formats=FILES, get=lambda o: o.variant.parallelism if _hosted(o) else None),
        C("offer", "instance", formats=FILES),
        C("caching", "caching", formats=cached),
        C("gpus", "gpu", formats=SCREEN, get=lambda o: o.variant.gpus if _hosted(o) else None),
        C("shared_with", "shared with", formats=FILES, get=lambda o: ", ".join(o.shared_with) or None),
        C("peak_replicas", "peak replicas", "count", get=lambda o: o.peak_replicas or None),
        C("api_share_frac", "api", "share"),
        C("cost_usd_per_month", "$/month", "money", missing="not possible"),
        C("where", "", formats=SCREEN, missing="", get=lambda o: _where(plan, o, several)),
        C("support", "engine support", formats=FILES, get=lambda o: _support(plan, o)),
        C("why_not", "why not", formats=BEYOND_TEXT, get=lambda o: why_not(plan, o) or None),
    )
    return Table("options", "Options considered", columns, tuple(plan.options if of is None else of))


def _hosted(o: OptionRecord) -> bool:
    """Whether one deployment serves it."""
    return bool(o.variant and o.offer)


def _way(o: OptionRecord) -> str:
    """What serves, ticked where it was chosen."""
    several = f"{o.option.count(' + ') + 1} deployments" if o.peak_replicas else o.option
    return (TICK if o.chosen else "  ") + (f"{o.model} {o.quantization}" if o.offer else several)


def _support(plan: Plan, o: OptionRecord) -> str | None:
    """Whether the engine is known to run it; an option of several deployments has none of its own."""
    return support_of(plan.case, o.variant).verdict if o.variant else None


def _where(plan: Plan, o: OptionRecord, several: bool) -> str | None:
    if o.offer is None:
        return o.option if o.peak_replicas else None
    count = len(o.shared_with)
    others = "another one" if count == 1 else f"{count} others"
    shared = f", shared with {others if several else ', '.join(o.shared_with)}" if count else ""
    return o.offer + shared + (", unproven" if _support(plan, o) == "unproven" else "")


def options_alike(plan: Plan) -> Iterator[tuple[list[str], list[OptionRecord]]]:
    """Workloads with the same options at the same costs, and these options."""
    of: dict[str, list[OptionRecord]] = {}
    for o in plan.options:
        of.setdefault(o.workload, []).append(o)
    grouped: dict[tuple[object, ...], list[str]] = {}
    for w in plan.workloads:
        mine = of.get(w.name, [])
        key = tuple(
            (_way(o), o.caching, o.variant, o.peak_replicas, percent(o.api_share_frac),
             o.cost_usd_per_month and round(o.cost_usd_per_month), _where(plan, o, True))
            for o in mine
        )  # fmt: skip
        grouped.setdefault(key, []).append(w.name)
    return ((names, of.get(names[0], [])) for names in grouped.values())


def rejections_alike(plan: Plan) -> list[tuple[list[str], dict[str, list[str]]]]:
    """Candidates by the reason against them, for workloads that have all of them alike."""
    by_workload: dict[str, dict[str, list[str]]] = {}
    for r in plan.rejected:
        reason, candidate = phrases.rejection(r)
        by_workload.setdefault(r.workload, {}).setdefault(reason, []).append(candidate)
    alike: list[tuple[list[str], dict[str, list[str]]]] = []
    for w in plan.workloads:
        reasons = by_workload.get(w.name)
        same = next((names for names, others in alike if others == reasons), None)
        if same is not None:
            same.append(w.name)
        elif reasons:
            alike.append(([w.name], reasons))
    return alike


def rejected(plan: Plan) -> Table:
    columns = (
        C("workload", "workload"),
        C("candidate", "candidate"),
        C("reason", "why not"),
        C("limit", "limit"),
        C("value", "value"),
    )
    return Table("rejected", "Not possible, and why", columns, plan.rejected)
