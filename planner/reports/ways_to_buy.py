"""Rent, buy or API: which of them carries which share of the cost, and from which volume on GPUs are worth having."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from planner.case.allowances import allowance_of
from planner.case.terms import bought_terms
from planner.io.formatting import percent, tokens
from planner.io.remembered import of_the_last
from planner.plan.account.other_demand import other_demand
from planner.plan.plan import Plan
from planner.plan.signing import allowances_to_be_signed
from planner.reports import phrases

RATIO, STEPS = 0.9, 24
"""from one volume that is tried to the next below, and how many"""
LEAST_SHARE = 0.005
BREAK_EVEN = "'fleetplan study PLAN.json --only break-even'"


def ways_to_buy(plan: Plan) -> Iterator[str]:
    shares = ", ".join(f"{percent(share)} {way}" for way, share in shares_of_cost(plan) if share >= LEAST_SHARE)
    if not shares:
        return
    yield f"of the cost: {shares}"
    if not plan.fleet:
        yield from _gpus_from(plan)
    least = cheaper_from(plan)
    if least is not None:
        volume = tokens(least * sum(w.tokens_per_month for w in plan.workloads))
        down_to = f"from this volume down to {volume} tokens a month, {percent(least)} of it, or to fewer"
        yield f"{down_to}: this fleet costs less than {phrases.baseline_name(plan)}"


def _gpus_from(plan: Plan) -> Iterator[str]:
    """Of a plan that is on APIs alone: from which volume on GPUs would pay, or what tells."""
    own = ", rented or your own," if bought_terms(plan.case) else ""
    study = plan.studies.break_even if plan.studies else None
    if study is None or not study.points:
        yield f"from which volume on GPUs{own} would cost less: {BREAK_EVEN}"
        return
    known = [p for p in study.points if p.mixed_usd_per_month is not None]
    crossings = study.mixed_crossings if known else study.crossings
    first = next((c for c in crossings if c.cheaper_from_here == "self-hosted" and c.multiple >= 1), None)
    if first is not None:
        volume = f"{tokens(first.tokens_per_month)} tokens a month on, {first.multiple:.3g} times this demand"
        yield f"from {volume}: GPUs{own} cost less than {study.provider} {study.model}"
    else:
        most = f"{study.points[-1].multiple:.3g} times this demand"
        yield f"GPUs{own} were proved to cost less than {study.provider} {study.model} at no volume tried, up to {most}"


def shares_of_cost(plan: Plan) -> list[tuple[str, float]]:
    """The largest first."""
    c, whole, signed = plan.costs, plan.total_usd_per_month, allowances_to_be_signed(plan)
    units = sum(a.usd_per_month for a in signed if allowance_of(plan.case, a.name).api is not None)
    dollars = sum(a.usd_per_month for a in signed) - units
    paid = {
        "rented by the hour": c.on_demand_usd_per_month + c.spot_usd_per_month - dollars,
        "committed": c.reserved_usd_per_month + dollars + units,
        "servers of your own": (c.bought_usd_per_month or 0.0) + (c.energy_usd_per_month or 0.0),
        "held already": plan.held_usd_per_month,
        "APIs by the token": c.api_usd_per_month - units,
        "caches": c.caching_usd_per_month,
        "engineers": c.engineers_usd_per_month,
        "fixed costs of vendors": c.vendors_usd_per_month or 0.0,
    }
    return sorted(((way, usd / whole if whole else 0.0) for way, usd in paid.items()), key=lambda part: -part[1])


@of_the_last
def cheaper_from(plan: Plan) -> float | None:
    """The share of this volume down to which the plan's own deployments cost less than the baseline does.

    What is signed stays as it is; replicas, hours and bills follow demand, so a new plan costs no more, and the true
    volume is this one or less. The bill of the baseline is in proportion to volume, without its fixed cost.
    """
    if not plan.fleet or plan.baseline.savings_usd_per_month <= 0 or phrases.no_api_is_allowed(plan):
        return None
    if phrases.beside_what_apis_may_serve(plan) is not None:
        return None

    points = (point for k in range(STEPS + 1) for point in other_demand(plan, (RATIO**k,)))
    least = None
    for above, below in pairwise(points):  # between them no volume costs more than the upper one, nor bills less
        cost = above.cost_usd_per_month + plan.held_usd_per_month
        if cost >= below.multiple * plan.baseline.cost_usd_per_month:
            break
        least = below.multiple
    return least
