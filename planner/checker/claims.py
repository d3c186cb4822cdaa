"""What the plan says about itself: how well it is proved, which options it chose, and what was assumed."""

from __future__ import annotations

from collections.abc import Iterator

from planner.checker.facts import REL, Facts, differs, is_not, key_of

PROVED_GAP = 2e-6
"""a plan is optimal up to the tolerance of the solvers"""
ROUNDING = 1e-3
"""of that gap: cost and bound were added up in another order when the word was chosen"""


def claims_are_honest(facts: Facts) -> Iterator[str]:
    yield from is_not("the name of the case", facts.plan.name, facts.case.name)
    if facts.plan.assumptions != facts.case.assumptions:
        yield "the assumptions are not those of the case"
    yield from _bound_and_status_agree(facts)
    yield from _range_is_around_the_plan(facts)
    yield from _one_option_is_chosen(facts)


def _bound_and_status_agree(facts: Facts) -> Iterator[str]:
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


def _range_is_around_the_plan(facts: Facts) -> Iterator[str]:
    """Its ends come from searches that arithmetic cannot repeat."""
    told, mid = facts.plan.if_throughput_is_off, facts.plan.cost_usd_per_month + facts.plan.penalty_usd_per_month
    yield from differs("if_throughput_is_off.mid_usd_per_month", told.mid_usd_per_month, mid)
    if told.high_usd_per_month is not None and told.high_usd_per_month < mid * (1 - REL):
        yield f"slower replicas cost {told.high_usd_per_month}, less than the plan itself"
    if told.low_usd_per_month is not None and not 0 <= told.low_usd_per_month <= mid * (1 + REL):
        yield f"faster replicas cost {told.low_usd_per_month}, more than the plan itself or less than nothing"


def _one_option_is_chosen(facts: Facts) -> Iterator[str]:
    chosen = [o for o in facts.plan.options if o.chosen]
    names = {w.name for w in facts.case.workloads}
    for stranger in sorted({o.workload for o in chosen} - names):
        yield f"an option is chosen for {stranger}, which is no workload of the case"
    for told in facts.plan.workloads:
        pool = facts.plan.pool_of(told.name)
        others = tuple(name for name in pool.workloads if name != told.name)
        keys = " + ".join(key_of(d.deployment) for d in pool.deployments)
        used = keys or (f"api {told.api}" if told.api else "turned away")
        marked = [o for o in chosen if o.workload == told.name]
        if [(o.option, o.caching, o.shared_with) for o in marked] != [(used, told.caching, others)]:
            found = ", ".join(f"{o.option} with caching {o.caching}" for o in marked) or "none"
            yield f"{told.name}: the option chosen is {used} with caching {told.caching}, but {found} is marked"
