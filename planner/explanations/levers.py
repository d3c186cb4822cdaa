"""The levers that a plan uses, and the case without each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from planner.case.case import CACHE_KINDS, Case, Workload, kinds_of
from planner.case.changes import Change, with_limits, with_workloads, without_purchase
from planner.catalog.entries import CacheLoss, QualityLoss, shipped_catalog
from planner.plan.plan import Plan, WorkloadPlan

UNQUANTIZED = "fp16"


@dataclass(frozen=True)
class Lever:
    """Something that the optimizer chose to do."""

    key: str
    without: Change
    workload: str | None = None


def levers_in_use(plan: Plan, workload: str | None = None) -> list[Lever]:
    """Levers of the whole plan, or of one workload."""
    found = [] if workload is not None else list(_of_the_plan(plan))
    return found + list(_of_workloads(plan, workload))


def _of_the_plan(plan: Plan) -> Iterator[Lever]:
    bought = {line.purchase for line in plan.fleet}
    if "spot" in bought:
        yield Lever("spot", without_purchase(lambda option: option == "spot"))
    if any(_is_commitment(purchase) for purchase in bought):
        yield Lever("commitments", without_purchase(_is_commitment))
    hosted = [d.deployment for pool in plan.pools for d in pool.deployments]
    native = {key: model.native_quantization for key, model in plan.case.models.items()}
    if any(d.quantization not in (UNQUANTIZED, native[d.model]) for d in hosted):
        yield Lever("quantization", unquantized)
    if any(len(pool.deployments) > 1 for pool in plan.pools):
        yield Lever("several deployments for a workload", with_limits(max_deployments=1))


def _of_workloads(plan: Plan, workload: str | None) -> Iterator[Lever]:
    """Levers of one workload; without a name, of all workloads together."""

    def left_out(lever: _OwnLever) -> Change:
        return with_workloads(
            lambda w: w.model_copy(update=lever.without(w)) if workload in (None, w.name) else w,
        )

    for lever in OWN_LEVERS:
        if any(lever.used(plan, w) for w in plan.workloads if workload in (None, w.name)):
            yield Lever(lever.key, left_out(lever), workload)


@dataclass(frozen=True)
class _OwnLever:
    """A lever that each workload uses or not."""

    key: str
    used: Callable[[Plan, WorkloadPlan], bool]
    without: Callable[[Workload], dict[str, Any]]
    """fields of the workload that differ"""


def _cache(kind: str) -> _OwnLever:
    def without(w: Workload) -> dict[str, Any]:
        return {"caching": tuple(option for option in w.caching if kind not in kinds_of(option)) or ("none",)}

    return _OwnLever(f"{kind} caching", lambda plan, w: kind in kinds_of(w.caching), without)


def _may_wait(plan: Plan, workload: WorkloadPlan) -> bool:
    return _spec(plan, workload).deadline_h is not None


def _at_batch_price(plan: Plan, workload: WorkloadPlan) -> bool:
    batch = plan.case.apis[workload.api].batch if workload.api else None
    return batch is not None and batch.turnaround_h <= _spec(plan, workload).api_wait_h


def _spec(plan: Plan, workload: WorkloadPlan) -> Workload:
    return next(w for w in plan.case.workloads if w.name == workload.name)


OWN_LEVERS = (
    *(_cache(kind) for kind in CACHE_KINDS),
    _OwnLever("sharing", lambda plan, w: len(plan.pool_of(w.name).workloads) > 1, lambda w: {"sharing": False}),
    _OwnLever("API", lambda plan, w: w.api_share_frac > 0, lambda w: {"api_allowed": False}),
    _OwnLever("batch prices of APIs", _at_batch_price, lambda w: {"api_wait_h": 0.0}),
    _OwnLever("deferral", _may_wait, lambda w: {"deadline_h": None}),
    _OwnLever("shedding", lambda plan, w: w.shed_share_frac > 0, lambda w: {"shed_usd_per_request": None}),
)


def _is_commitment(purchase: str) -> bool:
    return purchase.startswith("reserved")


def unquantized(case: Case) -> Case:
    """Models in 16 bit, or as they were published: whatever else loses all quality."""
    ruined, ruined_cache = (QualityLoss(min_parameters_b=0.0, loss_frac=1.0),), CacheLoss(loss_frac=1.0)
    known = {UNQUANTIZED: shipped_catalog().quantizations[UNQUANTIZED]} | case.quantizations
    changed = {
        key: scheme.model_copy(update={"quality_loss": ruined, "kv_loss": ruined_cache if scheme.kv_loss else None})
        for key, scheme in known.items()
        if key != UNQUANTIZED
    }
    return case.model_copy(update={"quantizations": {UNQUANTIZED: known[UNQUANTIZED]} | changed})
