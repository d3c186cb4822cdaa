"""All GPUs in use are bought, in ways and numbers that the case allows, at the prices of the case."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from planner.checker.packing import boxes_needed, stand_apart
from planner.checker.prices import TERM_MONTHS, Price, held_boxes, price_of
from planner.checker.vendors import few_vendors_are_used, vendors_serve_their_share
from planner.plan.plan import HELD, DeploymentPlan, FleetLine
from planner.plan.view import MONTH_HOURS, QUARTER_MONTHS, PlanView, differs, is_not


def purchases_hold(facts: PlanView) -> Iterator[str]:
    for line in facts.plan.fleet:
        for problem in _line_holds(facts, line):
            yield f"{line.offer}, {line.purchase}: {problem}"
    ways = Counter((line.offer, line.purchase) for line in facts.plan.fleet)
    for (offer, purchase), times in ways.items():
        if times > 1:
            yield f"{offer}, {purchase}: bought in {times} lines"
    yield from _gpus_are_bought(facts)
    yield from _limits_hold(facts)
    yield from _commitments_are_listed(facts)
    yield from _long_terms_would_save_that(facts)


def price_of_line(facts: PlanView, line: FleetLine) -> Price:
    price = price_of(facts.case, line.offer, line.purchase)
    assert price is not None
    return price


def instance_hours(facts: PlanView, line: FleetLine) -> list[float]:
    """Paid for in an hour of each slot: those that run, and the start of those that were not there the hour before."""
    n = line.instances_by_slot
    return [n[t] + _started(facts, line, t) * facts.case.start.instance_s / 3600 for t in facts.slots]


def line_usd(facts: PlanView, line: FleetLine) -> float:
    """Cost of all its instances, a month."""
    return facts.a_month(instance_hours(facts, line)) * price_of_line(facts, line).usd_per_h


def gpus_bought(facts: PlanView, offer: str, t: int, firm_only: bool = False) -> int:
    """GPUs of an offer that are paid for in a slot."""
    lines = (f for f in facts.plan.fleet if f.offer == offer and not (firm_only and f.purchase == "spot"))
    return sum(line.instances_by_slot[t] for line in lines) * facts.case.offers[offer].gpus


def _started(facts: PlanView, line: FleetLine, t: int) -> int:
    n = line.instances_by_slot
    return 0 if line.purchase in (*TERM_MONTHS, HELD) else max(0, n[t] - n[facts.hour_before(t)])


def _line_holds(facts: PlanView, line: FleetLine) -> Iterator[str]:
    offer, price = facts.case.offers[line.offer], price_of_line(facts, line)
    if min(line.instances_by_slot) < 0:
        yield "less than no instances"
    if line.purchase in TERM_MONTHS and len(set(line.instances_by_slot)) > 1:
        yield "reserved instances must be held all the time"
    if line.purchase == HELD and set(line.instances_by_slot) != {held_boxes(facts.case, line.offer)}:
        yield f"held all the time: {held_boxes(facts.case, line.offer)} x {line.offer}"
    yield from is_not("the GPU", line.gpu, offer.gpu)
    yield from is_not("gpus_per_instance", line.gpus_per_instance, offer.gpus)
    yield from differs("the price usd_per_h", line.usd_per_h, price.usd_per_h)
    yield from is_not("the source of the price", line.price_source, price.source)
    yield from is_not("the date of the price", line.price_date, price.date)
    yield from is_not("the assumption behind the price", line.price_assumption, price.assumption)
    starts = facts.a_month([_started(facts, line, t) for t in facts.slots])
    starting_usd = starts * facts.case.start.instance_s / 3600 * price.usd_per_h
    yield from differs("starts_per_month", line.starts_per_month, starts)
    yield from differs("starting_usd_per_month", line.starting_usd_per_month, starting_usd)
    yield from differs("cost_usd_per_month", line.cost_usd_per_month, line_usd(facts, line))


def _gpus_are_bought(facts: PlanView) -> Iterator[str]:
    hosted = [d for pool in facts.plan.pools for d in pool.deployments]
    used = {d.deployment.offer for d in hosted}
    for offer in sorted({line.offer for line in facts.plan.fleet} - used):
        yield f"nothing runs on {offer}, whose cost is then no workload's"
    for offer in sorted(used):
        there = [d for d in hosted if d.deployment.offer == offer]
        for t in facts.slots:
            gpus = sum(d.replicas_by_slot[t] * d.deployment.gpus_per_replica for d in there)
            firm = sum(d.firm_replicas_by_slot[t] * d.deployment.gpus_per_replica for d in there)
            if gpus > gpus_bought(facts, offer, t):
                yield f"slot {t}: {gpus} GPUs of {offer} in use, {gpus_bought(facts, offer, t)} bought"
            if firm > gpus_bought(facts, offer, t, firm_only=True):
                yield f"slot {t}: too few GPUs of {offer} are safe from a spot reclaim"
        yield from _replicas_fit(facts, offer, there)
        yield from _replicas_are_spread(facts, offer, there)


def _replicas_fit(facts: PlanView, offer: str, there: list[DeploymentPlan]) -> Iterator[str]:
    """A replica stands in one box. Where it does not fill it with others of its size, some GPUs may stay empty."""
    box = facts.case.offers[offer].gpus
    sizes = {d.deployment.gpus_per_replica for d in there}
    if all(box % size == 0 for size in sizes) or max(sizes) > box:
        return
    for t in facts.slots:
        for firm_only, safe in ((False, ""), (True, " that are not spot")):
            replicas: Counter[int] = Counter()
            for d in there:
                counts = d.firm_replicas_by_slot if firm_only else d.replicas_by_slot
                replicas[d.deployment.gpus_per_replica] += counts[t]
            needed, bought = boxes_needed(box, replicas), gpus_bought(facts, offer, t, firm_only) // box
            if needed > bought:
                yield f"slot {t}: replicas take {needed} x {offer}{safe}, {bought} bought"


def _replicas_are_spread(facts: PlanView, offer: str, there: list[DeploymentPlan]) -> Iterator[str]:
    """Two replicas or more of a deployment do not all stand in one box; nor do those that a spot reclaim leaves."""
    box, limits = facts.case.offers[offer].gpus, facts.case.limits
    sizes = [d.deployment.gpus_per_replica for d in there]
    if not limits.spread or limits.min_replicas < 2 or min(sizes) == box or max(sizes) > box:
        return  # each replica fills its box, or does not fit into one
    known: dict[tuple[int, tuple[tuple[int, int], ...]], bool] = {}
    for t in facts.slots:
        for firm_only, safe in ((False, ""), (True, " that are not spot")):
            counts = [(d.firm_replicas_by_slot if firm_only else d.replicas_by_slot)[t] for d in there]
            running = tuple((size, n) for size, n in zip(sizes, counts, strict=True) if n > 0)
            boxes = gpus_bought(facts, offer, t, firm_only) // box
            apart = known.get((boxes, running))
            if apart is None:
                apart = known[boxes, running] = stand_apart(box, boxes, running)
            if not apart:
                yield (
                    f"slot {t}: {boxes} x {offer}{safe} cannot hold the replicas so that those of no deployment "
                    "all stand on one instance (policy.spread)"
                )
        if _spot_holds_a_deployment(facts, offer, there, t):
            yield f"slot {t}: the one spot {offer} holds all replicas of a deployment (policy.spread)"


def _spot_holds_a_deployment(facts: PlanView, offer: str, there: list[DeploymentPlan], t: int) -> bool:
    """Whether a single spot box has all of a deployment: others have no place for one of each that is not firm at all.

    Replicas that differ in size are taken to leave none.
    """
    box = facts.case.offers[offer].gpus
    safe = gpus_bought(facts, offer, t, firm_only=True) // box
    if gpus_bought(facts, offer, t, firm_only=False) // box != safe + 1:
        return False
    running = [d for d in there if d.replicas_by_slot[t]]
    sizes = {d.deployment.gpus_per_replica for d in running}
    firm = sum(d.firm_replicas_by_slot[t] for d in running)
    places = safe * (box // min(sizes)) - firm if len(sizes) == 1 else 0
    return sum(d.replicas_by_slot[t] > 1 and not d.firm_replicas_by_slot[t] for d in running) > places


def idle_gpus(facts: PlanView) -> dict[str, int]:
    """GPUs of each kind in held instances of offers on which nothing runs: they count against quotas all the same."""
    idle: Counter[str] = Counter()
    for key in {h.offer for h in facts.case.held or ()} - {line.offer for line in facts.plan.fleet}:
        idle[facts.case.offers[key].gpu] += held_boxes(facts.case, key) * facts.case.offers[key].gpus
    return dict(idle)


def _limits_hold(facts: PlanView) -> Iterator[str]:
    limits, offers = facts.case.limits, facts.case.offers
    for t in facts.slots:
        by_gpu: Counter[str] = Counter(idle_gpus(facts))
        for offer in sorted({line.offer for line in facts.plan.fleet}):
            gpus = gpus_bought(facts, offer, t)
            by_gpu[offers[offer].gpu] += gpus
            if gpus > limits.max_instances.get(offer, math.inf) * offers[offer].gpus:
                yield f"slot {t}: more than {limits.max_instances[offer]} x {offer}"
        for gpu, gpus in by_gpu.items():
            if gpus > limits.max_gpus.get(gpu, math.inf):
                yield f"slot {t}: {gpus} GPUs of type {gpu}, {limits.max_gpus[gpu]} allowed"
    kinds = sorted({offers[line.offer].gpu for line in facts.plan.fleet})
    if limits.max_gpu_types is not None and len(kinds) > limits.max_gpu_types:
        yield f"{len(kinds)} kinds of GPU are used ({', '.join(kinds)}), {limits.max_gpu_types} allowed"
    yield from few_vendors_are_used(facts)
    yield from vendors_serve_their_share(facts)


def _commitments_are_listed(facts: PlanView) -> Iterator[str]:
    """One for each way in which something is reserved: the cash at signing, and what comes after the quarter."""
    held = {(f.offer, f.purchase): f for f in facts.plan.fleet if f.purchase in TERM_MONTHS and f.instances_by_slot[0]}
    listed = facts.plan.commitments
    if sorted((c.offer, c.term) for c in listed) != sorted(held):
        yield "the commitments are not those of the instances reserved"
        return
    for c in listed:
        line = held[c.offer, c.term]
        price = price_of_line(facts, line)
        count, months_left = line.instances_by_slot[0], TERM_MONTHS[c.term] - QUARTER_MONTHS
        later_usd = count * price.later_usd_per_h * MONTH_HOURS * months_left
        yield from is_not(f"the instances of {c.offer} committed for {c.term}", c.instances, count)
        yield from differs(f"what is paid up front for {c.offer}", c.upfront_usd, count * price.upfront_usd)
        yield from differs(f"what {c.offer} costs beyond the quarter", c.beyond_horizon_usd, later_usd)


def _long_terms_would_save_that(facts: PlanView) -> Iterator[str]:
    """Terms of more than a year that are not bought, for the instances of this plan in its hours."""
    claimed = facts.plan.long_terms
    if claimed is None:
        return
    true = {offer: found for offer in {line.offer for line in facts.plan.fleet} if (found := _long_term(facts, offer))}
    if sorted((c.offer, c.term, c.instances) for c in claimed) != sorted((o, t, n) for o, (t, n, _) in true.items()):
        yield "long_terms are not those that the instances of the plan would take"
        return
    for c in claimed:
        _, n, replaced_usd = true[c.offer]
        price = price_of(facts.case, c.offer, c.term)
        assert price is not None
        monthly, months = n * price.usd_per_h * MONTH_HOURS, TERM_MONTHS[c.term]
        owed_usd = n * price.later_usd_per_h * MONTH_HOURS * (months - QUARTER_MONTHS)
        for key, figure in (
            ("usd_per_month", monthly), ("replaces_usd_per_month", replaced_usd),
            ("upfront_usd", n * price.upfront_usd), ("saves_usd_per_month", replaced_usd - monthly),
            ("beyond_horizon_usd", owed_usd), ("months_to_pay", months * monthly / replaced_usd),
        ):  # fmt: skip
            yield from differs(f"{key} of long terms of {c.offer}", getattr(c, key), figure)


def _long_term(facts: PlanView, offer: str) -> tuple[str, int, float] | None:
    """The cheapest term of more than a year, for how many instances it pays, and what they cost now."""
    sold = {t: price_of(facts.case, offer, t) for t in facts.case.purchase if TERM_MONTHS.get(t, 0) > 12}
    prices = {t: price.usd_per_h for t, price in sold.items() if price is not None}
    if not prices:
        return None
    term = min(prices, key=lambda t: (round(prices[t], 9), t))
    count, replaced_usd = 0, 0.0
    for line in (line for line in facts.plan.fleet if line.offer == offer):
        if line.purchase in TERM_MONTHS and price_of_line(facts, line).usd_per_h > prices[term] * (1 + 1e-9):
            count, replaced_usd = count + line.instances_by_slot[0], replaced_usd + line_usd(facts, line)
        elif line.purchase == "on-demand":
            rest = _usd_of_fewer(facts, line)
            totals = [left + k * prices[term] * MONTH_HOURS for k, left in enumerate(rest)]
            best = next(k for k, total in enumerate(totals) if total <= min(totals) + 1e-6)
            count, replaced_usd = count + best, replaced_usd + rest[0] - rest[best]
    return (term, count, replaced_usd) if count else None


def _usd_of_fewer(facts: PlanView, line: FleetLine) -> list[float]:
    """What instances on demand cost a month if 0, 1, 2 ... of them were there in another way."""
    most = max(line.instances_by_slot)
    left = np.maximum(0, np.array(line.instances_by_slot) - np.arange(most + 1)[:, None])
    started = np.maximum(0, left - left[:, [facts.hour_before(t) for t in facts.slots]])
    hours = left + started * (facts.case.start.instance_s / 3600)
    each = [facts.a_month([float(t == s) for s in facts.slots]) for t in facts.slots]
    usd: list[float] = (hours @ np.array(each) * price_of_line(facts, line).usd_per_h).tolist()
    return usd
