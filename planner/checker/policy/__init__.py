"""A team's rules for plans, and whether a plan keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from planner.checker.policy.rules import CHECK_FORMAT, Check, Judged, Rule, checked, judged_rules
from planner.checker.policy.schema import Policy, load_policy, policy_from_text
from planner.checker.proof import BoundCheck
from planner.plan.plan import Plan

__all__ = ["CHECK_FORMAT", "Check", "Policy", "Rule", "check_policy", "load_policy", "policy_from_text"]


def check_policy(
    plan: Plan,
    policy: Policy | None,
    against: Plan | None = None,
    as_of: date | None = None,
    bound: BoundCheck | None = None,
) -> Check:
    """Every rule of the policy with its value and limit, and what of the plan is not verified.

    `bound`: what planning again said of the plan's bound, which `max_gap` then rests on.
    """

    def judge(policy: Policy, day: date) -> Iterator[Rule]:
        return judged_rules(Judged(plan, policy, against, day, bound))

    return checked(plan, against, policy, as_of, bound, judge)
