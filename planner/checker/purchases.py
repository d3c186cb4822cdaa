"""All GPUs in use are bought, in ways and numbers that the case allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from planner.case.menu import held_instances
from planner.case.prices import HELD
from planner.catalog.terms import is_term
from planner.checker.checked import Checked
from planner.checker.packing import boxes_needed, stand_apart
from planner.plan.plan import DeploymentPlan, FleetLine


def purchases_hold(checked: Checked) -> Iterator[str]:
    for line in checked.plan.fleet:
        for problem in _line_holds(checked, line):
            yield f"{line.offer}, {line.purchase}: {problem}"
    ways = Counter((line.offer, line.purchase) for line in checked.plan.fleet)
    for (offer, purchase), times in ways.items():
        if times > 1:
            yield f"{offer}, {purchase}: bought in {times} lines"
    yield from _gpus_are_bought(checked)


def gpus_bought(checked: Checked, offer: str, t: int, firm_only: bool = False) -> int:
    """GPUs of an offer that are paid for in a slot."""
    lines = (f for f in checked.plan.fleet if f.offer == offer and not (firm_only and f.purchase == "spot"))
    return sum(line.instances_by_slot[t] for line in lines) * checked.case.offers[offer].gpus


def _line_holds(checked: Checked, line: FleetLine) -> Iterator[str]:
    if min(line.instances_by_slot) < 0:
        yield "less than no instances"
    if not any(line.instances_by_slot):
        yield "no instances are bought in this way"
    if is_term(line.purchase) and len(set(line.instances_by_slot)) > 1:
        yield "reserved instances must be held all the time"
    if line.purchase == HELD and set(line.instances_by_slot) != {held_instances(checked.case, line.offer)}:
        yield f"held all the time: {held_instances(checked.case, line.offer)} x {line.offer}"


def _gpus_are_bought(checked: Checked) -> Iterator[str]:
    hosted = [d for pool in checked.plan.pools for d in pool.deployments]
    used = {d.deployment.offer for d in hosted}
    for offer in sorted({line.offer for line in checked.plan.fleet} - used):
        yield f"nothing runs on {offer}, whose cost is then no workload's"
    for offer in sorted(used):
        there = [d for d in hosted if d.deployment.offer == offer]
        for t in checked.slots:
            gpus = sum(d.replicas_by_slot[t] * d.deployment.gpus_per_replica for d in there)
            firm = sum(d.firm_replicas_by_slot[t] * d.deployment.gpus_per_replica for d in there)
            if gpus > gpus_bought(checked, offer, t):
                yield f"slot {t}: {gpus} GPUs of {offer} in use, {gpus_bought(checked, offer, t)} bought"
            if firm > gpus_bought(checked, offer, t, firm_only=True):
                yield f"slot {t}: too few GPUs of {offer} are safe from a spot reclaim"
        yield from _replicas_fit(checked, offer, there)
        yield from _replicas_are_spread(checked, offer, there)


def size_in_a_box(d: DeploymentPlan, box: int) -> tuple[int, int]:
    """GPUs of a replica in one box, and boxes that it takes where they are several and whole."""
    gpus = d.deployment.gpus_per_replica
    return (gpus, 1) if gpus <= box else (box, gpus // box)


def _replicas_fit(checked: Checked, offer: str, there: list[DeploymentPlan]) -> Iterator[str]:
    """A replica stands in one box. Where it does not fill it with others of its size, some GPUs may stay empty."""
    box = checked.case.offers[offer].gpus
    sizes = {size_in_a_box(d, box)[0] for d in there}
    if all(box % size == 0 for size in sizes):
        return
    for t in checked.slots:
        for firm_only, safe in ((False, ""), (True, " that are not spot")):
            replicas: Counter[int] = Counter()
            for d in there:
                counts, (size, boxes) = (
                    d.firm_replicas_by_slot if firm_only else d.replicas_by_slot,
                    size_in_a_box(d, box),
                )
                replicas[size] += boxes * counts[t]
            needed, bought = boxes_needed(box, replicas), gpus_bought(checked, offer, t, firm_only) // box
            if needed > bought:
                yield f"slot {t}: replicas take {needed} x {offer}{safe}, {bought} bought"


def _replicas_are_spread(checked: Checked, offer: str, there: list[DeploymentPlan]) -> Iterator[str]:
    """Two replicas or more of a deployment do not all stand in one box; nor do those that a spot reclaim leaves."""
    box, limits = checked.case.offers[offer].gpus, checked.case.limits
    sizes = [size_in_a_box(d, box)[0] for d in there]
    if not limits.spread or limits.min_replicas < 2 or min(sizes) == box:
        return  # each replica fills its boxes
    known: dict[tuple[int, tuple[tuple[int, int], ...]], bool] = {}
    for t in checked.slots:
        for firm_only, safe in ((False, ""), (True, " that are not spot")):
            counts = [
                (d.firm_replicas_by_slot if firm_only else d.replicas_by_slot)[t] * size_in_a_box(d, box)[1]
                for d in there
            ]
            running = tuple((size, n) for size, n in zip(sizes, counts, strict=True) if n > 0)
            boxes = gpus_bought(checked, offer, t, firm_only) // box
            apart = known.get((boxes, running))
            if apart is None:
                apart = known[boxes, running] = stand_apart(box, boxes, running)
            if not apart:
                yield (
                    f"slot {t}: {boxes} x {offer}{safe} cannot hold the replicas so that those of no deployment "
                    "all stand on one instance (policy.spread)"
                )
        if _spot_holds_a_deployment(checked, offer, there, t):
            yield f"slot {t}: the one spot {offer} holds all replicas of a deployment (policy.spread)"


def _spot_holds_a_deployment(checked: Checked, offer: str, there: list[DeploymentPlan], t: int) -> bool:
    """Whether a single spot box has all of a deployment: others have no place for one of each that is not firm at all.

    Replicas that differ in size are taken to leave none.
    """
    box = checked.case.offers[offer].gpus
    safe = gpus_bought(checked, offer, t, firm_only=True) // box
    if gpus_bought(checked, offer, t, firm_only=False) // box != safe + 1:
        return False
    running = [d for d in there if d.replicas_by_slot[t] and d.deployment.gpus_per_replica <= box]
    safe -= sum(d.replicas_by_slot[t] * size_in_a_box(d, box)[1] for d in there if d not in running)
    sizes = {d.deployment.gpus_per_replica for d in running}
    firm = sum(d.firm_replicas_by_slot[t] for d in running)
    places = safe * (box // min(sizes)) - firm if len(sizes) == 1 else 0
    return sum(d.replicas_by_slot[t] > 1 and not d.firm_replicas_by_slot[t] for d in running) > places


def idle_gpus(checked: Checked) -> dict[str, int]:
    """GPUs of each kind in held instances of offers on which nothing runs: they count against quotas all the same."""
    idle: Counter[str] = Counter()
    for key in {h.offer for h in checked.case.held or ()} - {line.offer for line in checked.plan.fleet}:
        idle[checked.case.offers[key].gpu] += held_instances(checked.case, key) * checked.case.offers[key].gpus
    return dict(idle)
