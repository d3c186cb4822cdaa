"""The limits that a plan says it reaches are those that it reaches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.checker.costs import month_usd
from planner.checker.purchases import gpus_bought, idle_gpus
from planner.checker.serving import staffed
from planner.checker.vendors import in_use
from planner.plan.view import MONTH_HOURS, REL, PlanView, differs, is_not, near

NEAR_BUDGET_FRAC = 1e-3
Reached = dict[tuple[str, str | None], tuple[float, float]]
"""the value of a limit, and for how many hours a month it is reached"""


def binding_limits_are_told(facts: PlanView) -> Iterator[str]:
    told = {(b.limit, b.name): (b.value, b.hours_per_month) for b in facts.plan.binding}
    true = _budget(facts) | _quotas(facts) | _kinds_of_gpu(facts) | _vendors(facts) | _minimum(facts)
    if len(told) < len(facts.plan.binding):
        yield "a limit is said twice to be reached"
    for limit, name in sorted(set(true) - set(told), key=str):
        yield f"the limit {limit}{_of(name)} is reached, which is not said"
    for limit, name in sorted(set(told) - set(true), key=str):
        yield f"the limit {limit}{_of(name)} is not reached"
    for key in set(told) & set(true):
        if not all(near(a, b) for a, b in zip(told[key], true[key], strict=True)):
            yield f"the limit {key[0]}{_of(key[1])} is {true[key][0]:g} and reached for {true[key][1]:.10g} h a month"


def _of(name: str | None) -> str:
    return f" of {name}" if name else ""


def _hours(facts: PlanView, where: list[bool]) -> float:
    return facts.a_month([float(x) for x in where])


def _budget(facts: PlanView) -> Reached:
    budget = facts.case.limits.budget_usd_per_month
    if budget is None:
        return {}
    months = [m for m in range(facts.months) if month_usd(facts, m) >= budget * (1 - NEAR_BUDGET_FRAC)]
    hours = len(months) / facts.months * MONTH_HOURS
    return {("budget_usd_per_month", None): (budget, hours)} if months else {}


def _quotas(facts: PlanView) -> Reached:
    """GPUs of a kind where not one more of the instances in use, or not one at all, would fit; instances where all are
    in use."""
    limits, offers, found = facts.case.limits, facts.case.offers, {}
    used = sorted({line.offer for line in facts.plan.fleet})
    for gpu, most in limits.max_gpus.items():
        boxes = {offer: offers[offer].gpus for offer in used if offers[offer].gpu == gpu}
        boxes = boxes or {offer: o.gpus for offer, o in offers.items() if o.gpu == gpu}
        if boxes:
            idle = idle_gpus(facts).get(gpu, 0)
            gpus = [idle + sum(gpus_bought(facts, offer, t) for offer in boxes) for t in facts.slots]
            found["max_gpus", gpu] = (most, _hours(facts, [n + min(boxes.values()) > most for n in gpus]))
    for offer, most in limits.max_instances.items():
        gpus = [gpus_bought(facts, offer, t) for t in facts.slots]
        found["max_instances", offer] = (most, _hours(facts, [n >= most * offers[offer].gpus for n in gpus]))
    return {key: (float(most), hours) for key, (most, hours) in found.items() if hours}


def _kinds_of_gpu(facts: PlanView) -> Reached:
    most = facts.case.limits.max_gpu_types
    kinds = {facts.case.offers[line.offer].gpu for line in facts.plan.fleet}
    return {("max_gpu_types", None): (most, MONTH_HOURS)} if most is not None and len(kinds) >= most else {}


def _vendors(facts: PlanView) -> Reached:
    limits = (facts.case.limits.max_vendors or {}).items()
    return {("max_vendors", kind): (most, MONTH_HOURS) for kind, most in limits if len(in_use(facts)[kind]) >= most}


def _minimum(facts: PlanView) -> Reached:
    """Where the load of a deployment by itself would need fewer replicas."""
    found: Reached = {}
    for pool in facts.plan.pools:
        held, least = [False] * len(facts.slots), 0
        for k, d in enumerate(pool.deployments):
            load, rules = facts.load(pool, k), staffed(facts, pool, k).rules
            least = rules[0].minimum
            for t, n in enumerate(d.replicas_by_slot):
                held[t] |= 0 < n <= least and replace(rules[t], minimum=0).needed(load[t])[1] < least
        if any(held):
            found["min_replicas", pool.key] = (least, _hours(facts, held))
    return found


PROVED_GAP = 2e-6
"""a plan is optimal up to the tolerance of the solvers"""
ROUNDING = 1e-3
"""of that gap: cost and bound were added up in another order when the word was chosen"""


def claims_are_honest(facts: PlanView) -> Iterator[str]:
    yield from is_not("the name of the case", facts.plan.name, facts.case.name)
    if facts.plan.assumptions != facts.case.assumptions:
        yield "the assumptions are not those of the case"
    yield from _bound_and_status_agree(facts)
    yield from _range_is_around_the_plan(facts)
    served = facts.plan.verified
    if served is not None and served.kept == bool(served.missed):
        yield "what is said of serving it contradicts itself: promises are kept and missed"


def _bound_and_status_agree(facts: PlanView) -> Iterator[str]:
    """The bound is one on cost and penalty. How small a gap was asked for is not in the plan, so "within-gap" and
    "feasible" are held to the same."""
    plan, bound, gap = facts.plan, facts.plan.bound_usd_per_month, facts.plan.gap_frac
    objective = plan.cost_usd_per_month + plan.penalty_usd_per_month
    if not -REL * objective <= bound <= objective * (1 + REL):
        yield f"the bound {bound} lies outside 0 and the cost (and penalty) {objective}"
    true = max(0.0, (objective - bound) / objective) if objective else 0.0
    yield from differs("the gap, (cost + penalty - bound) / (cost + penalty),", gap, true)
    if plan.status == "optimal" and gap > PROVED_GAP * (1 + ROUNDING):
        yield f"it is called optimal with a gap of {gap:.3%}"
    if plan.status in ("within-gap", "feasible") and gap < PROVED_GAP * (1 - ROUNDING):
        yield f"it is called {plan.status}, but its bound proves it optimal"


def _range_is_around_the_plan(facts: PlanView) -> Iterator[str]:
    """Its ends come from searches that arithmetic cannot repeat."""
    told, mid = facts.plan.if_throughput_is_off, facts.plan.cost_usd_per_month + facts.plan.penalty_usd_per_month
    yield from differs("if_throughput_is_off.mid_usd_per_month", told.mid_usd_per_month, mid)
    if told.high_usd_per_month is not None and told.high_usd_per_month < mid * (1 - REL):
        yield f"slower replicas cost {told.high_usd_per_month}, less than the plan itself"
    if told.low_usd_per_month is not None and not 0 <= told.low_usd_per_month <= mid * (1 + REL):
        yield f"faster replicas cost {told.low_usd_per_month}, more than the plan itself or less than nothing"
    ends = (told.low_usd_per_month, told.high_usd_per_month)
    if any(part.what == "if_throughput_is_off" for part in facts.plan.left_out or ()) and ends != (None, None):
        yield "the range of the cost is said to be left out, but is there"
