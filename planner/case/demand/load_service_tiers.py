"""Service tiers of APIs on the menu, held against what workloads ask for."""

from __future__ import annotations

from planner.case.case import Workload
from planner.case.demand.notes import Notes
from planner.case.demand.schema import DemandFile
from planner.catalog.entries import ApiModel


def complain_of_tiers(
    spec: DemandFile,
    workloads: tuple[Workload, ...],
    menu_apis: tuple[str, ...],
    apis: dict[str, ApiModel],
    notes: Notes,
) -> None:
    tiers = {name: apis[name].service_tier for name in menu_apis if name in apis}
    waits = [w.name for w in workloads if w.deadline_h is not None or w.api_wait_h > 0]
    for k, name in enumerate(spec.menu.apis or ()):
        if tiers.get(name) == "flex" and not waits:
            message = f"{name} promises no time, and no workload may wait"
            remedy = f"Give work that may wait a deadline, or write {name.removesuffix(':flex')}"
            notes.complain(("menu", "apis", k), message, remedy)
    for k, w in enumerate(spec.workloads):
        if w.api_tier is not None and w.api != "forbidden" and w.api_tier not in tiers.values():
            message = f"no API on the menu is sold at {w.api_tier}"
            notes.complain(
                ("workloads", k, "api_tier"), message, f"Add one to menu.apis, such as openai/gpt-5.4:{w.api_tier}"
            )
    flex = [name for name, tier in tiers.items() if tier == "flex"]
    if flex and waits:
        why = "they answer when there is room and may turn requests away: send those again before the deadline"
        notes.assume("menu.apis", f"{', '.join(flex)} for {', '.join(waits)} only", why)
