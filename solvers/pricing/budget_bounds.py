"""Bounds at every budget from one set of duals, by weak duality.

A bound by weak duality is linear in the limits of the rows: each counts with its dual. The prices themselves, and what
they pay for the workloads, do not know the budget. So a bound at one budget is a bound at every other: another dollar a
month lowers it by what the prices say a dollar of budget is worth. The least cost is convex in the budget as far as the
LP can tell, and these lines touch it from below.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from problems.model import Model
from solvers.pricing.dual_bound import Duals


@dataclass(frozen=True)
class BudgetBound:
    """A lower bound on cost + penalty of every plan within a budget, whatever the budget."""

    budget_usd_per_month: float
    """where it was found"""
    usd_per_month: float
    """the bound there"""
    usd_per_usd: float
    """how it changes with the budget: zero or less"""

    def within(self, budget_usd_per_month: float) -> float:
        return self.usd_per_month + self.usd_per_usd * (budget_usd_per_month - self.budget_usd_per_month)


def budget_bound_of(model: Model, duals: Duals, bound_usd_per_month: float, month_weight: np.ndarray) -> BudgetBound:
    """The line of a bound that the dual prices of a master's rows prove."""
    rows = {int(str(key[1])): r for r, key in enumerate(model.row_keys) if key[0] == "budget"}
    worth = sum(min(duals.get(("budget", month), 0.0), 0.0) * float(month_weight[month]) for month in rows)
    budget = max((float(model.row_upper[r] / month_weight[month]) for month, r in rows.items()), default=0.0)
    return BudgetBound(budget, bound_usd_per_month, worth)


def proved_within(tangents: Iterable[BudgetBound], budget_usd_per_month: float | None) -> float:
    """The best bound that any of the lines gives at a budget, where there is one."""
    if budget_usd_per_month is None:
        return -np.inf
    return max((tangent.within(budget_usd_per_month) for tangent in tangents), default=-np.inf)


def highest(lines: Iterable[BudgetBound], most_usd_per_month: float) -> list[BudgetBound]:
    """Those that prove more than all others at some budget up to the most."""
    falling = sorted(set(lines), key=lambda line: (line.usd_per_usd, -line.within(0.0)))
    kept: list[BudgetBound] = []
    for line in falling:
        if kept and line.within(most_usd_per_month) <= kept[-1].within(most_usd_per_month):
            continue
        while kept and line.within(0.0) >= kept[-1].within(0.0):
            kept.pop()
        while len(kept) > 1 and _crossing(kept[-2], line) <= _crossing(kept[-2], kept[-1]):
            kept.pop()
        kept.append(line)
    return kept


def _crossing(steep: BudgetBound, flat: BudgetBound) -> float:
    """The budget from which on the flatter line proves more."""
    return (steep.within(0.0) - flat.within(0.0)) / (flat.usd_per_usd - steep.usd_per_usd)


def scaled(duals: Duals, factor: float, months: int) -> Duals:
    """Prices where every dollar weighs so many times as much.

    A dollar weighs 1, and what the budgets' duals add to that. So a purchase that pays at some prices pays at these.
    """
    return {
        key: factor * dual - (factor - 1) / months if key[0] == "budget" else factor * dual
        for key, dual in duals.items()
    }
