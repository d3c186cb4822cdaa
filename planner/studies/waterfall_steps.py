"""The steps of a savings waterfall: what each may do that the one before may not, as changed copies of a case."""

from __future__ import annotations

from dataclasses import dataclass

from planner.candidates.enumerate import enumerate_candidates
from planner.candidates.screen import REPLICA_SIZES
from planner.case.case import Case, kinds_of
from planner.case.changes import Change, one_after_the_other, with_limits, with_workloads
from planner.catalog.entries import shipped_catalog
from planner.explanations.levers import UNQUANTIZED, unquantized

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


KEYS = ("naive", "batching", "right-sizing", "quantization", "caching", "purchase", "tenancy", "everything")
"""of all steps there are, with that of the plan itself"""


def steps_of(case: Case) -> tuple[list[Step], list[str]]:
    """From the naive fleet to the last lever but those of "everything", and what is left out and why."""
    gpu, most = naive_gpu(case)
    levers = [_batching(case), _right_sizing(case, gpu, most), _quantization(case), _caching(case), _purchase(case),
              _tenancy(case)]  # fmt: skip
    used = [lever for lever in levers if not lever.missing]
    steps = []
    for k in range(len(used) + 1):
        added, taken_away = [lever.step.change for lever in used[:k]], [lever.without for lever in used[k:]]
        step = _naive(gpu, most) if k == 0 else used[k - 1].step
        change = one_after_the_other([_without_the_rest, *added, *taken_away])
        steps.append(Step(step.key, step.title, step.said, change))
    why = f"naive: {gpu} is the most expensive GPU of the menu that serves every workload"
    why += ", preferably rented by the replica"
    missing = [f"{lever.step.key} ({lever.missing})" for lever in levers if lever.missing]
    return steps, [why, *([f"no step for {', '.join(missing)}"] if missing else [])]


def _unchanged(case: Case) -> Case:
    return case


def _without_the_rest(case: Case) -> Case:
    """No API, no waiting, no shedding: every request is served at once, on the fleet."""
    fields = {"api_allowed": False, "api_wait_h": 0.0, "deadline_h": None, "shed_usd_per_request": None}
    return with_workloads(lambda w: w.model_copy(update=fields))(case)


def _naive(gpu: str, most: int) -> Step:
    said = f"one request at a time, as published, on demand, each workload by itself, {most} x {gpu} at most a replica"
    return Step("naive", "naive", said, _unchanged)


def _batching(case: Case) -> _Lever:
    def one_at_a_time(case: Case) -> Case:
        # A table of measured rates says what a batch does; nobody measured it without.
        profiles = tuple(p for p in case.profiles if not p.max_rates)
        engine = case.engine.model_copy(update={"max_in_flight": 1})
        return case.model_copy(update={"engine": engine, "profiles": profiles})

    most = case.engine.max_in_flight
    step = Step("batching", "batching", f"a replica works on up to {most} requests at once", _unchanged)
    return _Lever(step, one_at_a_time, "" if most > 1 else "the menu allows one request at a time")


def _right_sizing(case: Case, gpu: str, most: int) -> _Lever:
    def one_gpu(case: Case) -> Case:
        offers = {key: offer for key, offer in case.offers.items() if offer.gpu == gpu}
        kept = case.model_copy(update={"offers": offers, "gpus": {gpu: case.gpus[gpu]}})
        return with_limits(max_gpus_per_replica=most, max_deployments=1)(kept)

    many = case.limits.max_deployments
    mixes = f", up to {many} deployments for one workload" if many > 1 else ""
    said = f"any GPU of the menu, any number of them a replica{mixes}"
    step = Step("right-sizing", "right-sizing", said, _unchanged)
    same = len(case.gpus) == 1 and most == case.limits.max_gpus_per_replica and case.limits.max_deployments == 1
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


def naive_gpu(case: Case) -> tuple[str, int]:
    """What a newcomer takes: the dearest GPU that serves every workload as published, in the smallest replicas that do.

    One that is rented by the replica comes first: to pay for a box of eight and use one would make any saving look
    large. Where none serves them all, the dearest.
    """
    prices: dict[str, float] = {}
    for offer in case.offers.values():
        if offer.prices.on_demand is not None:
            usd = offer.prices.on_demand.usd_per_h / offer.gpus
            prices[offer.gpu] = max(usd, prices.get(offer.gpu, 0.0))
    by_price = sorted(prices, key=lambda gpu: (-prices[gpu], gpu)) or sorted(case.gpus)
    levers = (_batching(case), _quantization(case), _caching(case), _purchase(case), _tenancy(case))
    plain = one_after_the_other([_without_the_rest, *(lever.without for lever in levers)])(case)
    sizes = [n for n in REPLICA_SIZES if n <= case.limits.max_gpus_per_replica]
    able = [(gpu, found) for gpu in by_price if (found := next((n for n in sizes if _serves_all(plain, gpu, n)), None))]
    by_the_replica = [(gpu, n) for gpu, n in able if any(o.gpu == gpu and o.gpus <= n for o in case.offers.values())]
    return next(iter(by_the_replica or able), (by_price[0], case.limits.max_gpus_per_replica))


def _serves_all(plain: Case, gpu: str, most: int) -> bool:
    offers = {key: offer for key, offer in plain.offers.items() if offer.gpu == gpu}
    kept = plain.model_copy(update={"offers": offers, "gpus": {gpu: plain.gpus[gpu]}})
    accepted = enumerate_candidates(with_limits(max_gpus_per_replica=most, max_deployments=1)(kept)).accepted
    return all(any(c.alone for c in found) for found in accepted.values())
