"""The account of a plan: every figure that follows from its case and from what was decided."""

from planner.plan.account.account import Account, PlanAccount, account_of
from planner.plan.account.flows import ByLength, BySlot, Served

__all__ = ["Account", "ByLength", "BySlot", "PlanAccount", "Served", "account_of"]
