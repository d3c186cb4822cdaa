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
    """How small a gap was asked for is not in the plan, so "within-gap" and "feasible" are held to the same."""
    plan = facts.plan
    cost, bound, gap = plan.cost_usd_per_month, plan.bound_usd_per_month, plan.gap_frac
    if not -REL * cost <= bound <= cost * (1 + REL):
        yield f"the bound {bound} lies outside 0 and the cost {cost}"
    yield from differs("the gap, (cost - bound) / cost,", gap, max(0.0, (cost - bound) / cost) if cost else 0.0)
    if plan.status == "optimal" and gap > PROVED_GAP * (1 + ROUNDING):
        yield f"it is called optimal with a gap of {gap:.3%}"
    if plan.status in ("within-gap", "feasible") and gap < PROVED_GAP * (1 - ROUNDING):
        yield f"it is called {plan.status}, but its bound proves it optimal"


def _range_is_around_the_plan(facts: Facts) -> Iterator[str]:
    """Its ends come from searches that arithmetic cannot repeat, but slower replicas never cost less than the bound."""
    told, bound = facts.plan.if_throughput_is_off, facts.plan.bound_usd_per_month
    yield from differs("if_throughput_is_off.mid_usd_per_month", told.mid_usd_per_month, facts.plan.cost_usd_per_month)
    if told.high_usd_per_month is not None and told.high_usd_per_month < bound * (1 - REL):
        yield f"slower replicas cost {told.high_usd_per_month}, less than the bound {bound}"
    if told.low_usd_per_month is not None and told.low_usd_per_month < 0:
        yield f"faster replicas cost {told.low_usd_per_month}"


def _one_option_is_chosen(facts: Facts) -> Iterator[str]:
    chosen = [(o.workload, o.option) for o in facts.plan.options if o.chosen]
    names = {w.name for w in facts.case.workloads}
    for stranger in sorted({workload for workload, _ in chosen} - names):
        yield f"an option is chosen for {stranger}, which is no workload of the case"
    for served in facts.plan.workloads:
        used = key_of(served.deployment) if served.deployment else f"api {served.api}"
        marked = [option for workload, option in chosen if workload == served.name]
        if marked != [used]:
            yield f"{served.name}: the option chosen is {used}, but {', '.join(marked) or 'none'} is marked"
