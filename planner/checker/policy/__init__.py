"""A team's rules for plans, and whether a plan keeps them."""

from __future__ import annotations

from datetime import date

from planner.checker.policy.rules import CHECK_FORMAT, Check, Judged, Rule, checked, judged_rules
from planner.checker.policy.schema import Policy, load_policy, policy_from_text
from planner.plan.plan import Plan

__all__ = ["CHECK_FORMAT", "Check", "Policy", "Rule", "check_policy", "load_policy", "policy_from_text"]


def check_policy(plan: Plan, policy: Policy, against: Plan | None = None, as_of: date | None = None) -> Check:
    """Every rule of the policy with its value and limit."""
    before = None if against is None else against.name
    return checked(plan.name, before, policy, as_of, lambda day: judged_rules(Judged(plan, policy, against, day)))
