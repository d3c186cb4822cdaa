"""The cost bridge from the last plan to the next: volume, mix, price, efficiency. Whole cents, which add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from planner.case.case import OWNED, Holding
from planner.case.prices import usd_per_h
from planner.catalog.terms import is_term
from planner.plan.attribution import attribution
from planner.plan.plan import Plan
from planner.review.records import Bridge
from problems.constants import HOURS_PER_MONTH


def bridge(before: Plan, after: Plan) -> Bridge:
    """Both sides with what is held. Where nothing is, volume and price are those of `fleetplan diff`, and mix and
    efficiency split its choices."""
    found = attribution(before, after)
    tokens = before.tokens_per_month
    per_token = before.total_usd_per_month / tokens if tokens else 0.0
    cents = {
        "volume": round(100 * per_token * (after.tokens_per_month - tokens)),
        "mix": round(100 * _mix_usd(before, after)),
        "price": round(100 * (found.prices_usd_per_month + sum(_signed_usd(before, after)))),
    }
    start, end = (round(100 * plan.total_usd_per_month) for plan in (before, after))
    return Bridge(
        from_usd_per_month=start / 100,
        volume_usd_per_month=cents["volume"] / 100,
        mix_usd_per_month=cents["mix"] / 100,
        price_usd_per_month=cents["price"] / 100,
        efficiency_usd_per_month=(end - start - sum(cents.values())) / 100,
        to_usd_per_month=end / 100,
        notes=found.notes,
    )


def _signed_usd(before: Plan, after: Plan) -> Iterator[float]:
    """What the attribution of prices leaves out: it has all that was bought at the new prices, and none that was held.

    Commitments that are still held stay at the price signed; those that were held and lapsed are at the new price.
    """
    still = Counter[tuple[str, str]]()
    signed_usd: dict[tuple[str, str], float] = {}
    for h in _commitments(after):
        still[h.offer, h.purchase] += h.instances
        signed_usd[h.offer, h.purchase] = signed_usd.get((h.offer, h.purchase), 0.0) + h.instances * h.usd_per_h
    mean = {key: signed_usd[key] / n for key, n in still.items()}
    held = [(h.offer, h.purchase, h.instances, h.usd_per_h) for h in _commitments(before)]
    bought = [(f.offer, f.purchase, max(f.instances_by_slot), f.usd_per_h) for f in before.fleet if is_term(f.purchase)]
    for k, (offer, purchase, n, then) in enumerate((*held, *bought)):
        key = offer, purchase
        kept = min(n, still[key])
        still[key] -= kept
        here = after.case.offers.get(offer)
        now = usd_per_h(here.prices, purchase) if here is not None else None
        at_new_price = n - kept if k < len(held) else -kept
        yield HOURS_PER_MONTH * kept * (mean.get(key, then) - then)
        yield HOURS_PER_MONTH * at_new_price * ((then if now is None else now) - then)


def _commitments(plan: Plan) -> list[Holding]:
    """Holdings of a plan that are paid in any case."""
    return [h for h in plan.case.held or () if h.purchase != OWNED]


def _mix_usd(before: Plan, after: Plan) -> float:
    """Next tokens at what each workload's token cost before, less the same tokens at what the mean of them cost.

    Nobody knows what a token of a new workload would have cost before, so it counts at what it costs next.
    """
    tokens, next_tokens = before.tokens_per_month, after.tokens_per_month
    if tokens <= 0 or next_tokens <= 0:
        return 0.0
    cost, next_cost = _usd_by_workload(before), _usd_by_workload(after)
    then, now = (
        {w.name: usd[w.name] / w.tokens_per_month for w in plan.workloads if w.tokens_per_month > 0}
        for plan, usd in ((before, cost), (after, next_cost))
    )
    mean = sum(cost.values()) / tokens
    return sum((then.get(w.name, now.get(w.name, mean)) - mean) * w.tokens_per_month for w in after.workloads)


def _usd_by_workload(plan: Plan) -> dict[str, float]:
    """Cost of each workload with its share of what is held: by the GPU-hours of its pool on the offer, and within the
    pool by GPU cost, or by tokens where all of it is held."""
    usd = {w.name: w.cost_usd_per_month for w in plan.workloads}
    hours = [s.hours_per_month for s in plan.slots]
    used = [
        (pool, part.deployment.offer, part.deployment.gpus_per_replica * float(np.dot(part.replicas_by_slot, hours)))
        for pool in plan.pools
        for part in pool.deployments
    ]
    for h in _commitments(plan):
        on_offer = sum(gpu_hours for _, offer, gpu_hours in used if offer == h.offer)
        for pool, offer, gpu_hours in used:
            members = [w for w in plan.workloads if w.name in pool.workloads]
            weights = [w.gpu_cost_usd_per_month for w in members]
            if not any(weights):
                weights = [w.tokens_per_month for w in members]
            if offer == h.offer and on_offer and sum(weights):
                paid = HOURS_PER_MONTH * h.instances * h.usd_per_h * gpu_hours / on_offer
                for w, weight in zip(members, weights, strict=True):
                    usd[w.name] += paid * weight / sum(weights)
    return usd
