"""A team's rules for plans, and whether a plan keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from planner.checker.policy.horizon import JudgedHorizon, rules_of_a_horizon
from planner.checker.policy.rules import Check, Judged, Rule, checked, judged_rules
from planner.checker.policy.schema import Policy
from planner.checker.proof import BoundCheck
from planner.io.errors import input_error
from planner.plan.blocks import AnyPlan
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.plan import Plan


def check_policy(
    plan: AnyPlan,
    policy: Policy | None,
    against: AnyPlan | None = None,
    as_of: date | None = None,
    bound: BoundCheck | None = None,
) -> Check:
    """Every rule of the policy with its value and limit, and what of the plan is not verified.

    Of several quarters, rules about one are held against each of them. `bound`: what planning again said of the plan's
    bound, which `max_gap` then rests on.
    """

    refuse_another_kind(plan, against)

    def judge(policy: Policy, day: date) -> Iterator[Rule]:
        if isinstance(plan, HorizonPlan):
            assert isinstance(against, HorizonPlan | None)
            return rules_of_a_horizon(JudgedHorizon(plan, policy, against, bound), day)
        assert isinstance(against, Plan | None)
        return judged_rules(Judged(plan, policy, against, day, bound))

    return checked(plan, against, policy, as_of, bound, judge)


def refuse_another_kind(plan: AnyPlan, against: AnyPlan | None) -> None:
    """Raise InputError where one plan is of several quarters and the other is not: their costs do not compare."""
    if against is None or isinstance(plan, Plan) == isinstance(against, Plan):
        return
    several = isinstance(against, HorizonPlan)
    message = f"{against.name} is a plan of {'several quarters' if several else 'one quarter'}, but {plan.name} is not"
    remedy = "Add --quarter 1, or a later one" if several else "Give a plan of several quarters, or add --quarter 1"
    raise input_error("--against", message, remedy)
