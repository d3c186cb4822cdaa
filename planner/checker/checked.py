"""A plan whose figures are true, and its account: what rules are held against."""

from __future__ import annotations

from dataclasses import dataclass

from planner.case.case import Case
from planner.plan.account.account import Account
from planner.plan.plan import Plan


@dataclass(frozen=True, eq=False)
class Checked:
    plan: Plan
    """with every figure worked out again"""
    account: Account

    @property
    def case(self) -> Case:
        return self.account.case

    @property
    def slots(self) -> range:
        return range(len(self.account.slots))
