"""What somebody sees at a glance who has run such a fleet: lines below the headline, each where it applies."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.formatting import percent
from planner.plan.plan import Plan
from planner.plan.quality_notes import hosted
from planner.reports.phrases import alike, baseline_notes, cheaper_providers
from problems.constants import HOURS_PER_MONTH

TWO_ANSWERS_FRAC = 0.05
"""of a workload's requests; fewer that another model answers are an overflow that few users meet"""
ALWAYS_FRAC, IDLE_FRAC = 0.9, 0.25
"""of the hours of a month, and of the replicas: from which on a minimum decides, and not demand"""
NOTABLE_LOSS_FRAC, FEW_BITS = 0.02, 4
"""of a benchmark, and bits of a weight: from which on, and up to which, somebody should look at answers"""
PLACES_SAID = 2
TROUBLES = ("defect", "a candidate for", "the search was cut short", "HiGHS was used")
"""how notes begin on what went wrong in a search; the others explain it"""


def glance(plan: Plan) -> Iterator[str]:
    yield from (f"note: {note}" for note in plan.proof.notes if note.startswith(TROUBLES))
    yield from two_answers(plan)
    yield from objectives_of_others(plan)
    yield from minimum_decides(plan)
    yield from losses(plan)
    yield from baseline_notes(plan)
    yield from cheaper_providers(plan)


def two_answers(plan: Plan) -> Iterator[str]:
    """Workloads of which one part is answered by an API, and the rest by another model that is hosted."""
    for w in plan.workloads:
        if w.api and w.models and TWO_ANSWERS_FRAC <= w.api_share_frac <= 1 - TWO_ANSWERS_FRAC:
            if plan.case.same_model_apis and w.api in plan.case.same_model_apis:
                continue
            models = alike(tuple(dict.fromkeys(w.models)))
            share = percent(w.api_share_frac)
            yield f"{w.name} is answered by two models: {share} by {w.api}, the rest by {models}"


def objectives_of_others(plan: Plan) -> Iterator[str]:
    """Latencies that a file asks for, where an API answers nearly all and promises none."""
    assumed = {a.key for a in plan.assumptions}
    for w in plan.case.workloads:
        served = next(x for x in plan.workloads if x.name == w.name)
        given = f"workloads.{w.name}.slo.ttft_p95" not in assumed and w.deadline_h is None
        if given and served.api and served.api_share_frac > 1 - TWO_ANSWERS_FRAC:
            yield f"{w.name}: TTFT of {w.ttft.seconds:g} s is yours, not {served.api}'s: measure how fast it answers"


def minimum_decides(plan: Plan) -> Iterator[str]:
    """Pools whose replicas are there because there must be so many, nearly always and nearly idle."""
    always = {b.name: b.value for b in plan.binding
              if b.limit == "min_replicas" and b.hours_per_month >= ALWAYS_FRAC * HOURS_PER_MONTH}  # fmt: skip
    for pool in plan.pools:
        least = always.get(pool.key)
        busy = max((d.utilization_frac for d in pool.deployments), default=1.0)
        if least is not None and busy < IDLE_FRAC:
            yield (
                f"{alike(pool.workloads)}: policy.min_replicas {least:g} decides how many replicas there are, not "
                f"demand, which keeps them {percent(busy)} busy"
            )


def losses(plan: Plan) -> Iterator[str]:
    """Quantizations that lose so much of a benchmark, or keep so few bits, that somebody should look at answers."""
    lossy: dict[str, list[str]] = {}
    for w, model, scheme, basis in hosted(plan):
        few = basis.loss_frac > 0 and plan.case.quantizations[scheme].weight_bits < FEW_BITS + 1
        if few or basis.loss_frac >= NOTABLE_LOSS_FRAC:
            where = f" on {basis.benchmark}" if basis.benchmark else ""
            limit = f"limit {percent(w.max_quality_loss_frac, 1)}"
            lossy.setdefault(f"{model} {scheme} loses {percent(basis.loss_frac, 1)}{where} ({limit})", []).append(
                w.name
            )
    for loses, names in lossy.items():
        yield f"{alike(names)}: {loses}"


def places(plan: Plan) -> str:
    """Where the fleet stands, and whether anybody said so."""
    offers = [plan.case.offers[line.offer] for line in plan.fleet]
    where = sorted({f"{offer.provider} {offer.region}" for offer in offers})
    named = " and ".join(where) if len(where) <= PLACES_SAID else f"{len(where)} regions"
    rented = any(offer.prices.bought is None for offer in offers)
    assumed = rented and any(a.key == "menu.regions" for a in plan.assumptions)
    return f"in {named}{' (assumed)' if assumed else ''}"


def hours_without_replicas(plan: Plan) -> float:
    """A month; all requests of these hours go to an API."""
    months = plan.slots[-1].month + 1
    idle = (t for t in range(len(plan.slots)) if not any(line.instances_by_slot[t] for line in plan.fleet))
    return sum(plan.slots[t].hours_per_month for t in idle) / months
