"""The steps of a savings waterfall: what each may do that the one before may not, as changed copies of a case."""

from __future__ import annotations

from dataclasses import dataclass

from planner.candidates.enumerate import Candidate, enumerate_candidates
from planner.candidates.screen import REPLICA_SIZES
from planner.case.case import Case, kinds_of
from planner.case.changes import Change, one_after_the_other, with_limits, with_workloads
from planner.case.horizon import slots_of
from planner.catalog.entries import shipped_catalog
from planner.catalog.variant import TENSOR
from planner.explanations.levers import UNQUANTIZED, unquantized
from planner.optimization.formulate import group_rates_rps

ON_DEMAND = "on-demand"


@dataclass(frozen=True)
class Step:
    key: str
    title: str
    said: str
    change: Change
    """from the case to that of the step"""


@dataclass(frozen=True)
class _Lever:
    """What is taken away from the case in all steps before its own."""

    step: Step
    without: Change
    missing: str = ""
    """why there is nothing to add; empty where there is"""


KEYS = ("one-gpu-type", "right-sizing", "quantization", "caching", "purchase", "tenancy", "everything", "naive")
"""of all steps there are, with that of the plan itself, and the footnote"""


def steps_of(case: Case) -> tuple[list[Step], list[str]]:
    """From a sane fleet to the last lever but those of "everything", and what is left out and why."""
    gpu, most = plain_gpu(case)
    levers = [_right_sizing(case, gpu, most), _quantization(case), _caching(case), _purchase(case), _tenancy(case)]
    used = [lever for lever in levers if not lever.missing]
    steps = []
    for k in range(len(used) + 1):
        added, taken_away = [lever.step.change for lever in used[:k]], [lever.without for lever in used[k:]]
        step = _one_gpu_type(case, gpu, most) if k == 0 else used[k - 1].step
        change = one_after_the_other([_without_the_rest, *added, *taken_away])
        steps.append(Step(step.key, step.title, step.said, change))
    why = f"one GPU type: of those that serve every workload as published, {gpu} is estimated to cost least on demand"
    missing = [f"{lever.step.key} ({lever.missing})" for lever in levers if lever.missing]
    return steps, [why, *([f"no step for {', '.join(missing)}"] if missing else [])]


def naive_step(case: Case, first: Step) -> Step | None:
    """The fleet of the first step without batching: a footnote, since no engine works so; None where all menus do."""
    if case.engine.max_in_flight <= 1:
        return None
    said = "one GPU type, one request at a time"
    return Step("naive", "naive", said, one_after_the_other([first.change, _one_at_a_time]))


def _one_at_a_time(case: Case) -> Case:
    # A table of measured rates says what a batch does; nobody measured it without.
    profiles = tuple(p for p in case.profiles if not p.max_rates)
    engine = case.engine.model_copy(update={"max_in_flight": 1})
    return case.model_copy(update={"engine": engine, "profiles": profiles})


def _unchanged(case: Case) -> Case:
    return case


def _without_the_rest(case: Case) -> Case:
    """No API, no waiting, no shedding: every request is served at once, on the fleet."""
    fields = {"api_allowed": False, "api_wait_h": 0.0, "deadline_h": None, "shed_usd_per_request": None}
    return with_workloads(lambda w: w.model_copy(update=fields))(case)


def _one_gpu_type(case: Case, gpu: str, most: int) -> Step:
    bought = "on demand" if first_purchase(case) == ON_DEMAND else f"bought as {first_purchase(case)}"
    said = (
        f"all on {gpu}, {most} at most a replica, {bought}, models as published, the engine's defaults, nothing shared"
    )
    return Step("one-gpu-type", "one GPU type", said, _unchanged)


def _right_sizing(case: Case, gpu: str, most: int) -> _Lever:
    def one_gpu(case: Case) -> Case:
        offers = {key: offer for key, offer in case.offers.items() if offer.gpu == gpu}
        kept = case.model_copy(update={"offers": offers, "gpus": {gpu: case.gpus[gpu]}})
        return with_limits(max_gpus_per_replica=most, max_deployments=1, parallelism=None)(kept)

    many = case.limits.max_deployments
    mixes = f", up to {many} deployments for one workload" if many > 1 else ""
    ways = [way for way in case.limits.parallelism or () if way != TENSOR]
    shared = f", {' or '.join(ways)} parallel too" if ways else ""
    said = f"any GPU of the menu, any number of them a replica{shared}{mixes}"
    step = Step("right-sizing", "right-sizing", said, _unchanged)
    limits = case.limits
    same = len(case.gpus) == 1 and (most, 1, None) == (
        limits.max_gpus_per_replica, limits.max_deployments, limits.parallelism
    )  # fmt: skip
    return _Lever(step, one_gpu, "there is one GPU and one size" if same else "")


def _quantization(case: Case) -> _Lever:
    natives = {model.native_quantization for model in case.models.values()} | {UNQUANTIZED}
    smaller = any(len(w.models) > 1 for w in case.workloads)
    menu = set(case.quantizations) - natives

    def as_published(case: Case) -> Case:
        first = with_workloads(lambda w: w.model_copy(update={"models": w.models[:1]}))(case)
        used = {c.model for w in first.workloads for c in w.models}
        models = {key: model for key, model in case.models.items() if key in used}
        return unquantized(first.model_copy(update={"models": models}))

    def in_16_bit_too(case: Case) -> Case:
        if UNQUANTIZED in case.quantizations:
            return case
        known = {UNQUANTIZED: shipped_catalog().quantizations[UNQUANTIZED]}
        return case.model_copy(update={"quantizations": known | case.quantizations})

    parts = [f"weights in {', '.join(q for q in case.quantizations if q in menu)}"] if menu else []
    parts += ["the smaller models that a workload lists"] if smaller else []
    step = Step("quantization", "quantization", f"{' and '.join(parts)}, within the quality limits", in_16_bit_too)
    return _Lever(step, as_published, "" if parts else "the menu has no other")


def _caching(case: Case) -> _Lever:
    change = with_workloads(lambda w: w.model_copy(update={"caching": ("none",)}))
    kinds = {kind for w in case.workloads for option in w.caching for kind in kinds_of(option)}
    step = Step("caching", "caching", f"caches: {', '.join(sorted(kinds))}", _unchanged)
    return _Lever(step, change, "" if kinds else "no workload has anything to cache")


def _purchase(case: Case) -> _Lever:
    first = first_purchase(case)
    others = [option for option in case.purchase if option != first]

    def on_demand_too(case: Case) -> Case:
        return case if first in case.purchase else case.model_copy(update={"purchase": (first, *case.purchase)})

    def on_demand_only(case: Case) -> Case:
        return case.model_copy(update={"purchase": (first,)})

    step = Step("purchase", "purchase mix", f"bought as {', '.join(others)} too", on_demand_too)
    return _Lever(step, on_demand_only, "" if others else "the menu has one way to buy")


def _tenancy(case: Case) -> _Lever:
    change = with_workloads(lambda w: w.model_copy(update={"sharing": False}))
    step = Step("tenancy", "tenancy", "workloads of one model share replicas", _unchanged)
    sharing = sum(w.sharing for w in case.workloads)
    return _Lever(step, change, "" if sharing > 1 else "no two workloads may share")


def first_purchase(case: Case) -> str:
    """On demand wherever anyone sells that, on the menu or not."""
    sold = any(offer.prices.on_demand is not None for offer in case.offers.values())
    return ON_DEMAND if sold else case.purchase[0]


def plain_gpu(case: Case) -> tuple[str, int]:
    """What a careful newcomer takes: the GPU that serves every workload as published for least, in small replicas.

    The bill is estimated from the mean load, with the fewest replicas and whole boxes. Where no GPU serves them all, it
    is the one with the most memory, in the largest replicas.
    """
    levers = (_quantization(case), _caching(case), _purchase(case), _tenancy(case))
    plain = one_after_the_other([_without_the_rest, *(lever.without for lever in levers)])(case)
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
    offers = {key: offer for key, offer in plain.offers.items() if offer.gpu == gpu}
    kept = plain.model_copy(update={"offers": offers, "gpus": {gpu: plain.gpus[gpu]}})
    found = enumerate_candidates(with_limits(max_gpus_per_replica=most, max_deployments=1)(kept))
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
