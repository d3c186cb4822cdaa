"""The steps of a savings waterfall: what each may do that the one before may not, as changed copies of a case.

Levers and their order are in planner/levers.py. Here is the fleet to begin with, which has none of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.candidates.candidate import Candidate
from planner.candidates.enumerate import enumerate_candidates
from planner.candidates.screen import REPLICA_SIZES
from planner.case.case import Case
from planner.case.changes import Change, one_after_the_other, with_limits, with_workloads
from planner.case.slots import slots_of
from planner.catalog.entries import shipped_catalog
from planner.catalog.terms import in_words
from planner.levers import FIRST_STEP, FOOTNOTE, ON_DEMAND, STEPS, UNQUANTIZED, first_purchase
from planner.optimization.formulate import group_rates_rps


@dataclass(frozen=True)
class Step:
    key: str
    title: str
    said: str
    change: Change
    """from the case to that of the step"""


def steps_of(case: Case) -> tuple[list[Step], list[str]]:
    """From a sane fleet to the last step but the plan itself, and what is left out and why."""
    gpu, most = plain_gpu(case)
    *before, last = STEPS
    plain = _plain(case) | {"right-sizing": _one_gpu(gpu, most)}
    without = {s.key: one_after_the_other([s.without, plain.get(s.key, _unchanged)]) for s in before}
    used = [s for s in before if s.said(case) and without[s.key](case) != case]
    added = [_added_to_the_menu(case).get(s.key, _unchanged) for s in used]
    heads = [(FIRST_STEP, "one GPU type", _one_gpu_type(case, gpu, most))]
    heads += [(s.key, s.title, s.said(case)) for s in used]
    steps = [
        Step(*head, one_after_the_other([last.without, *added[:k], *(without[s.key] for s in used[k:])]))
        for k, head in enumerate(heads)
    ]
    why = f"one GPU type: {gpu}, estimated to cost least on demand of those that serve every workload as published"
    missing = [f"{s.key} ({s.missing})" for s in before if s not in used]
    return steps, [why, *([f"no step for {', '.join(missing)}"] if missing else [])]


def naive_step(case: Case, first: Step) -> Step | None:
    """The fleet of the first step without batching: a footnote, since no engine works so; None where all menus do."""
    if case.engine.max_in_flight <= 1:
        return None
    said = "one GPU type, one request at a time"
    return Step(FOOTNOTE, "naive", said, one_after_the_other([first.change, _one_at_a_time]))


def _one_at_a_time(case: Case) -> Case:
    # A table of measured rates says what a batch does; nobody measured it without.
    profiles = tuple(p for p in case.profiles if not p.max_rates)
    engine = case.engine.model_copy(update={"max_in_flight": 1})
    return case.model_copy(update={"engine": engine, "profiles": profiles})


def _unchanged(case: Case) -> Case:
    return case


def _one_gpu_type(case: Case, gpu: str, most: int) -> str:
    bought = "on demand" if first_purchase(case) == ON_DEMAND else f"bought as {in_words(first_purchase(case))}"
    return (
        f"all on {gpu}, {most} at most a replica, {bought}, models as published, the engine's defaults, nothing shared"
    )


def _plain(case: Case) -> dict[str, Change]:
    """What a newcomer does without beside levers, until a step brings it in."""
    return {
        "quantization": _first_models,
        "purchase": lambda c: c.model_copy(update={"purchase": (first_purchase(case),)}),
    }


def _added_to_the_menu(case: Case) -> dict[str, Change]:
    """What a newcomer has and the menu has not: it stays, so that a step may do all that the one before may."""
    first = first_purchase(case)

    def purchase(c: Case) -> Case:
        return c if first in c.purchase else c.model_copy(update={"purchase": (first, *c.purchase)})

    return {"quantization": _in_16_bit_too, "purchase": purchase}


def _first_models(case: Case) -> Case:
    first = with_workloads(lambda w: w.model_copy(update={"models": w.models[:1]}))(case)
    used = {c.model for w in first.workloads for c in w.models}
    return first.model_copy(update={"models": {key: model for key, model in case.models.items() if key in used}})


def _in_16_bit_too(case: Case) -> Case:
    if UNQUANTIZED in case.quantizations:
        return case
    known = {UNQUANTIZED: shipped_catalog().quantizations[UNQUANTIZED]}
    return case.model_copy(update={"quantizations": known | case.quantizations})


def _one_gpu(gpu: str, most: int) -> Change:
    def change(case: Case) -> Case:
        offers = {key: offer for key, offer in case.offers.items() if offer.gpu == gpu}
        kept = case.model_copy(update={"offers": offers, "gpus": {gpu: case.gpus[gpu]}})
        return with_limits(max_gpus_per_replica=most, max_deployments=1, parallelism=None)(kept)

    return change


def plain_gpu(case: Case) -> tuple[str, int]:
    """What a careful newcomer takes: the GPU that serves every workload as published for least, in small replicas.

    The bill is estimated from the mean load, with the fewest replicas and whole boxes. Where no GPU serves them all, it
    is the one with the most memory, in the largest replicas.
    """
    plain = one_after_the_other([*(step.without for step in STEPS), *_plain(case).values()])(case)
    sizes = [n for n in REPLICA_SIZES if n <= case.limits.max_gpus_per_replica]
    able = []
    for gpu in sorted({offer.gpu for offer in case.offers.values()}):
        bills = ((n, _estimated_usd_per_h(plain, gpu, n)) for n in sizes)
        found = next(((usd, gpu, n) for n, usd in bills if usd is not None), None)
        able += [found] if found else []
    if able:
        _, gpu, most = min(able)
        return gpu, most
    return max(case.gpus, key=lambda g: (case.gpus[g].vram_gb, g)), case.limits.max_gpus_per_replica


def _estimated_usd_per_h(plain: Case, gpu: str, most: int) -> float | None:
    """The bill on demand if every workload runs on replicas of this GPU; None where one of them cannot."""
    found = enumerate_candidates(_one_gpu(gpu, most)(plain))
    slots, total = slots_of(plain), 0.0
    for key, group in found.pools.items():
        rates = group_rates_rps(group, slots)
        bills = [
            usd
            for c in found.accepted[key]
            if c.alone and (usd := _usd_per_h(plain, c, float((rates @ c.seconds_per_request).mean()))) is not None
        ]
        if not bills:
            return None
        total += min(bills)
    return total


def _usd_per_h(case: Case, c: Candidate, load: float) -> float | None:
    """Of the replicas for a mean load, at least the fewest, in whole boxes where one is not filled."""
    price = c.offer.prices.on_demand or next(iter(c.offer.prices.reserved().values()), None)
    if price is None:
        return None
    gpus = max(load, case.limits.min_replicas) * c.machine.gpus
    return price.usd_per_h * max(1.0, gpus / c.offer.gpus)
