"""What a plan says of quality: losses, the benchmarks behind them, and APIs that sell smaller models."""

from __future__ import annotations

from collections.abc import Iterator

from planner.case.apis import forbids_smaller_apis, sells_a_smaller_model
from planner.case.case import Workload
from planner.case.quality import QualityBasis, quality_of
from planner.case.support import is_unproven
from planner.catalog.apis import TIERS, Tier, tier_of_api, tier_of_model
from planner.catalog.names import sells
from planner.catalog.variant import Variant
from planner.io.formatting import percent
from planner.plan.plan import Plan, WorkloadPlan

Hosted = tuple[Workload, str, str, QualityBasis]
"""a workload, a model and a quantization that serve it, and what the loss rests on"""


def hosted(plan: Plan) -> Iterator[Hosted]:
    asked = {w.name: w for w in plan.case.workloads}
    for told in plan.workloads:
        for model, scheme in dict.fromkeys(zip(told.models, told.quantizations, strict=True)):
            yield asked[told.name], model, scheme, quality_of(plan.case, asked[told.name], model, scheme)


def quality_notes(plan: Plan) -> Iterator[str]:
    """Losses that stand in for others, each once, and requests that go to a smaller model than they ask for."""
    yield from smaller_apis(plan)
    alike: dict[tuple[str, str, QualityBasis], list[str]] = {}
    for w, model, scheme, basis in hosted(plan):
        if not basis.as_asked:
            alike.setdefault((model, scheme, basis), []).append(w.name)
    for (model, scheme, basis), names in alike.items():
        loss = percent(basis.loss_frac, 1) + (f" on {basis.benchmark}" if basis.benchmark else "")
        yield f"quality loss of {model} {scheme} ({', '.join(names)}): {loss}; {basis.remark}"


def unproven_and_borrowed(plan: Plan) -> Iterator[tuple[tuple[str, ...], Variant, QualityBasis]]:
    """Deployments that nobody has seen run, with a loss that was measured on models of another family."""
    asked = {w.name: w for w in plan.case.workloads}
    for pool in plan.pools:
        for d in pool.deployments:
            variant = d.deployment.variant
            basis = quality_of(plan.case, asked[pool.workloads[0]], variant.model, variant.quantization)
            if basis.borrowed and is_unproven(plan.case, variant):
                yield pool.workloads, variant, basis


def smaller_apis(plan: Plan) -> Iterator[str]:
    """Workloads whose requests go to an API model of a lower tier than the model that they list first.

    Where that is forbidden, those whose requests go to one of unknown size.
    """
    for told in plan.workloads:
        if told.api and told.api_share_frac and _is_smaller(plan, told.api, told):
            first = _workload(plan, told).models[0].model
            there = f"goes to {told.api}, a {tier_of_api(told.api)} model, where {first} is a {_asked(plan, told)} one"
            yield f"{percent(told.api_share_frac)} of {told.name} {there}: compare answers, or set api: no-smaller"
        elif told.api and told.api_share_frac and _is_unknown(plan, told.api, told):
            there = f"goes to {told.api}; its name does not reveal its size, so no-smaller does not exclude it"
            yield f"{percent(told.api_share_frac)} of {told.name} {there}: compare answers, or take it off menu.apis"


def _is_smaller(plan: Plan, api: str, told: WorkloadPlan) -> bool:
    return sells_a_smaller_model(plan.case, _workload(plan, told), api)


def _is_unknown(plan: Plan, api: str, told: WorkloadPlan) -> bool:
    w = _workload(plan, told)
    first = w.models[0].model
    unknown = tier_of_api(api) is None and not sells(api, first, plan.case.models[first])
    return unknown and forbids_smaller_apis(plan.case, w)


def _workload(plan: Plan, told: WorkloadPlan) -> Workload:
    return next(w for w in plan.case.workloads if w.name == told.name)


def _asked(plan: Plan, told: WorkloadPlan) -> Tier:
    return tier_of_model(plan.case.models[_workload(plan, told).models[0].model])


def size_beside(plan: Plan, api: str, workloads: tuple[str, ...]) -> str:
    """How large the model of an API is, and whether that is smaller than what some workloads ask for."""
    tier = tier_of_api(api)
    if tier is None:
        return "unknown"
    larger = [_asked(plan, w) for w in plan.workloads if w.name in workloads and _is_smaller(plan, api, w)]
    return f"{tier}, {max(larger, key=TIERS.index)} asked" if larger else tier
