"""Limits that nobody gave: which of them bind, and what the plan without them costs.

A default that binds decides what a plan costs as much as an objective that somebody promised. So every limit that was
assumed is taken away in a plan of its own: first all together, and one by one where that is cheaper. What a file must
ask for (spot, commitments, other places) is no limit of this kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.case.case import Case, Workload
from planner.case.changes import Change, one_after_the_other, with_limits, with_workloads
from planner.optimization.replan import Replanner
from planner.optimization.throughput_range import quick
from planner.plan.plan import AssumedLimit, AssumedLimits, Plan
from problems.fleet_problem import FleetProblem
from solvers.backends.trouble import MachineTrouble
from solvers.search.fleet_solution import Options

LEAST_FRAC = 0.01
"""of the cost: a limit that costs less than this moves no decision"""
NO_TTFT_S, NO_TPOT_S, NO_QUALITY = 60.0, 1.0, 1.0
"""objectives that bind nothing"""
LOOK_AT = 12
"""variants by either rank from which a plan without a limit is made"""
Loosened = Callable[[Workload], Workload]


def _without_ttft(w: Workload) -> Workload:
    seconds = max(w.ttft.seconds, NO_TTFT_S if w.e2e is None else w.e2e.seconds)
    return w.model_copy(update={"ttft": w.ttft.model_copy(update={"seconds": seconds})})


def _without_tpot(w: Workload) -> Workload:
    follows = w.e2e is not None or w.e2e_per_token is not None
    seconds = w.tpot.seconds if follows else max(w.tpot.seconds, NO_TPOT_S)
    return w.model_copy(update={"tpot": w.tpot.model_copy(update={"seconds": seconds})})


OF_WORKLOADS: dict[str, Loosened] = {
    "slo.ttft_p95": _without_ttft,
    "slo.tpot_p95": _without_tpot,
    "quality.max_loss": lambda w: w.model_copy(update={"max_quality_loss_frac": NO_QUALITY}),
}
OF_THE_CASE: dict[str, Change] = {
    "policy.min_replicas": with_limits(min_replicas=1),
    "policy.spread": with_limits(spread=None),
}


@dataclass(frozen=True)
class Default:
    """A limit that nobody gave, of some workloads or of the whole case."""

    key: str
    value: str
    workloads: tuple[str, ...]
    without: Change


def assumed_limits(case: Case) -> list[Default]:
    """Limits that nobody gave and whose absence would change the case."""
    found, assumed = [], {a.key: a.value for a in case.assumptions}
    for key, loosened in OF_WORKLOADS.items():
        keys = {w.name: f"workloads.{w.name}.{key}" for w in case.workloads if loosened(w) != w}
        names = tuple(name for name, own in keys.items() if own in assumed)
        if names:
            value = " or ".join(dict.fromkeys(assumed[keys[name]] for name in names))
            found.append(Default(key, value, names, _where(names, loosened)))
    for key, change in OF_THE_CASE.items():
        if key in assumed and change(case) != case:
            found.append(Default(key, assumed[key], (), change))
    return found


def _where(names: tuple[str, ...], loosened: Loosened) -> Change:
    return with_workloads(lambda w: loosened(w) if w.name in names else w)


def with_assumed_limits(plan: Plan, fleet: FleetProblem, asked: Options) -> Plan:
    """The plan with what the limits cost that nobody gave, where they bind.

    Raises TimeIsUp where the time limit would cut a search short.
    """
    defaults = [default for default in assumed_limits(plan.case) if _may_bind(plan, default)]
    if not defaults:
        return plan
    replanner = Replanner(plan.case, quick(asked), total_s=asked.time_limit_s, fleet=fleet, look_at=LOOK_AT)

    def cost_without(some: list[Default]) -> float:
        """Never above the plan: it is allowed without these limits too."""
        objective, changed = plan.objective_usd_per_month, one_after_the_other([d.without for d in some])(plan.case)
        try:
            solved = replanner.solve(changed, f"without {some[0].key if len(some) == 1 else 'assumed limits'}")
        except MachineTrouble:
            return objective
        return min(objective, solved.best.objective) if solved.best else objective

    together = cost_without(defaults)
    if not _matters(plan, together):
        return plan
    each = [cost_without([d]) for d in defaults] if len(defaults) > 1 else [together]
    limits = tuple(
        AssumedLimit(key=d.key, value=d.value, workloads=d.workloads, without_usd_per_month=cost)
        for cost, d in sorted(zip(each, defaults, strict=True), key=lambda pair: pair[0])
        if _matters(plan, cost)
    )
    found = AssumedLimits(without_usd_per_month=min([together, *each]), limits=limits)
    return plan.model_copy(update={"assumed_limits": found})


def _matters(plan: Plan, cost: float) -> bool:
    """Whether a plan without a limit is proved to be cheaper than any with it, and by enough."""
    return cost < plan.bound_usd_per_month and cost <= (1 - LEAST_FRAC) * plan.objective_usd_per_month


def _may_bind(plan: Plan, default: Default) -> bool:
    """Whether a plan shows that it needs a few replicas for their own sake; objectives may always bind."""
    if default.key == "policy.min_replicas":
        return any(b.limit == "min_replicas" for b in plan.binding)
    if default.key == "policy.spread":
        return any(line.gpus_per_instance > 1 and min(line.instances_by_slot) <= 2 for line in plan.fleet)
    return True
