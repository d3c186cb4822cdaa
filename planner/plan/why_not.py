"""Why a plan does not use what it does not use: each option, each GPU and each quantization of the menu.

All of it follows from the plan itself: its options with their cost alone, and what was rejected by which limit.
"""

from __future__ import annotations

import math
from typing import Literal

from planner.candidates.screen import REPLICA_SIZES, ways_to_share
from planner.case.case import Case, Workload
from planner.case.menu import allowed_offers
from planner.case.vendors import VENDOR_NAMES, Vendor, vendor_usd, vendors_bought_of
from planner.catalog.variant import Variant
from planner.io.formatting import usd, usd_small
from planner.io.validation import Strict
from planner.plan.account.account import account_of
from planner.plan.plan import OptionRecord, Plan, RejectionRecord, WorkloadPlan

Kind = Literal["gpu", "quantization"]
GPUS_SHOWN = 3
SAME_USD = 0.005
"""costs that differ by less are equal"""


class WhyNot(Strict):
    """A GPU or a quantization of the menu, as one workload sees it."""

    kind: Kind
    name: str
    used: bool
    why: str
    """why not, in a line"""
    cost_usd_per_month: float | None = None
    """of the cheapest way to serve the workload with it, alone; None where that is not known"""
    dearer_by_usd_per_month: float | None = None
    """than what was chosen"""


def menu_judged(plan: Plan, workload: str) -> tuple[WhyNot, ...]:
    """Every GPU and every quantization of the menu, in its order."""
    planned = next(w for w in plan.workloads if w.name == workload)
    hosted = [d.deployment for d in plan.pool_of(workload).deployments]
    gpus = [_judged(plan, planned, "gpu", name, {d.gpu for d in hosted}) for name in plan.case.gpus]
    schemes = [
        _judged(plan, planned, "quantization", name, {d.quantization for d in hosted})
        for name in plan.case.quantizations
    ]
    return (*gpus, *schemes)


def chosen_option(plan: Plan, workload: str) -> OptionRecord | None:
    return next((o for o in plan.options if o.workload == workload and o.chosen), None)


def why_not(plan: Plan, option: OptionRecord) -> str:
    """Why an option was not chosen; nothing for the one that was."""
    if option.chosen:
        return ""
    if option.cost_usd_per_month is None:
        return "the menu cannot buy it"
    chosen = chosen_option(plan, option.workload)
    if chosen is None or chosen.cost_usd_per_month is None:
        return ""
    extra = option.cost_usd_per_month - chosen.cost_usd_per_month
    if abs(extra) < SAME_USD:
        return "costs the same"
    if extra < 0:
        return f"{usd(-extra)} / month less by itself, but {_in_the_way(plan, option)}"
    return f"{usd(extra)} / month more: {_why_more(plan, option, chosen)}"


def _why_more(plan: Plan, option: OptionRecord, chosen: OptionRecord) -> str:
    if option.offer is not None:
        box, needed = plan.case.offers[option.offer].gpus, option.peak_replicas * option.gpus_per_replica
        instances = option.peak_replicas * (option.boxes_per_replica or 1)
        if option.boxes_per_replica is None:
            instances = math.ceil(option.peak_replicas / (box // (option.gpus_per_replica or 1)))
        if plan.case.limits.spread and plan.case.limits.min_replicas > 1:
            instances = max(instances, 2)
        if needed and needed <= 0.75 * box * instances and box > 1:
            bought = f"{instances} instances have" if instances > 1 else "an instance has"
            return f"{bought} {box * instances} GPUs, and the load needs {needed} at its peak"
        least = plan.case.limits.min_replicas
        if chosen.api_share_frac and not chosen.peak_replicas and option.peak_replicas <= least:
            return (
                f"the {least} replica{'s' * (least > 1)} that must always run cost{'s' * (least == 1)} more than the "
                "API"
            )
    tokens = next(w for w in plan.workloads if w.name == option.workload).tokens_per_month
    if not tokens or option.cost_usd_per_month is None or chosen.cost_usd_per_month is None:
        return "another option is cheaper"
    each = [
        usd_small(1e6 * o.cost_usd_per_month / tokens) for o in (option, chosen) if o.cost_usd_per_month is not None
    ]
    return f"{each[0]} against {each[1]} / 1M tokens"


def _in_the_way(plan: Plan, option: OptionRecord) -> str:
    """What else a plan must keep that an option by itself need not."""
    limits = plan.case.limits
    if option.gpu in limits.max_gpus:
        return f"policy.max_gpus.{option.gpu} is {limits.max_gpus[option.gpu]}"
    if option.offer in limits.max_instances:
        return f"policy.max_instances.{option.offer} is {limits.max_instances[option.offer]}"
    if limits.max_gpu_types is not None:
        return f"policy.max_gpu_types is {limits.max_gpu_types}"
    others = _vendors_in_the_way(plan, option)
    if others is not None:
        return others
    if limits.budget_usd_per_month is not None:
        return f"the budget is {usd(limits.budget_usd_per_month)} a month"
    return "it does not pay in a plan for all workloads together"


def _vendors_of(plan: Plan, option: OptionRecord) -> list[Vendor]:
    offers, apis = ([key] if key else [] for key in (option.offer, option.api))
    return vendors_bought_of(plan.case, offers, apis)


def _vendors_in_the_way(plan: Plan, option: OptionRecord) -> str | None:
    """A vendor of an option that the plan does without, if it would be one too many or has a fixed cost."""
    more = [v for v in _vendors_of(plan, option) if v not in account_of(plan).money.vendors]
    for kind, name in more:
        if kind in (plan.case.limits.max_vendors or {}):
            count = (plan.case.limits.max_vendors or {})[kind]
            return f"{name} would be one more {VENDOR_NAMES[kind]}, but policy.vendors.at_most.{kind} is {count}"
    cost = sum(vendor_usd(plan.case, vendor) for vendor in more)
    names = " and ".join(name for _, name in more)
    return f"having {names} costs {usd(cost)} / month" if cost else None


def _judged(plan: Plan, planned: WorkloadPlan, kind: Kind, name: str, used: set[str]) -> WhyNot:
    if name in used:
        return WhyNot(kind=kind, name=name, used=True, why="")
    mine = [o for o in plan.options if o.workload == planned.name and getattr(o, kind) == name]
    priced = [o for o in mine if o.cost_usd_per_month is not None]
    asked = next(w for w in plan.case.workloads if w.name == planned.name)
    possible = _variants(plan.case, asked, kind, name)
    known = set(possible)
    against = [r for r in plan.rejected if r.workload == planned.name and r.variant in known]
    unable = {r.variant for r in against if not r.dominated}
    able = [v for v in possible if v.gpus_per_replica and not unable & {v, Variant(v.model, v.quantization, v.gpu)}]
    serving = list(dict.fromkeys(v.gpu for v in able))
    dominated_on = [gpu for gpu in serving if gpu not in {o.gpu for o in mine}]
    if priced:
        best = min(priced, key=lambda o: (o.cost_usd_per_month or 0.0, o.option))
        if dominated_on:
            why = f"{_dominated(plan, dominated_on, planned)}; on {best.gpu} {why_not(plan, best)}"
            return WhyNot(kind=kind, name=name, used=False, why=why)
        chosen = chosen_option(plan, planned.name)
        than = chosen.cost_usd_per_month if chosen else None
        return WhyNot(
            kind=kind,
            name=name,
            used=False,
            why=why_not(plan, best),
            cost_usd_per_month=best.cost_usd_per_month,
            dearer_by_usd_per_month=None if than is None else (best.cost_usd_per_month or 0.0) - than,
        )
    if mine:
        why = "the menu cannot buy enough of it"
    elif kind == "gpu" and not any(o.gpu == name for o in allowed_offers(plan.case, [asked]).values()):
        why = "nothing on the menu sells it where this workload may run"
    elif dominated_on:
        why = _dominated(plan, dominated_on, planned)
    else:
        why = _nearest(against, asked) if against else "no instance on the menu holds a replica of it"
    return WhyNot(kind=kind, name=name, used=False, why=why)


def _dominated(plan: Plan, gpus: list[str], planned: WorkloadPlan) -> str:
    """On which GPUs it could serve, but never with fewer of them than another variant; those in use first."""
    in_use = {d.deployment.gpu for d in plan.pool_of(planned.name).deployments}
    first = sorted(gpus, key=lambda gpu: gpu not in in_use)
    more = f" and {len(gpus) - GPUS_SHOWN} more" if len(gpus) > GPUS_SHOWN else ""
    return f"never needs fewer GPUs than another variant on {', '.join(first[:GPUS_SHOWN])}{more}"


def _nearest(against: list[RejectionRecord], asked: Workload) -> str:
    """Pick the last reason against the first model: what fails last got furthest."""
    first = next(choice.model for choice in asked.models if choice.model in {r.model for r in against})
    last = [r for r in against if r.model == first][-1]
    others = len({r.reason for r in against} - {last.reason})
    more = f"; {others} other reason{'s' * (others > 1)} against others" if others else ""
    return f"{last.candidate}: {last.reason}, {last.value} (limit {last.limit}){more}"


def _variants(case: Case, asked: Workload, kind: Kind, name: str) -> list[Variant]:
    """With a GPU or a quantization: on every number of GPUs that an instance holds, and on any number."""
    sizes = [n for n in REPLICA_SIZES if n <= case.limits.max_gpus_per_replica]
    boxes = {(o.gpu, n) for o in allowed_offers(case, [asked]).values() for n in (0, *sizes) if n <= o.gpus}
    schemes = [name] if kind == "quantization" else list(case.quantizations)
    return [
        Variant(choice.model, scheme, gpu, n, way)
        for choice in asked.models
        for scheme in schemes
        for gpu, n in sorted(boxes)
        for way in ways_to_share(case, choice.model, n)
        if kind == "quantization" or gpu == name
    ]
