"""The cost bridge from the last plan to the next: volume, mix, price, efficiency. Whole cents, which add up."""

from __future__ import annotations

from planner.plan.attribution import attribution
from planner.plan.plan import Plan
from planner.review.records import Bridge


def bridge(before: Plan, after: Plan) -> Bridge:
    """Volume and price are those of `fleetplan diff` (demand and prices); mix and efficiency split its choices."""
    found = attribution(before, after)
    cents = {
        "volume": round(100 * found.demand_usd_per_month),
        "mix": round(100 * _mix_usd(before, after)),
        "price": round(100 * found.prices_usd_per_month),
    }
    start, end = (round(100 * plan.cost_usd_per_month) for plan in (before, after))
    return Bridge(
        from_usd_per_month=start / 100,
        volume_usd_per_month=cents["volume"] / 100,
        mix_usd_per_month=cents["mix"] / 100,
        price_usd_per_month=cents["price"] / 100,
        efficiency_usd_per_month=(end - start - sum(cents.values())) / 100,
        to_usd_per_month=end / 100,
        notes=found.notes,
    )


def _mix_usd(before: Plan, after: Plan) -> float:
    """Next tokens at what each workload's token cost before, less the same tokens at what the mean of them cost.

    Nobody knows what a token of a new workload would have cost before, so it counts at what it costs next.
    """
    tokens, next_tokens = before.tokens_per_month, after.tokens_per_month
    if tokens <= 0 or next_tokens <= 0:
        return 0.0
    then, now = (
        {w.name: w.cost_usd_per_month / w.tokens_per_month for w in plan.workloads if w.tokens_per_month > 0}
        for plan in (before, after)
    )
    mean = sum(w.cost_usd_per_month for w in before.workloads) / tokens
    return sum((then.get(w.name, now.get(w.name, mean)) - mean) * w.tokens_per_month for w in after.workloads)
