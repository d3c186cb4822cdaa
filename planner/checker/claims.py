"""What a plan claims of its proof, and that it does not contradict itself."""

from __future__ import annotations

from collections.abc import Iterator

from planner.checker.checked import Checked
from planner.checker.figures import REL

PROVED_GAP = 2e-6
"""a plan is optimal up to the tolerance of the solvers"""
ROUNDING = 1e-3
"""of that gap: cost and bound were added up in another order when the word was chosen"""
NOTHING_USD = 1e-6
"""rounding of a cost of which all is covered by what is held"""


def claims_are_honest(checked: Checked) -> Iterator[str]:
    yield from _bound_and_status_agree(checked)
    yield from _range_is_around_the_plan(checked)
    yield from _assumed_limits_are_those_of_the_case(checked)
    served = checked.plan.verified
    if served is not None and served.kept == bool(served.missed):
        yield "the result of serving it contradicts itself: promises are both kept and missed"


def _bound_and_status_agree(checked: Checked) -> Iterator[str]:
    """The bound is one on cost and penalty. How small a gap was asked for is not in the plan, so "within-gap" and
    "feasible" are held to the same."""
    plan, bound, gap = checked.plan, checked.plan.bound_usd_per_month, checked.plan.gap_frac
    objective = plan.objective_usd_per_month
    if not -REL * objective - NOTHING_USD <= bound <= objective * (1 + REL) + NOTHING_USD:
        yield f"the bound {bound} lies outside 0 and the cost (and penalty) {objective}"
    if plan.status == "optimal" and gap > PROVED_GAP * (1 + ROUNDING):
        yield f"it is called optimal with a gap of {gap:.3%}"
    if plan.status in ("within-gap", "feasible") and gap < PROVED_GAP * (1 - ROUNDING):
        yield f"it is called {plan.status}, but its bound proves it optimal"


def _range_is_around_the_plan(checked: Checked) -> Iterator[str]:
    """Its ends come from searches that arithmetic cannot repeat."""
    costs, mid = checked.plan.if_throughput_is_off, checked.plan.objective_usd_per_month
    if costs.high_usd_per_month is not None and costs.high_usd_per_month < mid * (1 - REL):
        yield f"slower replicas cost {costs.high_usd_per_month}, less than the plan itself"
    if costs.low_usd_per_month is not None and not 0 <= costs.low_usd_per_month <= mid * (1 + REL):
        yield f"faster replicas cost {costs.low_usd_per_month}, more than the plan itself or less than nothing"
    ends = (costs.low_usd_per_month, costs.high_usd_per_month)
    if any(part.what == "if_throughput_is_off" for part in checked.plan.left_out or ()) and ends != (None, None):
        yield "the range of the cost is marked as left out, but is there"


def _assumed_limits_are_those_of_the_case(checked: Checked) -> Iterator[str]:
    """What a plan without them costs comes from searches; without limits no plan costs more."""
    found, plan = checked.plan.assumed_limits, checked.plan
    if found is None:
        return
    assumed = {a.key for a in checked.case.assumptions}
    for limit in found.limits:
        keys = {f"workloads.{name}.{limit.key}" for name in limit.workloads} or {limit.key}
        if not keys <= assumed:
            yield f"{limit.key} is called an assumed limit, and the case does not say so"
    least = min((limit.without_usd_per_month for limit in found.limits), default=plan.objective_usd_per_month)
    if not found.without_usd_per_month <= min(least, plan.bound_usd_per_month) * (1 + REL):
        yield f"without assumed limits it costs {found.without_usd_per_month}, no less than with them"
