"""A team's rules for plans, and whether a plan keeps them."""

from __future__ import annotations

from datetime import date

from planner.checker.policy.rules import CHECK_FORMAT, Check, Judged, Rule, judged_rules
from planner.checker.policy.schema import Policy, load_policy, policy_from_text
from planner.io.errors import Diagnostic, InputError
from planner.plan.plan import Plan

__all__ = ["CHECK_FORMAT", "Check", "Policy", "Rule", "check_policy", "load_policy", "policy_from_text"]


def check_policy(plan: Plan, policy: Policy, against: Plan | None = None, as_of: date | None = None) -> Check:
    """Every rule of the policy with its value and limit. The age of prices is that on `as_of`, else on the policy's
    date, else today."""
    if policy.max_change is not None and against is None:
        message = "must be given: the policy's max_change compares with the plan before it"
        raise InputError(
            [Diagnostic("--against", None, None, "", message, "Give --against OLD.json, or delete the rule")]
        )
    day = as_of or (date.fromisoformat(policy.as_of) if policy.as_of else date.today())
    rules = tuple(judged_rules(Judged(plan, policy, against, day)))
    return Check(
        plan=plan.name,
        against=None if against is None else against.name,
        as_of=day.isoformat() if policy.max_price_age is not None else None,
        as_of_is_today=policy.max_price_age is not None and as_of is None and policy.as_of is None,
        passed=all(rule.passed for rule in rules),
        rules=rules,
    )
