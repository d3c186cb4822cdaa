"""Limits per minute of APIs, held against the menu."""

from __future__ import annotations

from planner.case.case import Limits, Workload
from planner.case.demand.notes import Notes
from planner.case.demand.schema import DemandFile
from planner.catalog.entries import ApiModel
from planner.io.errors import did_you_mean, shown


def with_api_limits(
    limits: Limits,
    spec: DemandFile,
    workloads: tuple[Workload, ...],
    menu_apis: tuple[str, ...],
    apis: dict[str, ApiModel],
    notes: Notes,
) -> Limits:
    """Limits with what APIs of the menu take in a minute."""
    if not spec.api_limits:
        return limits
    units = {own.api for own in spec.provisioned}
    for name in spec.api_limits:
        if name not in menu_apis:
            remedy = did_you_mean(name, menu_apis) or f"Add it to menu: {{apis: [{name}]}}, or leave its limits out"
            notes.complain(("api_limits", name), f"{shown(name, 60)} is not on the menu", remedy)
        elif name in apis and not any(t.input_usd_per_1m or t.output_usd_per_1m for t in apis[name].tiers):
            message = "asks nothing, and what goes there is counted by its bill"
            notes.complain(("api_limits", name), message, "Give it a price under catalog: {apis: {...}}")
        elif name in units:
            message = f"limits and provisioned units of {name} are not known together yet"
            notes.complain(("api_limits", name), message, "Leave one of the two out")
        for tier in menu_apis:
            if tier.startswith(f"{name}:") and tier not in spec.api_limits:
                message = f"does not say what {tier} takes, and providers count both together"
                notes.complain(("api_limits", name), message, f"Add {tier} with its part of the limits")
    waiting = [w.name for w in workloads if w.deadline_h is not None]
    if waiting:
        why = "work with a deadline tries again until there is room"
        notes.assume("api_limits", f"without {', '.join(waiting)}", why)
    if any(own.peak is None for own in spec.api_limits.values()):
        why = "one minute of 60 has more, by each workload's variation and burstiness; `peak` says it for an API"
        notes.assume("api_limits.peak", "the busiest minute of each hour", why)
    return limits.model_copy(
        update={
            "api_per_minute": {
                f"{name} {kind}": most for name, own in spec.api_limits.items() for kind, most in own.most.items()
            },
            "api_cached_weight": {n: w for n, own in spec.api_limits.items() if (w := own.cached_weight) is not None}
            or None,
            "api_minute_peak": {n: p for n, own in spec.api_limits.items() if (p := own.peak) is not None} or None,
        }
    )
