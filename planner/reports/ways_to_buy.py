"""Rent, buy or API: which of them carries which share of the cost, and from which volume on GPUs are worth having."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from planner.io.formatting import percent, tokens
from planner.plan.account.other_demand import other_demand
from planner.plan.plan import Plan
from planner.reports import phrases

RATIO, STEPS = 0.9, 24
"""from one volume that is tried to the next below, and how many"""
LEAST_SHARE = 0.005


def ways_to_buy(plan: Plan) -> Iterator[str]:
    shares = ", ".join(f"{percent(share)} {way}" for way, share in shares_of_cost(plan) if share >= LEAST_SHARE)
    if not shares:
        return
    yield f"of the cost: {shares}"
    least = cheaper_from(plan)
    if least is not None:
        volume = tokens(least * sum(w.tokens_per_month for w in plan.workloads))
        at_most = f"from {volume} tokens a month on, {percent(least)} of this volume, or from fewer"
        yield f"{at_most}: this fleet costs less than {phrases.baseline_name(plan)}"


def shares_of_cost(plan: Plan) -> list[tuple[str, float]]:
    """The largest first."""
    c, whole = plan.costs, plan.total_usd_per_month
    paid = {
        "rented by the hour": c.on_demand_usd_per_month + c.spot_usd_per_month,
        "committed": c.reserved_usd_per_month,
        "servers of your own": (c.bought_usd_per_month or 0.0) + (c.energy_usd_per_month or 0.0),
        "held already": plan.held_usd_per_month,
        "APIs by the token": c.api_usd_per_month,
        "caches": c.caching_usd_per_month,
        "engineers": c.engineers_usd_per_month,
        "fixed costs of vendors": c.vendors_usd_per_month or 0.0,
    }
    return sorted(((way, usd / whole if whole else 0.0) for way, usd in paid.items()), key=lambda part: -part[1])


def cheaper_from(plan: Plan) -> float | None:
    """The share of this volume from which on the plan's own deployments cost less than the baseline does.

    What is signed stays as it is; replicas, hours and bills follow demand, so a new plan costs no more, and the true
    volume is this one or less. The bill of the baseline is in proportion to volume, without its fixed cost.
    """
    if not plan.fleet or plan.baseline.savings_usd_per_month <= 0 or phrases.no_api_is_allowed(plan):
        return None
    if phrases.beside_what_apis_may_serve(plan) is not None:
        return None

    tried = tuple(RATIO**k for k in range(STEPS + 1))
    points = sorted(other_demand(plan, tried), key=lambda p: -p.multiple)
    least = None
    for above, below in pairwise(points):  # between them no volume costs more than the upper one, nor bills less
        cost = above.cost_usd_per_month + plan.held_usd_per_month
        if cost >= below.multiple * plan.baseline.cost_usd_per_month:
            break
        least = below.multiple
    return least
