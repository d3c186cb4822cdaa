"""The account: all that follows from a case and decisions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from planner.io.remembered import of_the_last
from planner.plan.account.flows import Flows
from planner.plan.account.money import Money
from planner.plan.decisions import decisions_of
from planner.plan.plan import Plan


@dataclass(frozen=True, eq=False)
class Account(Flows):
    """The figures of a plan: where requests go, and what that costs."""

    @cached_property
    def money(self) -> Money:
        return Money(self)


@dataclass(frozen=True, eq=False)
class PlanAccount(Account):
    """The account of a plan that is there."""

    plan: Plan


@of_the_last
def account_of(plan: Plan) -> PlanAccount:
    """The account of a plan; what the plan says of its figures is not looked at."""
    return PlanAccount(plan.case, decisions_of(plan), plan)
