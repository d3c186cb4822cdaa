"""The simple plan beside the cheapest one: how far the same program gets with fewer things to run and vendors to have.

One kind of complication after the other is cut down to the least there can be: providers, regions, kinds of GPU,
deployments of a workload, APIs. What keeps the cost near the optimum stays cut. The menu is what the plan has: a plan
with other vendors would be another plan, not a simpler one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from planner.case.case import Allowance, Case
from planner.case.changes import with_limits
from planner.catalog.entries import Offer
from planner.plan.complications import Kind, parts_of
from planner.plan.plan import Plan
from planner.plan.simpler import Reduction, Simpler

WITHIN_FRAC = 0.02
"""of the cost, where the policy does not say"""
ORDER: tuple[Kind, ...] = ("provider", "region", "gpu", "deployment", "api")


@dataclass(frozen=True)
class Cut:
    """A kind of complication, and how much of it is the least that there can be."""

    kind: Kind
    without: tuple[str, ...]
    """what goes at least, as people call it; which of it the program decides"""
    fewest: int


def cuts_of(plan: Plan) -> Iterator[Cut]:
    """What could be simpler about a plan; nothing where it is as simple as can be."""
    parts = sorted(parts_of(plan), key=lambda part: part.usd_per_month)
    for kind in ORDER:
        if kind == "deployment":
            several = [p for p in plan.pools if len(p.deployments) > 1]
            if several:
                names = ", ".join(w for p in several for w in p.workloads)
                yield Cut(kind, (f"several deployments for {names}",), 1)
            continue
        fewest = 0 if kind == "api" and plan.fleet else 1
        mine = [part for part in parts if part.kind == kind]
        if len(mine) > fewest and not _is_the_only_way(plan, kind):
            yield Cut(kind, tuple(part.what for part in mine[: len(mine) - fewest]), fewest)


def _is_the_only_way(plan: Plan, kind: Kind) -> bool:
    """Whether some workload is served by an API alone: doing without would be another plan, not a simpler one."""
    return kind == "api" and any(w.api_share_frac and not plan.pool_of(w.name).deployments for w in plan.workloads)


def simplest(plan: Plan, planned: Callable[[Case, str], Plan | None]) -> tuple[Simpler, Case]:
    """What each cut costs, and the case whose plan is the simplest one; `planned` gives the checked plan of a case, or
    nothing where there is none."""
    within = plan.case.limits.simpler_within_frac
    within = WITHIN_FRAC if within is None else within
    most_usd = (1 + within) * plan.objective_usd_per_month
    best, reductions, cut = plan, list[Reduction](), list[Cut]()
    for each in cuts_of(plan):
        if all(each.kind != c.kind for c in cuts_of(best)):
            continue  # another cut has done it
        tried = planned(simplified(plan, [*cut, each]), f"without {', '.join(each.without)}")
        more = None if tried is None else tried.objective_usd_per_month - best.objective_usd_per_month
        done = tried is not None and tried.objective_usd_per_month <= most_usd
        reductions.append(Reduction(without=each.without, saves_usd_per_month=more, done=done))
        if done and tried is not None:
            best, cut = tried, [*cut, each]
    found = Simpler(
        within_frac=within,
        cost_usd_per_month=best.objective_usd_per_month,
        bound_usd_per_month=best.bound_usd_per_month,
        reductions=tuple(reductions),
        chosen=False,
    )
    return found, simplified(plan, cut)


def simplified(plan: Plan, cuts: list[Cut]) -> Case:
    """The case with these cuts as limits, and a menu of the vendors and kinds of GPU that the plan has."""
    case, limits = plan.case, plan.case.limits
    bought = [case.offers[line.offer] for line in plan.fleet]
    gpus, places = {offer.gpu for offer in bought}, {(offer.provider, offer.region) for offer in bought}
    held = {h.offer for h in case.held or ()}
    fewest = {cut.kind: cut.fewest for cut in cuts}
    vendors = {kind: fewest[kind] for kind in ("provider", "region", "api") if kind in fewest}
    on_menu = {
        key: offer
        for key, offer in case.offers.items()
        if key in held or (offer.gpu in gpus and (offer.provider, offer.region) in places)
    }
    changed = with_limits(
        max_vendors={**(limits.max_vendors or {}), **vendors} or None,
        max_gpu_types=fewest.get("gpu", limits.max_gpu_types),
        max_deployments=fewest.get("deployment", limits.max_deployments),
        choose_simplest=None,
    )(case)
    used = {w.api for w in plan.workloads if w.api_share_frac}
    menu_apis = tuple(a for a in case.menu_apis if a in used)
    covered = {"allowances": tuple(_on_menu(a, on_menu) for a in case.allowances)} if case.allowances else {}
    return changed.model_copy(update={"offers": on_menu, "menu_apis": menu_apis, **covered})


def _on_menu(allowance: Allowance, offers: Mapping[str, Offer]) -> Allowance:
    """A savings plan with the rates of offers that are left."""
    if allowance.rates is None:
        return allowance
    return allowance.model_copy(update={"rates": {key: usd for key, usd in allowance.rates.items() if key in offers}})
