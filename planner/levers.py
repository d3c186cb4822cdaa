"""Every lever: something that a plan may decide in order to save money. One entry each, which all who compare read.

`explain` plans again without each lever that is in use, the waterfall adds them step by step, and `what-if --without`
switches them off in the demand file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from planner.case.allowances import allowance_of
from planner.case.case import CACHE_KINDS, Case, Workload, kinds_of
from planner.case.changes import (
    Change,
    may_use_an_api,
    with_limits,
    with_workloads,
    without_allowances,
    without_drafts,
    without_purchase,
)
from planner.case.drafts import methods_of
from planner.catalog.entries import CacheLoss, QualityLoss, shipped_catalog
from planner.catalog.terms import is_bought
from planner.catalog.variant import TENSOR
from planner.plan.plan import Plan, WorkloadPlan
from planner.plan.signing import allowances_to_be_signed

UNQUANTIZED = "fp16"
ON_DEMAND = "on-demand"
FIRST_STEP, LAST_STEP, FOOTNOTE = "one-gpu-type", "everything", "naive"
"""of the waterfall: the fleet it begins with, the plan itself, and what is no step of the savings"""


@dataclass(frozen=True)
class Switch:
    """How a lever is left out by name: a key of the demand file's menu, and what stands there then."""

    name: str
    key: str
    value: Any


@dataclass(frozen=True, kw_only=True)
class Lever(ABC):
    key: str
    """its name in explanations"""
    step: str
    """of the waterfall, in which it comes in"""
    switch: Switch | None = None
    """None: not by a name of its own; whatever is an entry of a list of the menu can be left out as such"""
    adds: Callable[[Case], str] = lambda case: ""
    """what a case may do with it, where the step says no more than its levers; empty where there is nothing to do"""

    @abstractmethod
    def used(self, plan: Plan, workload: str | None = None) -> bool:
        """Whether a plan makes use of it, or one of its workloads does."""

    @abstractmethod
    def without(self, case: Case, workload: str | None = None) -> Case:
        """The case in which nobody may use it, or one workload may not."""


@dataclass(frozen=True, kw_only=True)
class PlanLever(Lever):
    """Of the plan as a whole: no workload has it for itself."""

    in_plan: Callable[[Plan], bool]
    change: Change

    def used(self, plan: Plan, workload: str | None = None) -> bool:
        return workload is None and self.in_plan(plan)

    def without(self, case: Case, workload: str | None = None) -> Case:
        return self.change(case)


@dataclass(frozen=True, kw_only=True)
class WorkloadLever(Lever):
    """Each workload uses it or not."""

    in_workload: Callable[[Plan, WorkloadPlan], bool]
    fields: Callable[[Workload], dict[str, Any]]
    """of a workload, that differ without it"""

    def used(self, plan: Plan, workload: str | None = None) -> bool:
        return any(self.in_workload(plan, w) for w in plan.workloads if workload in (None, w.name))

    def without(self, case: Case, workload: str | None = None) -> Case:
        def left_out(w: Workload) -> Workload:
            return w.model_copy(update=self.fields(w)) if workload in (None, w.name) else w

        return with_workloads(left_out)(case)


@dataclass(frozen=True, kw_only=True)
class Step:
    """Levers that the waterfall adds together."""

    key: str
    title: str
    adds: Callable[[Case], str] | None = None
    """what it may do that the one before may not; None: what its levers add"""
    missing: str = ""
    """why there is nothing to add, where that is so"""
    switch: Switch | None = None
    """that leaves all of its levers out"""

    @property
    def levers(self) -> tuple[Lever, ...]:
        return tuple(lever for lever in LEVERS if lever.step == self.key)

    def said(self, case: Case) -> str:
        """Empty where there is nothing to add."""
        if self.adds is not None:
            return self.adds(case)
        return ", ".join(added for lever in self.levers if (added := lever.adds(case)))

    def without(self, case: Case) -> Case:
        for lever in self.levers:
            case = lever.without(case)
        return case


def levers_in_use(plan: Plan, workload: str | None = None) -> list[Lever]:
    """Levers of the plan, or of one workload."""
    return [lever for lever in LEVERS if lever.used(plan, workload)]


# -- who uses them, and what they may do ------------------------------------------------------------------------


def is_commitment(purchase: str) -> bool:
    return purchase.startswith("reserved")


def _buys(wanted: Callable[[str], bool]) -> Callable[[Plan], bool]:
    return lambda plan: any(wanted(line.purchase) for line in plan.fleet)


def _signs(of_apis: bool) -> Callable[[Plan], bool]:
    """Whether a plan signs provisioned units, or savings plans."""
    return lambda plan: any(
        (allowance_of(plan.case, a.name).api is not None) == of_apis for a in allowances_to_be_signed(plan)
    )


def _is_quantized(plan: Plan) -> bool:
    native = {key: model.native_quantization for key, model in plan.case.models.items()}
    hosted = [d.deployment for pool in plan.pools for d in pool.deployments]
    return any(d.quantization not in (UNQUANTIZED, native[d.model]) for d in hosted)


def _at_batch_price(plan: Plan, workload: WorkloadPlan) -> bool:
    batch = plan.case.apis[workload.api].batch if workload.api else None
    return batch is not None and batch.turnaround_h <= _asked(plan, workload).api_wait_h


def _asked(plan: Plan, workload: WorkloadPlan) -> Workload:
    return next(w for w in plan.case.workloads if w.name == workload.name)


def _any_workload(has: Callable[[Workload], bool], said: str) -> Callable[[Case], str]:
    return lambda case: said if any(has(w) for w in case.workloads) else ""


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


def _cache(kind: str) -> Lever:
    def without(w: Workload) -> dict[str, Any]:
        return {"caching": tuple(option for option in w.caching if kind not in kinds_of(option)) or ("none",)}

    return WorkloadLever(
        key=f"{kind} caching",
        step="caching",
        in_workload=lambda plan, w: kind in kinds_of(w.caching),
        fields=without,
    )


def _sizes(case: Case) -> str:
    many = case.limits.max_deployments
    mixes = f", up to {many} deployments for one workload" if many > 1 else ""
    ways = [way for way in case.limits.parallelism or () if way != TENSOR]
    shared = f", {' or '.join(ways)} parallel too" if ways else ""
    return f"any GPU of the menu, any number of them a replica{shared}{mixes}"


def _smaller_weights(case: Case) -> str:
    natives = {model.native_quantization for model in case.models.values()} | {UNQUANTIZED}
    menu = [q for q in case.quantizations if q not in natives]
    parts = [f"weights in {', '.join(menu)}"] if menu else []
    parts += ["the smaller models that a workload lists"] if any(len(w.models) > 1 for w in case.workloads) else []
    return f"{' and '.join(parts)}, within the quality limits" if parts else ""


def _caches(case: Case) -> str:
    kinds = {kind for w in case.workloads for option in w.caching for kind in kinds_of(option)}
    return f"caches: {', '.join(sorted(kinds))}" if kinds else ""


def first_purchase(case: Case) -> str:
    """On demand wherever anyone sells that, on the menu or not."""
    sold = any(offer.prices.on_demand is not None for offer in case.offers.values())
    return ON_DEMAND if sold else case.purchase[0]


def _other_purchases(case: Case) -> str:
    others = [option for option in case.purchase if option != first_purchase(case) and not is_bought(option)]
    plans = [a.name for a in case.allowances or () if a.api is None and not a.held]
    ways = [
        *([f"bought as {', '.join(others)} too"] if others else []),
        *([f"under {', '.join(plans)}"] if plans else []),
    ]
    return ", ".join(ways)


# -- the registry -----------------------------------------------------------------------------------------------

LEVERS: tuple[Lever, ...] = (
    PlanLever(
        key="spot",
        step="purchase",
        in_plan=_buys(lambda purchase: purchase == "spot"),
        change=without_purchase(lambda purchase: purchase == "spot"),
    ),
    PlanLever(
        key="commitments",
        step="purchase",
        in_plan=_buys(is_commitment),
        change=without_purchase(is_commitment),
    ),
    PlanLever(
        key="servers of your own",
        step=LAST_STEP,
        switch=Switch("own", "own", []),
        adds=lambda case: "servers may be bought" if any(is_bought(way) for way in case.purchase) else "",
        in_plan=_buys(is_bought),
        change=without_purchase(is_bought),
    ),
    PlanLever(
        key="savings plans",
        step="purchase",
        switch=Switch("savings-plans", "savings_plans", False),
        in_plan=_signs(of_apis=False),
        change=without_allowances(lambda a: a.api is None),
    ),
    PlanLever(
        key="provisioned throughput",
        step=LAST_STEP,
        switch=Switch("provisioned", "provisioned", False),
        adds=lambda case: "provisioned units" if any(a.api and not a.held for a in case.allowances or ()) else "",
        in_plan=_signs(of_apis=True),
        change=without_allowances(lambda a: a.api is not None),
    ),
    PlanLever(
        key="quantization",
        step="quantization",
        in_plan=_is_quantized,
        change=unquantized,
    ),
    PlanLever(
        key="several deployments for a workload",
        step="right-sizing",
        switch=Switch("mixes", "max_deployments", 1),
        in_plan=lambda plan: any(len(pool.deployments) > 1 for pool in plan.pools),
        change=with_limits(max_deployments=1),
    ),
    PlanLever(
        key="speculative decoding",
        step=LAST_STEP,
        switch=Switch("speculation", "speculation", ["none"]),
        adds=lambda case: f"drafts by {', '.join(methods)}" if (methods := methods_of(case)) else "",
        in_plan=lambda plan: any(d.deployment.speculation for pool in plan.pools for d in pool.deployments),
        change=without_drafts,
    ),
    *(_cache(kind) for kind in CACHE_KINDS),
    WorkloadLever(
        key="sharing",
        step="tenancy",
        switch=Switch("sharing", "tenancy", ["dedicated"]),
        adds=lambda case: "workloads of one model share replicas" if sum(w.sharing for w in case.workloads) > 1 else "",
        in_workload=lambda plan, w: len(plan.pool_of(w.name).workloads) > 1,
        fields=lambda w: {"sharing": False},
    ),
    WorkloadLever(
        key="API",
        step=LAST_STEP,
        switch=Switch("api", "apis", []),
        adds=lambda case: "requests may go to an API" if may_use_an_api(case) else "",
        in_workload=lambda plan, w: w.api_share_frac > 0,
        fields=lambda w: {"api_allowed": False},
    ),
    WorkloadLever(
        key="batch prices of APIs",
        step=LAST_STEP,
        switch=Switch("api-batch", "api_batch", False),
        in_workload=_at_batch_price,
        fields=lambda w: {"api_wait_h": 0.0},
    ),
    WorkloadLever(
        key="deferral",
        step=LAST_STEP,
        switch=Switch("deferral", "defer", False),
        adds=_any_workload(lambda w: w.deadline_h is not None, "batch work may wait"),
        in_workload=lambda plan, w: _asked(plan, w).deadline_h is not None,
        fields=lambda w: {"deadline_h": None},
    ),
    WorkloadLever(
        key="shedding",
        step=LAST_STEP,
        adds=_any_workload(lambda w: w.shed_usd_per_request is not None, "requests may be shed"),
        in_workload=lambda plan, w: w.shed_share_frac > 0,
        fields=lambda w: {"shed_usd_per_request": None},
    ),
)

STEPS = (
    Step(key="right-sizing", title="right-sizing", adds=_sizes, missing="there is one GPU and one size"),
    Step(key="quantization", title="quantization", adds=_smaller_weights, missing="the menu has no other"),
    Step(
        key="caching",
        title="caching",
        adds=_caches,
        missing="no workload has anything to cache",
        switch=Switch("caching", "caching", []),
    ),
    Step(key="purchase", title="purchase mix", adds=_other_purchases, missing="the menu has one way to buy"),
    Step(key="tenancy", title="tenancy", missing="no two workloads may share"),
    Step(key=LAST_STEP, title="everything else"),
)
"""of the waterfall, in the order in which their levers are added; the last one is the plan"""

STEP_KEYS = (FIRST_STEP, *(step.key for step in STEPS), FOOTNOTE)
SWITCHES = {switch.name: switch for switch in (*(x.switch for x in LEVERS), *(x.switch for x in STEPS)) if switch}
